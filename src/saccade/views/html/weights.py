"""Attention maps as a page keeps them: exact while the page is small, in 255 steps or fewer when it is large, the
largest weights of each row alone when a map is very large; and a thumbnail of each.

Legend: T queries, S keys, k kept per row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy import ndarray
from torch import Tensor

from saccade.trace.maps import AttentionMap
from saccade.views.html.binary import Array, gzip, numbers

THUMB = 64  # rows and columns of a thumbnail at most
STEPS = 255
# Into how many even steps small weights may be rounded, from fine to coarse; None: all 255 steps.
LEVELS = (None, 128, 64, 48, 32, 24, 16, 12, 10, 8, 7, 6, 5, 4)
LARGE = 0.5  # of the row's largest; above it all 255 steps are used whatever the level
ROWS_AT_ONCE = 2**24  # weights of the rows that are sorted together
TOGETHER = 2**18  # weights whose logarithms are taken together: they stay near the processor
SAMPLED = 2**20  # weights that the size of a page is guessed from
KEPT = (48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)  # weights of a row, where not all of them fit


def quantised(
    weights: Float[ndarray, "T S"], levels: int | None = None
) -> tuple[UInt8[ndarray, "T S"], Float[ndarray, "T"]]:
    """Weights as bytes q and the largest of each row: weight ≈ (q / 255)² · largest.

    The square keeps small weights apart. With ``levels`` those below half the largest are rounded first to even steps,
    ``levels`` to the largest, so that fewer different bytes are left and the page is smaller.
    """
    largest = weights.max(1, initial=0).astype(np.float32)
    share = weights / np.where(largest > 0, largest, 1)[:, None]
    if levels is not None:
        share = np.where(share > LARGE, share, np.rint(share * levels) * (1 / levels))
    np.sqrt(share, out=share)
    share *= STEPS
    return np.rint(share, out=share).astype(np.uint8), largest


def can_be_quantised(weights: Array) -> bool:
    """Bytes hold finite weights that are not below 0."""
    # A NaN anywhere makes the smallest and the largest NaN.
    return not weights.size or bool(weights.min() >= 0 and weights.max() < np.inf)


def finest(maps: Sequence[Float[ndarray, "T S"]], most: int) -> int | None:
    """The finest of ``LEVELS`` with which all maps fit into ``most`` bytes, judged by some of their rows; −1 where
    none does."""
    count = sum(weights.size for weights in maps)
    every = -(-count // SAMPLED)
    some = [weights[number % every :: every] for number, weights in enumerate(maps)]
    share = sum(weights.size for weights in some) / count if count else 1.0
    low, high = 0, len(LEVELS)
    while low < high:  # coarser levels never need more room
        middle = (low + high) // 2
        size = sum(len(gzip(quantised(weights, LEVELS[middle])[0])) for weights in some)
        low, high = (low, middle) if size <= most * share else (middle + 1, high)
    return LEVELS[low] if low < len(LEVELS) else -1


def most_a_row(maps: Sequence[AttentionMap], keep: int, room: int) -> int | None:
    """How many of the largest weights of each row fit into ``room`` bytes in all these maps together, judged by some of
    their rows; None where as many do as there are, or as ``keep`` of maps that hold all."""
    held = [map.tensors["weights"].shape[1] if map.kind == "top" else min(keep, map.keys) for map in maps]
    each = 4 + 1  # bytes of an index and of a weight before they are compressed
    if sum(map.queries * (each * k + 2 * 4) for map, k in zip(maps, held, strict=True)) <= room:
        return None
    every = -(-sum(map.queries * k for map, k in zip(maps, held, strict=True)) // (SAMPLED // 4))
    some = [_some_rows(map, keep, max(held), slice(number % every, None, every)) for number, map in enumerate(maps)]
    index, weights = (np.concatenate(parts) for parts in zip(*some, strict=True))
    share = len(weights) / max(1, sum(map.queries for map in maps))
    others = 2 * 4 * sum(map.queries for map in maps)  # what is left of each row, and its largest
    for k in (max(held), *(k for k in KEPT if k < max(held))):
        written = (np.ascontiguousarray(index[:, :k]), np.ascontiguousarray(_as_written(weights[:, :k])))
        if others + sum(len(gzip(part)) for part in written) / (share or 1) <= room:
            return None if k == max(held) else k
    return 0


def _some_rows(map: AttentionMap, keep: int, wide: int, rows: slice) -> tuple[Array, Array]:
    tensors = {name: tensor[rows] for name, tensor in map.tensors.items()}
    found = tensors if map.kind == "top" else top(tensors["weights"].detach().float(), keep)
    # Maps that hold fewer are filled up with zeros, which take no room.
    index, weights = (
        np.pad(numbers(found[name]), ((0, 0), (0, wide - found[name].shape[1]))) for name in ("index", "weights")
    )
    return index.astype(np.int32), weights


def _as_written(weights: Float[ndarray, "T k"]) -> Array:
    return quantised(weights)[0] if can_be_quantised(weights) else weights


def fewer(tensors: Mapping[str, Tensor], k: int) -> dict[str, Tensor]:
    """Of a map that kept its largest weights the ``k`` largest; the others join what is left of each row."""
    index, weights = tensors["index"], tensors["weights"]
    return {
        "index": index[:, :k],
        "weights": weights[:, :k],
        "residual": tensors["residual"] + weights[:, k:].sum(-1),
    }


def top(weights: Float[Tensor, "T S"], k: int) -> dict[str, Tensor]:
    """The ``k`` largest weights of each row, and the sum of the others."""
    parts = []
    for rows in weights.split(max(1, ROWS_AT_ONCE // max(1, weights.shape[1]))):
        kept, index = rows.topk(min(k, weights.shape[1]), dim=-1)
        # The sum of what is left, not a difference of sums: exactly 0 when nothing is, and never below.
        parts.append((index, kept, rows.scatter(-1, index, 0.0).sum(-1)))
    return {
        name: torch.cat(part)
        for name, part in zip(("index", "weights", "residual"), zip(*parts, strict=True), strict=True)
    }


def entropy(map: AttentionMap) -> float | None:
    """The mean entropy of a map's rows, in nats; None where it cannot be known."""
    if map.kind == "statistics":
        found = numbers(map.tensors["entropy"])
        return _finite(found.mean()) if found.size else None
    weights = numbers(map.tensors["weights"])
    if map.kind == "top" and not np.all(numbers(map.tensors["residual"]) <= 1e-6):
        return None  # how the residual mass is spread is not known
    rows = len(np.unique(numbers(map.tensors["edges"])[0])) if map.kind == "edges" else map.queries
    if not rows:
        return None
    flat, total = weights.reshape(-1), 0.0
    with np.errstate(all="ignore"):
        for part in (flat[start : start + TOGETHER] for start in range(0, flat.size, TOGETHER)):
            terms = np.log(np.maximum(part, np.finfo(part.dtype).tiny))
            terms *= part  # 0 · log 0 is 0; what is no number stays none
            total -= terms.sum(dtype=np.float64)
    return _finite(total / rows)


