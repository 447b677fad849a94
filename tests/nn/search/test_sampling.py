"""Outputs drawn by chance: from the right distribution, the same for the same seed, whoever is in the batch."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch

from saccade.nn.search.beam_search import Search
from saccade.nn.search.selection import Sampling, draw
from tests.known import BOS, EOS, Looking

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
PROBABILITIES = torch.tensor([[0.1, 0.4, 0.2, 0.3]])


def drawn(how: Sampling, *numbers: float) -> list[int]:
    rows = PROBABILITIES.log().expand(len(numbers), -1)
    return draw(rows, how, torch.tensor(numbers, dtype=torch.float64)).tolist()


def test_a_drawn_number_selects_the_token_of_its_interval_likely_tokens_first() -> None:
    assert drawn(Sampling(), 0.0, 0.39, 0.41, 0.69, 0.71, 0.89, 0.91, 0.999) == [1, 1, 3, 3, 2, 2, 0, 0]


def test_the_k_likeliest_share_everything() -> None:
    assert drawn(Sampling(top_k=2), 0.0, 0.56, 0.58, 0.999) == [1, 1, 3, 3]  # 4/7 and 3/7
    assert drawn(Sampling(top_k=99), 0.999) == [0]


def test_the_nucleus_is_the_fewest_that_hold_the_share() -> None:
    assert drawn(Sampling(top_p=0.5), 0.0, 0.999) == [1, 3]
    assert drawn(Sampling(top_p=0.4), 0.0, 0.999) == [1, 1]
    assert drawn(Sampling(top_p=0.95), 0.999) == [0]


def test_a_low_temperature_is_almost_greedy_and_a_high_one_almost_uniform() -> None:
    assert drawn(Sampling(temperature=0.02), 0.0, 0.5, 0.999) == [1, 1, 1]
    assert drawn(Sampling(temperature=1e-320), 0.0, 0.5, 0.999) == [1, 1, 1]  # 1 / T is infinite
    assert drawn(Sampling(temperature=1e6), 0.24, 0.26, 0.51, 0.76) == [1, 3, 2, 0]
    # p² ∝ 1, 16, 4, 9
    assert drawn(Sampling(temperature=0.5), 15.9 / 30, 16.1 / 30, 24.9 / 30, 25.1 / 30) == [1, 3, 3, 2]


def test_outputs_come_as_often_as_they_are_likely() -> None:
    network, count = Looking(3, ends=1.5), 4000
    [found] = network.run(Search(sample=Sampling(seed=5), n_best=count), [3])
    often = Counter((each.tokens, each.stopped) for each in found)
    assert sum(often.values()) == count
    for (tokens, stopped), times in often.items():
        whole = (*tokens, EOS) if stopped == "eos" else tokens
        # BOS is never written: each step shares its probability out.
        shares = [1 - float(torch.softmax(network.logits(0, whole[:t]), -1)[BOS]) for t in range(len(whole))]
        p = math.exp(network.log_prob(0, whole)) / math.prod(shares)
        assert times / count == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / count) + 1e-3)


def test_the_log_probability_is_the_networks_own() -> None:
    network = Looking(4)
    how = Search(sample=Sampling(temperature=0.5, top_k=2, top_p=0.9), n_best=5, length_penalty=0.6)
    for item, found in enumerate(network.run(how, [6] * 3)):
        order = [(each.stopped == "length", -each.score) for each in found]
        assert order == sorted(order)
        for each in found:
            tokens = each.tokens + ((EOS,) if each.stopped == "eos" else ())
            assert each.log_prob == pytest.approx(network.log_prob(item, tokens), abs=1e-4)
            assert each.score == pytest.approx(how.rank(each.log_prob, len(tokens)))


def test_a_seed_repeats_and_another_draws_again() -> None:
    def outputs(seed: int) -> list[list[tuple[int, ...]]]:
        found = Looking(5).run(Search(sample=Sampling(seed=seed), n_best=5), [8] * 3)
        return [[each.tokens for each in many] for many in found]

    assert outputs(1) == outputs(1)
    assert outputs(1) != outputs(2)


def test_what_is_drawn_for_an_item_depends_on_its_own_seed_alone() -> None:
    network, how = Looking(6), Search(sample=Sampling(), n_best=3)
    together = network.run(how, [4, 9, 6], seeds=[11, 12, 13])
    for item, (limit, seed) in enumerate(zip([4, 9, 6], [11, 12, 13], strict=True)):
        assert network.run(how, [limit], items=[item], seeds=[seed]) == [together[item]]
    assert network.run(how, [4, 9, 6], seeds=[12, 12, 13])[0] != together[0]


def test_more_samples_keep_those_already_drawn() -> None:
    few, many = (Looking(7).run(Search(sample=Sampling(), n_best=n), [8])[0] for n in (3, 7))
    assert not Counter(each.tokens for each in few) - Counter(each.tokens for each in many)


def test_a_greedy_temperature_gives_the_greedy_output() -> None:
    network = Looking(8)
    [[found]] = network.run(Search(sample=Sampling(temperature=1e-3)), [7])
    [[greedy]] = network.run(Search(), [7])
    assert found == greedy
