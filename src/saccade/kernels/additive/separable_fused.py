"""The separable engine on a GPU: additive scores and their gradients as float16 matrix products (`separable` has the formulas).

Features are float16 for every input dtype: none is larger than about 1.3, and its 10 bits are TF32's and eight times as
fine as bfloat16's. Sums are in float32. What could leave float16's range is scaled: v by its largest, the
gradient of the scores by the sum of each row (for ∂q) or column (for ∂k), so that no product exceeds SUM times the largest
feature. v is folded into the query's features, which serves both passes: ∂k_sd = Σ_r g′_r(k_sd) Σ_t dS_ts v_d f_r(q_td).
No two programs add to one number: results are deterministic.

At usual sizes a launch costs the host more than the device, so launches are few: features, product and `finish` (or `weights`)
forward; features, `normalised`, two products and two sums backward. Programs compute max|v| themselves.

In the programs tensors are contiguous. A tile is ELEMENTS numbers x along one axis and CHUNK functions of each along the
other, so that a thread has 8 functions of an element, one 16-byte access in float16, and shares their T_j. `coefficients`
are [4, J, R]: the query's functions, the key's, and their slopes. A program processes several tiles to amortise its setup.
Numbers that change from call to call are not specialised on: every new shape would be compiled anew.

Legend: N items (batch × heads), T queries, S keys, M either, D width, R rank, G rows of v (1, heads or N).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.additive import visible_products
from saccade.kernels.additive.separable import blocks, check
from saccade.kernels.additive.tables import Table
from saccade.kernels.launching import launch
from saccade.kernels.tiling import ceil_div, power_of_2
from saccade.kernels.visibility import Visibility

FEATURE_BYTES = 256 << 20
"""Size of the features of one block's queries, or of its keys; a product takes as much again."""

LONGEST_ROW = 4096
"""The most keys that `weights` takes: a program holds whole rows."""


Features = tuple[Tensor, Tensor]
"""Features of the queries, with v folded in, and of the keys."""


@dataclass(frozen=True)
class Tiles:
    """`rows` × `columns` elements, `chunk` of their functions at a time; a program works through `loops` tiles."""

    rows: int
    columns: int
    chunk: int
    loops: int
    warps: int
    registers: int | None = None  # the most a thread may have, where more would leave too few threads


