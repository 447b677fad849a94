"""Layers that own parameters: shapes, parameters, and that they are what the core computes."""

from __future__ import annotations

import re
from typing import Any, Literal

import pytest
import torch
from torch import nn

from saccade.attention.core import attend
from saccade.attention.layers import Attention, AttentionPool, MultiHead
from saccade.attention.normalise import sparsemax
from saccade.attention.scores import additive, cosine, dot, general, location, scaled_dot
from saccade.attention.windows import causal, padding
from saccade.errors import SaccadeError
from saccade.trace import Lens

SCORES = ["dot", "scaled_dot", "general", "additive", "concat", "location", "cosine"]
every_score = pytest.mark.parametrize("score", SCORES)


def layer(score: str, **options: object) -> Attention:
    same = score in ("dot", "scaled_dot", "cosine")
    return Attention(4, 4 if same else 6, score=score, width=3, places=9, **options)  # type: ignore[arg-type]


def inputs(attention: Attention) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    key_width = 4 if attention.kind in ("dot", "scaled_dot", "cosine") else 6
    return torch.randn(2, 5, 4), torch.randn(2, 7, key_width), torch.randn(2, 7, 3)


# Attention --------------------------------------------------------------------------------------------------------------


@every_score
def test_a_layer_is_attend_over_its_own_parameters(score: str) -> None:
    attention = layer(score)
    values = {
        "dot": lambda: dot,
        "scaled_dot": lambda: scaled_dot,
        "general": lambda: general(attention.weight),
        "additive": lambda: additive(attention.v, attention.query_weight, attention.key_weight),
        "concat": lambda: additive(attention.v, attention.query_weight, attention.key_weight),
        "location": lambda: location(attention.weight),
        "cosine": lambda: cosine(nn.functional.softplus(attention.raw_beta)),
    }
    query, key, value = inputs(attention)
    window = padding(torch.tensor([7, 4]))
    expected = attend(query, key, value, score=values[score](), window=window)
    torch.testing.assert_close(attention(query, key, value, window=window), expected)
    torch.testing.assert_close(attention(query, attention.prepare(key), value, window=window), expected)


@pytest.mark.parametrize("score", [score for score in SCORES if "dot" not in score])  # dot has no parameters
def test_gradients_reach_every_parameter_of_a_layer(score: str) -> None:
    attention = layer(score)
    attention(*inputs(attention)).square().sum().backward()
    for name, parameter in attention.named_parameters():
        assert parameter.grad is not None, name
        assert bool((parameter.grad != 0).any()), name


@pytest.mark.parametrize(
    ("score", "count"),
    [
        ("dot", 0),
        ("scaled_dot", 0),
        ("general", 4 * 6),
        ("additive", 3 + 3 * 4 + 3 * 6),
        ("location", 9 * 4),
        ("cosine", 1),
    ],
)
def test_the_parameters_are_those_of_the_table(score: str, count: int) -> None:
    assert sum(parameter.numel() for parameter in layer(score).parameters()) == count


def test_values_are_the_keys_unless_given() -> None:
    attention = layer("general")
    query, key, _ = inputs(attention)
    torch.testing.assert_close(attention(query, key), attention(query, key, key))
    with pytest.raises(SaccadeError, match="prepared keys cannot serve as values"):
        attention(query, attention.prepare(key))


def test_a_layer_drops_weights_in_training_alone() -> None:
    attention = layer("general", dropout=0.5)
    tensors = inputs(attention)
    assert not torch.allclose(attention(*tensors), attention(*tensors))
    attention.eval()
    torch.testing.assert_close(attention(*tensors), attention(*tensors), rtol=0, atol=0)


def test_a_layer_takes_another_normaliser() -> None:
    attention = layer("general", normalise=sparsemax)
    query, key, value = inputs(attention)
    expected = attend(query, key, value, score=attention.score, normalise=sparsemax)
    torch.testing.assert_close(attention(query, key, value), expected)


def test_unequal_widths_are_refused_where_a_score_compares_them() -> None:
    for score in ("dot", "scaled_dot", "cosine"):
        with pytest.raises(SaccadeError, match="needs equal widths: got query_width=4, key_width=6"):
            Attention(4, 6, score=score)  # type: ignore[arg-type]
    with pytest.raises(SaccadeError, match="places="):
        Attention(4, 4, score="location")


# MultiHead --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
def test_many_heads_are_pytorchs_multihead_attention(bias: bool) -> None:
    heads = MultiHead(12, 3, bias=bias)
    theirs = nn.MultiheadAttention(12, 3, bias=bias, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([heads.query.weight, heads.key.weight, heads.value.weight]))
        theirs.out_proj.weight.copy_(heads.output.weight)
        if bias:
            for part in (heads.query, heads.key, heads.value, heads.output):
                nn.init.normal_(part.bias)
            theirs.in_proj_bias.copy_(torch.cat([heads.query.bias, heads.key.bias, heads.value.bias]))
            theirs.out_proj.bias.copy_(heads.output.bias)
    query, key, lengths = torch.randn(2, 5, 12), torch.randn(2, 7, 12), torch.tensor([7, 3])
    unseen = torch.arange(7) >= lengths.unsqueeze(-1)
    expected, weights = theirs(query, key, key, key_padding_mask=unseen, average_attn_weights=False)
    lens = Lens()
    torch.testing.assert_close(heads(query, key, window=padding(lengths), lens=lens), expected, rtol=1e-4, atol=1e-5)
    for head in range(3):
        torch.testing.assert_close(lens.traces[1].map(head=head).weights, weights[1, head])


