# mypy: ignore-errors
"""The Triton programs of the separable engine; separable_fused.py starts them and says what they compute.

Tensors lie without gaps. A tile is ELEMENTS numbers x in one axis beside CHUNK functions of each in the other, so that a
thread has 8 functions of an element, one 16-byte access in float16, and its T_j serve all 8. `coefficients` are
[4, J, R]: the query's functions, the key's, and their slopes. A program works through several tiles, so that what it needs
only once is soon paid for.

Numbers that change from call to call are not specialised on: every new shape would be compiled anew.

Legend: N items, M rows (T queries or S keys), D width, R rank, J terms, G rows of v.
"""

import triton
import triton.language as tl

SUM = tl.constexpr(1024.0)
"""Σ|dS| of each scaled row. It keeps entries of long rows out of float16's subnormal numbers, and products below 2048."""

LEAST = tl.constexpr(1e-30)
"""Rows whose Σ|dS| is less, and a v whose largest is, are scaled as if it were this: its inverse is still a float32 number."""


@triton.jit
def _largest(v, D: tl.constexpr, BV: tl.constexpr):
    """max|v| of one row of v."""
    d = tl.arange(0, BV)
    return tl.maximum(tl.max(tl.abs(tl.load(v + d, mask=d < D, other=0.0).to(tl.float32))), LEAST)


@triton.jit
def _series(x, coefficients, r, R: tl.constexpr, J: tl.constexpr):
    """Σ_j c_jr T_j(2x² − 1), for x scaled to [−1, 1] and the functions r: [ELEMENTS, CHUNK]."""
    y = (2.0 * x * x - 1.0)[:, None]
    twice = y + y
    before = y
    now = y
    total = tl.load(coefficients + R + r)[None, :] * y + tl.load(coefficients + r)[None, :]
    for j in tl.static_range(2, J):
        if j == 2:
            after = twice * now - 1.0
        else:
            after = twice * now - before
        before = now
        now = after
        total += tl.load(coefficients + j * R + r)[None, :] * now
    return total


@triton.jit
def _two_series(x, one, other, r, R: tl.constexpr, J: tl.constexpr):
    """`_series` of two sets of coefficients, whose T_j are the same."""
    y = (2.0 * x * x - 1.0)[:, None]
    twice = y + y
    before = y
    now = y
    first = tl.load(one + R + r)[None, :] * y + tl.load(one + r)[None, :]
    second = tl.load(other + R + r)[None, :] * y + tl.load(other + r)[None, :]
    for j in tl.static_range(2, J):
        if j == 2:
            after = twice * now - 1.0
        else:
            after = twice * now - before
        before = now
        now = after
        first += tl.load(one + j * R + r)[None, :] * now
        second += tl.load(other + j * R + r)[None, :] * now
    return first, second


