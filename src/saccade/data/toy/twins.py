"""Drawn pictures of two things that are alike, on a plain ground; the label is their shape.

Both have one shape, one colour and one size, and lie beside each other or one above the other, anywhere, or with a smaller
``spread`` near the same places: a generator of such pictures has to make parts agree that are far apart.

>>> [pair.label for pair in EXAMPLES]
['circle', 'cross']
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from jaxtyping import UInt8
from numpy import ndarray

from saccade.data.toy import check_ranges, drawn_splits
from saccade.data.toy.shapes import COLOURS, SHAPES, Scene, Thing

RADII = (0.15, 0.18)  # of the circle of the same area, as fractions of the picture
APART = 0.5  # between the middles, along the axis on which they lie
EDGE = 0.24  # of the middles from the edges, at least


@dataclass(frozen=True)
class Twins:
    """How many pictures, of how many pixels, and how many shapes.

    Attributes:
        spread: how far places vary, 0: not at all.
        above: half of the pairs lie one above the other; all beside each other otherwise.
    """

    train: int = 4000
    valid: int = 200
    test: int = 1000
    size: int = 24
    shapes: int = 3
    spread: float = 1.0
    above: bool = True
    seed: int = 1

    def __post_init__(self) -> None:
        check_ranges(self, size=(8, 512), shapes=(2, len(SHAPES)), spread=(0, 1))


@dataclass(frozen=True, slots=True)
class TwinPair:
    """A picture as a description: the middles of both things are fractions of it."""

    shape: str
    colour: str
    first: tuple[float, float]
    second: tuple[float, float]
    radius: float
    size: int = 24

    @property
    def label(self) -> str:
        """The shape of both things."""
        return self.shape

    def draw(self) -> UInt8[ndarray, "size size 3"]:
        things = tuple(Thing(self.shape, self.colour, *middle, self.radius) for middle in (self.first, self.second))
        return Scene(things, size=self.size).draw()


def generate(settings: Twins) -> dict[str, list[TwinPair]]:
    """The pictures of each split; a split does not change with the size of another."""
    return drawn_splits(settings, "twins", lambda draw: _pair(draw, settings))


def _pair(draw: random.Random, settings: Twins) -> TwinPair:
    shape, colour = draw.choice(KINDS[: settings.shapes]), draw.choice(list(COLOURS))

    def place(most: float) -> float:
        middle, reach = (EDGE + most) / 2, settings.spread * (most - EDGE) / 2
        return draw.uniform(middle - reach, middle + reach)

    along = place(1 - EDGE - APART)
    aside = place(1 - EDGE), place(1 - EDGE)
    places = (along, aside[0]), (along + APART, aside[1])
    turned = draw.random() >= 0.5 and settings.above
    first, second = ((down, across) for across, down in places) if turned else places
    return TwinPair(shape, colour, first, second, draw.uniform(*RADII), settings.size)


KINDS = ("circle", "cross", "square", *(shape for shape in SHAPES if shape not in ("circle", "cross", "square")))
EXAMPLES = (
    TwinPair("circle", "red", (0.25, 0.4), (0.75, 0.6), 0.17),
    TwinPair("cross", "blue", (0.5, 0.25), (0.6, 0.75), 0.17),
)
