"""The coverage penalty, and where hypotheses looked, against weights that are known."""

from __future__ import annotations

import math

import pytest
import torch

from saccade.errors import SaccadeError
from saccade.nn.search.beam_search import LEAST, Search, SourceCoverage
from saccade.trace import Lens, Set, assemble
from tests.known import EOS, Looking, words_of

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
LENGTHS = (3, 5, 4)
WORDS = words_of(LENGTHS)


@pytest.mark.parametrize(("heads", "sites"), [(1, 1), (3, 1), (2, 2)])
def test_the_best_under_coverage_is_that_of_all_outputs(heads: int, sites: int) -> None:
    how = Search(beam=32, n_best=3, length_penalty=0.6, coverage=1.5)
    network = Looking(4, ends=0.5, lengths=LENGTHS, heads=heads, sites=sites)
    changed = 0
    for item, found in enumerate(network.run(how, [5] * 3, words=WORDS)):
        best = network.best(item, how, 5, words=LENGTHS[item] - 1)
        assert [each.tokens for each in found] == best[:3]
        for each in found:
            covered = network.coverage(item, (*each.tokens, EOS), LENGTHS[item] - 1)
            assert each.coverage == pytest.approx(1.5 * covered, abs=1e-4)
            penalty = ((5 + len(each.tokens) + 1) / 6) ** 0.6
            assert each.score == pytest.approx(each.log_prob / penalty + each.coverage, abs=1e-5)
        changed += best[0] != network.best(item, Search(length_penalty=0.6), 5)[0]
    assert changed


def test_the_penalty_is_that_of_the_maps_in_the_trace() -> None:
    network = Looking(6, lengths=LENGTHS, heads=3)
    for lens in (Lens(), Lens("top", k=2)):
        found = network.run(Search(beam=3, n_best=3, coverage=0.7), [6] * 3, words=WORDS, lens=lens)
        for item, many in enumerate(found):
            for each in many:
                trace = assemble(each.records, 0)
                if lens.keep == "all":
                    weights = torch.stack([trace.map(head=head).weights for head in range(3)]).mean(0)
                    counted = weights.sum(0)[: LENGTHS[item] - 1]
                    assert each.coverage == pytest.approx(0.7 * float(counted.clamp(LEAST, 1).log().sum()), abs=1e-4)
                else:
                    assert trace.map(head=0).kind == "top"
                    tokens = each.tokens + ((EOS,) if each.stopped == "eos" else ())
                    covered = network.coverage(item, tokens, LENGTHS[item] - 1)
                    assert each.coverage == pytest.approx(0.7 * covered, abs=1e-4)


def test_a_batch_of_unequal_sources_gives_what_each_gives_alone() -> None:
    how, network = Search(beam=3, n_best=3, coverage=1.0), Looking(7, lengths=LENGTHS)
    together = network.run(how, [4, 7, 6], words=WORDS)
    for item, limit in enumerate([4, 7, 6]):
        assert network.run(how, [limit], items=[item], words=WORDS[item : item + 1]) == [together[item]]


def test_an_edit_changes_what_counts_as_covered() -> None:
    network, how = Looking(8, lengths=LENGTHS), Search(coverage=1.0)
    row = [1.0, 0.0, 0.0, 0.0, 0.0]
    [[plain]] = network.run(how, [4], items=[1], words=WORDS[1:2])
    [[edited]] = network.run(how, [4], items=[1], words=WORDS[1:2], lens=Lens(edits=[Set(row)]))
    assert edited.tokens == plain.tokens
    assert edited.coverage == pytest.approx(3 * math.log(LEAST))
    assert set(edited.looked) == {0}


def test_a_word_that_was_never_looked_at_counts_as_almost_nothing_and_not_as_minus_infinity() -> None:
    looked = SourceCoverage(torch.tensor([[True, True, True, False]]))
    looked.add(torch.tensor([[0.0, 0.9, 0.05, 0.05]]))
    looked.add(torch.tensor([[0.0, 0.6, 0.35, 0.05]]))
    expected = math.log(LEAST) + math.log(1.0) + math.log(0.4)
    assert float(looked.covered()) == pytest.approx(expected, abs=1e-5)


def test_the_strongest_word_of_each_step_is_kept_and_no_padding() -> None:
    network = Looking(9, lengths=LENGTHS, heads=2)
    for item, many in enumerate(network.run(Search(beam=3, n_best=3, unknown="copy"), [6] * 3, words=WORDS)):
        for each in many:
            expected = [
                int(network.weights(item, each.tokens[:t]).mean(0)[: LENGTHS[item] - 1].argmax())
                for t in range(len(each.tokens))
            ]
            assert list(each.looked) == expected


def test_a_step_that_looks_at_no_word_has_no_strongest() -> None:
    looked = SourceCoverage(torch.tensor([[True, False], [True, False]]))
    assert looked.add(torch.tensor([[0.0, 1.0], [0.3, 0.7]])).tolist() == [-1, 0]


@pytest.mark.parametrize("how", [Search(coverage=0.2), Search(unknown="copy")])
def test_a_network_that_does_not_look_back_is_refused(how: Search) -> None:
    class Blind(Looking):
        def step(self, token, state, memory, *, offset, lens=None):
            return super().step(token, state, memory, offset=offset, lens=None)

    with pytest.raises(SaccadeError, match=f"{how.looks} needs a network with attention on its source: Blind"):
        Blind().run(how, [3])


def test_without_coverage_nothing_is_watched() -> None:
    [[found]] = Looking(1).run(Search(), [4])
    assert found.coverage == 0.0
    assert found.looked == ()