def test_a_sequence_may_look_at_itself() -> None:
    heads, x = MultiHead(12, 3), torch.randn(2, 5, 12)
    whole = heads(x, window=causal)
    torch.testing.assert_close(whole[:, :3], heads(x[:, :3], window=causal))  # the future does not reach back
    torch.testing.assert_close(heads(x), heads(x, x, x))


@pytest.mark.parametrize("score", ["scaled_dot", "dot", "additive", "cosine"])
def test_gradients_reach_every_parameter_of_many_heads(score: str) -> None:
    heads = MultiHead(12, 3, key_width=5, score=score)  # type: ignore[arg-type]
    out = heads(torch.randn(2, 4, 12), torch.randn(2, 7, 5))
    assert out.shape == (2, 4, 12)
    out.square().sum().backward()
    for name, parameter in heads.named_parameters():
        assert parameter.grad is not None, name
        # A bias of the keys shifts all scores of a row alike: softmax does not see it, so its gradient is 0 up to rounding.
        if not (name == "key.bias" and score in ("scaled_dot", "dot")):
            assert bool((parameter.grad.abs() > 1e-8).any()), name


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(SaccadeError, match="heads must divide width: got heads=5, width=12"):
        MultiHead(12, 5)


# AttentionPool ----------------------------------------------------------------------------------------------------------


def test_a_pool_is_a_weighted_mean_by_its_formula() -> None:
    pool, states = AttentionPool(5, hidden=3), torch.randn(2, 7, 5)
    nn.init.normal_(pool.bias)
    scores = torch.tanh(states @ pool.key_weight.mT + pool.bias) @ pool.v  # [B, S]
    expected = (torch.softmax(scores, -1).unsqueeze(-1) * states).sum(1)
    torch.testing.assert_close(pool(states), expected)


def test_padding_does_not_enter_a_pool() -> None:
    pool, states = AttentionPool(5), torch.randn(2, 7, 5)
    lengths = torch.tensor([7, 4])
    torch.testing.assert_close(pool(states, window=padding(lengths))[1], pool(states[1:, :4])[0])


def test_a_pool_shows_what_it_looked_at() -> None:
    pool, lens = AttentionPool(5), Lens()
    pool(torch.randn(1, 7, 5), lens=lens, site="sentence")
    assert lens.trace.map("sentence").weights.shape == (1, 7)


@pytest.mark.parametrize(("score", "scale"), [("dot", 1.0), ("scaled_dot", 5**-0.5)])
def test_a_pool_by_products_is_its_formula(score: str, scale: float) -> None:
    pool, states = AttentionPool(5, score=score), torch.randn(2, 7, 5)  # type: ignore[arg-type]
    weights = torch.softmax(states @ pool.query * scale, -1)  # [B, S]
    torch.testing.assert_close(pool(states), (weights.unsqueeze(-1) * states).sum(1))
    assert [name for name, _ in pool.named_parameters()] == ["query"]


def test_a_pool_that_sees_nothing_gets_zeros() -> None:
    pool = AttentionPool(5)
    assert not pool(torch.randn(2, 7, 5), window=padding(torch.tensor([7, 0])))[1].any()


@pytest.mark.usefixtures("shapes_unchecked")
def test_a_pool_refuses_what_it_does_not_know() -> None:
    with pytest.raises(SaccadeError, match="score must be additive, dot or scaled_dot: got 'cosine'"):
        AttentionPool(5, score="cosine")  # type: ignore[arg-type]
    with pytest.raises(SaccadeError, match="hidden has no meaning with score='dot': got 3"):
        AttentionPool(5, score="dot", hidden=3)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("score", ["additive", "dot", "scaled_dot"])
@pytest.mark.parametrize("shape", [(7,), (3, 7), (3, 5, 6), (2, 3, 5, 7)])
def test_a_pool_refuses_states_of_another_shape(
    score: Literal["additive", "dot", "scaled_dot"], shape: tuple[int, ...]
):
    with pytest.raises(SaccadeError, match=rf"expected states \[B, S, 7\], found {re.escape(str(list(shape)))}"):
        AttentionPool(7, score=score)(torch.randn(shape))


@pytest.mark.parametrize(
    ("width", "options", "words"),
    [
        (0, {}, "width must be at least 1: got 0"),
        (-3, {"score": "dot"}, "width must be at least 1: got -3"),
        (5, {"hidden": 0}, "hidden must be at least 1: got 0"),
    ],
)
def test_a_pool_without_a_width_is_refused(width: int, options: dict[str, Any], words: str) -> None:
    with pytest.raises(SaccadeError, match=words):
        AttentionPool(width, **options)