@triton.jit
def _write_features(
    x, v, coefficients, out, program, M, G, first, per_reach,
    QUERY: tl.constexpr, D: tl.constexpr, R: tl.constexpr, J: tl.constexpr,
    ELEMENTS: tl.constexpr, CHUNK: tl.constexpr, LOOPS: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """LOOPS tiles of one item, whose M × D numbers are taken as one row."""
    size = M * D
    programs = tl.cdiv(size, ELEMENTS * LOOPS)
    n = program // programs
    start = (program % programs) * (ELEMENTS * LOOPS)
    x += n.to(tl.int64) * size
    out += n.to(tl.int64) * size * R
    if QUERY:
        v += ((first + n) % G) * D
        per_largest = 1.0 / _largest(v, D, BV)
    for place in range(start, tl.minimum(start + ELEMENTS * LOOPS, size), ELEMENTS):
        element = place + tl.arange(0, ELEMENTS)
        exists = element < size
        if D % ELEMENTS == 0:
            exists = tl.full([ELEMENTS], True, tl.int1)
        scaled = tl.load(x + element, mask=exists, other=0.0).to(tl.float32) * per_reach
        if QUERY:
            even = tl.load(v + element % D, mask=exists, other=0.0).to(tl.float32) * per_largest
            odd = even * scaled
        for chunk in tl.static_range(0, R, CHUNK):
            r = chunk + tl.arange(0, CHUNK)
            values = _series(scaled, coefficients, r, R, J)
            if QUERY:  # its odd functions are 1, 3, …, the key's are 0, 2, …
                values *= tl.where((r % 2 == 1)[None, :], odd[:, None], even[:, None])
            else:
                values = tl.where((r % 2 == 0)[None, :], values * scaled[:, None], values)
            tl.store(out + element[:, None] * R + r[None, :], values.to(tl.float16), mask=exists[:, None])


@triton.jit(do_not_specialize=["query_programs", "T", "S", "G", "first"])
def features_program(
    query, key, v, coefficients, of_query, of_key, query_programs, T, S, G, first, per_reach,
    D: tl.constexpr, R: tl.constexpr, J: tl.constexpr,
    ELEMENTS: tl.constexpr, CHUNK: tl.constexpr, LOOPS: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """[N, M, D] → [N, M, D, R] in float16: the query's times v / max|v| in the first programs, the key's in the others.

    `first` is item 0's place among all items.
    """
    program = tl.program_id(0)
    if program < query_programs:
        _write_features(query, v, coefficients, of_query, program, T, G, first, per_reach,
                        True, D, R, J, ELEMENTS, CHUNK, LOOPS, BV)  # fmt: skip
    else:
        _write_features(key, v, coefficients + J * R, of_key, program - query_programs, S, G, first, per_reach,
                        False, D, R, J, ELEMENTS, CHUNK, LOOPS, BV)  # fmt: skip


@triton.jit(do_not_specialize=["M", "G", "first"])
def reduced_program(
    x, products, scale, v, coefficients, out, parts, M, G, first, per_reach,
    QUERY: tl.constexpr, D: tl.constexpr, R: tl.constexpr, J: tl.constexpr,
    CHUNK: tl.constexpr, BM: tl.constexpr, BD: tl.constexpr, LOOPS: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Of a query: out = scale · v · Σ_r slope_r(x) products_r, and parts = Σ over its rows of scale · Σ_r f_r(x) products_r.
    Of a key, whose products hold v / max|v|: out = scale · max|v| · Σ_r slope_r(x) products_r.

    Each program writes a part of its own, so no two add to one number.
    """
    across: tl.constexpr = (D + BD - 1) // BD
    down = tl.cdiv(M, BM * LOOPS)
    program = tl.program_id(0)
    n = program // (across * down)
    start = ((program // across) % down) * (BM * LOOPS)
    element = tl.arange(0, BM * BD)
    column = (program % across) * BD + element % BD
    inside = column < D
    x += n.to(tl.int64) * M * D
    out += n.to(tl.int64) * M * D
    products += n.to(tl.int64) * M * D * R
    scale += n.to(tl.int64) * M
    v += ((first + n) % G) * D
    if QUERY:
        factor = tl.load(v + column, mask=inside, other=0.0).to(tl.float32)
    else:
        factor = _largest(v, D, BV)
    total = tl.zeros([BM * BD], dtype=tl.float32)
    for top in range(start, tl.minimum(start + BM * LOOPS, M), BM):
        row = top + element // BD
        exists = (row < M) & inside
        place = row * D + column
        scaled = tl.load(x + place, mask=exists, other=0.0).to(tl.float32) * per_reach
        slopes = tl.zeros([BM * BD], dtype=tl.float32)
        values = tl.zeros([BM * BD], dtype=tl.float32)
        for chunk in tl.static_range(0, R, CHUNK):
            r = chunk + tl.arange(0, CHUNK)
            at = products + place[:, None] * R + r[None, :]
            product = tl.load(at, mask=exists[:, None], other=0.0).to(tl.float32)
            # A slope is odd where its function is even: 0, 2, … of the query's, 1, 3, … of the key's.
            even = tl.where((r % 2 == 0)[None, :], product * scaled[:, None], product)
            odd = tl.where((r % 2 == 1)[None, :], product * scaled[:, None], product)
            if QUERY:
                slope, value = _two_series(scaled, coefficients + 2 * J * R, coefficients, r, R, J)
                slopes += tl.sum(slope * even, axis=1)
                values += tl.sum(value * odd, axis=1)
            else:
                slopes += tl.sum(_series(scaled, coefficients + 3 * J * R, r, R, J) * odd, axis=1)
        gain = tl.load(scale + row, mask=exists, other=0.0)
        tl.store(out + place, (slopes * gain * factor).to(out.dtype.element_ty), mask=exists)
        if QUERY:
            total += values * gain
    if QUERY:
        columns = (program % across) * BD + tl.arange(0, BD)
        here = tl.sum(tl.reshape(total, [BM, BD]), axis=0)
        tl.store(parts + (program // across).to(tl.int64) * D + columns, here, mask=columns < D)


@triton.jit
def _normalise(
    grad, out, scale, program, outer, inner, go, gi, OUTER: tl.constexpr, INNER: tl.constexpr, ONCE: tl.constexpr
):
    """OUTER rows over their Σ|·| / SUM; rows lie go apart, their numbers gi. A row of zeros stays so; NaN stays NaN."""
    blocks = tl.cdiv(outer, OUTER)
    n = (program // blocks).to(tl.int64)
    grad += n * outer * inner
    out += n * outer * inner
    scale += n * outer
    o = (program % blocks) * OUTER + tl.arange(0, OUTER)
    i = tl.arange(0, INNER)
    place = o[:, None].to(tl.int64) * go + i[None, :].to(tl.int64) * gi
    here = (o < outer)[:, None]
    if ONCE:
        tile = tl.load(grad + place, mask=here & (i < inner)[None, :], other=0.0)
        total = tl.sum(tl.abs(tile), axis=1)
    else:
        totals = tl.zeros([OUTER, INNER], dtype=tl.float32)
        for start in range(0, inner, INNER):
            exists = here & (start + i < inner)[None, :]
            totals += tl.abs(tl.load(grad + place + tl.cast(start, tl.int64) * gi, mask=exists, other=0.0))
        total = tl.sum(totals, axis=1)
    divisor = tl.where(total < LEAST, LEAST, total) / SUM
    inverse = (1.0 / divisor)[:, None]
    if ONCE:
        tl.store(out + place, (tile * inverse).to(tl.float16), mask=here & (i < inner)[None, :])
    else:
        for start in range(0, inner, INNER):
            exists = here & (start + i < inner)[None, :]
            tile = tl.load(grad + place + tl.cast(start, tl.int64) * gi, mask=exists, other=0.0)
            tl.store(out + place + tl.cast(start, tl.int64) * gi, (tile * inverse).to(tl.float16), mask=exists)
    tl.store(scale + o, divisor, mask=o < outer)


@triton.jit(do_not_specialize=["column_programs", "T"])
def normalised_program(
    grad, by_row, row_scale, by_column, column_scale, column_programs, T, S,
    ROWS: tl.constexpr, ALONG: tl.constexpr, ONCE: tl.constexpr, COLUMNS: tl.constexpr, DOWN: tl.constexpr,
):  # fmt: skip
    """[N, T, S] with each column's Σ|·| = SUM in the first programs, which take longest, with each row's in the others."""
    program = tl.program_id(0)
    if program < column_programs:
        _normalise(grad, by_column, column_scale, program, S, T, 1, S, COLUMNS, DOWN, False)
    else:
        _normalise(grad, by_row, row_scale, program - column_programs, T, S, S, 1, ROWS, ALONG, ONCE)


@triton.jit(do_not_specialize=["T", "G", "heads", "low", "high", "mb", "mh", "mt"])
def finished_program(
    scores, v, lengths, mask, rounded, sums, T, S, G, heads, low, high, mb, mh, mt, ms,
    LENGTHS: tl.constexpr, BAND: tl.constexpr, MASK: tl.constexpr, SOFTMAX: tl.constexpr, ROUNDED: tl.constexpr,
    SUMS: tl.constexpr, D: tl.constexpr, BT: tl.constexpr, BS: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Scores in place of products: times max|v|, −∞ where a key is not seen (t + low ≤ s ≤ t + high, s < length, mask).

    With SOFTMAX a tile has whole rows, and their weights take the place of the scores; of a row that sees nothing, zeros.
    """
    across = tl.cdiv(S, BS)
    blocks = tl.cdiv(T, BT) * across
    n = tl.program_id(0) // blocks
    block = tl.program_id(0) % blocks
    row = (block // across) * BT + tl.arange(0, BT)
    t = row[:, None]
    s = ((block % across) * BS + tl.arange(0, BS))[None, :]
    exists = (t < T) & (s < S)
    item = n.to(tl.int64) * T * S
    place = t.to(tl.int64) * S + s
    values = tl.load(scores + item + place, mask=exists, other=0.0) * _largest(v + (n % G) * D, D, BV)
    visible = exists
    if LENGTHS:
        visible &= s < tl.load(lengths + n // heads)
    if BAND:
        visible &= (s >= t + low) & (s <= t + high)
    if MASK:
        mask_at = mask + (n // heads).to(tl.int64) * mb + (n % heads) * mh + t.to(tl.int64) * mt + s * ms
        visible &= tl.load(mask_at, mask=exists, other=0) != 0
    values = tl.where(visible, values, float("-inf"))
    if SOFTMAX:
        most = tl.max(values, axis=1)
        most = tl.where(most == float("-inf"), 0.0, most)
        values = tl.exp(values - most[:, None])
        total = tl.sum(values, axis=1)
        blind = total == 0.0
        total = tl.where(blind, 1.0, total)
        if SUMS:
            logarithm = tl.where(blind, float("-inf"), most + tl.log(total))
            tl.store(sums + n.to(tl.int64) * T + row, logarithm, mask=row < T)
        values *= (1.0 / total)[:, None]
    tl.store(scores + item + place, values, mask=exists)
    if ROUNDED:
        tl.store(rounded + item + place, values.to(rounded.dtype.element_ty), mask=exists)
