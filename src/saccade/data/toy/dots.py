"""Drawn pictures of two dots that lie far apart; the label says whether they have the same colour.

Each colour is as frequent under either label, and so is every place, so that one dot alone says nothing: whoever sees the
whole picture only through windows that are too small for both dots, and adds up what was seen, cannot tell.

>>> [pair.label for pair in EXAMPLES]
['same', 'different']
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray

from saccade.data.toy import check_ranges, drawn_splits

COLOURS = ((222, 60, 50), (50, 150, 70), (60, 90, 215), (235, 190, 40), (150, 70, 190), (40, 175, 190))
SAME, DIFFERENT = "same", "different"
REACH = 1  # a dot has 3 × 3 pixels
NOISE = 24  # levels from the darkest to the lightest pixel of the background


@dataclass(frozen=True)
class Dots:
    """How many pictures, of how many pixels, how far apart their dots are at least, in rows or in columns, and how many
    colours there are."""

    train: int = 4000
    valid: int = 300
    test: int = 1000
    size: int = 24
    apart: int = 14
    colours: int = 4
    seed: int = 1

    def __post_init__(self) -> None:
        check_ranges(self, size=(8, 512), colours=(2, len(COLOURS)))
        if not 3 <= self.apart <= self.size - 3:
            raise ValueError(f"apart must be from 3 to {self.size - 3}, for pictures of {self.size}: got {self.apart}")


@dataclass(frozen=True, slots=True)
class Dot:
    """One dot: the row and the column of its middle, and the number of its colour."""

    row: int
    column: int
    colour: int


@dataclass(frozen=True, slots=True)
class DotPair:
    """A picture as a description; ``grain`` seeds the noise of its background."""

    first: Dot
    second: Dot
    size: int = 24
    grain: int = 0

    @property
    def label(self) -> str:
        """Whether both dots have one colour."""
        return SAME if self.first.colour == self.second.colour else DIFFERENT

    def draw(self) -> UInt8[ndarray, "size size 3"]:
        noise = np.random.default_rng(self.grain).integers(0, NOISE, (self.size, self.size, 1), dtype=np.uint8)
        canvas = np.repeat(200 + noise, 3, axis=2).astype(np.uint8)
        for dot in (self.first, self.second):
            rows, columns = (slice(place - REACH, place + REACH + 1) for place in (dot.row, dot.column))
            canvas[rows, columns] = COLOURS[dot.colour]
        return canvas


def generate(settings: Dots) -> dict[str, list[DotPair]]:
    """The pictures of each split; a split does not change with the size of another."""
    return drawn_splits(settings, "dots", lambda draw: _pair(draw, settings))


def _pair(draw: random.Random, settings: Dots) -> DotPair:
    colour, other = draw.sample(range(settings.colours), 2)
    if draw.random() < 0.5:
        other = colour
    while True:
        places = [draw.randrange(REACH, settings.size - REACH) for _ in range(4)]
        if max(abs(places[0] - places[2]), abs(places[1] - places[3])) >= settings.apart:
            break
    first, second = Dot(places[0], places[1], colour), Dot(places[2], places[3], other)
    return DotPair(first, second, settings.size, draw.randrange(2**32))


EXAMPLES = (DotPair(Dot(3, 4, 0), Dot(20, 18, 0), grain=1), DotPair(Dot(21, 2, 2), Dot(5, 20, 3), grain=2))
