"""A picture and a sound, made by arithmetic alone: something to look at and to listen to in pages of generated traces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

Array = ndarray[Any, Any]

# The lake ---------------------------------------------------------------------------------------------------------

HEIGHT, WIDTH = 300, 400
FINER = 2  # pixels drawn for each that is kept, on each side: smooth edges
HORIZON = 0.56  # of the height
SUN, SAIL, MAST = (
    (0.70, 0.40),
    ((0.315, 0.36), (0.315, 0.64), (0.205, 0.64)),
    ((0.318, 0.43), (0.318, 0.64), (0.385, 0.64)),
)
HULL = ((0.185, 0.665), (0.425, 0.665), (0.385, 0.725), (0.225, 0.725))


def lake() -> Array:
    """A red boat on a calm lake below mountains, the sun going down: uint8 [300, 400, 3]."""
    rows, columns = HEIGHT * FINER, WIDTH * FINER
    y, x = np.meshgrid((np.arange(rows) + 0.5) / rows, (np.arange(columns) + 0.5) / columns, indexing="ij")
    # Distances count in the picture's height: circles stay round.
    wide = WIDTH / HEIGHT
    sky = _blend((y / HORIZON)[..., None], ((0, "#3d5a8f"), (0.55, "#d98f86"), (1, "#ffd9a0")))
    sun = np.hypot((x - SUN[0]) * wide, y - SUN[1])
    sky += np.exp(-((sun / 0.16) ** 2))[..., None] * np.array([70, 55, 20])
    sky = np.where((sun < 0.062)[..., None], _colour("#fff3cf"), sky)
    far = 0.43 + 0.055 * np.sin(9 * x + 0.6) + 0.035 * np.sin(23 * x + 2) + 0.012 * np.abs(np.sin(57 * x))
    near = 0.50 + 0.045 * np.sin(6 * x + 3.4) + 0.018 * np.sin(31 * x + 1)
    sky = np.where((y > far)[..., None], _blend(((y - far) / 0.2)[..., None], ((0, "#6d6690"), (1, "#9c86a0"))), sky)
    sky = np.where((y > near)[..., None], _colour("#3e4a63"), sky)
    ripple = 0.004 * np.sin(180 * y**2 + 14 * np.sin(5 * x))
    depth = (y - HORIZON) / (1 - HORIZON)
    water = _blend(depth[..., None], ((0, "#e8b894"), (0.45, "#7f86a6"), (1, "#33496f")))
    glitter = np.exp(-(((x - SUN[0] + 6 * ripple) * wide / (0.05 + 0.09 * depth.clip(0))) ** 2)) * (
        0.5 + 0.5 * np.sin(260 * y)
    )
    water += (glitter * (1 - 0.6 * depth.clip(0, 1)))[..., None] * np.array([95, 70, 20])
    picture = np.where((y > HORIZON)[..., None], water, sky)
    mirrored = _inside(x + 2 * ripple, 1.45 - y, (HULL, SAIL, MAST))
    picture = np.where(
        (mirrored & (y > 0.725) & (y < 0.9))[..., None], 0.72 * picture + 0.28 * _colour("#8f3a3a"), picture
    )
    for shape, colour in ((SAIL, "#fbf6ea"), (MAST, "#efe2cc"), (HULL, "#c0392f")):
        picture = np.where(_inside(x, y, (shape,))[..., None], _colour(colour), picture)
    picture = np.where(((np.abs(x - 0.317) < 0.003) & (y > 0.33) & (y < 0.67))[..., None], _colour("#5b4636"), picture)
    for left, top, size in ((0.47, 0.17, 0.030), (0.53, 0.13, 0.022), (0.56, 0.20, 0.018)):
        wings = np.abs(y - top - 0.35 * size + 0.9 * np.abs(np.abs(x - left) - 0.35 * size) - 0.2 * size)
        picture = np.where(((wings < 0.004) & (np.abs(x - left) < size))[..., None], _colour("#2c3046"), picture)
    small = picture.reshape(HEIGHT, FINER, WIDTH, FINER, 3).mean((1, 3))
    return np.asarray(np.rint(small.clip(0, 255)), np.uint8)


def _colour(code: str) -> Array:
    return np.array([int(code[place : place + 2], 16) for place in (1, 3, 5)], float)


def _blend(share: Array, stops: tuple[tuple[float, str], ...]) -> Array:
    places = [place for place, _ in stops]
    bands = np.stack([_colour(code) for _, code in stops])
    return np.concatenate([np.interp(share, places, bands[:, band]) for band in range(3)], -1)


def _inside(x: Array, y: Array, shapes: tuple[tuple[tuple[float, float], ...], ...]) -> Array:
    """Where a point lies within one of several convex shapes."""
    found = np.zeros(x.shape, bool)
    for corners in shapes:
        sides = [
            (bx - ax) * (y - ay) - (by - ay) * (x - ax)
            for (ax, ay), (bx, by) in zip(corners, (*corners[1:], corners[0]), strict=True)
        ]
        found |= np.all([side >= 0 for side in sides], 0) | np.all([side <= 0 for side in sides], 0)
    return found


# The voice --------------------------------------------------------------------------------------------------------

RATE = 8000
HOP = 0.02  # seconds a frame
BANDS = 48


@dataclass(frozen=True)
class Phone:
    """A stretch of speech: the letters that it is written with, how long it lasts, its resonances in Hz, how much of it is
    voice and how much is breath."""

    letters: str
    seconds: float
    formants: tuple[float, float, float]
    voice: float = 1.0
    breath: float = 0.0


# "we saw the moon rise", as a machine with three resonances would say it
PHRASE = (
    Phone("", 0.10, (400, 1200, 2400), 0, 0),
    Phone("w", 0.10, (300, 700, 2200), 0.6),
    Phone("e", 0.16, (290, 2250, 2900), 1.0),
    Phone(" ", 0.05, (350, 1800, 2600), 0.1),
    Phone("s", 0.13, (1800, 3000, 3700), 0, 0.5),
    Phone("a", 0.11, (680, 1050, 2500), 1.0),
    Phone("w", 0.12, (520, 850, 2450), 0.9),
    Phone(" ", 0.05, (450, 1100, 2500), 0.1),
    Phone("th", 0.07, (300, 1500, 2600), 0.35, 0.12),
    Phone("e", 0.09, (500, 1450, 2500), 0.7),
    Phone(" ", 0.05, (400, 1300, 2400), 0.1),
    Phone("m", 0.10, (260, 1050, 2250), 0.55),
    Phone("oo", 0.22, (320, 850, 2300), 1.0),
    Phone("n", 0.11, (270, 1500, 2500), 0.5),
    Phone(" ", 0.06, (350, 1300, 2300), 0.1),
    Phone("r", 0.10, (330, 1150, 1600), 0.7),
    Phone("i", 0.22, (620, 1600, 2550), 1.0),
    Phone("s", 0.12, (700, 2900, 3600), 0.25, 0.35),
    Phone("e", 0.03, (900, 2700, 3500), 0.05, 0.1),
    Phone("", 0.12, (400, 1200, 2400), 0, 0),
)


def voice() -> Array:
    """The phrase as sound: float [samples] between −1 and 1, ``RATE`` of them a second."""
    ends = np.cumsum([phone.seconds for phone in PHRASE])
    middles = ends - [phone.seconds / 2 for phone in PHRASE]
    time = np.arange(round(ends[-1] * RATE)) / RATE

    def course(values: list[float]) -> Array:
        smooth = np.interp(time, middles, values)
        return np.convolve(smooth, np.hanning(320) / np.hanning(320).sum(), "same")

    pitch = 118 - 22 * time / time[-1] + 9 * np.sin(2 * np.pi * 1.3 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    formants = [course([phone.formants[number] for phone in PHRASE]) for number in range(3)]
    voiced, breath = course([phone.voice for phone in PHRASE]), course([phone.breath for phone in PHRASE])
    sound = np.zeros_like(time)
    for harmonic in range(1, 34):
        frequency = harmonic * pitch
        gain = sum(
            strength / (1 + ((frequency - centre) / width) ** 2)
            for centre, strength, width in zip(formants, (1.0, 0.7, 0.35), (70, 90, 130), strict=True)
        )
        sound += gain * np.sin(harmonic * phase) / harmonic**0.35 * voiced * (frequency < RATE / 2)
    noise = np.random.default_rng(7).standard_normal(len(time))
    # The difference of neighbours keeps the hiss and takes the rumble.
    sound += 1.6 * breath * np.diff(noise, prepend=0.0) + 0.004 * noise
    return np.asarray(0.8 * sound / np.abs(sound).max(), np.float32)


def spectrogram(sound: Array) -> Array:
    """How strong each band is in each frame, in decibels: float [``BANDS``, frames], low bands first."""
    hop, window = round(HOP * RATE), 256
    padded = np.pad(sound, (window // 2, window // 2))
    count = len(sound) // hop
    pieces = np.stack([padded[hop * frame + hop // 2 :][:window] for frame in range(count)])
    power = np.abs(np.fft.rfft(pieces * np.hanning(window), 512)) ** 2
    mel = np.linspace(_mel(60), _mel(RATE / 2), BANDS + 2)
    edges = 700 * (10 ** (mel / 2595) - 1) * 512 / RATE
    bins = np.arange(power.shape[1])
    triangles = np.stack([np.interp(bins, edges[band : band + 3], (0.0, 1.0, 0.0)) for band in range(BANDS)])
    return np.asarray(10 * np.log10(power @ triangles.T + 1e-6).T, np.float32)


def _mel(hertz: float) -> float:
    return float(2595 * np.log10(1 + hertz / 700))
