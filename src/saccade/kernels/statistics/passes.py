"""The passes over tiles of dot scores that give the statistics of attention weights (Triton; started by fused.py).

Given lse_t (flash attention returns it; without it a pass of its own finds it), a pair costs one fused multiply-add and

    d_ts = log₂ p_ts = (scale · q_tᵀk_s − lse_t) · log₂ e           p_ts = 2^d_ts

*By rows*, a program holds a block of queries and goes through the keys: entropy_t = −ln 2 Σ_s p d, without the cancellation
of lse − Σ p · score, and the k greatest d. A row keeps k of them, and a tile is searched only while it holds one above the
least that is kept; under a causal window from the diagonal back, for what is near is often what is looked at, and after
the first tiles little is inserted. What is inserted leaves the tile and what is displaced goes to the residual, so that
this is a sum of what is left and not a difference. *By keys*, a program holds a block of keys, goes through the queries
and adds up what the keys receive. No atomics: the same bits every time.

A kept weight is one int64: d above, in an order that integers have too, and the place below. So no two are equal, and
the greater of two is the one to name first: the greater weight, or the lower place. Programs with the longest way start first.

Legend: N = B·H items (batch × heads), T queries, S keys, D width; in a program BM queries, BN keys, BD ≥ D.
"""

from __future__ import annotations

import math

import triton
import triton.language as tl

BLANK = tl.constexpr(-1e30)  # log₂ of no weight: 2^BLANK is 0, and 0 · BLANK is no NaN, as it were with −inf
BEYOND = tl.constexpr(1e30)  # log-sum-exp of a row beyond the last: its d lie under BLANK, and it weighs nothing
LAST = tl.constexpr(0x7FFFFFFF)
LEAST_INT64 = tl.constexpr(-(1 << 63))
GREATEST_INT64 = tl.constexpr((1 << 63) - 1)
LN2 = tl.constexpr(math.log(2))
LOG2E = tl.constexpr(1 / math.log(2))

WINDOW = ("shift", "before", "after")  # numbers that change from call to call and are no reason to compile anew


# ---- Which keys a tile's rows see


@triton.jit
def _limit(lengths, b, S, LENGTHS: tl.constexpr):
    """The number of keys that item b of the batch has."""
    limit = S
    if LENGTHS:
        limit = tl.minimum(S, tl.load(lengths + b))
    return limit


