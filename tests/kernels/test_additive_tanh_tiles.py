import pytest
import torch

from saccade.kernels.additive.tanh_tiles import tanh_of_sums

SINGLE, DOUBLE = torch.float32, torch.float64


@pytest.mark.parametrize(
    ("dtype", "largest", "name"),
    [
        *[(dtype, largest, "small") for dtype in (SINGLE, DOUBLE) for largest in (1e-9, 0.5)],
        *[(SINGLE, largest, "moderate") for largest in (0.51, 20.0)],
        *[(DOUBLE, largest, "moderate") for largest in (0.51, 175.0)],
        *[(SINGLE, largest, "large") for largest in (20.1, 1e30)],
        *[(DOUBLE, largest, "large") for largest in (175.1, 1e30)],
    ],
)
def test_each_way_is_tanh_and_its_slope_at_the_ends_of_its_range(dtype: torch.dtype, largest: float, name: str) -> None:
    ramp = torch.linspace(-largest, largest, 41, dtype=dtype)
    tanh = tanh_of_sums(ramp[None, :, None], ramp[None, :, None])
    assert tanh.name == name
    tile, scratch = torch.empty(1, 41, 41, 1, dtype=dtype), torch.empty(1, 41, 41, 1, dtype=dtype)
    tanh.fill(tanh.query[:, :, None], tanh.key[:, None], tile, scratch)
    weight = torch.ones_like(tile)
    weighted = tanh.times(weight, tile)
    exact = torch.tanh(ramp[:, None].double() + ramp.double())
    few_roundings = 6 * torch.finfo(dtype).eps
    found = tanh.shift + tanh.gain * weighted[0, :, :, 0]
    assert (found.double() - exact).abs().max() <= few_roundings
    slope = tanh.gain**2 * tanh.slope_times(weight, weighted, tile)[0, :, :, 0]
    assert (slope.double() - (1 - exact.square())).abs().max() <= few_roundings


def test_one_row_out_of_range_moves_all_to_the_way_that_holds() -> None:
    query, key = torch.zeros(2, 3, 5), torch.zeros(2, 4, 5)
    assert tanh_of_sums(query, key).name == "small"
    key[1, 3, 2] = -21.0
    assert tanh_of_sums(query, key).name == "large"
    key[1, 3, 2] = torch.nan
    assert tanh_of_sums(query, key).name == "large"
