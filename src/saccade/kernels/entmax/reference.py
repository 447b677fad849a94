"""Sparse weights over the last axis: sparsemax (Martins & Astudillo 2016) and entmax-1.5 (Peters et al. 2019).

    sparsemax(x) = max(x − τ, 0)          entmax15(x) = max(x/2 − τ, 0)²          τ such that the weights sum to 1

τ is exact: after sorting, the support is a prefix, and τ has a closed form per prefix length. With s the slope of
the weights on the support (1 for sparsemax, √w for entmax-1.5), the gradient is s∘g − s·⟨s, g⟩/Σs.

−∞ means invisible: weight 0, gradient 0. A row of only −∞ gives zeros. float16 and bfloat16 are computed in
float32. Legend: S keys.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.kernels.dtypes import working_dtype


def sparsemax(scores: Float[Tensor, "*rows S"]) -> Float[Tensor, "*rows S"]:
    """The weights nearest to the scores among those that sum to 1: max(x − τ, 0)."""
    if scores.shape[-1] == 0:
        return scores.clone()
    weights: Tensor = _Sparsemax.apply(scores)
    return weights


def entmax15(scores: Float[Tensor, "*rows S"]) -> Float[Tensor, "*rows S"]:
    """Between softmax and sparsemax, smooth where it is not zero: max(x/2 − τ, 0)²."""
    if scores.shape[-1] == 0:
        return scores.clone()
    weights: Tensor = _Entmax15.apply(scores)
    return weights


class _Sparsemax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        heights, possible = _heights(scores, scale=1.0)
        weights = (heights - _sparsemax_threshold(heights)).clamp(min=0)
        return _kept(ctx, weights * possible, scores.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        return _gradient(weights, (weights > 0).to(working_dtype(weights.dtype)), *grads)


class _Entmax15(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        heights, possible = _heights(scores, scale=0.5)
        weights = (heights - _entmax15_threshold(heights)).clamp(min=0).square()
        return _kept(ctx, weights * possible, scores.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        return _gradient(weights, weights.to(working_dtype(weights.dtype)).sqrt(), *grads)


def _heights(scores: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Scores minus their row's best, clamped to −1, and whether each can have weight at all.

    A score that is 1 or more below the best has no weight, so the clamp changes no result and keeps −∞ out of the
    arithmetic. The mask ensures that a threshold just below −1 gives no weight to clamped scores.
    """
    scores = scores.to(working_dtype(scores.dtype))
    best = scores.amax(-1, keepdim=True)
    heights = ((scores - torch.where(best > -torch.inf, best, 0)) * scale).clamp(min=-1)
    return heights, heights > -1


def _sparsemax_threshold(heights: Tensor) -> Tensor:
    """τ = (Σ_support height − 1) / |support|."""
    descending, count = _descending(heights)
    candidates = (descending.cumsum(-1) - 1) / count
    return _at_the_support(candidates, descending)


def _entmax15_threshold(heights: Tensor) -> Tensor:
    """τ = mean − √((1 − Σ (height − mean)²) / |support|), over the support."""
    descending, count = _descending(heights)
    mean = descending.cumsum(-1) / count
    spread = descending.square().cumsum(-1) - count * mean.square()
    candidates = mean - ((1 - spread) / count).clamp(min=0).sqrt()
    return _at_the_support(candidates, descending)


def _descending(heights: Tensor) -> tuple[Tensor, Tensor]:
    count = torch.arange(1, heights.shape[-1] + 1, dtype=heights.dtype, device=heights.device)
    return heights.sort(-1, descending=True).values, count


def _at_the_support(candidates: Tensor, descending: Tensor) -> Tensor:
    """The candidate of the longest prefix that stays above its own threshold; [..., 1]."""
    size = (candidates < descending).sum(-1, keepdim=True)
    return candidates.gather(-1, size.clamp(min=1) - 1)


def _kept(ctx: Any, weights: Tensor, dtype: torch.dtype) -> Tensor:
    weights = weights.to(dtype)
    ctx.save_for_backward(weights)
    return weights


def _gradient(weights: Tensor, slope: Tensor, grad_weights: Tensor) -> Tensor:
    """s∘g − s·⟨s, g⟩/Σs. Off the support g is ignored, even if it is ∞ or NaN."""
    grad = torch.where(weights > 0, grad_weights.to(slope.dtype), 0)
    # Σs ≥ Σw = 1 wherever a row sees anything, so the clamp acts only on rows that see nothing.
    mean = (slope * grad).sum(-1, keepdim=True) / slope.sum(-1, keepdim=True).clamp(min=1)
    return (slope * (grad - mean)).to(grad_weights.dtype)
