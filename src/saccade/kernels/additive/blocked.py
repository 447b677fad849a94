"""Additive scores, vᵀ tanh(q + k), in bounded memory, forward and backward.

It processes tiles of queries × keys that fit in the processor's cache and recomputes tanh in the backward pass, so the
T × S × D sums never exist at once. With g the gradient of the scores,

    ∂q_t = v ∘ Σ_s g_ts (1 − tanh²(q_t + k_s))     ∂k_s = v ∘ Σ_t g_ts (1 − tanh²(q_t + k_s))
    ∂v   = Σ_ts g_ts tanh(q_t + k_s)

Besides inputs, outputs and their gradients it holds one prepared copy of q and of k and two tiles. float16 and bfloat16
are computed in float32 and rounded once, at the end. Legend: N batch (flattened), T queries, S keys, D width.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.kernels.additive import reference
from saccade.kernels.additive.tanh_tiles import tanh_of_sums
from saccade.kernels.dtypes import result_dtype, working_dtype
from saccade.kernels.second_order import gradients_through
from saccade.kernels.tiling import slices

TILE_ELEMENTS = 1 << 20
"""Numbers in one tile. In float32 two tiles are 8 MB: they stay in the last-level cache, and the overhead of a call is small
beside its work. It was among the fastest of 2^17 to 2^23 on a processor with 0.5 MB of second and 32 MB of third-level
cache."""


def additive_scores(
    query: Float[Tensor, "*#batch T D"], key: Float[Tensor, "*#batch S D"], v: Float[Tensor, "*#heads D"]
) -> Float[Tensor, "*batch T S"]:
    """Score every query against every key; shapes and broadcasting as in `reference.additive_scores`."""
    reference.check_widths(query, key, v)
    dtype = result_dtype(query, key, v)
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], v.shape[:-1])
    N, (T, D), S = math.prod(batch), query.shape[-2:], key.shape[-2]
    scores: Tensor = _AdditiveScores.apply(
        query.to(dtype).expand(*batch, T, D).reshape(N, T, D),
        key.to(dtype).expand(*batch, S, D).reshape(N, S, D),
        v.to(working_dtype(dtype)).expand(*batch, D).reshape(N, D),  # its gradient is summed before it is rounded
    )
    return scores.reshape(*batch, T, S)


class _AdditiveScores(torch.autograd.Function):
    """query [N, T, D], key [N, S, D], v [N, D] in the working dtype → scores [N, T, S]."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(query, key, v)
        return scores_of(query, key, v)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad_scores,) = grads
        query, key, v = ctx.saved_tensors
        if torch.is_grad_enabled():
            return gradients_through(_formula, (query, key, v), grads, ctx.needs_input_grad)
        return gradients_of(query, key, v, grad_scores, ctx.needs_input_grad)


def scores_of(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
    working = working_dtype(query.dtype)
    scores = query.new_empty(query.shape[0], query.shape[1], key.shape[1])
    tanh = tanh_of_sums(query.to(working), key.to(working))
    v = v[:, None, None, :]  # [N, 1, 1, D]
    shift = tanh.shift * v.sum(-1)  # [N, 1, 1]
    for items, queries, keys, tile, scratch in _tiles(tanh.query, tanh.key):
        tanh.fill(tanh.query[items, queries, None], tanh.key[items, None, keys], tile, scratch)
        sums = tanh.times(v[items], tile, out=tile).sum(-1)  # [n, t, s]
        scores[items, queries, keys] = torch.add(shift[items], sums, alpha=tanh.gain)
    return scores


def gradients_of(
    query: Tensor, key: Tensor, v: Tensor, grad_scores: Tensor, needed: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    working = working_dtype(query.dtype)
    grad_query, grad_key, grad_v = (
        torch.zeros_like(tensor, dtype=working) if need else None
        for tensor, need in zip((query, key, v), needed, strict=True)
    )
    tanh = tanh_of_sums(query.to(working), key.to(working))
    for items, queries, keys, tile, scratch in _tiles(tanh.query, tanh.key):
        tanh.fill(tanh.query[items, queries, None], tanh.key[items, None, keys], tile, scratch)
        weight = grad_scores[items, queries, keys, None].to(working)  # [n, t, s, 1]
        weighted = tanh.times(weight, tile, out=scratch)
        if grad_v is not None:
            grad_v[items].add_(weighted.sum(1).sum(1))
        if grad_query is None and grad_key is None:
            continue
        slope = tanh.slope_times(weight, weighted, tile)
        if grad_query is not None:
            grad_query[items, queries].add_(slope.sum(2))
        if grad_key is not None:
            grad_key[items, keys].add_(slope.sum(1))

    scale = (v * tanh.gain**2)[:, None]  # [N, 1, D]
    if grad_v is not None:
        grad_v.mul_(tanh.gain).add_(tanh.shift * grad_scores.sum((1, 2), dtype=working)[:, None])
    return (
        None if grad_query is None else grad_query.mul_(scale).to(query.dtype),
        None if grad_key is None else grad_key.mul_(scale).to(key.dtype),
        grad_v,
    )


def _formula(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
    return reference.additive_scores(query, key, v.to(query.dtype))


def _tiles(query: Tensor, key: Tensor) -> Iterator[tuple[slice, slice, slice, Tensor, Tensor]]:
    """Slices of batch, queries and keys, with the same two buffers each time in the tile's shape [n, t, s, D]."""
    N, T, D = query.shape
    S = key.shape[1]
    n, t, s = tile_sides(N, T, S, D)
    buffers = query.new_empty(2, n * t * s * D)
    for items, queries, keys in itertools.product(slices(0, N, n), slices(0, T, t), slices(0, S, s)):
        shape = (items.stop - items.start, queries.stop - queries.start, keys.stop - keys.start, D)
        tile, scratch = buffers[:, : math.prod(shape)].view(2, *shape)
        yield items, queries, keys, tile, scratch


def tile_sides(N: int, T: int, S: int, D: int) -> tuple[int, int, int]:
    """Batch items, queries and keys per tile of TILE_ELEMENTS: whole items, or else a square of pairs."""
    pairs = max(1, TILE_ELEMENTS // max(1, D))
    if pairs >= T * S:
        return min(N, pairs // max(1, T * S)), T, S
    t = min(T, max(math.isqrt(pairs), pairs // S))
    return 1, t, min(S, pairs // t)
