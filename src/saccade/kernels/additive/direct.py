"""Additive scores, vᵀ tanh(q + k), and their three gradients in Triton: float32, any magnitude, nothing of size T × S × D.

Each tanh is computed where it is used, forward and again backward (direct_forms.py has the formulas). With g the gradient
of the scores,

    score_ts = Σ_d v_d tanh(q_td + k_sd)
    ∂q_td = v_d Σ_s g_ts (1 − tanh²)     ∂k_sd = v_d Σ_t g_ts (1 − tanh²)     ∂v_d = Σ_ts g_ts tanh

Scores: rows are prepared and transposed first, so that for each d the rows of a block lie side by side; then a tile runs
through d four at a time. Gradients: a program has 32 columns of one item, and a thread one column d. It holds some keys and
their ∂k and steps through the queries two at a time, each warp at other queries. Σ_s over the keys it holds goes to ∂q,
which the program reads and writes again for its next keys; Σ_t stays in the thread until the warps' shares are added.

Every sum runs inside one thread, so a tanh serves all three gradients at once and no two threads add to one number: results
are deterministic. Pairs outside lengths and band cost nothing.
Legend: N items with heads (item n is head n mod heads of batch n div heads), T queries, S keys, D width, G rows of v.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from saccade.errors import SaccadeError
from saccade.kernels.additive.direct_forms import (
    FAST,
    LANES,
    LARGE_FORM,
    LARGEST_REACH,
    MODERATE_FORM,
    SMALL_FORM,
    Guard,
    denominator,
    excess,
    form_number,
    form_of,
    largest,
    prepared,
    reciprocal,
    within,
)
from saccade.kernels.additive.engines import Begun, Engine
from saccade.kernels.additive.tables import Table
from saccade.kernels.launching import launch
from saccade.kernels.visibility import Visibility


@dataclass(frozen=True)
class Tiles:
    """A score tile has `queries` · `warps` rows and 32 · `columns` columns; a step of the gradients takes 2 · `warps`
    queries against `keys` keys. Powers of two."""

    warps: int
    queries: int = 8
    columns: int = 4
    keys: int = 16
    registers: int | None = None  # per thread at most; more would leave too few threads
    parts: int = 1  # programs that share the keys of one item in the gradients, each with its own ∂q


def score_tiles(T: int, S: int, form: str) -> Tiles:
    """Four rows and four columns per thread: the fastest of the tiles tried on an H200, by a tenth over eight rows."""
    queries = 4
    warps = min(4, triton.next_power_of_2(triton.cdiv(T, queries)))
    columns = min(4, triton.next_power_of_2(triton.cdiv(S, 32)))
    return Tiles(warps=warps, queries=queries, columns=columns, registers=None if form == "large" else 128)


def gradient_tiles(N: int, T: int, S: int, D: int, form: str) -> Tiles:
    """Two programs of eight warps per multiprocessor (132 of them); where there are too few items, programs share the keys."""
    warps = min(8, triton.next_power_of_2(triton.cdiv(T, 2)))
    keys = 8  # `keys` × `warps` gradients of scores are loaded at once, and must be fewer than the threads
    wanted = 264 * 8 // (warps * N * triton.cdiv(D, 32))
    affordable = (1 << 28) // (4 * N * T * D)
    parts = max(1, min(wanted, affordable, triton.cdiv(S, keys)))
    return Tiles(warps=warps, keys=keys, registers=128, parts=parts)


def scores(
    query: Float[Tensor, "N T D"],
    key: Float[Tensor, "N S D"],
    v: Float[Tensor, "G D"],
    visibility: Visibility,
    *,
    heads: int = 1,
    form: str | None = None,
    out: Float[Tensor, "N T S"] | None = None,
    guard: Guard | None = None,
) -> Float[Tensor, "N T S"]:
    """Score every query against every key, in float32; −inf where a query does not see a key.

    Item n takes row n mod G of `v` (G is 1, heads or N). `form` is one of `direct_forms.FORMS`; None chooses by the rows.
    With a `guard` scores are written only beyond its limit; otherwise `out` keeps its content.
    """
    _check(query, key, v)
    (N, T, D), S = query.shape, key.shape[1]
    out = torch.empty(N, T, S, dtype=torch.float32, device=query.device) if out is None else out
    if out.numel() == 0:
        return out
    form = form or form_of(query, key)
    tile = score_tiles(T, S, form)
    BT, BS = tile.queries * tile.warps, 32 * tile.columns
    v = v.float().contiguous()
    query_rows, scaled_rows, key_rows, width = _transposed(query, key, v, BT, BS, form, guard)
    v = F.pad(v, (0, width - D)) if width > D else v
    lengths, mask, strides = visibility.pointers(query)
    low, high = visibility.bounds()
    reach, limit = _guarding(guard, query)
    launch(
        scores_kernel, N * triton.cdiv(T, BT) * triton.cdiv(S, BS),
        (query_rows, scaled_rows, key_rows, v, lengths, mask, out, reach),
        (T, S, width, v.shape[0], heads, low, high, *strides, limit),
        FORM=form_number(form), LENGTHS=visibility.lengths is not None, MASK=visibility.mask is not None,
        QUERIES=tile.queries, WARPS=tile.warps, COLUMNS=tile.columns, FAST=FAST,
        GUARD=guard is not None, num_warps=tile.warps, num_stages=1, enable_fp_fusion=True, **_limit(tile),
    )  # fmt: skip
    return out


def gradients(
    query: Float[Tensor, "N T D"],
    key: Float[Tensor, "N S D"],
    v: Float[Tensor, "G D"],
    grad_scores: Float[Tensor, "N T S"],
    visibility: Visibility,
    *,
    heads: int = 1,
    form: str | None = None,
    guard: Guard | None = None,
) -> tuple[Float[Tensor, "N T D"], Float[Tensor, "N S D"], Float[Tensor, "N D"]]:
    """The gradients of query, key and, per item, v, in float32. `grad_scores` is 0 where a key is not visible.

    With a `guard` they are undefined up to its limit, and correct beyond it.
    """
    _check(query, key, v)
    (N, T, D), S = query.shape, key.shape[1]
    grad_key = torch.empty(N, S, D, dtype=torch.float32, device=query.device)
    if N * T * S * D == 0:
        return grad_key.new_zeros(N, T, D), grad_key.zero_(), grad_key.new_zeros(N, D)
    form = form or form_of(query, key)
    tile = gradient_tiles(N, T, S, D, form)
    grad_query = grad_key.new_zeros(N, tile.parts, T, D)
    grad_v = grad_key.new_empty(N, tile.parts, D)
    weight = grad_scores.float()
    if S % tile.keys:
        weight = F.pad(weight, (0, -S % tile.keys))  # whole tiles are loaded without a mask, four numbers at a time
    lengths, _, _ = visibility.pointers(query)
    low, high = visibility.bounds()
    reach, limit = _guarding(guard, query)
    launch(
        gradients_kernel, N * tile.parts * triton.cdiv(D, 32),
        (_prepared(query, form, guard), key.contiguous(), v.float().contiguous(), weight.contiguous(), lengths,
         grad_query, grad_key, grad_v, reach),
        (T, S, weight.shape[-1], D, v.shape[0], heads, low, high, tile.parts, limit),
        FORM=form_number(form), LENGTHS=visibility.lengths is not None, KEYS=tile.keys, WARPS=tile.warps, FAST=FAST,
        GUARD=guard is not None, num_warps=tile.warps, num_stages=1, enable_fp_fusion=True, **_limit(tile),
    )  # fmt: skip
    return grad_query[:, 0] if tile.parts == 1 else grad_query.sum(1), grad_key, grad_v.sum(1)


def _check(query: Tensor, key: Tensor, v: Tensor) -> None:
    if torch.float64 in (query.dtype, key.dtype, v.dtype):
        raise SaccadeError(
            "additive.direct computes in float32, found float64; additive.blocked and additive.reference serve float64"
        )
    N, _, D = query.shape
    if (key.shape[0], key.shape[2], v.shape[-1]) != (N, D, D) or v.dim() != 2 or (v.shape[0] and N % v.shape[0]):
        raise SaccadeError(
            "additive.direct: expected query [N, T, D], key [N, S, D] and v [G, D] with G a divisor of N, found "
            f"{list(query.shape)}, {list(key.shape)} and {list(v.shape)}"
        )


def _limit(tile: Tiles) -> dict[str, int]:
    return {} if tile.registers is None or not FAST else {"maxnreg": tile.registers}


def _guarding(guard: Guard | None, beside: Tensor) -> tuple[Tensor, int]:
    """The reach and the limit as programs take them; placeholders, never read, without a guard."""
    return (beside, 0) if guard is None else (guard.reach, guard.limit_bits)


def _prepared(query: Tensor, form: str, guard: Guard | None) -> Tensor:
    """Prepared rows in their own order, float32."""
    query = query.contiguous()
    if form == "large" and query.dtype is torch.float32:
        return query
    rows = torch.empty(query.shape, dtype=torch.float32, device=query.device)
    size, (reach, limit) = rows.numel(), _guarding(guard, query)
    constants = {"FORM": form_number(form), "FAST": FAST, "GUARD": guard is not None, "BLOCK": 1024, "num_warps": 4}
    launch(rows_kernel, triton.cdiv(size, 1024), (query, rows, reach), (size, limit), **constants)
    return rows


def _transposed(
    query: Tensor, key: Tensor, v: Tensor, BT: int, BS: int, form: str, guard: Guard | None
) -> tuple[Tensor, Tensor, Tensor, int]:
    """Prepared rows cut into blocks of BT or BS, each [width, block], so that the rows of a block lie side by side for
    every d; blocks are padded. Width is D rounded up to a multiple of 4. The second is v tanh q, in the small form only.
    """
    (N, T, D), S = query.shape, key.shape[1]
    width = -(-D // 4) * 4
    TB, SB = triton.cdiv(T, BT), triton.cdiv(S, BS)
    query_rows, key_rows = (
        torch.empty(N * blocks * width * block, dtype=torch.float32, device=query.device)
        for blocks, block in ((TB, BT), (SB, BS))
    )
    scaled_rows = torch.empty_like(query_rows) if form == "small" else query_rows
    tiles_of_query, tiles_of_key = triton.cdiv(TB * BT, 32), triton.cdiv(SB * BS, 32)
    reach, limit = _guarding(guard, query)
    launch(
        transpose_kernel, N * (tiles_of_query + tiles_of_key) * triton.cdiv(width, 32),
        (query.contiguous(), key.contiguous(), v, query_rows, scaled_rows, key_rows, reach),
        (N, T, S, D, width, v.shape[0], tiles_of_query, tiles_of_key, limit),
        BT=BT, BS=BS, FORM=form_number(form), FAST=FAST, GUARD=guard is not None, num_warps=4,
    )  # fmt: skip
    return query_rows, scaled_rows, key_rows, width


# ---- Programs: scores --------------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["limit"])
def transpose_kernel(
    query, key, v, query_rows, scaled_rows, key_rows, reach,
    N, T, S, D, width, G, tiles_of_query, tiles_of_key, limit,
    BT: tl.constexpr, BS: tl.constexpr, FORM: tl.constexpr, FAST: tl.constexpr, GUARD: tl.constexpr,
):  # fmt: skip
    """Programs for the queries' tiles of 32 × 32, then for the keys'. With GUARD, only beyond the limit."""
    if GUARD:  # noqa: SIM102 (Triton would load what `and` has on its right)
        if within(reach, limit):
            return
    slices = tl.cdiv(width, 32)
    tile = tl.program_id(0) // slices
    d = (tl.program_id(0) % slices) * 32 + tl.arange(0, 32)
    if tile < N * tiles_of_query:
        n = tile // tiles_of_query
        t = (tile % tiles_of_query) * 32 + tl.arange(0, 32)
        rows = _turned(query, query_rows, n, t, d, T, D, width, BT, FORM, FAST)
        if FORM == SMALL_FORM:
            factor = tl.load(v + (n % G) * D + d, mask=d < D, other=0.0)
            _store_turned(scaled_rows, factor[None, :] * rows, n, t, d, T, width, BT)
    else:
        tile -= N * tiles_of_query
        n = tile // tiles_of_key
        s = (tile % tiles_of_key) * 32 + tl.arange(0, 32)
        _turned(key, key_rows, n, s, d, S, D, width, BS, FORM, FAST)


@triton.jit
def _turned(rows, out, n, t, d, T, D, width, BLOCK: tl.constexpr, FORM: tl.constexpr, FAST: tl.constexpr):
    place = (n.to(tl.int64) * T + t[:, None]) * D + d[None, :]
    ready = prepared(tl.load(rows + place, mask=(t[:, None] < T) & (d[None, :] < D), other=0.0), FORM, FAST)
    _store_turned(out, ready, n, t, d, T, width, BLOCK)
    return ready


@triton.jit
def _store_turned(out, ready, n, t, d, T, width, BLOCK: tl.constexpr):
    blocks = tl.cdiv(T, BLOCK)
    block = n.to(tl.int64) * blocks + t[:, None] // BLOCK
    place = (block * width + d[None, :]) * BLOCK + t[:, None] % BLOCK
    tl.store(out + place, ready, mask=(t[:, None] < blocks * BLOCK) & (d[None, :] < width))


@triton.jit
def _quad(total, query_rows, scaled_rows, key_rows, q0, q1, q2, q3, v0, v1, v2, v3,
          BT: tl.constexpr, BS: tl.constexpr, FORM: tl.constexpr, FAST: tl.constexpr):  # fmt: skip
    """total + Σ v y over four neighbours in d, with one reciprocal:

    a₀/x₀ + a₁/x₁ = (a₀x₁ + a₁x₀) / (x₀x₁), twice over; a is v, or v (tanh q + tanh k) in the small form.
    """
    k0 = tl.load(key_rows)
    k1 = tl.load(key_rows + BS)
    k2 = tl.load(key_rows + 2 * BS)
    k3 = tl.load(key_rows + 3 * BS)
    x0 = denominator(q0, k0, FORM, FAST)
    x1 = denominator(q1, k1, FORM, FAST)
    x2 = denominator(q2, k2, FORM, FAST)
    x3 = denominator(q3, k3, FORM, FAST)
    left = x0 * x1
    right = x2 * x3
    if FORM == SMALL_FORM:
        a0 = tl.fma(v0, k0, tl.load(scaled_rows))
        a1 = tl.fma(v1, k1, tl.load(scaled_rows + BT))
        a2 = tl.fma(v2, k2, tl.load(scaled_rows + 2 * BT))
        a3 = tl.fma(v3, k3, tl.load(scaled_rows + 3 * BT))
        above = tl.fma(tl.fma(a0, x1, a1 * x0), right, tl.fma(a2, x3, a3 * x2) * left)
        return tl.fma(above, reciprocal(left * right, FAST), total)
    else:
        above = tl.fma(tl.fma(v0, x1, v1 * x0), right, tl.fma(v2, x3, v3 * x2) * left)
        # Half of Σ v goes out here and not at the end: the running sum stays as small as what it sums to.
        half = 0.5 * ((v0 + v1) + (v2 + v3))
        return tl.fma(above, reciprocal(left * right, FAST), total - half)


@triton.jit
def _store_scores(out, total, lengths, mask, n, t, s, T, S, heads, low, high,
                  mask_batch, mask_head, mask_query, mask_key,
                  FORM: tl.constexpr, LENGTHS: tl.constexpr, MASK: tl.constexpr):  # fmt: skip
    inside = (t < T) & (s < S)
    visible = (s >= t + low) & (s <= t + high)
    if LENGTHS:
        visible = visible & (s < tl.load(lengths + n // heads))
    if MASK:
        first = (n // heads) * mask_batch + (n % heads) * mask_head
        given = tl.load(mask + first + t.to(tl.int64) * mask_query + s.to(tl.int64) * mask_key, mask=inside, other=0)
        visible = visible & (given != 0)
    if FORM != SMALL_FORM:
        total = -2.0 * total
    tl.store(out + (n * T + t) * S + s, tl.where(visible, total, float("-inf")), mask=inside)


@triton.jit(do_not_specialize=["heads", "low", "high", "mask_batch", "mask_head", "mask_query", "mask_key", "limit"])
def scores_kernel(
    query_rows, scaled_rows, key_rows, v, lengths, mask, out, reach,
    T, S, width, G, heads, low, high, mask_batch, mask_head, mask_query, mask_key, limit,
    FORM: tl.constexpr, LENGTHS: tl.constexpr, MASK: tl.constexpr,
    QUERIES: tl.constexpr, WARPS: tl.constexpr, COLUMNS: tl.constexpr, FAST: tl.constexpr, GUARD: tl.constexpr,
):  # fmt: skip
    """One tile of scores. Axes of its parts: queries of a thread, warps, lanes; up to four parts lie side by side.

    The numbers that one part loads for a d are no more than its threads: the compiler then lets each thread load
    what it needs straight from the cache instead of passing it through shared memory.
    """
    if GUARD:  # noqa: SIM102 (Triton would load what `and` has on its right)
        if within(reach, limit):
            return
    BT: tl.constexpr = QUERIES * WARPS
    BS: tl.constexpr = LANES * COLUMNS
    SB = tl.cdiv(S, BS)
    TB = tl.cdiv(T, BT)
    sb = tl.program_id(0) % SB
    tb = (tl.program_id(0) // SB) % TB
    n = (tl.program_id(0) // (SB * TB)).to(tl.int64)
    row = tl.arange(0, QUERIES)[:, None, None] + QUERIES * tl.arange(0, WARPS)[None, :, None]
    column = tl.arange(0, LANES)[None, None, :]

    real = S
    if LENGTHS:
        real = tl.minimum(S, tl.load(lengths + n // heads)).to(tl.int32)
    some = (sb * BS < real) & (sb * BS + BS > tb * BT + low) & (sb * BS <= tb * BT + BT - 1 + high)
    stop = tl.where(some, width, 0)

    query_rows += (n * TB + tb) * width * BT
    scaled_rows += (n * TB + tb) * width * BT
    key_rows += (n * SB + sb) * width * BS
    v += (n % G) * width
    total0 = tl.zeros([QUERIES, WARPS, LANES], tl.float32)
    total1 = tl.zeros([QUERIES, WARPS, LANES], tl.float32)
    total2 = tl.zeros([QUERIES, WARPS, LANES], tl.float32)
    total3 = tl.zeros([QUERIES, WARPS, LANES], tl.float32)
    queries = query_rows + row
    scaled = scaled_rows + row
    keys = key_rows + column
    for d in range(0, stop, 4):
        v0 = tl.load(v + d)
        v1 = tl.load(v + d + 1)
        v2 = tl.load(v + d + 2)
        v3 = tl.load(v + d + 3)
        q0 = tl.load(queries)
        q1 = tl.load(queries + BT)
        q2 = tl.load(queries + 2 * BT)
        q3 = tl.load(queries + 3 * BT)
        total0 = _quad(total0, queries, scaled, keys, q0, q1, q2, q3, v0, v1, v2, v3, BT, BS, FORM, FAST)
        if COLUMNS > 1:
            total1 = _quad(total1, queries, scaled, keys + 32, q0, q1, q2, q3, v0, v1, v2, v3, BT, BS, FORM, FAST)
        if COLUMNS > 2:
            total2 = _quad(total2, queries, scaled, keys + 64, q0, q1, q2, q3, v0, v1, v2, v3, BT, BS, FORM, FAST)
            total3 = _quad(total3, queries, scaled, keys + 96, q0, q1, q2, q3, v0, v1, v2, v3, BT, BS, FORM, FAST)
        queries += 4 * BT
        scaled += 4 * BT
        keys += 4 * BS

    t = tb * BT + row
    s = sb * BS + column
    _store_scores(out, total0, lengths, mask, n, t, s, T, S, heads, low, high,
                  mask_batch, mask_head, mask_query, mask_key, FORM, LENGTHS, MASK)  # fmt: skip
    if COLUMNS > 1:
        _store_scores(out, total1, lengths, mask, n, t, s + 32, T, S, heads, low, high,
                      mask_batch, mask_head, mask_query, mask_key, FORM, LENGTHS, MASK)  # fmt: skip
    if COLUMNS > 2:
        _store_scores(out, total2, lengths, mask, n, t, s + 64, T, S, heads, low, high,
                      mask_batch, mask_head, mask_query, mask_key, FORM, LENGTHS, MASK)  # fmt: skip
        _store_scores(out, total3, lengths, mask, n, t, s + 96, T, S, heads, low, high,
                      mask_batch, mask_head, mask_query, mask_key, FORM, LENGTHS, MASK)  # fmt: skip


# ---- Programs: gradients -----------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["limit"])
def rows_kernel(
    rows, out, reach, size, limit, FORM: tl.constexpr, FAST: tl.constexpr, GUARD: tl.constexpr, BLOCK: tl.constexpr
):
    """Prepared rows. With GUARD, only beyond the limit."""
    if GUARD:  # noqa: SIM102 (Triton would load what `and` has on its right)
        if within(reach, limit):
            return
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + place, prepared(tl.load(rows + place, mask=place < size, other=0.0), FORM, FAST), mask=place < size)


@triton.jit
def _pair(q0, q1, keys, g0, g1, FORM: tl.constexpr, FAST: tl.constexpr):
    """Two queries against the same keys, with one reciprocal (large keeps a NaN from its neighbour: two).

    For each: two factors of g (1 − tanh²) / gain², and g tanh / gain; gain is −2, and 1 in the small form. Where tanh may
    come near 1, 1 − tanh² is 4 (1/x) (e/x) with e = x − 1, good to its last places however small it is; elsewhere
    1 − tanh · tanh is as good as that, and quicker.
    """
    if FORM == SMALL_FORM:
        x0 = denominator(q0, keys, FORM, FAST)
        x1 = denominator(q1, keys, FORM, FAST)
        shared = reciprocal(x0 * x1, FAST)
        tanh0 = (q0 + keys) * (x1 * shared)
        tanh1 = (q1 + keys) * (x0 * shared)
        return g0, 1.0 - tanh0 * tanh0, g0 * tanh0, g1, 1.0 - tanh1 * tanh1, g1 * tanh1
    elif FORM == MODERATE_FORM:
        x0 = denominator(q0, keys, FORM, FAST)
        x1 = denominator(q1, keys, FORM, FAST)
        shared = reciprocal(x0 * x1, FAST)
        half0 = tl.fma(x1, shared, -0.5)
        half1 = tl.fma(x0, shared, -0.5)
        return g0, 0.25 - half0 * half0, g0 * half0, g1, 0.25 - half1 * half1, g1 * half1
    else:
        e0 = excess(q0, keys, FORM, FAST)
        e1 = excess(q1, keys, FORM, FAST)
        x0 = 1.0 + e0
        x1 = 1.0 + e1
        if FORM == LARGE_FORM:
            r0 = reciprocal(x0, FAST)
            r1 = reciprocal(x1, FAST)
        else:
            shared = reciprocal(x0 * x1, FAST)
            r0 = x1 * shared
            r1 = x0 * shared
        return g0 * r0, e0 * r0, g0 * (r0 - 0.5), g1 * r1, e1 * r1, g1 * (r1 - 0.5)


@triton.jit
def _step(queries, grads, weights, keys, own, turn, factor, place, weight_place, D, columns, seen0, seen1,
          here0, here1, MASKED: tl.constexpr, WARPS: tl.constexpr, FORM: tl.constexpr, FAST: tl.constexpr):  # fmt: skip
    """Two queries of every warp: the ones at `queries`, and WARPS further on. Gives the keys' own sums and those of v."""
    q0 = tl.load(queries + place, mask=here0, other=0.0)
    q1 = tl.load(queries + place + WARPS * D, mask=here1, other=0.0)
    old0 = tl.load(grads + place, mask=here0, other=0.0)
    old1 = tl.load(grads + place + WARPS * D, mask=here1, other=0.0)
    if MASKED:
        g0 = tl.load(weights + weight_place, mask=seen0, other=0.0)
        g1 = tl.load(weights + weight_place + WARPS * columns, mask=seen1, other=0.0)
    else:
        g0 = tl.load(weights + weight_place)
        g1 = tl.load(weights + weight_place + WARPS * columns)
    a0, b0, turn0, a1, b1, turn1 = _pair(q0[None, :, :], q1[None, :, :], keys, g0, g1, FORM, FAST)
    tl.store(grads + place, tl.fma(factor, tl.sum(a0 * b0, axis=0), old0), mask=here0)
    tl.store(grads + place + WARPS * D, tl.fma(factor, tl.sum(a1 * b1, axis=0), old1), mask=here1)
    return tl.fma(a1, b1, tl.fma(a0, b0, own)), (turn + turn0) + turn1


