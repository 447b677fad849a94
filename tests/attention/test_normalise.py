"""From scores to weights, on numbers worked by hand."""

from __future__ import annotations

import math

import pytest
import torch

from saccade.attention.normalise import Normaliser, Smoothed, entmax15, sharpened, smoothed, softmax, sparsemax, top
from saccade.errors import SaccadeError

ALL = [softmax, sharpened(2.0), sharpened(0.5), top(3), top(2, sharpened(0.5)), sparsemax, entmax15]
every_normaliser = pytest.mark.parametrize("normalise", ALL, ids=repr)


def row(*scores: float) -> torch.Tensor:
    return torch.tensor([[scores]], dtype=torch.float64)


def test_softmax_by_hand() -> None:
    expected = row(1 / 7, 2 / 7, 4 / 7)
    torch.testing.assert_close(softmax(row(0, math.log(2), math.log(4))), expected)


def test_sharpened_is_softmax_of_beta_times_the_scores() -> None:
    scores = torch.randn(2, 3, 5)
    torch.testing.assert_close(sharpened(3.0)(scores), torch.softmax(3 * scores, -1))
    assert float(sharpened(3.0)(scores).amax()) > float(softmax(scores).amax()) > float(sharpened(0.3)(scores).amax())


def test_smoothed_by_hand() -> None:
    expected = row(0.2259, 0.3303, 0.4437)  # ½, 0.7311 and 0.9820 by their sum
    torch.testing.assert_close(smoothed(row(0.0, 1.0, 4.0)), expected, rtol=0, atol=1e-4)
    scores = torch.randn(2, 3, 5)
    torch.testing.assert_close(smoothed(scores), scores.sigmoid() / scores.sigmoid().sum(-1, keepdim=True))
    bias = torch.tensor([-1.5], requires_grad=True)
    shares = (scores - 1.5).sigmoid()
    torch.testing.assert_close(Smoothed(bias)(scores), shares / shares.sum(-1, keepdim=True))
    assert bool(torch.autograd.grad(Smoothed(bias)(scores)[..., 0].sum(), bias)[0].any())


def test_smoothed_scores_that_are_all_very_low_still_sum_to_one() -> None:
    scores = torch.tensor([[-300.0, -300.0 + math.log(3), -math.inf]], requires_grad=True)
    weights = smoothed(scores)
    torch.testing.assert_close(weights, torch.tensor([[0.25, 0.75, 0.0]]))
    weights[0, 0].backward()
    assert bool(scores.grad.isfinite().all())


def test_smoothed_hides_what_is_not_visible_and_gives_zeros_to_a_row_that_sees_nothing() -> None:
    scores = torch.randn(2, 5)
    scores[0, 3], scores[1] = -math.inf, -math.inf
    scores.requires_grad_()
    weights = smoothed(scores)
    assert weights[0, 3].item() == 0.0
    assert weights[1].tolist() == [0.0] * 5
    weights.square().sum().backward()
    assert scores.grad[1].tolist() == [0.0] * 5
    assert scores.grad[0, 3].item() == 0.0
    assert repr(smoothed) == "smoothed"
    assert smoothed(torch.empty(2, 0)).shape == (2, 0)


@pytest.mark.usefixtures("shapes_unchecked")
def test_top_keeps_the_largest_weights_and_renormalises_them() -> None:
    scores = torch.randn(2, 3, 5, dtype=torch.float64)
    for of in (softmax, sharpened(3.0), smoothed):
        weights, whole = top(2, of)(scores), of(scores)
        kept = torch.zeros_like(whole).scatter(-1, whole.topk(2).indices, 1.0) * whole
        torch.testing.assert_close(weights, kept / kept.sum(-1, keepdim=True))
        assert torch.equal(top(7, of)(scores), softmax(of.logits(scores))), "all of five keys"
    assert top(2)(row(1.0, 1.0, 1.0)).count_nonzero() == 2, "of equal weights some"
    assert repr(top(2)) == "top(2)" and repr(top(3, smoothed)) == "top(3, smoothed)"
    with pytest.raises(SaccadeError, match=r"top: expected softmax, sharpened\(β\) or smoothed, found sparsemax"):
        top(2, sparsemax)  # type: ignore[arg-type]


def test_sparsemax_by_hand() -> None:
    torch.testing.assert_close(sparsemax(row(1.0, 0.5, -1.0)), row(0.75, 0.25, 0.0))  # τ = 0.25
    torch.testing.assert_close(sparsemax(row(2.0, 0.0, 0.0)), row(1.0, 0.0, 0.0))
    torch.testing.assert_close(sparsemax(row(0.3, 0.3, 0.3)), row(1 / 3, 1 / 3, 1 / 3))


