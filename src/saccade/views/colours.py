"""The colour scale of weights, from the background (0) to strong (1).

Steps are equal in Oklab (Ottosson 2020), where equal distances look equal. Lightness is monotonic, so the scale works with
every kind of colour blindness and in grey prints; hue changes too, so that neighbours differ more.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

STEPS = 256
# (lightness, chroma, hue in degrees) along the scale, on paper and on a dark screen.
PAPER = ((1.0, 0.0, 215.0), (0.90, 0.055, 215.0), (0.72, 0.115, 232.0), (0.50, 0.135, 255.0), (0.27, 0.095, 275.0))
SCREEN = ((0.20, 0.03, 285.0), (0.36, 0.115, 282.0), (0.55, 0.135, 250.0), (0.77, 0.12, 205.0), (0.97, 0.10, 115.0))

# The same scales in the 6 × 6 × 6 cube of a 256-colour terminal.
PAPER_256 = (231, 195, 153, 117, 75, 74, 38, 32, 26, 25, 24, 18, 17)
SCREEN_256 = (16, 17, 18, 19, 24, 25, 31, 32, 38, 44, 80, 86, 158, 193, 229)


@lru_cache(maxsize=2)
def scale(dark: bool = False) -> Float[ndarray, "steps 3"]:
    """The scale as sRGB between 0 and 1: row 0 is the background, row 255 the strongest weight."""
    knots = np.array([_lch_to_lab(*knot) for knot in (SCREEN if dark else PAPER)])
    fine = np.linspace(0, len(knots) - 1, 4096)
    path = np.stack([np.interp(fine, range(len(knots)), smooth) for smooth in knots.T], axis=1)
    for _ in range(3):  # smooth the knots: a kink in the path would look like an edge in the picture
        path[200:-200] = np.stack([np.convolve(part, np.ones(401) / 401, "valid") for part in path.T], axis=1)
    length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])
    even = np.linspace(0, length[-1], STEPS)
    lab = np.stack([np.interp(even, length, part) for part in path.T], axis=1)
    return lab_to_srgb(lab)


def shade(strength: float, dark: bool = False) -> tuple[int, int, int]:
    """The colour of a strength between 0 and 1, as bytes."""
    red, green, blue = np.rint(scale(dark)[round(min(max(strength, 0.0), 1.0) * (STEPS - 1))] * 255).astype(int)
    return int(red), int(green), int(blue)


@lru_cache(maxsize=2)
def shades_256(dark: bool = False) -> Int[ndarray, "steps"]:
    """For each step of the scale the colour of a 256-colour terminal that is nearest in lightness, of those along the scale.
    (The nearest of all 240 would jump between greys and hues.)"""
    numbers = np.array(SCREEN_256 if dark else PAPER_256)
    red, green, blue = (numbers - 16) // 36, (numbers - 16) // 6 % 6, (numbers - 16) % 6
    colours = np.array([0, 95, 135, 175, 215, 255])[np.stack([red, green, blue], axis=1)] / 255
    distance = abs(srgb_to_lab(scale(dark))[:, None, 0] - srgb_to_lab(colours)[None, :, 0])
    return np.asarray(numbers[distance.argmin(1)])


def needs_white_text(colour: tuple[float, float, float]) -> bool:
    """Whether white reads better than black on a colour (components between 0 and 1)."""
    return bool(srgb_to_lab(np.array([colour]))[0, 0] < 0.63)


def _lch_to_lab(lightness: float, chroma: float, hue: float) -> tuple[float, float, float]:
    angle = np.deg2rad(hue)
    return lightness, float(chroma * np.cos(angle)), float(chroma * np.sin(angle))


# Ottosson's matrices: linear sRGB → cone responses, their cube roots → Lab.
_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def srgb_to_lab(srgb: Float[ndarray, "N 3"]) -> Float[ndarray, "N 3"]:
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    return np.asarray(np.cbrt(linear @ _CONES.T) @ _LAB.T)


def lab_to_srgb(lab: Float[ndarray, "N 3"]) -> Float[ndarray, "N 3"]:
    linear = (lab @ np.linalg.inv(_LAB).T) ** 3 @ np.linalg.inv(_CONES).T
    linear = linear.clip(0, 1)
    return np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055).clip(0, 1)
