"""Location-aware scores of one query per item on a CPU.

    tanh x = 2 σ(2x) − 1, whose σ takes a fifth of the time of a tanh;    p = σ (1 − σ), so that 1 − tanh² = 4 p

With g the gradient of the scores, u_sd = 4 g_s v_d p_sd, and f the features F ∗ α (reference.py has the formula),

    scores_s = 2 Σ_d v_d σ_sd − Σ_d v_d
    ∂q = Σ_s u_s     ∂k_s = u_s     ∂v = Σ_s g_s tanh     ∂L = Σ_s u_s f_sᵀ
    ∂f_s = Lᵀ u_s    ∂F_j = Σ_s ∂f_s α_{s + j − r}        ∂α_m = Σ_j F_jᵀ ∂f_{m − j + r}

σ is computed in tiles of items that stay in the processor's cache. For the backward pass it is stored where it is small, and
computed again where it is large. Products of matrices have their narrow side, the C filters, as rows: the other way round
they take many times as long.

Legend: N items, S keys, D width, C filters, r their radius, K = 2r + 1 taps, G rows of v (item n takes row n mod G).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from saccade.kernels.dtypes import without_autocast
from saccade.kernels.location import reference
from saccade.kernels.second_order import gradients_through

TILE_ELEMENTS = 1 << 19
"""Numbers in one tile of q + k: a few float32 tiles stay in the processor's cache."""

STORED_ELEMENTS = 1 << 22
"""Numbers in σ up to which it is stored for the backward pass: 16 MiB a step in float32."""


def location_aware_scores(
    query: Float[Tensor, "*batch 1 D"],
    key: Float[Tensor, "*batch S D"],
    v: Float[Tensor, "*#heads D"],
    previous: Float[Tensor, "*batch 1 S"],
    filters: Float[Tensor, "C K"],
    location_weight: Float[Tensor, "D C"],
) -> Float[Tensor, "*batch 1 S"]:
    """As `reference.location_aware_scores`, for one query per item; all in one dtype."""
    reference.check_shapes(query, key, v, previous, filters, location_weight)
    *batch, _, D = query.shape
    S, N = key.shape[-2], math.prod(batch)
    if not N * S * D:
        return reference.location_aware_scores(query, key, v, previous, filters, location_weight)
    if v.dim() > 1 and tuple(v.shape[:-1]) != tuple(batch[len(batch) - v.dim() + 1 :]):
        v = v.expand(*batch, D)
    inputs = (
        query.reshape(N, D), key.reshape(N, S, D), v.reshape(-1, D), previous.expand(*batch, 1, S).reshape(N, S),
        filters, location_weight,
    )  # fmt: skip
    # Without gradients autograd would only add to the time of a small step.
    scores: Tensor
    if torch.is_grad_enabled():
        scores = _Scores.apply(*inputs)
    else:  # the same without autograd, which adds to the time of a small step
        with without_autocast(key):
            scores = _scores(*inputs[:3], _features(*inputs[3:5]), location_weight)
    return scores.reshape(*batch, 1, S)


