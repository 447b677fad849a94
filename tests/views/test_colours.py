"""The scale is even, runs one way, and begins at the background."""

import numpy as np
import pytest

from saccade.views.colours import lab_to_srgb, needs_white_text, scale, shade, shades_256, srgb_to_lab


@pytest.mark.parametrize("dark", [False, True])
def test_steps_look_equally_far_apart(dark: bool) -> None:
    steps = np.linalg.norm(np.diff(srgb_to_lab(scale(dark)), axis=0), axis=1)
    assert steps.max() / steps.min() < 1.05


@pytest.mark.parametrize("dark", [False, True])
def test_lightness_runs_one_way_so_that_grey_prints_and_every_eye_can_read_it(dark: bool) -> None:
    lightness = srgb_to_lab(scale(dark))[:, 0]
    change = np.diff(lightness if dark else -lightness)
    assert change.min() > 0
    assert abs(lightness[-1] - lightness[0]) > 0.65


# What dichromats see of a colour (Viénot, Brettel and Mollon 1999, in linear light).
PROTAN = np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]])
DEUTAN = np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]])


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("sight", [PROTAN, DEUTAN])
def test_without_red_or_green_cones_the_steps_stay_apart_and_in_order(dark: bool, sight: np.ndarray) -> None:
    srgb = scale(dark)
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = (linear @ sight.T).clip(0, 1)
    srgb = np.where(seen <= 0.0031308, seen * 12.92, 1.055 * seen ** (1 / 2.4) - 0.055)
    lab = srgb_to_lab(srgb)[::16]
    change = np.diff(lab[:, 0] if dark else -lab[:, 0])
    assert change.min() > 0.01


def test_nothing_is_the_page_and_everything_is_far_from_it() -> None:
    assert shade(0.0) == (255, 255, 255)
    assert shade(1.0) == shade(7.0)
    assert shade(-1.0) == shade(0.0)
    assert max(shade(0.0, dark=True)) < 50


@pytest.mark.parametrize("dark", [False, True])
def test_the_256_colours_go_the_same_way(dark: bool) -> None:
    levels = np.array([0, 95, 135, 175, 215, 255])
    numbers = shades_256(dark) - 16
    assert numbers.min() >= 0
    assert numbers.max() < 216
    colours = levels[np.stack([numbers // 36, numbers // 6 % 6, numbers % 6], axis=1)] / 255
    lightness = srgb_to_lab(colours)[:, 0]
    assert (np.diff(lightness if dark else -lightness) >= 0).all()
    assert len(set(numbers)) >= 10
    assert abs(lightness - srgb_to_lab(scale(dark))[:, 0]).max() < 0.12


def test_text_on_a_colour_can_be_read() -> None:
    assert needs_white_text((0.0, 0.0, 0.3))
    assert not needs_white_text((0.8, 0.9, 1.0))


def test_colours_come_back_from_lab() -> None:
    colours = np.random.default_rng(0).random((17, 3))
    np.testing.assert_allclose(lab_to_srgb(srgb_to_lab(colours)), colours, atol=1e-6)
