"""The scores of `direct`, tile by tile: Σ_d v_d tanh(q_td + k_sd), and −inf where a query does not see a key.

Rows are prepared and turned first, so that for each d the rows of a block lie side by side; then a tile runs through d
four at a time. Legend: N items, T queries in blocks of BT, S keys in blocks of BS, D width, G rows of v.
"""

from __future__ import annotations

import triton
import triton.language as tl

from saccade.kernels.additive.direct_forms import LANES, SMALL_FORM, denominator, prepared, reciprocal, within


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

    seen = S
    if LENGTHS:
        seen = tl.minimum(S, tl.load(lengths + n // heads)).to(tl.int32)
    some = (sb * BS < seen) & (sb * BS + BS > tb * BT + low) & (sb * BS <= tb * BT + BT - 1 + high)
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