def test_entmax15_by_hand() -> None:
    # z/2 = (0.5, 0.1) on the support and (0.5 − τ)² + (0.1 − τ)² = 1: τ = 0.3 − √0.46
    tau = 0.3 - math.sqrt(0.46)
    torch.testing.assert_close(entmax15(row(1.0, 0.2)), row((0.5 - tau) ** 2, (0.1 - tau) ** 2))
    torch.testing.assert_close(entmax15(row(4.0, 0.0)), row(1.0, 0.0))


def test_entmax15_is_between_softmax_and_sparsemax() -> None:
    scores = row(1.0, 0.5, -0.3, -2.0)
    zeros = [int((normalise(scores) == 0).sum()) for normalise in (softmax, entmax15, sparsemax)]
    assert zeros == [0, 1, 2]


@every_normaliser
def test_a_score_of_minus_infinity_gets_exactly_zero_and_counts_for_nothing(normalise: Normaliser) -> None:
    for dtype in (torch.float32, torch.float64):
        scores = torch.randn(2, 3, 7, dtype=dtype)
        hidden = torch.tensor([1, 4, 6])
        weights = normalise(scores.index_fill(-1, hidden, -math.inf))
        assert bool((weights[..., hidden] == 0).all())
        seen = torch.tensor([0, 2, 3, 5])
        torch.testing.assert_close(weights[..., seen], normalise(scores[..., seen]))


@every_normaliser
def test_the_only_key_gets_all_of_the_weight_and_the_others_none(normalise: Normaliser) -> None:
    for dtype in (torch.float32, torch.float64):
        scores = torch.full((1, 5, 5), -math.inf, dtype=dtype)
        scores.diagonal(dim1=-2, dim2=-1).copy_(torch.randn(5) * 3)
        torch.testing.assert_close(normalise(scores), torch.eye(5, dtype=dtype).unsqueeze(0), rtol=0, atol=1e-6)
        assert bool((normalise(scores)[scores == -math.inf] == 0).all())


@every_normaliser
def test_a_row_that_sees_nothing_gets_zeros_and_its_gradient_too(normalise: Normaliser) -> None:
    scores = torch.randn(2, 3, 5)
    scores[1, 2] = -math.inf
    scores.requires_grad_()
    weights = normalise(scores)
    assert weights[1, 2].tolist() == [0.0] * 5
    weights.square().sum().backward()
    assert bool(scores.grad.isfinite().all())
    assert scores.grad[1, 2].tolist() == [0.0] * 5


@every_normaliser
def test_a_shift_of_all_scores_changes_nothing(normalise: Normaliser) -> None:
    scores = torch.randn(2, 3, 5, dtype=torch.float64)
    torch.testing.assert_close(normalise(scores + 100), normalise(scores))


@every_normaliser
def test_very_large_scores_do_not_overflow(normalise: Normaliser) -> None:
    weights = normalise(torch.tensor([[[1e4, 0.0, -1e4], [3e38, -3e38, 0.0]]]))
    torch.testing.assert_close(weights, torch.tensor([[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]]))


@every_normaliser
def test_the_order_of_the_keys_does_not_matter(normalise: Normaliser) -> None:
    scores, order = torch.randn(2, 3, 7), torch.tensor([4, 0, 6, 2, 1, 5, 3])
    torch.testing.assert_close(normalise(scores[..., order]), normalise(scores)[..., order])


@every_normaliser
def test_no_keys_give_no_weights(normalise: Normaliser) -> None:
    assert normalise(torch.empty(2, 3, 0)).shape == (2, 3, 0)


def test_beta_must_be_positive() -> None:
    for beta in (0.0, -2.0, math.nan):
        with pytest.raises(SaccadeError, match="beta must be positive"):
            sharpened(beta)


def test_normalisers_are_values_that_print_and_compare() -> None:
    assert [repr(normalise) for normalise in ALL] == [
        "softmax",
        "sharpened(2.0)",
        "sharpened(0.5)",
        "top(3)",
        "top(2, sharpened(0.5))",
        "sparsemax",
        "entmax15",
    ]
    assert sharpened(1.0) == softmax
    assert sharpened(2.0) == sharpened(2.0) != softmax
    assert all(isinstance(normalise, Normaliser) for normalise in ALL)