@lru_cache
def feature_tiles(R: int) -> Tiles:
    """32 numbers per thread: 8 functions, one 16-byte access in float16, of 4 elements.

    With one element per thread the compiler passes every T_j through shared memory. `registers` is the least without spills.
    """
    registers = {8: 96, 16: None}.get(R, 168)  # capped at 80, rank 16 took a third longer on an H200
    return Tiles(1, 4096 // _chunk(R), _chunk(R), loops=4, warps=4, registers=registers)


@lru_cache
def reduce_tiles(D: int, R: int, query: bool) -> Tiles:
    """A coefficient is loaded for 4 elements, as for features, or for 2 where several chunks share the registers."""
    columns = min(128, power_of_2(D))
    rows = (4096 if _chunk(R) == R else 2048) // (_chunk(R) * columns)
    return Tiles(rows, columns, _chunk(R), loops=4, warps=4, registers=128)


@lru_cache
def normalise_tiles(S: int) -> tuple[int, int, int, int, int]:
    """(rows, along, columns, down, warps): rows · along numbers at a time for rows, columns · down for columns."""
    along = min(1024, power_of_2(S))
    return max(1, 2048 // along), along, 32, 64, 4


@lru_cache
def finish_tiles(S: int, whole: bool) -> tuple[int, int, int]:
    """(queries, keys, warps) of a tile of scores; `whole` rows for a softmax."""
    keys = power_of_2(S) if whole else min(512, power_of_2(S))
    return max(1, 2048 // keys), keys, 8 if keys > 2048 else 4


def _chunk(R: int) -> int:
    return min(16, R & -R)


def scores(
    query: Float[Tensor, "N T D"],
    key: Float[Tensor, "N S D"],
    v: Float[Tensor, "G D"],
    visibility: Visibility,
    *,
    heads: int = 1,
    table: Table,
    feature_bytes: int = FEATURE_BYTES,
) -> Float[Tensor, "N T S"]:
    """Float32 scores of every query against every key, −∞ where it is not seen. Item n takes row n % G of `v`.

    `table` must reach as far as the largest |q| and |k|: beyond it the expansion is no tanh.
    """
    raw, _ = unfinished(query, key, v, visibility, heads, table=table, feature_bytes=feature_bytes)
    return finish(raw, v, visibility, heads)


def unfinished(
    query: Float[Tensor, "N T D"],
    key: Float[Tensor, "N S D"],
    v: Float[Tensor, "G D"],
    visibility: Visibility,
    heads: int = 1,
    *,
    table: Table,
    feature_bytes: int = FEATURE_BYTES,
) -> tuple[Float[Tensor, "N T S"], Features | None]:
    """Float32 scores over max|v|, which `finish` or `weights` turn into scores or weights in place; values of invisible pairs
    are undefined. Also the features, where all of them were computed at once."""
    check(query, key, v)
    (N, T, D), S = query.shape, key.shape[1]
    rows = _rows(D, table, feature_bytes)
    if N * max(T, S) <= rows:
        both = features(query, key, v, table)
        return _products(*both, visibility, heads), both
    result = query.new_empty(N, T, S, dtype=torch.float32)
    for items, queries, keys in blocks(N, T, S, rows):
        both = features(query[items, queries], key[items, keys], v, table, first=items.start)
        start = items.start, queries.start, keys.start
        _products(*both, visibility, heads, start, out=result[items, queries, keys])
    return result, None


def gradients(
    query: Float[Tensor, "N T D"],
    key: Float[Tensor, "N S D"],
    v: Float[Tensor, "G D"],
    grad_scores: Float[Tensor, "N T S"],
    visibility: Visibility,
    *,
    heads: int = 1,
    table: Table,
    features: Features | None = None,
    feature_bytes: int = FEATURE_BYTES,
    dtype: torch.dtype = torch.float32,
) -> tuple[Float[Tensor, "N T D"], Float[Tensor, "N S D"], Float[Tensor, "N D"]]:
    """Gradients of the query and of the key in `dtype` and, for each item, of v in float32.

    `grad_scores` is 0 where a key is not visible. `features` are those of the forward pass, `features(query, key, v, table)`,
    if saved.
    """
    check(query, key, v)
    (N, T, D), S = query.shape, key.shape[1]
    if not N * T * S:
        return query.new_zeros(N, T, D, dtype=dtype), key.new_zeros(N, S, D, dtype=dtype), _zeros(query, N, D)
    normal = normalised(grad_scores)
    rows = _rows(D, table, feature_bytes)
    if N * max(T, S) <= rows:
        return _block_gradients(query, key, v, normal, table, features, visibility, heads, (0, 0, 0), dtype)
    grad_query, grad_key, grad_v = (_zeros(query, *shape) for shape in ((N, T, D), (N, S, D), (N, D)))
    for items, queries, keys in blocks(N, T, S, rows):
        by_row, row_scale, by_column, column_scale = normal
        part = (
            by_row[items, queries, keys], row_scale[items, queries],
            by_column[items, queries, keys], column_scale[items, keys],
        )  # fmt: skip
        saved = None if features is None else (features[0][items, queries], features[1][items, keys])
        start = items.start, queries.start, keys.start
        rows_here = query[items, queries], key[items, keys]
        parts = _block_gradients(*rows_here, v, part, table, saved, visibility, heads, start, torch.float32)
        grad_query[items, queries] += parts[0]
        grad_key[items, keys] += parts[1]
        grad_v[items] += parts[2]
    return grad_query.to(dtype), grad_key.to(dtype), grad_v


Normal = tuple[Tensor, Tensor, Tensor, Tensor]


def _block_gradients(
    query: Tensor,
    key: Tensor,
    v: Tensor,
    normal: Normal,
    table: Table,
    saved: Features | None,
    visibility: Visibility,
    heads: int,
    start: visible_products.Start,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    by_row, row_scale, by_column, column_scale = normal
    first = start[0]
    of_query, of_key = features(query, key, v, table, first=first) if saved is None else saved
    sums = _weighted(by_row, of_key, visibility, heads, start)  # P [N, T, D · R]
    grad_query, parts = _reduced(query, sums, row_scale, v, table, True, first, dtype)
    del of_key, sums
    sums = _weighted(by_column, of_query, visibility, heads, start, transposed=True)  # v Q / max|v| [N, S, D · R]
    grad_key, _ = _reduced(key, sums, column_scale, v, table, False, first, dtype)
    return grad_query, grad_key, parts.sum(1)


def features(
    query: Float[Tensor, "N T D"],
    key: Float[Tensor, "N S D"],
    v: Float[Tensor, "G D"],
    table: Table,
    *,
    first: int = 0,
) -> tuple[Float[Tensor, "N T DR"], Float[Tensor, "N S DR"]]:
    """v_d f_r(q_td) / max|v| and g_r(k_sd) in float16, column d · R + r. The first item takes row `first` % G of `v`.

    An item has fewer than 2³¹ features; `unfinished` ensures it by working in blocks.
    """
    query, key, v = query.contiguous(), key.contiguous(), v.contiguous()
    (N, T, D), S, R = query.shape, key.shape[1], table.rank
    of_query = query.new_empty(N, T, D * R, dtype=torch.float16)
    of_key = query.new_empty(N, S, D * R, dtype=torch.float16)
    coefficients, J = coefficients_on(table, query.device)
    tile = feature_tiles(R)
    reach = tile.columns * tile.loops
    of_queries, of_keys = N * ceil_div(T * D, reach), N * ceil_div(S * D, reach)
    if of_queries + of_keys:
        launch(
            features_program, of_queries + of_keys,
            (query, key, v, coefficients, of_query, of_key), (of_queries, T, S, v.shape[0], first, 1 / table.reach),
            D=D, R=R, J=J, ELEMENTS=tile.columns, CHUNK=tile.chunk, LOOPS=tile.loops, BV=power_of_2(D),
            num_warps=tile.warps, maxnreg=tile.registers,
        )  # fmt: skip
    return of_query, of_key


def query_features(
    query: Float[Tensor, "N T D"], v: Float[Tensor, "G D"], table: Table, *, first: int = 0
) -> Float[Tensor, "N T DR"]:
    """The first of `features` alone."""
    return features(query, query[:, :0], v, table, first=first)[0]


def key_features(key: Float[Tensor, "N S D"], table: Table) -> Float[Tensor, "N S DR"]:
    """The second of `features` alone."""
    return features(key[:, :0], key, key.flatten(0, 1)[:1], table)[1]


def products(of_query: Float[Tensor, "N T DR"], of_key: Float[Tensor, "N S DR"]) -> Float[Tensor, "N T S"]:
    """Float32 products of float16 features: the scores over max|v|, for `finish` or `weights`."""
    if of_query.is_cuda:
        return torch.bmm(of_query, of_key.mT, out_dtype=torch.float32)
    return torch.bmm(of_query.float(), of_key.float().mT)  # other devices have no product from float16 to float32


def finish(
    products: Float[Tensor, "N T S"], v: Float[Tensor, "G D"], visibility: Visibility, heads: int = 1
) -> Float[Tensor, "N T S"]:
    """Turn products into scores in place: times max|v|, and −∞ where a key is not visible."""
    _finish(products, v, visibility, heads, products, products, "scores")
    return products


def weights(
    products: Float[Tensor, "N T S"],
    v: Float[Tensor, "G D"],
    visibility: Visibility,
    heads: int,
    dtype: torch.dtype,
    sums: Float[Tensor, "N T"] | None = None,
) -> tuple[Float[Tensor, "N T S"], Float[Tensor, "N T S"]]:
    """Turn products into the softmax of the scores in place, and round it to `dtype`; S is at most LONGEST_ROW.

    A row that sees nothing becomes zeros. Each row's log-sum-exp goes into `sums`, −∞ for such a row.
    """
    if products.shape[-1] > LONGEST_ROW:
        raise SaccadeError(
            f"weights: expected at most {LONGEST_ROW} keys in a row, found {products.shape[-1]}; use finish"
        )
    rounded = products if dtype == torch.float32 else torch.empty_like(products, dtype=dtype)
    _finish(products, v, visibility, heads, rounded, products if sums is None else sums, "weights")
    return products, rounded


def _finish(
    products: Tensor, v: Tensor, visibility: Visibility, heads: int, rounded: Tensor, sums: Tensor, what: str
) -> None:
    N, T, S = products.shape
    if not products.numel():
        return
    softmax = what == "weights"
    lengths, mask, strides = visibility.pointers(products)
    low, high = visibility.bounds()
    BT, BS, warps = finish_tiles(S, softmax)
    D = v.shape[-1]
    launch(
        finished_program, N * ceil_div(T, BT) * ceil_div(S, BS),
        (products, v.contiguous(), lengths, mask, rounded, sums), (T, S, v.shape[0], heads, low, high, *strides),
        LENGTHS=visibility.lengths is not None, BAND=visibility.banded, MASK=visibility.mask is not None, SOFTMAX=softmax,
        ROUNDED=rounded is not products, SUMS=sums is not products, D=D, BT=BT, BS=BS,
        BV=power_of_2(D), num_warps=warps,
    )  # fmt: skip


def normalised(
    grad_scores: Float[Tensor, "N T S"],
) -> tuple[Float[Tensor, "N T S"], Float[Tensor, "N T"], Float[Tensor, "N T S"], Float[Tensor, "N S"]]:
    """float16 gradients with Σ|·| = SUM along rows, and each row's divisor; then the same along columns."""
    grad_scores = grad_scores.to(torch.float32).contiguous()
    N, T, S = grad_scores.shape
    by_row, by_column = (torch.empty_like(grad_scores, dtype=torch.float16) for _ in range(2))
    row_scale, column_scale = grad_scores.new_empty(N, T), grad_scores.new_empty(N, S)
    rows, along, columns, down, warps = normalise_tiles(S)
    of_columns = N * ceil_div(S, columns)
    launch(
        normalised_program, of_columns + N * ceil_div(T, rows),
        (grad_scores, by_row, row_scale, by_column, column_scale), (of_columns, T, S),
        ROWS=rows, ALONG=along, ONCE=along >= S, COLUMNS=columns, DOWN=down, num_warps=warps,
    )  # fmt: skip
    return by_row, row_scale, by_column, column_scale


def _reduced(
    rows: Tensor, sums: Tensor, scale: Tensor, v: Tensor, table: Table, query: bool, first: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The gradient of these rows from their products; for a query also v's, in parts to be summed."""
    rows, scale, v = rows.contiguous(), scale.contiguous(), v.contiguous()
    N, M, D = rows.shape
    coefficients, J = coefficients_on(table, rows.device)
    tile = reduce_tiles(D, table.rank, query)
    down = ceil_div(M, tile.rows * tile.loops)
    out = torch.empty_like(rows, dtype=dtype)
    parts = scale.new_empty(N, down, D) if query else scale
    launch(
        reduced_program, N * down * ceil_div(D, tile.columns),
        (rows, sums, scale, v, coefficients, out, parts), (M, v.shape[0], first, 1 / table.reach),
        QUERY=query, D=D, R=table.rank, J=J, CHUNK=tile.chunk, BM=tile.rows, BD=tile.columns, LOOPS=tile.loops,
        BV=power_of_2(D), num_warps=tile.warps, maxnreg=tile.registers,
    )  # fmt: skip
    return out, parts


def _products(
    of_query: Tensor,
    of_key: Tensor,
    visibility: Visibility,
    heads: int,
    start: visible_products.Start = (0, 0, 0),
    out: Tensor | None = None,
) -> Tensor:
    """`products`, or only the visible ones where that pays."""
    (N, T, _), S = of_query.shape, of_key.shape[1]
    if visible_products.pays(visibility, N, T, S):
        return visible_products.scores_of(of_query, of_key, visibility, heads, start=start, out=out)
    result = products(of_query, of_key)
    return result if out is None else out.copy_(result)


def _weighted(
    weights: Tensor,
    rows: Tensor,
    visibility: Visibility,
    heads: int,
    start: visible_products.Start,
    transposed: bool = False,
) -> Tensor:
    """Σ_s weights_ts rows_s or, transposed, Σ_t weights_ts rows_t, in float16; over visible pairs only where that pays."""
    if visible_products.pays(visibility, *weights.shape):
        return visible_products.weighted(weights, rows, visibility, heads, transposed, start=start)
    turned = weights.mT if transposed else weights
    if weights.is_cuda:
        return torch.bmm(turned, rows)
    return torch.bmm(turned.float(), rows.float()).half()


@lru_cache(maxsize=1024)
def coefficients_on(table: Table, device: torch.device) -> tuple[Float[Tensor, "4 J R"], int]:
    """The query's functions, the key's, the query's slopes and the key's on a device, and J, made even so that fewer
    programs are compiled."""
    J = max(2, table.terms + table.terms % 2)
    with torch.inference_mode(False):
        four = torch.zeros(4, J, table.rank, device="cpu")
        for place, series in enumerate((table.query, table.key, table.query_slope, table.key_slope)):
            four[place, : table.terms] = series.coefficients
        if device.type != "cuda":
            return four.to(device), J
        # Other streams will read it, so it must have arrived. Events may be waited for even where synchronising is not.
        sent = four.pin_memory().to(device, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record(torch.cuda.current_stream(device))
        arrived.synchronize()
        return sent, J


def _rows(D: int, table: Table, feature_bytes: int) -> int:
    return max(1, feature_bytes // (2 * max(1, D) * table.rank))


def _zeros(like: Tensor, *shape: int) -> Tensor:
    return like.new_zeros(shape, dtype=torch.float32)


# ---- Programs ----------------------------------------------------------------------------------------------------------


SUM = tl.constexpr(1024.0)
"""Σ|dS| of each scaled row: keeps entries of long rows above float16's subnormal numbers, and products below 2048."""

LEAST = tl.constexpr(1e-30)
"""A lower bound of Σ|dS| and of max|v| when scaling: its inverse is still a float32 number."""


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
    """Scores in place of products: times max|v|, −∞ where a key is not visible (t + low ≤ s ≤ t + high, s < length, mask).

    With SOFTMAX a tile has whole rows, and stores their weights; zeros for a row that sees nothing.
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
