"""When a search stops: nothing that it leaves undone could have been better."""

from __future__ import annotations

import math

import pytest
import torch

from saccade.nn.search.beam_search import Search
from tests.known import BOS, EOS, Looking

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
LIMIT = 7


def ever_ended(network: Looking, item: int, beam: int, limit: int) -> list[tuple[tuple[int, ...], float]]:
    """Every output that ends in a beam which never stops before the limit: the plain algorithm, in lists."""
    live: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    ended = []
    for _ in range(limit):
        candidates = []
        for tokens, total in live:
            log_probs = torch.log_softmax(network.logits(item, tokens), -1).tolist()
            candidates += [((*tokens, t), total + each) for t, each in enumerate(log_probs) if t != BOS]
        candidates.sort(key=lambda pair: -pair[1])
        ended += [pair for pair in candidates[:beam] if pair[0][-1] == EOS]
        live = [pair for pair in candidates if pair[0][-1] != EOS][:beam]
    return ended


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize(("beam", "n_best"), [(2, 1), (3, 3), (4, 2)])
def test_exact_returns_the_best_of_all_that_the_beam_could_ever_reach(alpha: float, beam: int, n_best: int) -> None:
    how = Search(beam=beam, n_best=n_best, length_penalty=alpha)
    for seed in range(6):
        network = Looking(seed, ends=-0.5)
        for item, found in enumerate(network.run(how, [LIMIT] * 3)):
            reached = ever_ended(network, item, beam, LIMIT)
            scores = sorted((how.rank(total, len(tokens)) for tokens, total in reached), reverse=True)
            if reached:
                assert [each.score for each in found] == pytest.approx(scores[:n_best], abs=1e-4)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_exact_with_a_beam_as_wide_as_all_outputs_finds_the_best_of_them(alpha: float) -> None:
    network, how = Looking(3, ends=0.5), Search(beam=32, n_best=4, length_penalty=alpha)
    for item, found in enumerate(network.run(how, [5] * 3)):
        assert [each.tokens for each in found] == network.best(item, how, 5)[:4]


def test_exact_never_returns_worse_than_stopping_at_k_ends_and_sometimes_better() -> None:
    better = 0
    for seed in range(10):
        for alpha in (0.0, 2.0):
            exact, beam = (
                Looking(seed).run(Search(beam=2, length_penalty=alpha, stop=stop), [LIMIT] * 3)
                for stop in ("exact", "beam")
            )
            for [one], [other] in zip(exact, beam, strict=True):
                assert one.stopped == "length" or one.score >= other.score - 1e-6
                better += one.score > other.score + 1e-6
    assert better > 3


def test_without_a_length_penalty_exact_takes_no_step_more_than_it_must() -> None:
    """Once the best live hypothesis is below what ended, nothing better can come."""
    network = Looking(1, ends=6.0)
    network.run(Search(beam=3), [LIMIT])
    assert network.steps == 1
    network = Looking(1, ends=6.0)
    network.run(Search(beam=3, stop="beam"), [LIMIT])
    assert network.steps > 1


def test_stopping_at_k_ends_ranks_what_had_ended_by_then() -> None:
    network = Looking(2, ends=1.0)
    for item, found in enumerate(network.run(Search(beam=3, n_best=3, stop="beam"), [LIMIT] * 3)):
        reached = ever_ended(network, item, 3, LIMIT)
        by_then = [pair for pair in reached if len(pair[0]) <= len(reached[2][0])]
        best = sorted(by_then, key=lambda pair: -pair[1])[:3]
        assert [each.tokens for each in found] == [tokens[:-1] for tokens, _ in best]


@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_greedy_is_done_at_its_first_end(alpha: float) -> None:
    for seed in range(5):
        network = Looking(seed)
        for item, [found] in enumerate(network.run(Search(length_penalty=alpha), [LIMIT] * 3)):
            tokens: tuple[int, ...] = ()
            while len(tokens) < LIMIT and EOS not in tokens:
                logits = network.logits(item, tokens)
                logits[BOS] = -math.inf
                tokens += (int(logits.argmax()),)
            assert found.tokens == tuple(token for token in tokens if token != EOS)


def test_each_item_stops_by_its_own_limit() -> None:
    how = Search(beam=3, n_best=2, length_penalty=1.0)
    network, limits = Looking(5), [3, 7, 5]
    together = network.run(how, limits)
    for item, limit in enumerate(limits):
        assert network.run(how, [limit], items=[item]) == [together[item]]
