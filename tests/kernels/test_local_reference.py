"""Local attention's formula: Luong's numbers, and what attention over a window's mask gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from saccade.attention.core import attend, weigh
from saccade.attention.scores import additive, dot, scaled_dot
from saccade.attention.windows import band, causal, gaussian, padding
from saccade.errors import SaccadeError
from saccade.kernels.local import reference

N, T, S, D, E = 3, 7, 11, 5, 4
LENGTHS = torch.tensor([11, 6, 0], device="cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture
def rows() -> dict[str, Any]:
    torch.manual_seed(7)
    shapes = {"query": (N, T, D), "key": (N, S, D), "value": (N, S, E)}
    return {name: torch.randn(shape, dtype=torch.float64) for name, shape in shapes.items()}


def test_the_gain_of_the_paper_leaves_weights_that_sum_to_less_than_one() -> None:
    # S = 7 and p = 3.5 counted from 1, radius 2: the window {1, …, 5} with 0.2 each, and the sum 0.4916.
    query, key = torch.zeros(1, 1, 3), torch.zeros(1, 7, 3)
    inputs, reach = reference.checked(query, key, key, radius=2, sigma=1.0, centre=torch.tensor([[2.5]]))
    expected = torch.tensor([0.2 * gain for gain in (0.0439, 0.3247, 0.8825, 0.8825, 0.3247)] + [0.0, 0.0])
    torch.testing.assert_close(reference.local_weights(inputs, reach, 1.0)[0, 0], expected, atol=1e-5, rtol=0)


def test_a_band_with_lengths_is_that_of_the_windows(rows: dict[str, Any]) -> None:
    found = reference.local_attention(**rows, radius=2, shift=3, lengths=LENGTHS, scale=D**-0.5)
    window = band(2) & padding(LENGTHS)
    torch.testing.assert_close(found, attend(*rows.values(), score=scaled_dot, window=window, offset=3))


def test_a_gaussian_with_lengths_is_that_of_the_windows(rows: dict[str, Any]) -> None:
    centre, v = torch.rand(N, T, dtype=torch.float64) * (S + 4) - 2, torch.randn(D, dtype=torch.float64)
    found = reference.local_attention(**rows, radius=3, centre=centre, lengths=LENGTHS, v=v, sigma=1.5)
    window = gaussian(centre, 3) & padding(LENGTHS)
    torch.testing.assert_close(found, attend(*rows.values(), score=additive(v), window=window))


def test_seeing_nothing_ahead_is_the_causal_band(rows: dict[str, Any]) -> None:
    found = reference.local_attention(**rows, radius=2, ahead=0)
    torch.testing.assert_close(found, attend(*rows.values(), score=dot, window=band(2) & causal("top-left")))


def test_a_radius_beyond_the_keys_sees_them_all(rows: dict[str, Any]) -> None:
    found = reference.local_attention(**rows, radius=10**9)
    torch.testing.assert_close(found, attend(*rows.values(), score=dot))


def test_the_weights_are_those_of_the_core(rows: dict[str, Any]) -> None:
    centre = torch.rand(N, T, dtype=torch.float64) * (S + 4) - 2
    weights = reference.local_weights(
        *reference.checked(**rows, radius=2, centre=centre, sigma=1.0, lengths=LENGTHS), 1.0
    )
    window = gaussian(centre, 2) & padding(LENGTHS)
    torch.testing.assert_close(weights, weigh(rows["query"], rows["key"], score=dot, window=window))


def test_a_centre_that_is_no_number_or_far_away_sees_nothing(rows: dict[str, Any]) -> None:
    centre = torch.full((N, T), 3.0, dtype=torch.float64)
    centre[:, 0], centre[:, 1], centre[:, 2] = torch.nan, 1e300, -torch.inf
    found = reference.local_attention(**rows, radius=2, centre=centre)
    assert not found[:, :3].any()
    assert found[:, 3:].all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"radius": -1}, "radius and ahead must not be negative: got -1 and -1"),
        ({"ahead": -2}, "got 2 and -2"),
        ({"sigma": 0.0}, "sigma must be positive: got 0.0"),
        ({"centre": torch.zeros(T)}, r"expected centre \[N, T\] = \[3, 7\], found \[7\]"),
        ({"lengths": torch.ones(2)}, r"expected lengths \[N\] = \[3\], found \[2\]"),
        ({"v": torch.zeros(D + 1)}, "one width, found 5, 5, 6"),
        ({"v": torch.zeros(2, D)}, r"expected v \[D\] or \[N, D\] with N = 3, found \[2, 5\]"),
        ({"value": torch.zeros(N, S + 1, E)}, r"found \[3, 7, 5\], \[3, 11, 5\], \[3, 12, 4\]"),
    ],
)
def test_what_does_not_fit_is_named(rows: dict[str, Any], wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(SaccadeError, match=message):
        reference.local_attention(**{**rows, "radius": 2, **wrong})
