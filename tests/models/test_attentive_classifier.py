"""The attentive classifier, part by part against its formulas."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from saccade.models.attentive_classifier import AttentiveClassifier, Config
from saccade.trace import Lens

TOKENS, LENGTHS = torch.tensor([[4, 5, 6, 7, 8], [9, 4, 3, 0, 0]]), torch.tensor([5, 3])
BARE = Config(5, encoder="none", pool="mean")


def built(config: Config) -> AttentiveClassifier:
    return AttentiveClassifier(config, vocabulary=11, classes=3).eval()


@pytest.mark.parametrize("pool", ["mean", "max", "additive", "dot"])
def test_each_pool_is_its_formula_over_the_words_that_are_there(pool) -> None:
    network = built(replace(BARE, pool=pool))
    states = network.embedding(TOKENS[1, :3])  # [S, m]
    match pool:
        case "mean":
            vector = states.mean(0)
        case "max":
            vector = states.amax(0)
        case "dot":
            vector = torch.softmax(states @ network.pool.query, 0) @ states
        case "additive":
            hidden = torch.tanh(states @ network.pool.key_weight.mT + network.pool.bias)
            vector = torch.softmax(hidden @ network.pool.v, 0) @ states
    torch.testing.assert_close(network(TOKENS, LENGTHS)[1], network.output(vector))


def test_the_last_state_is_that_after_everything_was_read_both_ways() -> None:
    network = built(Config(5, encoder="gru", hidden=4, pool="last"))
    states = network.states(network.embedding(TOKENS), LENGTHS)
    expected = torch.cat([states[1, 2, :4], states[1, 0, 4:]])
    torch.testing.assert_close(network.pooled(states, LENGTHS)[1], expected)


def test_the_second_text_of_a_pair_is_told_apart_from_the_first() -> None:
    network = built(BARE)
    segments = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])
    torch.testing.assert_close(network(TOKENS, LENGTHS, segments), network(TOKENS, LENGTHS))  # at first alike
    with torch.no_grad():
        network.second.fill_(0.5)
    moved = network(TOKENS, LENGTHS, segments)
    shifted = network.output(network.embedding(TOKENS[0]).mean(0) + 0.5 * 3 / 5)
    torch.testing.assert_close(moved[0], shifted)


def test_only_attention_has_a_place_where_it_looks() -> None:
    looking, other = built(replace(BARE, pool="dot")), built(BARE)
    assert [site.name for site in looking.sites] == ["pool"] and other.sites == ()
    lens = Lens(detail=["state"])
    looking(TOKENS, LENGTHS, lens=lens)
    assert lens.traces[1].map("pool").weights[0, 3:].tolist() == [0, 0]
    assert lens.traces[0].signals["encoder.state"].values.shape == (5, 5)


def test_sparse_weights_leave_words_out() -> None:
    network = built(replace(BARE, pool="dot", normalise="sparsemax"))
    with torch.no_grad():
        network.pool.query.mul_(100)
    lens = Lens()
    network(TOKENS, LENGTHS, lens=lens)
    assert (lens.traces[0].map("pool").weights == 0).any()


def test_parameters_are_those_of_the_parts() -> None:
    network = built(Config(5, encoder="lstm", hidden=4, layers=2, attention=7))
    embedding, second = 11 * 5, 5
    lstm = 2 * (4 * 4 * (5 + 4 + 2)) + 2 * (4 * 4 * (8 + 4 + 2))
    pool, output = 7 * 8 + 7 + 7, 8 * 3 + 3
    assert sum(parameter.numel() for parameter in network.parameters()) == embedding + second + lstm + pool + output


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"width": 4}, "width must be odd: got 4"),
        ({"encoder": "none", "pool": "last"}, "pool must not be last without an encoder"),
        ({"pool": "mean", "attention": 4}, "attention must be left out unless pool is additive"),
        ({"pool": "sum"}, "pool must be one of additive, dot, mean, max, last: got 'sum'"),
        ({"hidden": 0}, "hidden must be at least 1: got 0"),
    ],
)
@pytest.mark.usefixtures("shapes_unchecked")
def test_settings_that_mean_nothing_are_refused(fields, message) -> None:
    with pytest.raises(ValueError, match=message):
        Config(**fields)