def _finite(figure: Any) -> float | None:
    return float(figure) + 0.0 if np.isfinite(figure) else None


def thumbnail(map: AttentionMap) -> UInt8[ndarray, "rows columns"] | None:
    """At most 64 × 64 bytes, each the largest weight of its part of the map: 255 · √(weight / largest of the map)."""
    T, S = map.queries, map.keys
    if map.kind == "statistics" or not T or not S:
        return None
    rows, columns = min(THUMB, T), min(THUMB, S)
    weights = numbers(map.tensors["weights"])
    if not can_be_quantised(weights):
        weights = np.where(np.isfinite(weights), weights, 0).clip(0, None)
    if map.kind == "dense":
        starts = [np.ceil(np.arange(parts) * size / parts).astype(int) for parts, size in ((rows, T), (columns, S))]
        pooled = np.maximum.reduceat(np.maximum.reduceat(weights, starts[0], 0), starts[1], 1)
    else:
        query, key = _places(map)
        pooled = np.zeros((rows, columns), weights.dtype)
        np.maximum.at(pooled, (query * rows // T, key * columns // S), weights)
    largest = pooled.max()
    return np.asarray(np.rint(np.sqrt(pooled / (largest if largest > 0 else 1)) * STEPS), np.uint8)


def _places(map: AttentionMap) -> tuple[Array, Array]:
    if map.kind == "edges":
        query, key = numbers(map.tensors["edges"])
        return query, key
    index = numbers(map.tensors["index"])
    return np.broadcast_to(np.arange(len(index))[:, None], index.shape), index
