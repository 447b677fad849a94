"""tanh(a + b) and its slope are what the tables' short sums of products give, within the error they state."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.additive import tables
from saccade.kernels.additive.tables import Table, evaluated, table_for, tolerance

REACHES = [1e-3, 0.1, 0.7, 2.6, 4.1, 5.6]


def table_of(reach: float, tolerance: float, ranks: tuple[int, ...] = tables.RANKS) -> Table:
    table = table_for(reach, tolerance, ranks)
    assert table is not None
    return table


def points(table: Table) -> tuple[Tensor, Tensor]:
    """Numbers all over [−L, L], its ends among them, that are no grid."""
    a, b = (2 * torch.rand(2, 301, dtype=torch.float64) - 1) * table.reach
    a[:2], b[:2] = torch.tensor([table.reach, -table.reach]), table.reach
    return a, b


@pytest.mark.parametrize("allowed", [2e-3, 2e-4, 1e-5])
@pytest.mark.parametrize("reach", REACHES)
def test_tanh_and_both_slopes_are_as_exact_as_stated_and_asked(reach: float, allowed: float) -> None:
    table = table_for(reach, allowed)
    if table is None:
        assert reach > 5
        return
    a, b = points(table)
    tanh = torch.tanh(a[:, None] + b)
    query, key, query_slope, key_slope = (
        evaluated(series, x, table.reach)
        for series, x in ((table.query, a), (table.key, b), (table.query_slope, a), (table.key_slope, b))
    )
    assert query.shape == (301, table.rank)
    error, by_query, by_key = (
        (found - expected).abs().max().item()
        for found, expected in (
            (query @ key.T, tanh),
            (query_slope @ key.T, 1 - tanh**2),
            (query @ key_slope.T, 1 - tanh**2),
        )
    )
    assert error <= 1.1 * table.error + 1e-12 and table.error <= allowed * math.tanh(2 * table.reach)
    assert max(by_query, by_key) <= 1.1 * table.slope_error + 1e-12 and table.slope_error <= allowed
    assert error >= table.error / 3  # and what is stated is no mere bound


@pytest.mark.parametrize("reach", [0.7, 2.6, 4.1])
def test_no_lower_rank_would_do(reach: float) -> None:
    table = table_of(reach, 2e-4)
    assert table_for(reach, 2e-4, (table.rank - 2,)) is None


def test_ranks_are_low() -> None:
    """What makes the expansion worth while: the span is chosen for tanh and slope together, on Chebyshev's nodes."""
    found = [table_of(reach, 2e-3).rank for reach in (0.25, 1.0, 2.6, 4.0, 5.6)]
    assert all(rank <= most for rank, most in zip(found, (4, 6, 12, 16, 22), strict=True)), found


def test_tiny_sums_cancel_as_they_should() -> None:
    """A pair is e(a) o(b) + o(a) e(b): nothing at all where b = −a, whatever is left out or rounded."""
    table = table_of(2.6, 2e-3)
    a, _ = points(table)
    at_zero = (evaluated(table.query, a, table.reach) * evaluated(table.key, -a, table.reach)).sum(-1)
    assert at_zero.abs().max() < 1e-15


@pytest.mark.parametrize("reach", [0.0, 1e-9, 0.3, 2.0, 2.0001, 5.0])
def test_a_table_reaches_as_far_as_asked_and_little_further(reach: float) -> None:
    table = table_of(reach, 2e-3)
    assert reach <= table.reach <= max(reach * 2 ** (1 / tables.STEPS) * 1.001, tables.SMALLEST)


@pytest.mark.parametrize("reach", [7.9, 8.1, 1e30, math.inf, math.nan])
def test_inputs_too_large_for_the_ranks_have_no_table(reach: float) -> None:
    assert table_for(reach, 2e-4) is None


def test_ranks_can_be_restricted() -> None:
    table = table_of(2.6, 2e-3, tables.TILED_RANKS)
    assert table.rank == 16
    assert table_for(2.6, 2e-3, (4, 8)) is None


def test_pairs_beyond_float64s_precision_are_left_out_not_noise() -> None:
    table = table_of(1e-3, 2e-4, (32,))
    coefficients = torch.stack([table.query.coefficients, table.query_slope.coefficients])
    assert coefficients.isfinite().all()
    assert (coefficients.abs().amax((0, 1)) == 0).sum() >= 20
    assert table.error < 1e-6


def test_a_table_is_made_once_and_outlives_inference_mode() -> None:
    tables._table.cache_clear()
    with torch.inference_mode():
        table = table_of(1.3, 2e-3)
        coefficients = table.key.on(torch.device("cpu"))
    assert table_for(1.3, 2e-3) is table
    assert table_for(1.3001, 2e-3) is table
    assert not table.query.coefficients.is_inference() and not coefficients.is_inference()
    assert table.key.on(torch.device("cpu")) is coefficients


def test_what_is_served_gets_its_tolerance_and_float64_is_refused() -> None:
    assert tolerance(torch.bfloat16) <= 2.0**-8
    assert tolerance(torch.float16) <= 2.0**-11
    assert tolerance(torch.float32) <= 2.0**-11
    with pytest.raises(SaccadeError, match="expected inputs of bfloat16, float16, float32, found float64"):
        tolerance(torch.float64)
