"""Sparsemax and entmax-1.5: exact weights, exact zeros, and no NaN whatever is invisible."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from saccade.kernels.entmax.reference import entmax15, sparsemax

Normaliser = Callable[[Tensor], Tensor]
BOTH = pytest.mark.parametrize("normalise", [sparsemax, entmax15])


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(5)


def by_bisection(scores: Tensor, scale: float, power: float) -> Tensor:
    """The definition, solved for τ by halving: an independent way to the same weights."""
    heights = (scores.double() - scores.double().amax(-1, keepdim=True)) * scale
    low, high = torch.full_like(heights[..., :1], -1.0), torch.zeros_like(heights[..., :1])
    for _ in range(60):
        middle = (low + high) / 2
        too_low = (heights - middle).clamp(min=0).pow(power).sum(-1, keepdim=True) > 1
        low, high = torch.where(too_low, middle, low), torch.where(too_low, high, middle)
    return (heights - high).clamp(min=0).pow(power)


def test_sparsemax_of_three_scores_worked_by_hand() -> None:
    # The best two are half a unit apart: τ = (1 + ½ − 1) / 2 = ¼; the third lies below it.
    assert sparsemax(torch.tensor([1.0, 0.5, -1.0])).tolist() == [0.75, 0.25, 0.0]


def test_entmax15_of_two_scores_worked_by_hand() -> None:
    # √w₁ − √w₂ = ½ and w₁ + w₂ = 1 give √w₂ = (√7 − 1) / 4.
    root = (7**0.5 - 1) / 4
    torch.testing.assert_close(entmax15(torch.tensor([1.0, 0.0])), torch.tensor([1 - root**2, root**2]))
    assert entmax15(torch.tensor([2.0, 0.0, -1.0])).tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("spread", [1e-3, 0.3, 1.0, 5.0, 1e4])
@pytest.mark.parametrize(("normalise", "scale", "power"), [(sparsemax, 1.0, 1.0), (entmax15, 0.5, 2.0)])
def test_weights_are_those_of_the_definition(
    normalise: Normaliser, scale: float, power: float, spread: float, dtype: torch.dtype
) -> None:
    scores = (spread * torch.randn(3, 5, 77, dtype=torch.float64)).to(dtype)
    tolerance = {torch.float32: 3e-6, torch.float64: 1e-12}[dtype]
    expected = by_bisection(scores, scale, power).to(dtype)
    torch.testing.assert_close(normalise(scores), expected, atol=tolerance, rtol=0)


@BOTH
def test_weights_of_a_long_row_sum_to_one(normalise: Normaliser) -> None:
    weights = normalise(torch.randn(3, 5001))
    assert (weights.sum(-1) - 1).abs().max() < 1e-5
    assert (weights == 0).any()
    assert (weights >= 0).all()


@BOTH
def test_equal_scores_share_equally(normalise: Normaliser) -> None:
    torch.testing.assert_close(normalise(torch.full((3, 7), 2.5)), torch.full((3, 7), 1 / 7))


@BOTH
def test_invisible_scores_change_nothing_and_get_nothing(normalise: Normaliser) -> None:
    scores = torch.randn(3, 7)
    padded = torch.cat([torch.full((3, 4), -torch.inf), scores, torch.full((3, 2), -torch.inf)], dim=-1)
    weights = normalise(padded)
    assert torch.equal(weights[:, 4:-2], normalise(scores))
    assert not weights[:, :4].any()
    assert not weights[:, -2:].any()


@BOTH
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_row_that_sees_nothing_gives_zeros_and_no_nan_in_the_gradient(
    normalise: Normaliser, dtype: torch.dtype
) -> None:
    scores = torch.randn(3, 7).to(dtype)
    scores[1] = -torch.inf
    scores.requires_grad_()
    weights = normalise(scores)
    assert weights.dtype == dtype
    assert not weights[1].any()
    weights.square().sum().backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    assert not scores.grad[1].any()
    assert scores.grad[0].any()


@BOTH
def test_an_infinite_gradient_where_the_weight_is_zero_does_not_spread(normalise: Normaliser) -> None:
    scores = torch.tensor([1.0, 0.5, -3.0], requires_grad=True)
    weights = normalise(scores)
    weights.backward(torch.tensor([1.0, 2.0, torch.inf]))
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    assert scores.grad[2] == 0


@BOTH
def test_gradients_are_those_of_finite_differences(normalise: Normaliser) -> None:
    scores = torch.randn(3, 7, dtype=torch.float64)
    scores[0, 2] = scores[2, :] = -torch.inf
    scores.requires_grad_()
    assert torch.autograd.gradcheck(normalise, (scores,))
    visible = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(normalise, (visible,))


@BOTH
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_computed_in_float32_and_rounded_once(normalise: Normaliser, dtype: torch.dtype) -> None:
    scores = torch.randn(5, 33).to(dtype)
    assert torch.equal(normalise(scores), normalise(scores.float()).to(dtype))


@BOTH
@pytest.mark.parametrize("shape", [(3, 0), (0, 5), (2, 0, 3)])
def test_no_keys_or_no_rows_give_an_empty_result(normalise: Normaliser, shape: tuple[int, ...]) -> None:
    scores = torch.randn(shape, requires_grad=True)
    weights = normalise(scores)
    weights.sum().backward()
    assert weights.shape == shape
    assert scores.grad is not None


@BOTH
def test_scores_may_be_laid_out_any_way(normalise: Normaliser) -> None:
    scores = torch.randn(7, 5, 3).permute(2, 1, 0)
    assert torch.equal(normalise(scores), normalise(scores.contiguous()))
