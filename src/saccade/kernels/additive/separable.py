"""Additive scores, vᵀ tanh(q + k), and their gradients as matrix products, on any device.

With tanh(a + b) ≈ Σ_r f_r(a) g_r(b) and 1 − tanh² ≈ Σ_r f′_r(a) g_r(b) ≈ Σ_r f_r(a) g′_r(b) (tables.py), and dS the
gradient of the scores,

    scores_ts = Σ_dr v_d f_r(q_td) g_r(k_sd)
    P_tdr = Σ_s dS_ts g_r(k_sd)     ∂q_td = v_d Σ_r f′_r(q_td) P_tdr     ∂v_d = Σ_tr f_r(q_td) P_tdr
    Q_sdr = Σ_t dS_ts f_r(q_td)     ∂k_sd = v_d Σ_r g′_r(k_sd) Q_sdr

so the T × S × D sums are never stored, and R dot products replace a tanh per pair. All in float32, in blocks of rows whose
features fit in CACHE_BYTES. Legend: N items (batch × heads), T queries, S keys, D width,
R rank, G rows of v (1, heads or N).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.kernels.additive import tables
from saccade.kernels.additive.reference import check_widths
from saccade.kernels.additive.tables import Series, Table
from saccade.kernels.tiling import slices
from saccade.kernels.visibility import Visibility

CACHE_BYTES = 28 << 20
"""Size of the features and slopes of one block together: they stay in the processor's last-level cache."""

ALIVE = 4
"""Tensors of a block's rows × D × R that are alive at once in the backward pass."""


def scores(
    query: Float[Tensor, "N T D"],
    key: Float[Tensor, "N S D"],
    v: Float[Tensor, "G D"],
    visibility: Visibility,
    *,
    heads: int = 1,
    table: Table,
) -> Float[Tensor, "N T S"]:
    """Float32 scores of every query against every key, −∞ where it is not visible. Item n takes row n % G of `v`.

    `table` must reach as far as the largest |q| and |k|: beyond its reach the expansion is not tanh.
    """
    check(query, key, v)
    N, (T, D), S = query.shape[0], query.shape[1:], key.shape[1]
    result = query.new_zeros(N, T, S, dtype=torch.float32)
    v = rows_of_v(v, N)
    for items, queries, keys in blocks(N, T, S, _rows(D, table)):
        block = result[items, queries, keys]
        of_query = _features(table.query, query[items, queries], table.reach).mul_(v[items])
        of_key = _features(table.key, key[items, keys], table.reach)
        for r in range(table.rank):
            block.baddbmm_(of_query[r], of_key[r].mT)
    return visibility.hide(result, heads)


def gradients(
    query: Float[Tensor, "N T D"],
    key: Float[Tensor, "N S D"],
    v: Float[Tensor, "G D"],
    grad_scores: Float[Tensor, "N T S"],
    visibility: Visibility,
    *,
    heads: int = 1,
    table: Table,
) -> tuple[Float[Tensor, "N T D"], Float[Tensor, "N S D"], Float[Tensor, "N D"]]:
    """Float32 gradients of the query, of the key and, per item, of v. `grad_scores` is 0 where a key is not visible."""
    check(query, key, v)
    N, (T, D), S = query.shape[0], query.shape[1:], key.shape[1]
    grad_query, grad_key = (torch.zeros_like(rows, dtype=torch.float32) for rows in (query, key))
    grad_v = query.new_zeros(N, D, dtype=torch.float32)
    for items, queries, keys in blocks(N, T, S, _rows(D, table)):
        grad = grad_scores[items, queries, keys].float()  # [n, t, s]
        of_query = _features(table.query, query[items, queries], table.reach)  # [R, n, t, D]
        of_key = _features(table.key, key[items, keys], table.reach)  # [R, n, s, D]
        slopes = _features(table.query_slope, query[items, queries], table.reach)
        products = torch.zeros_like(of_query[0])  # [n, t, D], of v's gradient, before its sum over queries
        for r in range(table.rank):
            product = torch.bmm(grad, of_key[r])
            grad_query[items, queries].addcmul_(slopes[r], product)
            products.addcmul_(of_query[r], product)
        grad_v[items] += products.sum(1)
        del of_key, slopes
        slopes = _features(table.key_slope, key[items, keys], table.reach)
        for r in range(table.rank):
            grad_key[items, keys].addcmul_(slopes[r], torch.bmm(grad.mT, of_query[r]))
    v = rows_of_v(v, N)
    return grad_query.mul_(v), grad_key.mul_(v), grad_v


def _features(series: Series, rows: Float[Tensor, "N T D"], reach: float) -> Float[Tensor, "R N T D"]:
    """The functions of a series at every number, columns 0, 2, … before columns 1, 3, …: one product per parity."""
    x = rows.float().flatten() / reach
    y = 2 * x.square() - 1
    coefficients = series.on(x.device).T.clone()  # [R, J]
    J, half = coefficients.shape[1], coefficients.shape[0] // 2
    # ±T_j with signs + + − − is one multiply-add per term: T_j = 2y T_{j−1} − T_{j−2}.
    basis = x.new_empty(J, x.numel())
    basis[0] = 1
    basis[1:2] = y
    for j in range(2, J):
        torch.addcmul(basis[j - 2], y, basis[j - 1], value=2 if j % 2 else -2, out=basis[j])
        coefficients[:, j] *= 1 if j % 4 < 2 else -1
    features = x.new_empty(2 * half, x.numel())
    torch.mm(coefficients[0::2], basis, out=features[:half])
    torch.mm(coefficients[1::2], basis, out=features[half:])
    odd = features[:half] if series.odd_first else features[half:]
    odd.mul_(x)
    return features.view(-1, *rows.shape)


def _rows(D: int, table: Table) -> int:
    return max(1, CACHE_BYTES // (ALIVE * 4 * max(1, D) * max(table.rank, table.terms)))


def blocks(N: int, T: int, S: int, rows: int) -> Iterator[tuple[slice, slice, slice]]:
    """Slices of items, queries and keys with at most `rows` queries and `rows` keys in each: whole items where they fit."""
    if not N * T * S:
        return
    items = min(N, max(1, rows // max(T, S)))
    yield from itertools.product(slices(0, N, items), slices(0, T, rows), slices(0, S, rows))


def rows_of_v(v: Float[Tensor, "G D"], N: int) -> Float[Tensor, "N 1 D"]:
    """The v of each item, in float32."""
    return v.float().repeat(N // v.shape[0] if len(v) else 0, 1)[:, None]


def check(query: Tensor, key: Tensor, v: Tensor) -> None:
    """Raise unless the widths are equal and the expansion is accurate enough for the dtype."""
    check_widths(query, key, v)
    tables.tolerance(query.dtype)
