"""Greedy and beam search over a network whose every probability is known."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.search.beam_search import Diverse, Hypothesis, Sampling, Search, search, select
from saccade.trace import Lens, Site, assemble

BOS, EOS, A, C = 0, 1, 2, 3  # four tokens: the start, the end and two letters
V = 4


class Known(EncoderDecoder):
    """p(next | everything written so far) is drawn once for each prefix and item. It signals the prefix it is at."""

    def __init__(self, seed: int = 0, sharpness: float = 1.0, ends: float = 0.0) -> None:
        super().__init__()
        self.seed, self.sharpness, self.ends = seed, sharpness, ends

    def logits(self, item: int, prefix: tuple[int, ...]) -> Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, item, prefix)) % 2**31)
        logits = torch.randn(V, generator=generator) * self.sharpness
        logits[EOS] += self.ends
        return logits

    def encode(self, source: Tensor, lengths: Tensor, *, lens: Lens | None = None) -> Any:
        return (source[:, 0],)

    def start(self, memory: Any) -> Any:
        return (torch.full((len(memory[0]), 12), -1),)  # what was written so far

    def step(
        self, token: Tensor, state: Any, memory: Any, *, offset: int, lens: Lens | None = None
    ) -> tuple[Tensor, Any]:
        written = state[0].clone()
        written[:, offset] = token
        prefixes = [tuple(token for token in row[1:] if token >= 0) for row in written.tolist()]
        rows = [self.logits(item, prefix) for item, prefix in zip(memory[0].tolist(), prefixes, strict=True)]
        if lens is not None:
            lens.signal("prefix", "target", written.unsqueeze(1).float(), offset=offset)
            weights = torch.nn.functional.one_hot(token, V).float()  # it looks at what it wrote last
            lens.observe(Site("look", "target", "source"), weights.view(-1, 1, 1, V), offset=offset)
        return torch.stack(rows), (written,)

    def log_prob(self, item: int, tokens: tuple[int, ...]) -> float:
        steps = [torch.log_softmax(self.logits(item, tokens[:t]), -1)[token] for t, token in enumerate(tokens)]
        return float(sum(steps))


def run(
    network: Known, how: Search, limits: list[int], lens: Lens | None = None, **options: Any
) -> list[list[Hypothesis]]:
    memory = network.encode(torch.arange(len(limits)).unsqueeze(1), torch.ones(len(limits), dtype=torch.int64))
    return search(network, memory, limits, how, bos=BOS, eos=EOS, forbidden=(BOS,), lens=lens, **options)


def every_output(limit: int) -> list[tuple[int, ...]]:
    return [(*letters, EOS) for n in range(limit) for letters in itertools.product((A, C), repeat=n)]


def test_a_beam_of_one_takes_the_likeliest_token_at_each_step() -> None:
    network, limits = Known(), [6, 6, 6]
    for item, [found] in enumerate(run(network, Search(), limits)):
        tokens: tuple[int, ...] = ()
        while len(tokens) < limits[item] and EOS not in tokens:
            logits = network.logits(item, tokens)
            logits[BOS] = -math.inf
            tokens += (int(logits.argmax()),)
        assert found.tokens == tuple(token for token in tokens if token != EOS)
        assert found.log_prob == pytest.approx(network.log_prob(item, tokens), abs=1e-5)


def test_a_beam_as_wide_as_all_outputs_finds_the_best_of_them() -> None:
    network, limit = Known(seed=3), 4
    for item, found in enumerate(run(network, Search(beam=32, n_best=5), [limit] * 3)):
        ranked = sorted(every_output(limit), key=lambda tokens: network.log_prob(item, tokens), reverse=True)
        assert [hypothesis.tokens for hypothesis in found] == [tokens[:-1] for tokens in ranked[:5]]
        for hypothesis, tokens in zip(found, ranked, strict=False):
            assert hypothesis.log_prob == pytest.approx(network.log_prob(item, tokens), abs=1e-5)
            assert hypothesis.score == hypothesis.log_prob
            assert hypothesis.stopped == "eos"


def test_a_beam_finds_likelier_outputs_than_greedy_somewhere_and_the_same_one_never_twice() -> None:
    better = 0
    for seed in range(8):
        network = Known(seed=seed)
        greedy, beam = run(network, Search(), [7] * 3), run(network, Search(beam=4, n_best=4), [7] * 3)
        for [one], many in zip(greedy, beam, strict=True):
            better += many[0].log_prob > one.log_prob + 1e-6
            assert len({hypothesis.tokens for hypothesis in many}) == len(many)
    assert better > 3


def test_the_list_is_sorted_by_score_and_the_penalty_favours_longer_outputs() -> None:
    lengths = []
    for alpha in (0.0, 0.6, 2.0):
        found = run(Known(seed=5, sharpness=2.0, ends=-1.0), Search(beam=5, n_best=5, length_penalty=alpha), [9] * 20)
        for many in found:
            scores = [hypothesis.score for hypothesis in many]
            assert scores == sorted(scores, reverse=True)
            for hypothesis in many:
                size = len(hypothesis.tokens) + (hypothesis.stopped == "eos")
                assert hypothesis.score == pytest.approx(hypothesis.log_prob / ((5 + size) / 6) ** alpha)
        lengths.append(sum(len(many[0].tokens) for many in found))
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


def test_an_output_that_never_ends_is_cut_at_its_limit_and_says_so() -> None:
    found = run(Known(ends=-math.inf), Search(beam=3, n_best=3), [5, 2])
    for many, limit in zip(found, [5, 2], strict=True):
        assert [hypothesis.stopped for hypothesis in many] == ["length"] * 3
        assert all(len(hypothesis.tokens) == limit for hypothesis in many)
    network = Known(ends=-math.inf)
    for item, many in enumerate(found):
        for hypothesis in many:
            assert hypothesis.log_prob == pytest.approx(network.log_prob(item, hypothesis.tokens), abs=1e-4)


def test_what_ended_is_returned_before_what_was_cut_off() -> None:
    for many in run(Known(seed=2), Search(beam=3, n_best=3), [3] * 8):
        stops = {hypothesis.stopped for hypothesis in many}
        assert stops in ({"eos"}, {"length"})


def test_each_item_has_its_own_limit_with_the_end_mark_counted() -> None:
    for many, limit in zip(run(Known(ends=2.0), Search(beam=4, n_best=4), [1, 3, 6]), [1, 3, 6], strict=True):
        assert many
        assert all(len(hypothesis.tokens) + 1 <= limit for hypothesis in many)
        assert all(hypothesis.stopped == "eos" for hypothesis in many)


def test_a_batch_gives_what_each_item_gives_alone() -> None:
    network, how = Known(seed=7), Search(beam=3, n_best=3)
    together = run(network, how, [4, 9, 6])
    for item, limit in enumerate([4, 9, 6]):
        memory = network.encode(torch.tensor([[item]]), torch.ones(1, dtype=torch.int64))
        [alone] = search(network, memory, [limit], how, bos=BOS, eos=EOS, forbidden=(BOS,))
        assert together[item] == alone


@pytest.mark.parametrize("beam", [1, 3])
def test_items_that_are_done_are_stepped_on_with_no_longer_and_nothing_else_changes(beam: int) -> None:
    class Counting(Known):
        def step(self, token, state, memory, *, offset, lens=None):
            rows.append(len(token))
            return super().step(token, state, memory, offset=offset, lens=lens)

    limits, how, rows = [2, 9, 5, 3, 7], Search(beam=beam, n_best=beam), []
    network = Counting(seed=7, ends=-2.0)
    together = run(network, how, limits)
    stepped = rows.copy()
    for item, limit in enumerate(limits):
        memory = network.encode(torch.tensor([[item]]), torch.ones(1, dtype=torch.int64))
        assert [together[item]] == search(network, memory, [limit], how, bos=BOS, eos=EOS, forbidden=(BOS,))
    assert stepped[0] == 5 * beam
    assert stepped == sorted(stepped, reverse=True)
    assert stepped[-1] < 5 * beam


def test_what_is_forbidden_is_never_written_and_takes_no_probability() -> None:
    network = Known(seed=1)
    memory = network.encode(torch.arange(4).unsqueeze(1), torch.ones(4, dtype=torch.int64))
    found = search(network, memory, [6] * 4, Search(beam=3, n_best=3), bos=BOS, eos=EOS, forbidden=(BOS, C))
    for item, many in enumerate(found):
        for hypothesis in many:
            assert set(hypothesis.tokens) <= {A}
            tokens = hypothesis.tokens + ((EOS,) if hypothesis.stopped == "eos" else ())
            assert hypothesis.log_prob == pytest.approx(network.log_prob(item, tokens), abs=1e-5)


def test_a_hypothesis_that_ends_leaves_its_place_to_another() -> None:
    """With K = 2 and an end that is always the likeliest, the beam still follows two live hypotheses."""
    [many] = run(Known(ends=8.0), Search(beam=2, n_best=2), [5])
    assert many[0].tokens == ()
    assert len(many) == 2
    assert len(many[1].tokens) == 1


def test_records_follow_the_back_pointers() -> None:
    lens = Lens()
    for many in run(Known(seed=4), Search(beam=4, n_best=4), [7] * 5, lens):
        for hypothesis in many:
            trace = assemble(hypothesis.records, 0)
            fed = [BOS, *hypothesis.tokens][: len(hypothesis.tokens) + (hypothesis.stopped == "eos")]
            prefixes = trace.signals["prefix"].values.int().tolist()
            assert prefixes == [[*fed[: t + 1], *[-1] * (11 - t)] for t in range(len(fed))]
            assert trace.map("look").weights.argmax(-1).tolist() == fed


def test_without_a_lens_nothing_is_kept() -> None:
    [[found]] = run(Known(), Search(), [5])
    assert found.records == ()
    assert found.tree is None


# The tree ---------------------------------------------------------------------------------------------------------------


def spelled(tree: Any, node: int) -> tuple[int, ...]:
    tokens: list[int] = []
    while node >= 0:
        tokens.append(int(tree.token[node]))
        node = int(tree.parent[node])
    return tuple(reversed(tokens))


@pytest.mark.parametrize("ends", [0.0, -math.inf])
def test_the_chosen_way_through_the_tree_spells_the_prediction(ends: float) -> None:
    network = Known(seed=6, ends=ends)
    found = run(network, Search(beam=3, n_best=3), [6] * 4, Lens(detail=["beam"]))
    for item, many in enumerate(found):
        tree, best = many[0].tree, many[0]
        assert tree is not None
        assert [hypothesis.tree for hypothesis in many[1:]] == [None] * (len(many) - 1)
        chosen = tree.chosen.nonzero().flatten().tolist()
        written = best.tokens + ((EOS,) if best.stopped == "eos" else ())
        assert spelled(tree, chosen[-1]) == written
        assert len(chosen) == len(written)
        assert float(tree.log_prob[chosen[-1]]) == pytest.approx(best.log_prob)
        for node in range(len(tree.token)):
            prefix = spelled(tree, node)
            assert int(tree.step[node]) == len(prefix) - 1
            assert bool(tree.ended[node]) == (prefix[-1] == EOS)
            assert tree.labels[node] == str(prefix[-1])
            assert float(tree.log_prob[node]) == pytest.approx(network.log_prob(item, prefix), rel=1e-4, abs=1e-4)


def test_the_tree_holds_every_hypothesis_that_ended_and_at_most_k_live_ones_a_step() -> None:
    for many in run(Known(seed=6), Search(beam=3, n_best=3), [6] * 4, Lens(detail=["beam"])):
        tree = many[0].tree
        assert tree is not None
        ended = {spelled(tree, node) for node in tree.ended.nonzero().flatten().tolist()}
        assert {(*h.tokens, EOS) for h in many if h.stopped == "eos"} <= ended
        for step in range(int(tree.step.max()) + 1):
            assert int(((tree.step == step) & ~tree.ended).sum()) <= 3


def test_the_likeliest_outputs_of_each_step_are_kept_when_asked_for() -> None:
    network = Known(seed=8)
    [[best]] = run(network, Search(), [5], Lens(detail=["outputs"]))
    trace = assemble(best.records, 0)
    probability, index = trace.signals["outputs.probability"].values, trace.signals["outputs.index"].values
    for t in range(len(probability)):
        expected, places = torch.softmax(network.logits(0, best.tokens[:t]), -1).sort(descending=True)
        torch.testing.assert_close(probability[t], expected)
        assert index[t].tolist() == places.tolist()


# Parts ------------------------------------------------------------------------------------------------------------------


class Parts(NamedTuple):
    one: Tensor
    two: tuple[Tensor, Tensor]


def test_selecting_rows_keeps_the_structure() -> None:
    parts = Parts(torch.arange(5), (torch.arange(10).view(5, 2), torch.zeros(5, 0)))
    chosen = select(parts, torch.tensor([4, 0, 4]))
    assert type(chosen) is Parts
    assert chosen.one.tolist() == [4, 0, 4]
    assert chosen.two[0].tolist() == [[8, 9], [0, 1], [8, 9]]
    assert chosen.two[1].shape == (3, 0)
    assert select("plain", torch.tensor([1])) == "plain"


@pytest.mark.parametrize("name", ["beam", "n_best", "length_penalty", "coverage"])
def test_a_setting_that_is_no_number_is_refused_by_name(shapes_unchecked, name):
    with pytest.raises(ValueError, match=f"{name} must be .*: got '3'"):
        Search(**{name: "3"})


def test_settings_that_mean_nothing_are_refused() -> None:
    for options, message in (
        ({"beam": 0}, "beam must be at least 1: got 0"),
        ({"beam": 2, "n_best": 3}, "n_best must be between 1 and beam=2: got 3"),
        ({"n_best": 0}, "n_best must be at least 1: got 0"),
        ({"length_penalty": -0.5}, "length_penalty must not be negative"),
        ({"coverage": -0.1}, "coverage must not be negative: got -0.1"),
        ({"coverage": math.nan}, "coverage must not be negative: got nan"),
        ({"block_ngrams": 0}, "block_ngrams must be at least 1: got 0"),
        ({"sample": Sampling(), "beam": 2}, r"beam must be 1 when sampling .*: got 2"),
        ({"sample": Sampling(), "n_best": 0}, "n_best must be at least 1: got 0"),
        ({"sample": Sampling(), "diverse": Diverse(3)}, "diverse must be left out when sampling: got 3 groups"),
        ({"beam": 5, "diverse": Diverse(2)}, "beam must be a multiple of its 2 groups: got 5"),
    ):
        with pytest.raises(ValueError, match=message):
            Search(**options)  # type: ignore[arg-type]
    for kind, options, message in (
        (Sampling, {"temperature": 0.0}, "temperature must be above 0: got 0.0"),
        (Sampling, {"temperature": math.inf}, "temperature must be above 0"),
        (Sampling, {"top_k": 0}, "top_k must be at least 1: got 0"),
        (Sampling, {"top_p": 0.0}, "top_p must be above 0 and at most 1: got 0.0"),
        (Sampling, {"top_p": 1.1}, "top_p must be above 0 and at most 1: got 1.1"),
        (Sampling, {"seed": -1}, "seed must be between 0 and"),
        (Diverse, {"groups": 1}, "groups must be at least 2: got 1"),
        (Diverse, {"strength": -1.0}, "strength must not be negative: got -1.0"),
    ):
        with pytest.raises(ValueError, match=message):
            kind(**options)
    with pytest.raises(SaccadeError, match="a length limit must be at least 1: got 0"):
        run(Known(), Search(), [3, 0])


def test_nothing_to_search_gives_nothing() -> None:
    assert run(Known(), Search(beam=2), []) == []


def test_a_search_needs_no_gradients() -> None:
    parameter = torch.nn.Parameter(torch.ones(()))

    class Learned(Known):
        def logits(self, item: int, prefix: tuple[int, ...]) -> Tensor:
            assert not torch.is_grad_enabled()
            return super().logits(item, prefix) * parameter

    run(Learned(), Search(), [3])


def test_a_network_that_gives_no_numbers_is_refused():
    class Broken(Known):
        def logits(self, item: int, prefix: tuple[int, ...]) -> Tensor:
            return torch.full((V,), math.nan)

    with pytest.raises(SaccadeError, match="NaN or infinite"):
        search(Broken(), (torch.tensor([0]),), [3], Search(), bos=BOS, eos=EOS)
