"""Matrix products of features that skip invisible pairs: additive scores and the sums of their gradients (`separable_fused`).

    scores_ts = Σ_k of_query_tk of_key_sk          P_tk = Σ_s weights_ts of_key_sk          Q_sk = Σ_t weights_ts of_query_tk

A tile of scores without a visible pair is not computed; sums run over the keys that some row of the tile sees. Lengths stay
on the device, where a program reads its item's own. A mask saves nothing: its weights are 0, and its scores are hidden later.
Operands are float16, sums float32; each number of a result is computed by one program, so results are deterministic. An item
has fewer than 2³¹ features.

Operands come by pointers or, with DESCRIBED, by tensor descriptors, which an H200 copies without occupying threads; beyond
the last row and column of an item these read zeros. Sizes change from call to call and are not specialised on. The alignment
that vector accesses need is given by constants: rows of features are K apart; columns and strides of weights and scores are
counted in UNITs.

Legend: N items (batch × heads), T queries, S keys, W ≥ S columns of weights, K features of a row, M rows of a result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from saccade.errors import SaccadeError
from saccade.kernels.launching import on_device_of
from saccade.kernels.tiling import ceil_div, power_of_2
from saccade.kernels.visibility import Visibility

MOST_SHARE = 0.7
"""Share of visible tiles above which a library's product over all pairs is assumed to be as fast."""

LENGTHS_SHARE = 0.65
"""Share of the keys that lengths are assumed to leave: reading them would synchronise with the device."""

SHARE_TILE = 128
"""Side of the tiles by which shares are counted."""

LEAST_SIDE = 1024
"""Queries and keys from which skipping pays: at 512 a library's product is as fast on an H200."""

MULTIPROCESSORS = 132

Start = tuple[int, int, int]
"""Indices of a block's first item, query and key among all that a `Visibility` covers."""


@dataclass(frozen=True)
class Tiles:
    """A program has `rows` × `columns` of the result and sums `step` at a time, with `stages` steps in flight.

    `group` rows of tiles are processed together, column by column. `described` passes operands by tensor descriptors
    where they are aligned to 16 bytes, else by pointers. Sizes are powers of two, 16 at least.
    """

    rows: int
    columns: int
    step: int
    warps: int
    stages: int
    group: int = 8
    described: bool = False


@lru_cache
def score_tiles(N: int, T: int, S: int) -> Tiles:
    """Large tiles where they fill the device several times; else smaller ones, two per multiprocessor, which skip more."""
    if T > 64 and S > 128 and N * ceil_div(T, 128) * ceil_div(S, 256) >= 4 * MULTIPROCESSORS:
        return Tiles(128, 256, 64, warps=8, stages=3, described=True)
    return _square(T, S)


@lru_cache
def weighted_tiles(M: int, K: int) -> Tiles:
    """Sums are short: with two programs per multiprocessor one multiplies while the other stores."""
    return _square(M, K)


def _square(rows: int, columns: int) -> Tiles:
    """Up to 128 × 128. Four warps would spill registers where weights are read one by one."""
    rows, columns = (min(128, max(16, power_of_2(size))) for size in (rows, columns))
    warps = 8 if rows * columns == 128 * 128 else 4
    return Tiles(rows, columns, 64, warps=warps, stages=3, described=True)


def pays(visibility: Visibility, N: int, T: int, S: int) -> bool:
    """Whether skipping saves more time than a library's faster product; without synchronising with the device.

    Fewer tiles than multiprocessors take the time of one, however many are skipped.
    """
    if min(T, S) < LEAST_SIDE or N * ceil_div(T, SHARE_TILE) * ceil_div(S, SHARE_TILE) < MULTIPROCESSORS:
        return False
    share = _band_share(T, S, *visibility.bounds()) if visibility.banded else 1.0
    if visibility.lengths is not None and S > SHARE_TILE:
        share *= LENGTHS_SHARE
    return share < MOST_SHARE


