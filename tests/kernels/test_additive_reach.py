"""How far queries and keys reach, read at once."""

from __future__ import annotations

import math

import pytest
import torch

pytest.importorskip("triton", reason="needs Triton: its interpreter, or a GPU")

from saccade.kernels.additive.direct_forms import reach_of


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_reach_is_the_largest_magnitude_of_each(dtype: torch.dtype) -> None:
    query, key = torch.randn(3, 5, 7).to(dtype), torch.randn(2, 9001).to(dtype)
    query[1, 2, 3], key[1, 9000] = -8.5, 6.25
    assert reach_of(query, key) == (8.5, 6.25)
    assert reach_of(query * 0, key / 2) == (0.0, 3.125)


def test_a_nan_shows_as_one_and_infinity_as_itself() -> None:
    query, key = torch.randn(3, 5), torch.randn(3, 5)
    query[2, 1], key[0, 0] = math.nan, -math.inf
    of_query, of_key = reach_of(query, key)
    assert math.isnan(of_query) and of_key == math.inf
