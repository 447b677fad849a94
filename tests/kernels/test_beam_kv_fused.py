"""One launch reads what the reference reads: any sizes, any type, items shared by rows, lines of descent, nothing kept."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from saccade.kernels.beam_kv import fused, reference

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}


def compare(
    R: int, N: int, H: int, P: int, D: int, counts: list[int], dtype: torch.dtype, *, line: bool = False
) -> None:
    query, key, value = (
        torch.randn(*size, H, *rest).to(DEVICE, dtype) for size, rest in (((R,), (D,)), ((N,), (P, D)), ((N,), (P, D)))
    )
    asked: dict[str, Any] = {"counts": torch.tensor(counts, device=DEVICE), "scale": 0.6}
    if line:
        rows = torch.randint(R, (R, P), device=DEVICE)
        asked["line"] = (rows - torch.arange(R, device=DEVICE).unsqueeze(1)).to(torch.int32)
    exact = reference.cached_attention(query.double(), key.double(), value.double(), **asked)
    found = fused.cached_attention(query, key, value, **asked)
    assert found.dtype is dtype
    within(found, exact, TOLERANCE[dtype])


def within(found: Tensor, exact: Tensor, tolerance: float) -> None:
    assert found.shape == exact.shape
    assert (found.double() - exact).abs().max().item() <= tolerance * max(exact.abs().max().item(), 0.1)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_rows_with_lines_of_descent_read_what_the_reference_reads(dtype: torch.dtype) -> None:
    compare(6, 6, 2, 7, 5, [7, 1, 0, 3, 2, 6], dtype, line=True)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_rows_that_share_items_read_what_the_reference_reads(dtype: torch.dtype) -> None:
    compare(6, 2, 3, 5, 11, [5, 2], dtype)


def test_more_places_than_a_chunk_are_gone_through_in_turn() -> None:
    assert fused.CHUNK < 70
    compare(3, 3, 1, 70, 4, [70, 33, 32], torch.float32, line=True)


def test_what_lies_beyond_a_rows_places_is_never_read() -> None:
    query, key, value = torch.randn(2, 1, 3), torch.full((2, 1, 5, 3), torch.nan), torch.full((2, 1, 5, 3), torch.nan)
    key[0, :, :2], value[0, :, :2] = 1.0, 4.0
    found = fused.cached_attention(query, key, value, torch.tensor([2, 0]), scale=1.0)
    torch.testing.assert_close(found, torch.tensor([4.0, 0.0]).view(2, 1, 1).expand(2, 1, 3))
