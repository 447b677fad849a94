"""Several networks as one: the mean of their probabilities, each with maps of its own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.models.luong import Config as LuongConfig
from saccade.models.luong import Luong
from saccade.models.rnnsearch import Config, RNNSearch
from saccade.models.seq2seq import Config as PlainConfig
from saccade.models.seq2seq import Seq2Seq
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.ensemble import Ensemble, mean_log_prob
from saccade.nn.search.beam_search import Search, search
from saccade.nn.search.selection import Sampling
from saccade.trace import Lens, Mask, Set, assemble
from tests.known import EOS, Looking, words_of

SOURCE, TARGET = 9, 7  # sizes of the vocabularies
BATCH = (torch.tensor([[4, 5, 6, 2], [8, 2, 0, 0], [7, 4, 2, 0]]), torch.tensor([4, 2, 3]))


def members() -> list[EncoderDecoder]:
    torch.manual_seed(3)
    networks: list[EncoderDecoder] = [
        RNNSearch(Config(hidden=6, embedding=5, maxout=3, init="torch"), SOURCE, TARGET),
        Luong(LuongConfig(hidden=5, embedding=3, init="torch"), SOURCE, TARGET),
        Seq2Seq(PlainConfig(hidden=7, embedding=3, maxout=4, init="torch"), SOURCE, TARGET),
    ]
    for network in networks:
        for parameter in network.parameters():
            parameter.data.mul_(3.0)  # so that outputs differ
    return [network.eval() for network in networks]


def log_probs(network: EncoderDecoder, target: Tensor) -> Tensor:
    return torch.log_softmax(network(*BATCH, target), -1)


def test_the_probabilities_are_the_mean_of_the_members() -> None:
    target = torch.randint(4, TARGET, (3, 5))
    each = members()
    expected = torch.stack([log_probs(member, target).exp() for member in each]).mean(0)
    together = Ensemble(each)
    torch.testing.assert_close(together(*BATCH, target).exp(), expected)
    torch.testing.assert_close(log_probs(together, target).exp(), expected)  # normalised already
    memory = together.encode(*BATCH)
    state = together.start(memory)
    for offset in range(5):
        logits, state = together.step(target[:, offset], state, memory, offset=offset)
        torch.testing.assert_close(logits.exp(), expected[:, offset])


def test_a_mean_of_tiny_probabilities_is_not_zero() -> None:
    rows = [torch.tensor([[0.0, -200.0]]), torch.tensor([[0.0, -210.0]])]
    assert mean_log_prob(rows)[0, 1] == pytest.approx(-200.0 - 0.6931, abs=1e-3)


@pytest.mark.parametrize(
    "how", [Search(), Search(beam=3, n_best=3, length_penalty=0.6), Search(sample=Sampling(), n_best=3)]
)
def test_one_member_or_one_member_twice_searches_as_that_member(how: Search) -> None:
    marks = {"bos": 1, "eos": 2, "forbidden": (0, 1)}
    for member in members():
        alone = search(member, member.encode(*BATCH), [6, 5, 7], how, **marks)
        for network in (Ensemble([member]), Ensemble([member, member])):
            found = search(network, network.encode(*BATCH), [6, 5, 7], how, **marks)
            for some, others in zip(alone, found, strict=True):
                assert [each.tokens for each in some] == [each.tokens for each in others]
                assert [each.score for each in some] == pytest.approx([each.score for each in others], abs=1e-4)


@pytest.mark.usefixtures("shapes_unchecked")
def test_a_wide_beam_finds_the_best_of_all_outputs_under_the_mean() -> None:
    first, second = Looking(1, ends=0.5), Looking(2, ends=0.5)

    class Mean(Looking):
        def logits(self, item: int, prefix: tuple[int, ...]) -> Tensor:
            return mean_log_prob([first.logits(item, prefix), second.logits(item, prefix)])

    network, how = Ensemble([first, second]), Search(beam=40, n_best=3)
    memory = network.encode(torch.arange(3).unsqueeze(1), torch.ones(3, dtype=torch.int64))
    found = search(network, memory, [5] * 3, how, bos=0, eos=EOS, forbidden=(0,))
    for item, many in enumerate(found):
        assert [each.tokens for each in many] == Mean().best(item, how, 5)[:3]


def test_each_member_looks_under_its_own_name_as_it_does_alone_when_forced() -> None:
    each, lens = members(), Lens(detail=["state", "context"])
    network = Ensemble(each)
    found = search(
        network, network.encode(*BATCH), [5] * 3, Search(beam=2, n_best=2), bos=1, eos=2, forbidden=(0, 1), lens=lens
    )
    for item, many in enumerate(found):
        for hypothesis in many:
            trace = assemble(hypothesis.records, 0)
            assert {map.site for map in trace.maps} == {"1/decoder.attention", "2/decoder.attention"}
            fed = torch.tensor([[1, *hypothesis.tokens][: len(trace.map("1/decoder.attention").weights)]])
            for number, member in enumerate(each[:2], start=1):
                forced = Lens(detail=["state", "context"])
                memory = member.encode(BATCH[0][item : item + 1], BATCH[1][item : item + 1])
                member.teach(memory, fed, lens=forced)
                ours, theirs = (
                    trace.map(f"{number}/decoder.attention").weights,
                    forced.trace.map("decoder.attention").weights,
                )
                torch.testing.assert_close(ours, theirs)
                state = trace.signals[f"{number}/decoder.state"].values
                torch.testing.assert_close(state, forced.trace.signals["decoder.state"].values)
                assert f"{number}/decoder.attention.context" in trace.signals


def test_an_edit_reaches_the_member_it_names_or_all_of_them() -> None:
    network, target = Ensemble(members()), torch.randint(4, TARGET, (3, 4))
    lens = Lens(edits=[Mask((0,), site="2/decoder.attention")])
    network(*BATCH, target, lens=lens)
    lens.check()
    for trace in lens.traces:
        assert float(trace.map("1/decoder.attention").weights[:, 0].min()) > 0
        assert float(trace.map("2/decoder.attention").weights[:, 0].max()) == 0
    lens = Lens(edits=[Mask((0,))])
    network(*BATCH, target, lens=lens)
    assert all(float(map.weights[:, 0].max()) == 0 for trace in lens.traces for map in trace.maps)
    lens = Lens(edits=[Mask((0,), site="decoder.attention")])
    network(*BATCH, target, lens=lens)
    with pytest.raises(
        SaccadeError, match=r"never applied: the model has sites 1/decoder.attention, 2/decoder.attention"
    ):
        lens.check()


@pytest.mark.usefixtures("shapes_unchecked")
def test_coverage_counts_the_mean_of_the_members_that_look() -> None:
    lengths = (3, 5, 4)
    network = Ensemble([Looking(1, lengths=lengths), Looking(2, lengths=lengths)])
    memory = network.encode(torch.arange(3).unsqueeze(1), torch.ones(3, dtype=torch.int64))
    rows = [[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0]]
    lens = Lens(edits=[Set(row, site=f"{number}/look.0") for number, row in enumerate(rows, start=1)])
    found = search(
        network, memory, [2] * 3, Search(coverage=1.0), bos=0, eos=1, forbidden=(0,), words=words_of(lengths), lens=lens
    )
    for many in found:
        steps = len(many[0].tokens) + (many[0].stopped == "eos")
        looked = torch.tensor([0.5 * steps] * 2).clamp(max=1.0).log().sum()
        beyond = 13.8155 * (sum(words_of(lengths)[found.index(many)].tolist()) - 2)
        assert many[0].coverage == pytest.approx(float(looked) - beyond, abs=1e-3)


def test_an_ensemble_of_nobody_is_refused() -> None:
    with pytest.raises(SaccadeError, match="at least one network"):
        Ensemble([])