@lru_cache(maxsize=1024)
def _band_share(T: int, S: int, low: int, high: int) -> float:
    """The share of tiles in which t + low ≤ s ≤ t + high for some t and s."""
    visible = 0
    for top in range(0, T, SHARE_TILE):
        first, last = max(0, top + low), min(S, min(top + SHARE_TILE, T) + high) - 1
        visible += max(0, last // SHARE_TILE - first // SHARE_TILE + 1) if last >= first else 0
    return visible / max(1, ceil_div(T, SHARE_TILE) * ceil_div(S, SHARE_TILE))


def scores_of(
    of_query: Float[Tensor, "N T K"],
    of_key: Float[Tensor, "N S K"],
    visibility: Visibility,
    heads: int = 1,
    *,
    start: Start = (0, 0, 0),
    out: Float[Tensor, "N T S"] | None = None,
    tile: Tiles | None = None,
) -> Float[Tensor, "N T S"]:
    """Products of float16 features in float32, 0 where lengths or band hide a key; a mask is left to be applied.

    ``out`` may be part of a larger tensor whose last axis lies without gaps.
    """
    (N, T, K), S = of_query.shape, of_key.shape[1]
    _check("of_query", of_query, (N, T, K))
    _check("of_key", of_key, (N, S, K))
    out = of_query.new_empty(N, T, S, dtype=torch.float32) if out is None else out
    _check("out", out, (N, T, S), torch.float32)
    if not out.numel():
        return out
    if out.stride(2) != 1:
        raise SaccadeError(f"visible_products: expected contiguous rows of out, found strides {tuple(out.stride())}")
    (of_query, query_rows), (of_key, key_rows) = _by_rows(of_query), _by_rows(of_key)
    tile = tile or score_tiles(N, T, S)
    unit = _unit(out, 4)
    given: tuple[Any, Any] = of_query, of_key
    described = tile.described and _aligned(of_query) and _aligned(of_key)
    if described:
        given = (
            TensorDescriptor.from_tensor(of_query, [1, tile.rows, tile.step]),
            TensorDescriptor.from_tensor(of_key, [1, tile.columns, tile.step]),
        )
    with on_device_of(out):
        scores_program[(N * ceil_div(T, tile.rows) * ceil_div(S, tile.columns),)](
            *given, visibility.pointers(out)[0], out, T, S // unit, query_rows, key_rows,
            out.stride(0) // unit, out.stride(1) // unit, heads, *_place(visibility, start),
            K=K, LENGTHS=visibility.lengths is not None, UNIT=unit, DESCRIBED=described,
            BT=tile.rows, BS=tile.columns, BK=tile.step, GROUP=tile.group, num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
    return out


def weighted(
    weights: Float[Tensor, "N T W"],
    features: Float[Tensor, "N L K"],
    visibility: Visibility,
    heads: int = 1,
    transposed: bool = False,
    *,
    start: Start = (0, 0, 0),
    out: Float[Tensor, "N M K"] | None = None,
    tile: Tiles | None = None,
) -> Float[Tensor, "N M K"]:
    """Σ_s weights_ts features_s [N, T, K] or, transposed, Σ_t weights_ts features_t [N, S, K], in float16.

    ``weights`` are 0 where lengths, band or mask hide a key. They may have more columns than there are keys, holding any
    finite numbers; transposed, S is then that of ``out``. Strides of their rows and items at multiples of 8 are fastest.
    """
    N, T, W = weights.shape
    L, K = features.shape[1:]
    M = (W if out is None else out.shape[1]) if transposed else T
    _check("weights", weights, (N, L, max(W, M)) if transposed else (N, T, max(W, L)), torch.float16)
    _check("features", features, (N, L, K))
    out = features.new_empty(N, M, K) if out is None else out
    _check("out", out, (N, M, K))
    if not out.is_contiguous():
        raise SaccadeError(f"visible_products: expected a contiguous out, found strides {tuple(out.stride())}")
    if not out.numel():
        return out
    weights = weights if weights.stride(2) == 1 else weights.contiguous()
    features, feature_rows = _by_rows(features)
    tile = tile or weighted_tiles(M, K)
    unit = _unit(weights, 8)
    first, first_key, low, high = _place(visibility, start)
    if transposed:
        low, high = -high, -low
    given: tuple[Any, Any] = weights, features
    described = tile.described and _aligned(weights) and _aligned(features)
    if described:
        shape = [1, tile.step, tile.rows] if transposed else [1, tile.rows, tile.step]
        given = (
            TensorDescriptor.from_tensor(weights, shape),
            TensorDescriptor.from_tensor(features, [1, tile.step, tile.columns]),
        )
    with on_device_of(out):
        weighted_program[(N * ceil_div(M, tile.rows) * ceil_div(K, tile.columns),)](
            *given, visibility.pointers(out)[0], out, M, L, W // unit, weights.stride(0) // unit, weights.stride(1) // unit,
            feature_rows, M, heads, first, first_key, low, high,
            K=K, LENGTHS=visibility.lengths is not None, UNIT=unit, TRANSPOSED=transposed, DESCRIBED=described,
            BM=tile.rows, BL=tile.step, BK=tile.columns, GROUP=tile.group, num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
    return out


def _place(visibility: Visibility, start: Start) -> tuple[int, int, int, int]:
    """The first item and key, and the band as low ≤ s − t ≤ high relative to the first query and key."""
    item, query, key = start
    low, high = visibility.bounds()
    return item, key, low + query - key, high + query - key


def _by_rows(features: Tensor) -> tuple[Tensor, int]:
    """Features with contiguous rows, and the number of rows from one item to the next."""
    K = max(1, features.shape[2])
    if features.stride(2) != 1 or features.stride(1) != K or features.stride(0) % K:
        features = features.contiguous()
    return features, features.stride(0) // K


def _unit(tensor: Tensor, most: int) -> int:
    """The unit in which its columns and strides can be counted: a power of two up to ``most``."""
    return math.gcd(most, tensor.shape[2], tensor.stride(0), tensor.stride(1))


def _aligned(tensor: Tensor) -> bool:
    """Whether a tensor descriptor can describe it: rows and items start at multiples of 16 bytes."""
    return bool(tensor.numel()) and not (tensor.data_ptr() % 16 or tensor.stride(0) % 8 or tensor.stride(1) % 8)


def _check(name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype = torch.float16) -> None:
    if tensor.shape != shape or tensor.dtype != dtype:
        found = f"{tuple(tensor.shape)} of {tensor.dtype}"
        raise SaccadeError(f"visible_products: expected {name} {shape} of {dtype}, found {found}")


# ---- Programs ----------------------------------------------------------------------------------------------------------


@triton.jit
def _tile(program, down, across, GROUP: tl.constexpr):
    """Item, row and column of a program's tile: GROUP rows of tiles at a time, so that programs side by side share operands."""
    n = program // (down * across)
    place = program % (down * across)
    first = place // (GROUP * across) * GROUP
    rows = tl.minimum(down - first, GROUP)
    place -= first * across
    return n, first + place % rows, place // rows


@triton.jit
def _reach(lengths, n, S, heads, first, first_key, LENGTHS: tl.constexpr):
    """How many of S keys, which follow `first_key` others, item n has."""
    reach = S
    if LENGTHS:
        reach = tl.minimum(tl.load(lengths + (first + n) // heads) - first_key, S).to(tl.int32)
    return reach


@triton.jit(
    do_not_specialize=["T", "columns", "query_rows", "key_rows", "out_item", "out_row", "heads", "first", "first_key",
                       "low", "high"]
)  # fmt: skip
def scores_program(
    of_query, of_key, lengths, out, T, columns, query_rows, key_rows, out_item, out_row, heads, first, first_key, low, high,
    K: tl.constexpr, LENGTHS: tl.constexpr, UNIT: tl.constexpr, DESCRIBED: tl.constexpr,
    BT: tl.constexpr, BS: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """out_ts = Σ_k of_query_tk of_key_sk where low ≤ s − t ≤ high and s is within the length, else 0.

    Items lie `query_rows` and `key_rows` rows apart.
    """
    S = columns * UNIT
    n, tb, sb = _tile(tl.program_id(0), tl.cdiv(T, BT), tl.cdiv(S, BS), GROUP)
    t = tb * BT + tl.arange(0, BT)
    s = sb * BS + tl.arange(0, BS)
    reach = _reach(lengths, n, S, heads, first, first_key, LENGTHS)
    last = tl.minimum(tb * BT + BT, T) - 1
    some = (sb * BS < reach) & (sb * BS + BS > tb * BT + low) & (sb * BS <= last + high)
    stop = tl.where(some, K, 0)
    total = tl.zeros([BT, BS], dtype=tl.float32)
    if DESCRIBED:
        for place in range(0, stop, BK):
            queries = tl.reshape(of_query.load([n, tb * BT, place]), [BT, BK])
            keys = tl.reshape(of_key.load([n, sb * BS, place]), [BS, BK])
            total = tl.dot(queries, keys.T, total)
    else:
        k = tl.arange(0, BK)
        # A row beyond the last is read as the last one; its result is not stored.
        query_at = of_query + n.to(tl.int64) * query_rows * K + (tl.minimum(t, T - 1)[:, None] * K + k[None, :])
        key_at = of_key + n.to(tl.int64) * key_rows * K + (tl.minimum(s, S - 1)[:, None] * K + k[None, :])
        for place in range(0, stop, BK):
            if K % BK == 0:
                queries = tl.load(query_at)
                keys = tl.load(key_at)
            else:
                queries = tl.load(query_at, mask=(place + k < K)[None, :], other=0.0)
                keys = tl.load(key_at, mask=(place + k < K)[None, :], other=0.0)
            total = tl.dot(queries, keys.T, total)
            query_at += BK
            key_at += BK
    visible = (s[None, :] >= (t + low)[:, None]) & (s[None, :] < tl.minimum(t + high + 1, reach)[:, None])
    out += n.to(tl.int64) * out_item * UNIT
    place = t.to(tl.int64)[:, None] * (out_row * UNIT) + s[None, :]
    tl.store(out + place, tl.where(visible, total, 0.0), mask=(t < T)[:, None] & (s < S)[None, :])


@triton.jit(
    do_not_specialize=["M", "L", "columns", "weight_item", "weight_row", "feature_rows", "out_rows", "heads", "first",
                       "first_key", "low", "high"]
)  # fmt: skip
def weighted_program(
    weights, features, lengths, out, M, L, columns, weight_item, weight_row, feature_rows, out_rows, heads, first, first_key,
    low, high,
    K: tl.constexpr, LENGTHS: tl.constexpr, UNIT: tl.constexpr, TRANSPOSED: tl.constexpr, DESCRIBED: tl.constexpr,
    BM: tl.constexpr, BL: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """out_mk = Σ_l weights_ml features_lk over the l that some row m of the tile sees: low ≤ l − m ≤ high, and lengths.

    Weights are [N, M, L], and with TRANSPOSED [N, L, M], where lengths end the rows m and not l. `columns` UNITs of their
    last axis may be read.
    """
    n, mb, kb = _tile(tl.program_id(0), tl.cdiv(M, BM), tl.cdiv(K, BK), GROUP)
    m = mb * BM + tl.arange(0, BM)
    k = kb * BK + tl.arange(0, BK)
    rows = M
    stop = L
    if TRANSPOSED:
        rows = _reach(lengths, n, M, heads, first, first_key, LENGTHS)
    else:
        stop = _reach(lengths, n, L, heads, first, first_key, LENGTHS)
    start = tl.maximum(mb * BM + low, 0)
    stop = tl.minimum(stop, tl.minimum(mb * BM + BM, rows) + high)
    stop = tl.where((start < stop) & (mb * BM < rows), stop, 0)
    start = start // BL * BL  # whole steps, so that accesses stay aligned
    total = tl.zeros([BM, BK], dtype=tl.float32)
    if DESCRIBED:
        for place in range(start, stop, BL):
            if TRANSPOSED:
                part = tl.reshape(weights.load([n, place, mb * BM]), [BL, BM]).T
            else:
                part = tl.reshape(weights.load([n, mb * BM, place]), [BM, BL])
            total = tl.dot(part, tl.reshape(features.load([n, place, kb * BK]), [BL, BK]), total)
    else:
        along = start + tl.arange(0, BL)
        weights += n.to(tl.int64) * weight_item * UNIT
        if TRANSPOSED:
            weight_at = weights + (along.to(tl.int64)[:, None] * (weight_row * UNIT) + m[None, :])
        else:
            weight_at = weights + (tl.minimum(m, M - 1).to(tl.int64)[:, None] * (weight_row * UNIT) + along[None, :])
        feature_at = features + n.to(tl.int64) * feature_rows * K + (along[:, None] * K + k[None, :])
        for place in range(start, stop, BL):
            here = place + tl.arange(0, BL)
            if TRANSPOSED:
                part = tl.load(weight_at, mask=(here < stop)[:, None] & (m < columns * UNIT)[None, :], other=0.0).T
                weight_at += BL * weight_row * UNIT
            else:
                part = tl.load(weight_at, mask=(here < columns * UNIT)[None, :], other=0.0)
                weight_at += BL
            exists = (here < stop)[:, None]
            if K % BK != 0:
                exists &= (k < K)[None, :]
            total = tl.dot(part, tl.load(feature_at, mask=exists, other=0.0), total)
            feature_at += BL * K
    out += n.to(tl.int64) * out_rows * K
    inside = (m < M)[:, None]
    if K % BK != 0:
        inside &= (k < K)[None, :]
    tl.store(out + (m[:, None] * K + k[None, :]), total.to(out.dtype.element_ty), mask=inside)
