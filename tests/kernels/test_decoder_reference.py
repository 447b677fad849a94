"""A decoder's step as the formula reads: the attention core's own result for one query, and zeros for who sees nothing."""

from __future__ import annotations

import pytest
import torch

from saccade.attention.core import attend, weigh
from saccade.attention.scores import additive, dot
from saccade.attention.windows import padding
from saccade.errors import SaccadeError
from saccade.kernels.decoder.steps import step_attention

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
N, S, D, E = 3, 5, 7, 11


@pytest.mark.parametrize("score", ["additive", "dot"])
def test_a_step_is_what_attend_gives_for_one_query(score: str) -> None:
    query, key, value, v = torch.randn(N, D), torch.randn(N, S, D), torch.randn(N, S, E), torch.randn(D)
    real = torch.rand(N, S) < 0.7
    real[1] = False
    context, weights = step_attention(query, key, value, v=v if score == "additive" else None, real=real)
    by = additive(v) if score == "additive" else dot
    rows = query.unsqueeze(1)
    torch.testing.assert_close(weights, weigh(rows, key, score=by, window=padding(real)).squeeze(1))
    torch.testing.assert_close(context, attend(rows, key, value, score=by, window=padding(real)).squeeze(1))


def test_scale_multiplies_the_dot_product() -> None:
    query, key, value = torch.randn(N, D), torch.randn(N, S, D), torch.randn(N, S, E)
    _, weights = step_attention(query, key, value, scale=0.3)
    torch.testing.assert_close(weights, step_attention(0.3 * query, key, value)[1])


def test_keys_are_seen_before_the_length_and_where_real() -> None:
    query, key, value = torch.randn(N, D), torch.randn(N, S, D), torch.randn(N, S, E)
    real = torch.ones(N, S, dtype=torch.bool)
    real[0, 1] = False
    _, weights = step_attention(query, key, value, real=real, lengths=torch.tensor([3, 0, 5]))
    seen = torch.tensor([[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
    assert torch.equal(weights > 0, seen)
    torch.testing.assert_close(weights.sum(-1), torch.tensor([1.0, 0.0, 1.0]))


def test_a_query_that_sees_nothing_gets_zeros_and_gradients_of_zero() -> None:
    leaves = [torch.randn(*shape, requires_grad=True) for shape in ((N, D), (N, S, D), (N, S, E), (D,))]
    query, key, value, v = leaves
    context, weights = step_attention(query, key, value, v=v, real=torch.zeros(N, S, dtype=torch.bool))
    assert not context.any() and not weights.any()
    for grad in torch.autograd.grad(context.sum() + weights.square().sum(), leaves):
        assert not grad.any()


def test_halves_are_computed_in_float32_and_weights_stay_there() -> None:
    query, key, value, v = (torch.randn(*shape) for shape in ((N, D), (N, S, D), (N, S, E), (D,)))
    halves = [x.bfloat16() for x in (query, key, value)]
    context, weights = step_attention(*halves, v=v)
    exact, _ = step_attention(*(x.float() for x in halves), v=v)
    assert context.dtype is torch.bfloat16 and weights.dtype is torch.float32
    assert torch.equal(context, exact.bfloat16())


def test_autocast_gives_its_own_type() -> None:
    query, key, value = torch.randn(N, D), torch.randn(N, S, D), torch.randn(N, S, E)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        context, weights = step_attention(query, key, value)
    assert context.dtype is torch.bfloat16 and weights.dtype is torch.float32
    torch.testing.assert_close(weights, step_attention(query, key, value)[1])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"query": torch.zeros(1, D)}, r"query: expected \[N, D\] = \[3, 7\] beside the keys, found \[1, 7\]"),
        ({"key": torch.zeros(S, D)}, r"key: expected \[N, S, D\], found \[5, 7\]"),
        ({"value": torch.zeros(N, 1, E)}, r"value: expected .* found \[3, 1, 11\]"),
        ({"v": torch.zeros(1)}, r"v: expected \[D\] = \[7\] beside the keys, found \[1\]"),
        ({"v": torch.zeros(D), "scale": 2.0}, "v and scale: expected one of them, found both"),
        ({"real": torch.ones(N, S)}, r"real: expected bool .* found torch.float32"),
        ({"lengths": torch.ones(N, 1)}, r"lengths: expected \[N\] = \[3\], found \[3, 1\]"),
    ],
)
def test_a_shape_that_would_broadcast_is_refused_by_name(changed: dict[str, object], said: str) -> None:
    asked = {"query": torch.zeros(N, D), "key": torch.zeros(N, S, D), "value": torch.zeros(N, S, E), **changed}
    with pytest.raises(SaccadeError, match=said):
        step_attention(**asked)  # type: ignore[arg-type]