@triton.jit(do_not_specialize=["heads", "low", "high", "parts", "limit"])
def gradients_kernel(
    query_rows, key, v, weight, lengths, grad_query, grad_key, grad_v, reach,
    T, S, columns, D, G, heads, low, high, parts, limit,
    FORM: tl.constexpr, LENGTHS: tl.constexpr, KEYS: tl.constexpr, WARPS: tl.constexpr, FAST: tl.constexpr,
    GUARD: tl.constexpr,
):  # fmt: skip
    """Axes of a tile: keys of a thread, warps (queries), lanes (columns d).

    Keys are loaded row by row: loaded as a tile, the compiler would give a thread four neighbouring columns, and a sum
    over keys would have to cross threads.
    """
    if GUARD:  # noqa: SIM102 (Triton would load what `and` has on its right)
        if within(reach, limit):
            return
    slices = tl.cdiv(D, LANES)
    part = (tl.program_id(0) // slices) % parts
    n = (tl.program_id(0) // (slices * parts)).to(tl.int64)
    d = (tl.program_id(0) % slices) * LANES + tl.arange(0, LANES)
    inside = (d < D)[None, :]
    warp = tl.arange(0, WARPS)
    own_key = tl.arange(0, KEYS)
    place = warp[:, None] * D + d[None, :]
    weight_place = own_key[:, None, None] + columns * warp[None, :, None]
    factor = tl.load(v + (n % G) * D + d, mask=d < D, other=0.0)[None, :]
    if FORM != SMALL_FORM:
        factor = 4.0 * factor  # gain²
    real = S
    if LENGTHS:
        real = tl.minimum(S, tl.load(lengths + n // heads)).to(tl.int32)
    query_rows += n * T * D
    grad_query += (n * parts + part) * T * D
    weight += n * T * columns

    turns = tl.zeros([WARPS, LANES], tl.float32)
    for s in range(part * KEYS, S, parts * KEYS):
        keys = tl.zeros([KEYS, WARPS, LANES], tl.float32)
        for i in tl.static_range(KEYS):
            row = tl.load(key + (n * S + s + i) * D + d, mask=d < tl.where(s + i < real, D, 0), other=0.0)
            keys = tl.where(own_key[:, None, None] == i, row[None, None, :].to(tl.float32), keys)
        keys = prepared(keys, FORM, FAST)
        own = tl.zeros([KEYS, WARPS, LANES], tl.float32)
        turn = tl.zeros([KEYS, WARPS, LANES], tl.float32)  # anew for each block: a short sum rounds less
        start = tl.maximum(0, s - high)
        stop = tl.maximum(start, tl.where(s < real, tl.minimum(T, s + KEYS - low), 0))
        whole = start + (stop - start) // (2 * WARPS) * (2 * WARPS)
        queries = query_rows + start.to(tl.int64) * D
        grads = grad_query + start.to(tl.int64) * D
        weights = weight + start.to(tl.int64) * columns + s
        for _ in range(start, whole, 2 * WARPS):
            own, turn = _step(queries, grads, weights, keys, own, turn, factor, place, weight_place, D, columns,
                              True, True, inside, inside, False, WARPS, FORM, FAST)  # fmt: skip
            queries += 2 * WARPS * D
            grads += 2 * WARPS * D
            weights += 2 * WARPS * columns
        for t in range(whole, stop, 2 * WARPS):
            seen0 = t + warp < stop
            seen1 = t + WARPS + warp < stop
            own, turn = _step(queries, grads, weights, keys, own, turn, factor, place, weight_place, D, columns,
                              seen0[None, :, None], seen1[None, :, None],
                              seen0[:, None] & inside, seen1[:, None] & inside, True, WARPS, FORM, FAST)  # fmt: skip
        turns += tl.sum(turn, axis=0)
        tl.debug_barrier()  # the next keys may meet a query in another warp than these did
        store_place = own_key[:, None] * D + d[None, :]
        tl.store(grad_key + (n * S + s) * D + store_place, factor * tl.sum(own, axis=1),
                 mask=(s + own_key < S)[:, None] & inside)  # fmt: skip

    gain: tl.constexpr = 1.0 if FORM == SMALL_FORM else -2.0
    tl.store(grad_v + (n * parts + part) * D + d, gain * tl.sum(turns, axis=0), mask=d < D)


# ---- CUDA graphs: an engine with the large form as a fallback ----------------------------------------------------------


_BLOCK = 4096


def guarded(engine: Engine) -> Engine:
    """The same engine, with the direct engine's large form as a fallback for inputs beyond its limit.

    A captured CUDA graph cannot choose by its inputs. It captures the engine that served last, with some headroom, and the
    large form, which serves any input. The reach is computed on the device at every replay: within the limit the fallback
    programs return at once; beyond it they overwrite what the engine computed.
    """
    limit = limit_of(engine)
    if limit == math.inf:
        return engine

    def begin(query: Tensor, key: Tensor, v: Tensor, visibility: Visibility, heads: int) -> Begun:
        guard = Guard(largest(query, key), limit)
        begun = engine.begin(query, key, v, visibility, heads)
        out = engine.finish(begun.raw, v, visibility, heads)
        scores(query, key, v, visibility, heads=heads, form="large", out=out, guard=guard)
        return Begun(out, (*begun.features, guard.reach))

    def guarded_gradients(
        query: Tensor, key: Tensor, v: Tensor, grad_scores: Tensor, visibility: Visibility, *,
        heads: int = 1, features: tuple[Tensor, ...] = (), dtype: torch.dtype = torch.float32,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        *saved, reach = features or (largest(query, key),)
        guard = Guard(reach, limit)
        extra: dict[str, Any] = {"dtype": dtype, "features": tuple(saved) or None} if engine.rounds else {}
        quick = engine.gradients(query, key, v, grad_scores, visibility, heads=heads, **extra)
        exact = gradients(query, key, v, grad_scores, visibility, heads=heads, form="large", guard=guard)
        for out, replacement in zip(quick, exact, strict=True):
            _replace(out, replacement, guard)
        return quick

    arithmetic = (engine.arithmetic, limit)
    return Engine(engine.name, engine.reach, arithmetic, begin, guarded_gradients, rounds=engine.rounds)


def limit_of(engine: Engine) -> float:
    """The largest |q| and |k| for which the engine's arithmetic is accurate."""
    if isinstance(engine.arithmetic, Table):
        return engine.arithmetic.reach
    return LARGEST_REACH[str(engine.arithmetic)]


@triton.jit(do_not_specialize=["size", "limit"])
def replace_program(replacement, out, reach, size, limit, BLOCK: tl.constexpr):
    if within(reach, limit):
        return
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    numbers = tl.load(replacement + place, mask=place < size, other=0.0)
    tl.store(out + place, numbers.to(out.dtype.element_ty), mask=place < size)


def _replace(out: Tensor, replacement: Tensor, guard: Guard) -> None:
    """Overwrite ``out`` with ``replacement`` beyond the guard's limit."""
    if not out.numel():
        return
    if not out.is_contiguous():
        raise RuntimeError("expected a contiguous gradient")
    numbers = (out.numel(), guard.limit_bits)
    tensors = (replacement.contiguous(), out, guard.reach)
    launch(replace_program, triton.cdiv(out.numel(), _BLOCK), tensors, numbers, BLOCK=_BLOCK, num_warps=4)
