"""Diverse beams against the algorithm written out in lists."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from saccade.nn.search.beam_search import Diverse, Search
from tests.known import BOS, EOS, Looking

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
LIMIT = 6
Pair = tuple[tuple[int, ...], float]


def written_out(network: Looking, item: int, groups: int, width: int, strength: float) -> list[list[Pair]]:
    """What ends in each group when no group stops before the limit."""
    live: list[list[Pair]] = [[((), 0.0)] for _ in range(groups)]
    ended: list[list[Pair]] = [[] for _ in range(groups)]
    for _ in range(LIMIT):
        said: Counter[int] = Counter()
        for group in range(groups):
            candidates = []
            for tokens, total in live[group]:
                log_probs = torch.log_softmax(network.logits(item, tokens), -1).tolist()
                candidates += [((*tokens, t), total + each) for t, each in enumerate(log_probs) if t != BOS]
            candidates.sort(key=lambda pair: strength * said[pair[0][-1]] - pair[1])
            ended[group] += [pair for pair in candidates[:width] if pair[0][-1] == EOS]
            live[group] = [pair for pair in candidates if pair[0][-1] != EOS][:width]
            said.update(tokens[-1] for tokens, _ in live[group])
    return ended


@pytest.mark.parametrize(("groups", "width"), [(2, 2), (3, 1), (2, 3)])
@pytest.mark.parametrize("strength", [0.0, 0.7, 5.0])
def test_groups_find_what_the_algorithm_written_out_finds(groups: int, width: int, strength: float) -> None:
    how = Search(beam=groups * width, n_best=groups, diverse=Diverse(groups, strength))
    for seed in range(4):
        network = Looking(seed, size=6, ends=1.0)
        for item, found in enumerate(network.run(how, [LIMIT] * 3)):
            ended = written_out(network, item, groups, width, strength)
            # A group one place wide is done at its first end; a wider one when its best cannot be beaten.
            best = [lane[0] if width == 1 else max(lane, key=lambda pair: pair[1]) for lane in ended if lane]
            expected = {tokens[:-1] for tokens, _ in best}
            whole = [each for each in found if each.stopped == "eos"]
            assert expected <= {each.tokens for each in whole}
            if len(expected) == groups:
                assert expected == {each.tokens for each in found}
            for each in whole:
                assert each.log_prob == pytest.approx(network.log_prob(item, (*each.tokens, EOS)), abs=1e-4)


def test_the_first_group_is_a_plain_beam_of_its_width() -> None:
    for seed in range(5):
        network = Looking(seed, size=6)
        plain = network.run(Search(beam=2), [LIMIT] * 3)
        diverse = network.run(Search(beam=4, n_best=4, diverse=Diverse(2, 9.0)), [LIMIT] * 3)
        for [best], found in zip(plain, diverse, strict=True):
            if best.stopped == "eos":
                assert best.tokens in {each.tokens for each in found}


def test_outputs_are_distinct_sorted_and_more_diverse_than_a_plain_beams() -> None:
    def variety(how: Search) -> int:
        total = 0
        for seed in range(6):
            for found in Looking(seed, size=8, ends=-1.0).run(how, [LIMIT] * 3):
                assert len({each.tokens for each in found}) == len(found)
                scores = [(each.stopped == "length", -each.score) for each in found]
                assert scores == sorted(scores)
                total += len({each.tokens[:2] for each in found})
        return total

    assert variety(Search(beam=4, n_best=4, diverse=Diverse(4, 3.0))) > variety(Search(beam=4, n_best=4))


def test_groups_without_a_handicap_find_the_same_and_return_it_once() -> None:
    for found in Looking(2, ends=2.0).run(Search(beam=3, n_best=3, diverse=Diverse(3, 0.0)), [LIMIT] * 3):
        assert len(found) == 1


def test_a_batch_gives_what_each_item_gives_alone() -> None:
    how, network = Search(beam=4, n_best=3, diverse=Diverse(2)), Looking(3, size=6)
    together = network.run(how, [4, 8, 6])
    for item, limit in enumerate([4, 8, 6]):
        assert network.run(how, [limit], items=[item]) == [together[item]]
