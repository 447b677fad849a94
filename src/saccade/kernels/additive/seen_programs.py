# mypy: ignore-errors
"""The Triton programs of `seen_products`: matrix products whose unseen tiles cost nothing.

A program has one tile of the result. It adds up in float32 along the third axis, in steps, and stops where nothing more is
seen. Operands are float16 and come by pointers or, with DESCRIBED, by tensor descriptors, which an H200 copies without
occupying threads; beyond the last row and column of an item these read zeros.

Sizes change from call to call and are not specialised on. What vector accesses need to know of alignment is said by
constants: rows of features are K apart; columns and strides of weights and scores are counted in UNITs.

Legend: N items, T queries, S keys, M rows of a result (T or S), L what is summed over (S or T), K features of a row.
"""

import triton
import triton.language as tl


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
        # A row that is not there is read as the last one; what comes of it is not stored.
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