class _Scores(torch.autograd.Function):
    """query [N, D], key [N, S, D], v [G, D], previous [N, S], filters [C, K], location_weight [D, C] → [N, S]."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        query, key, v, previous, filters, location_weight = inputs
        stored = torch.empty_like(key) if any(ctx.needs_input_grad) and key.numel() <= STORED_ELEMENTS else None
        with without_autocast(key):
            features = _features(previous, filters)
            scores = _scores(query, key, v, features, location_weight, stored)
        ctx.save_for_backward(*inputs, features, stored)
        return scores

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad_scores,) = grads
        *inputs, features, stored = ctx.saved_tensors
        if torch.is_grad_enabled():
            return gradients_through(_formula, tuple(inputs), (grad_scores,), ctx.needs_input_grad)
        with without_autocast(grad_scores):
            found = _backward(tuple(inputs), features, stored, grad_scores.contiguous(), ctx.needs_input_grad[1])
        return tuple(part if need else None for part, need in zip(found, ctx.needs_input_grad, strict=True))


def _scores(
    query: Float[Tensor, "N D"],
    key: Float[Tensor, "N S D"],
    v: Float[Tensor, "G D"],
    features: Float[Tensor, "N C S"],
    location_weight: Float[Tensor, "D C"],
    stored: Float[Tensor, "N S D"] | None = None,
) -> Float[Tensor, "N S"]:
    scores, twice = key.new_empty(key.shape[:2]), 2 * v
    for items, sigma in _tiles(query, key, features, location_weight, stored):
        if len(v) == 1:  # a product of matrices with one column would take many times as long
            torch.mv(sigma.view(-1, v.shape[1]), twice[0], out=scores[items].view(-1))
        else:
            torch.matmul(sigma, twice[_rows(items, v)].unsqueeze(-1), out=scores[items].unsqueeze(-1))
    sums = v.sum(-1, keepdim=True)  # [G, 1]
    return scores.sub_(sums if len(v) == 1 else sums.repeat(len(key) // len(v), 1))


def _formula(*tensors: Tensor) -> Tensor:
    query, key, v, previous, filters, location_weight = tensors
    heads = v.repeat(len(query) // len(v), 1)
    scores = reference.location_aware_scores(
        query.unsqueeze(1), key, heads, previous.unsqueeze(1), filters, location_weight
    )
    return scores.squeeze(1)


def _backward(
    inputs: tuple[Tensor, ...],
    features: Float[Tensor, "N C S"],
    stored: Float[Tensor, "N S D"] | None,
    grad_scores: Float[Tensor, "N S"],
    of_key: bool,
) -> tuple[Tensor | None, ...]:
    query, key, v, previous, filters, location_weight = inputs
    grad_query, grad_key = torch.empty_like(query), torch.empty_like(key) if of_key else None
    grad_v, grad_mix = torch.zeros_like(v), torch.zeros_like(location_weight.mT)
    grad_features = torch.empty_like(features)
    weighing = torch.cat([torch.ones_like(features[:, :1]), features], dim=1) * grad_scores.unsqueeze(
        1
    )  # [N, 1 + C, S]
    whole = _tiles(query, key, features, location_weight) if stored is None else _pieces(stored)
    for items, sigma in whole:
        rows, g = v[_rows(items, v)].unsqueeze(1), grad_scores[items].unsqueeze(1)  # [n or 1, 1, D], [n, 1, S]
        turned = 2 * (g @ sigma).squeeze(1) - g.sum(-1)  # [n, D]
        if len(v) == 1:
            grad_v += turned.sum(0)
        else:
            grad_v.index_add_(0, _rows(items, v), turned)
        p = sigma - sigma.square() if grad_key is None else grad_key[items]
        if grad_key is not None:
            torch.addcmul(sigma, sigma, sigma, value=-1, out=p)
        summed = 4 * rows * (weighing[items] @ p)  # [n, 1 + C, D]
        grad_query[items] = summed[:, 0]
        grad_mix += summed[:, 1:].sum(0)
        mixing = (4 * rows * location_weight.mT).expand(len(p), -1, -1)  # [n, C, D]
        torch.bmm(mixing, p.mT, out=grad_features[items])
        if grad_key is not None:
            p.mul_(g.mT).mul_(4 * rows)
    grad_features *= grad_scores.unsqueeze(1)
    C, K = filters.shape
    around = functional.pad(previous, (K // 2,) * 2).unfold(1, K, 1)  # [N, S, K]
    grad_filters = grad_features.transpose(0, 1).reshape(C, -1) @ around.reshape(-1, K)
    return grad_query, grad_key, grad_v, _to_previous(grad_features, filters), grad_filters, grad_mix.mT


def _features(previous: Float[Tensor, "N S"], filters: Float[Tensor, "C K"]) -> Float[Tensor, "N C S"]:
    """f_s = Σ_j F_j α_{s + j − r}."""
    padded = functional.pad(previous, (filters.shape[1] // 2,) * 2)
    return filters @ padded.unfold(1, previous.shape[1], 1)  # [C, K] @ [N, K, S]


def _to_previous(grad_features: Float[Tensor, "N C S"], filters: Float[Tensor, "C K"]) -> Float[Tensor, "N S"]:
    """∂α_m = Σ_j F_jᵀ ∂f_{m − j + r}: row j of a product [K, S] is added j − r places further on."""
    (N, _, S), K = grad_features.shape, filters.shape[1]
    products = filters.mT @ grad_features  # [N, K, S]
    wide = products.new_zeros(N, K, S + K)
    wide.as_strided((N, K, S), (K * (S + K), S + K + 1, 1)).copy_(products)
    return wide.sum(1)[:, K // 2 : K // 2 + S]


def _tiles(
    query: Float[Tensor, "N D"],
    key: Float[Tensor, "N S D"],
    features: Float[Tensor, "N C S"],
    location_weight: Float[Tensor, "D C"],
    stored: Float[Tensor, "N S D"] | None = None,
) -> Iterator[tuple[slice, Float[Tensor, "n S D"]]]:
    """Slices of the items, with σ(2 (q + k + L f)) [n, S, D] of each, in ``stored`` or in one reused buffer."""
    _, S, D = key.shape
    mixing, twice = 2 * location_weight.mT, 2 * query.unsqueeze(1)  # [C, D], [N, 1, D]
    room = key.new_empty(_together(key), S, D) if stored is None else stored
    for items, keys in _pieces(key):
        count = len(keys)
        tile = torch.add(twice[items], keys, alpha=2, out=room[:count] if stored is None else room[items])
        rows = features[items].mT.reshape(count * S, -1)
        tile.view(count * S, D).addmm_(rows, mixing)
        yield items, tile.sigmoid_()


def _pieces(whole: Float[Tensor, "N S D"]) -> Iterator[tuple[slice, Float[Tensor, "n S D"]]]:
    """Slices of the items that make a tile, and their part."""
    count = _together(whole)
    for start in range(0, len(whole), count):
        items = slice(start, min(start + count, len(whole)))
        yield items, whole[items]


def _together(whole: Float[Tensor, "N S D"]) -> int:
    """Items per tile: about as many in each, since a small last tile takes as many operations as a large one."""
    N, S, D = whole.shape
    tiles = math.ceil(N / max(1, TILE_ELEMENTS // (S * D)))
    return math.ceil(N / tiles)


def _rows(items: slice, v: Float[Tensor, "G D"]) -> Any:
    """The rows of v that the items take."""
    return slice(None) if len(v) == 1 else torch.arange(items.start, items.stop, device=v.device) % len(v)