@triton.jit
def _key_tiles(
    r0, limit, shift, before, after, BEFORE: tl.constexpr, AFTER: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    """The first key of the first tile that rows r0, …, r0 + BM − 1 see any of, and the number of tiles."""
    first = 0
    stop = limit
    if AFTER:
        stop = tl.minimum(limit, r0 + BM + shift + after)
    if BEFORE:
        first = tl.maximum(0, r0 + shift - before) // BN * BN
    return first, tl.maximum(0, tl.cdiv(stop - first, BN))


@triton.jit
def _hides(
    r0, c0, limit, shift, before, after,
    BEFORE: tl.constexpr, AFTER: tl.constexpr, MASK: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Whether limit or band hide any pair of the tile at (r0, c0), or a mask might."""
    some = c0 + BN > limit
    if AFTER:
        some = some | (c0 + BN - 1 > r0 + shift + after)
    if BEFORE:
        some = some | (c0 < r0 + BM - 1 + shift - before)
    if MASK:
        some = some | True
    return some


@triton.jit
def _sees(
    rows, columns, r0, c0, limit, shift, before, after, mask, m_t, m_s, T, S,
    BEFORE: tl.constexpr, AFTER: tl.constexpr, MASK: tl.constexpr,
):  # fmt: skip
    """Which pairs see each other of the tile at (r0, c0), its rows and columns counted from there and shaped to broadcast.

    ``mask`` points at the item's own.
    """
    mask += r0.to(tl.int64) * m_t + c0.to(tl.int64) * m_s
    places = rows * m_t + columns * m_s  # within a tile 32 bits are enough
    rows += r0
    columns += c0
    visible = (columns < limit) & (rows < T)
    if AFTER:
        visible = visible & (columns <= rows + (shift + after))
    if BEFORE:
        visible = visible & (columns >= rows + (shift - before))
    if MASK:
        visible = visible & (tl.load(mask + places, mask=(columns < S) & (rows < T), other=0) != 0)
    return visible


# ---- What is loaded, and what is kept


@triton.jit
def _vectors(base, first, stride, count, D: tl.constexpr, ROWS: tl.constexpr, BD: tl.constexpr):
    """[ROWS, BD] from row ``first`` on; 0 beyond the last row and beyond the width."""
    row = tl.arange(0, ROWS)
    column = tl.arange(0, BD)
    within = (first + row < count)[:, None]
    if D < BD:
        within = within & (column < D)[None, :]
    return tl.load(base + first.to(tl.int64) * stride + row[:, None] * stride + column[None, :], mask=within, other=0.0)


@triton.jit
def _lse2(lse, n, rows, T):
    """log-sum-exp in base 2; 0 for a row that sees nothing: its d are blank, whatever is taken from them."""
    known = tl.load(lse + n.to(tl.int64) * T + rows, mask=rows < T, other=BEYOND)
    return tl.where(tl.abs(known) == float("inf"), 0.0, known * LOG2E)


@triton.jit
def _packed(d, place):
    """One int64 that orders as d does, and among equal d by the lower place."""
    bits = d.to(tl.int32, bitcast=True)
    order = bits ^ ((bits >> 31) & LAST)  # negative floats order backwards by their bits
    return (order.to(tl.int64) << 32) | (place ^ LAST).to(tl.int64)


@triton.jit
def _value(packed):
    order = (packed >> 32).to(tl.int32)
    return (order ^ ((order >> 31) & LAST)).to(tl.float32, bitcast=True)


@triton.jit
def _insert(d, c0, kept, rest, spread, BN: tl.constexpr):
    """Move what belongs to the greatest from the tile d [BM, BN] at key c0 to ``kept`` [BM, SLOTS].

    What it displaces is added to ``rest`` (Σ p) and ``spread`` (Σ p d) of what is not kept.
    """
    least = tl.min(kept, 1)
    floor = _value(least)
    greatest = tl.max(d, 1)
    found = tl.sum((greatest > floor).to(tl.int32), 0)
    # Inside a branch the search does not make the loop around it an outer loop, whose loads are not pipelined.
    if found > 0:
        columns = tl.arange(0, BN)[None, :]
        while found > 0:
            enters = greatest > floor
            column = tl.min(tl.where(d == greatest[:, None], columns, BN), 1)
            d = tl.where((columns == column[:, None]) & enters[:, None], BLANK, d)
            leaves = (kept == least[:, None]) & enters[:, None]
            kept = tl.where(leaves, _packed(greatest, c0 + column)[:, None], kept)
            mass = tl.where(enters, tl.exp2(floor), 0.0)
            rest += mass
            spread += mass * floor
            least = tl.min(kept, 1)
            floor = _value(least)
            greatest = tl.max(d, 1)
            found = tl.sum((greatest > floor).to(tl.int32), 0)
    return d, kept, rest, spread


@triton.jit
def _weight(packed):
    """The weight, no greater than 1 though lse is rounded, and its place: 0 where the weight is."""
    weight = tl.exp2(_value(packed))
    return tl.where(weight > 1.0, 1.0, weight), tl.where(weight > 0.0, (packed & LAST) ^ LAST, 0)


# ---- The passes


@triton.jit(do_not_specialize=WINDOW)
def lse_by_rows(
    lse, query, key, lengths, mask, q_b, q_h, q_t, k_b, k_h, k_s, m_b, m_h, m_t, m_s,
    H, group, T, S, scale2, shift, before, after,
    BEFORE: tl.constexpr, AFTER: tl.constexpr, LENGTHS: tl.constexpr, MASK: tl.constexpr,
    D: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """log Σ exp of the scores of BM queries, by the running maximum and the sum below it."""
    blocks = tl.cdiv(T, BM)
    n = tl.program_id(0) // blocks
    r0 = (blocks - 1 - tl.program_id(0) % blocks) * BM
    b, h = (n // H).to(tl.int64), (n % H).to(tl.int64)
    rows = r0 + tl.arange(0, BM)
    q = _vectors(query + b * q_b + h * q_h, r0, q_t, T, D, BM, BD)
    key += b * k_b + h // group * k_h
    limit = _limit(lengths, b, S, LENGTHS)
    first, count = _key_tiles(r0, limit, shift, before, after, BEFORE, AFTER, BM, BN)

    greatest = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    for step in range(count):
        c0 = first + step * BN
        z = tl.dot(q, tl.trans(_vectors(key, c0, k_s, S, D, BN, BD)), input_precision=PRECISION) * scale2
        if _hides(r0, c0, limit, shift, before, after, BEFORE, AFTER, MASK, BM, BN):
            visible = _sees(
                tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :], r0, c0, limit, shift, before, after,
                mask + b * m_b + h * m_h, m_t, m_s, T, S, BEFORE, AFTER, MASK,
            )  # fmt: skip
            z = tl.where(visible, z, -float("inf"))
        higher = tl.maximum(greatest, tl.max(z, 1))
        level = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp2(greatest - level) + tl.sum(tl.exp2(z - level[:, None]), 1)
        greatest = higher
    logarithm = tl.log2(tl.where(total == 0.0, 1.0, total))
    found = tl.where(greatest == -float("inf"), greatest, (greatest + logarithm) * LN2)
    tl.store(lse + n.to(tl.int64) * T + rows, found, mask=rows < T)


@triton.jit(do_not_specialize=WINDOW)
def statistics_by_rows(
    lse, top_index, top_weights, residual, entropy, maximum, argmax,
    query, key, lengths, mask, q_b, q_h, q_t, k_b, k_h, k_s, m_b, m_h, m_t, m_s,
    H, group, T, S, scale2, shift, before, after,
    TOP: tl.constexpr, HELD: tl.constexpr, SLOTS: tl.constexpr,
    RESIDUAL: tl.constexpr, ENTROPY: tl.constexpr, MAXIMUM: tl.constexpr,
    BEFORE: tl.constexpr, AFTER: tl.constexpr, LENGTHS: tl.constexpr, MASK: tl.constexpr,
    D: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Entropy, maximum, the TOP greatest and the residual of BM queries. HELD ≥ TOP are kept, in SLOTS slots."""
    blocks = tl.cdiv(T, BM)
    n = tl.program_id(0) // blocks
    r0 = (blocks - 1 - tl.program_id(0) % blocks) * BM
    b, h = (n // H).to(tl.int64), (n % H).to(tl.int64)
    rows = r0 + tl.arange(0, BM)
    q = _vectors(query + b * q_b + h * q_h, r0, q_t, T, D, BM, BD)
    key += b * k_b + h // group * k_h
    lse2 = _lse2(lse, n, rows, T)
    limit = _limit(lengths, b, S, LENGTHS)
    first, count = _key_tiles(r0, limit, shift, before, after, BEFORE, AFTER, BM, BN)

    # An empty slot is blank, at a place of its own beyond all keys; a slot too many is never the least.
    slots = tl.arange(0, SLOTS)
    empty = tl.where(slots < HELD, _packed(tl.full([SLOTS], BLANK, tl.float32), slots ^ LAST), GREATEST_INT64)
    kept = tl.zeros([BM, SLOTS], tl.int64) + empty[None, :]
    rest = tl.zeros([BM], tl.float32)
    spread = tl.zeros([BM], tl.float32)
    for step in range(count):
        c0 = first + step * BN
        if AFTER:
            c0 = first + (count - 1 - step) * BN
        k = _vectors(key, c0, k_s, S, D, BN, BD)
        d = tl.fma(tl.dot(q, tl.trans(k), input_precision=PRECISION), scale2, -lse2[:, None])
        if _hides(r0, c0, limit, shift, before, after, BEFORE, AFTER, MASK, BM, BN):
            visible = _sees(
                tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :], r0, c0, limit, shift, before, after,
                mask + b * m_b + h * m_h, m_t, m_s, T, S, BEFORE, AFTER, MASK,
            )  # fmt: skip
            d = tl.where(visible, d, BLANK)
        if HELD > 0:
            d, kept, rest, spread = _insert(d, c0, kept, rest, spread, BN)
        if RESIDUAL or ENTROPY:
            p = tl.exp2(d)
            rest += tl.sum(p, 1)
            spread += tl.sum(p * d, 1)

    out = n.to(tl.int64) * T + rows
    within = rows < T
    kept = tl.where(slots[None, :] < HELD, kept, LEAST_INT64)
    if MAXIMUM:
        weight, place = _weight(tl.max(kept, 1))
        tl.store(maximum + out, weight, mask=within)
        tl.store(argmax + out, place, mask=within)
    for slot in range(HELD):
        best = tl.max(kept, 1)
        kept = tl.where(kept == best[:, None], LEAST_INT64, kept)
        weight, place = _weight(best)
        spread += weight * _value(best)
        if slot < TOP:
            tl.store(top_weights + out * TOP + slot, weight, mask=within)
            tl.store(top_index + out * TOP + slot, place, mask=within)
    if RESIDUAL:
        tl.store(residual + out, rest, mask=within)
    if ENTROPY:
        nats = 0.0 - LN2 * spread
        tl.store(entropy + out, tl.where(nats < 0.0, 0.0, nats), mask=within)


@triton.jit(do_not_specialize=WINDOW)
def received_by_keys(
    lse, received, query, key, lengths, mask, q_b, q_h, q_t, k_b, k_h, k_s, m_b, m_h, m_t, m_s,
    H, group, T, S, scale2, shift, before, after,
    BEFORE: tl.constexpr, AFTER: tl.constexpr, LENGTHS: tl.constexpr, MASK: tl.constexpr,
    D: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Σ_t p of BN keys. A key beyond its item's length is set to 0 at the end, so no tile need look at lengths."""
    blocks = tl.cdiv(S, BN)
    n = tl.program_id(0) // blocks
    c0 = (tl.program_id(0) % blocks) * BN
    b, h = (n // H).to(tl.int64), (n % H).to(tl.int64)
    columns = c0 + tl.arange(0, BN)
    k = _vectors(key + b * k_b + h // group * k_h, c0, k_s, S, D, BN, BD)
    query += b * q_b + h * q_h
    limit = _limit(lengths, b, S, LENGTHS)
    first = 0
    stop = tl.where(c0 < limit, T, 0)
    if AFTER:
        first = tl.maximum(0, c0 - shift - after) // BM * BM
    if BEFORE:
        stop = tl.minimum(stop, c0 + BN - shift + before)

    total = tl.zeros([BN], tl.float32)
    for step in range(tl.maximum(0, tl.cdiv(stop - first, BM))):
        r0 = first + step * BM
        rows = r0 + tl.arange(0, BM)
        q = _vectors(query, r0, q_t, T, D, BM, BD)
        lse2 = _lse2(lse, n, rows, T)
        d = tl.fma(tl.dot(k, tl.trans(q), input_precision=PRECISION), scale2, -lse2[None, :])
        if _hides(r0, c0, S + BN, shift, before, after, BEFORE, AFTER, MASK, BM, BN):
            visible = _sees(
                tl.arange(0, BM)[None, :], tl.arange(0, BN)[:, None], r0, c0, limit, shift, before, after,
                mask + b * m_b + h * m_h, m_t, m_s, T, S, BEFORE, AFTER, MASK,
            )  # fmt: skip
            d = tl.where(visible, d, BLANK)
        total += tl.sum(tl.exp2(d), 1)
    tl.store(received + n.to(tl.int64) * S + columns, tl.where(columns < limit, total, 0.0), mask=columns < S)
