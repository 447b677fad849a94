"""The gradients of `direct` in one pass: every pair's tanh is computed once and goes into ∂q, ∂k and ∂v.

A program has 32 columns of one item, and a thread one column d. It holds some keys and their ∂k, and steps through the
queries two at a time; the warps stand at different queries. Σ_s over the keys it holds goes to ∂q, which the program
reads and writes again for its next keys; Σ_t stays in the thread until the warps' shares are added at the end.
Legend: N items, T queries, S keys, D width, G rows of v; x as in `direct_forms`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from saccade.kernels.additive.direct_forms import (
    LANES,
    LARGE_FORM,
    MODERATE_FORM,
    SMALL_FORM,
    denominator,
    excess,
    prepared,
    reciprocal,
    within,
)


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
    seen = S
    if LENGTHS:
        seen = tl.minimum(S, tl.load(lengths + n // heads)).to(tl.int32)
    query_rows += n * T * D
    grad_query += (n * parts + part) * T * D
    weight += n * T * columns

    turns = tl.zeros([WARPS, LANES], tl.float32)
    for s in range(part * KEYS, S, parts * KEYS):
        keys = tl.zeros([KEYS, WARPS, LANES], tl.float32)
        for i in tl.static_range(KEYS):
            row = tl.load(key + (n * S + s + i) * D + d, mask=d < tl.where(s + i < seen, D, 0), other=0.0)
            keys = tl.where(own_key[:, None, None] == i, row[None, None, :].to(tl.float32), keys)
        keys = prepared(keys, FORM, FAST)
        own = tl.zeros([KEYS, WARPS, LANES], tl.float32)
        turn = tl.zeros([KEYS, WARPS, LANES], tl.float32)  # anew for each block: a short sum rounds less
        start = tl.maximum(0, s - high)
        stop = tl.maximum(start, tl.where(s < seen, tl.minimum(T, s + KEYS - low), 0))
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
