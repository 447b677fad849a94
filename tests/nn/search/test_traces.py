"""Whatever the search, each hypothesis's trace is that of forced decoding, and its tree leads to it."""

from __future__ import annotations

import pytest
import torch

from saccade.nn.search.beam_search import Diverse, Search
from saccade.nn.search.constraints import Constraints, Lattice
from saccade.nn.search.selection import Sampling
from saccade.trace import Lens, assemble
from tests.known import BOS, EOS, Looking, words_of

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
LENGTHS = (3, 5, 4)
WISH = Constraints(prefix=(3,), require=((2, 4),), forbid=(Lattice(({5: 1},)),))
KINDS = {
    "greedy": (Search(), Constraints()),
    "beam": (Search(beam=3, n_best=3), Constraints()),
    "coverage and copies": (Search(beam=3, n_best=3, coverage=0.5, unknown="copy"), Constraints()),
    "blocked": (Search(beam=3, n_best=3, block_ngrams=2), Constraints()),
    "samples": (Search(sample=Sampling(), n_best=4), Constraints()),
    "diverse": (Search(beam=4, n_best=4, diverse=Diverse(2)), Constraints()),
    "wishes": (Search(beam=5, n_best=3), WISH),
    "greedy wishes": (Search(), WISH),
    "sampled wishes": (Search(sample=Sampling(), n_best=3), Constraints(prefix=(3, 4), forbid=WISH.forbid)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_hypothesis_has_the_maps_of_forced_decoding_and_the_best_its_tree(kind: str) -> None:
    how, wish = KINDS[kind]
    network = Looking(3, size=6, lengths=LENGTHS)
    lens = Lens(detail=["outputs", "beam"])
    found = network.run(how, [7] * 3, constraints=[wish] * 3, words=words_of(LENGTHS), lens=lens)
    for item, many in enumerate(found):
        assert many
        for each in many:
            written = each.tokens + ((EOS,) if each.stopped == "eos" else ())
            assert each.log_prob == pytest.approx(network.log_prob(item, written), abs=1e-4)
            trace = assemble(each.records, 0)
            fed = [BOS, *each.tokens][: len(written)]
            prefixes = trace.signals["prefix"].values.int()[:, : len(fed)].tolist()
            assert prefixes == [[*fed[: t + 1], *[-1] * (len(fed) - 1 - t)] for t in range(len(fed))]
            for head in range(2):
                expected = [network.weights(item, each.tokens[:t])[head] for t in range(len(written))]
                seen = trace.map("look.0", head).weights[:, : LENGTHS[item]]
                torch.testing.assert_close(seen, torch.stack(expected))
        tree = many[0].tree
        assert tree is not None
        chosen = tree.chosen.nonzero().flatten().tolist()
        best = many[0].tokens + ((EOS,) if many[0].stopped == "eos" else ())
        assert tree.token[chosen].tolist() == list(best)
        assert tree.parent[chosen].tolist() == [-1, *chosen[:-1]]
        assert float(tree.log_prob[chosen[-1]]) == pytest.approx(many[0].log_prob, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_with_and_without_a_lens_the_outputs_are_the_same(kind: str) -> None:
    how, wish = KINDS[kind]
    network = Looking(4, size=6, lengths=LENGTHS)

    def outputs(lens: Lens | None) -> list[list[tuple[tuple[int, ...], float]]]:
        found = network.run(how, [7] * 3, constraints=[wish] * 3, words=words_of(LENGTHS), lens=lens)
        return [[(each.tokens, each.score) for each in many] for many in found]

    assert outputs(None) == outputs(Lens()) == outputs(Lens("statistics"))
