"""Drawn scenes with a caption, and the true place of every noun: two things are named, the others distract.

    a red circle left of a blue square

A scene holds two things that the caption names and up to ``distractors`` small ones that it does not. The caption follows from
the picture alone: the thing with the largest area comes first, then the second largest, and between them how the first lies to
the second. Any other thing is smaller than both. The areas of the two differ by half or more, the two differ in shape, so that
a noun names one place, and they lie apart along one axis by more than twice what they differ along the other. Distractors have
any shape and colour, also those of the caption: what is named is found by its size, not by its colour.

A scene is a description, a few numbers that compare equal where the pictures are equal; :meth:`Scene.draw` draws it with numpy
at any resolution. Places are fractions of the picture, (left, top, right, bottom).

>>> scene = EXAMPLES[0]
>>> scene.caption
'a red circle left of a blue square'
>>> [word for word, box in scene.places]
['circle', 'square']
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Float, UInt8
from numpy import ndarray

from saccade.data.toy import check_ranges, drawn_splits

Box = tuple[float, float, float, float]
Place = tuple[str, Box]

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (214, 45, 48),
    "green": (38, 158, 74),
    "blue": (44, 92, 208),
    "yellow": (244, 200, 34),
    "purple": (142, 68, 188),
    "black": (34, 36, 42),
}
RELATIONS: dict[str, tuple[int, int]] = {"left of": (-1, 0), "right of": (1, 0), "above": (0, -1), "below": (0, 1)}

# The radius of a shape is that of the circle of the same area, as a fraction of the picture.
LARGEST, SECOND, SMALL = (0.165, 0.19), (0.115, 0.135), (0.045, 0.07)
APART = 0.02  # between the boxes of two things, and between a box and the edge of the picture
LEAN = 0.45  # of the distance along the relation's axis, the most that two things differ along the other
NOISE = 46  # levels from the darkest to the lightest grain
STENCIL = 128  # cells across and down of the drawing of each shape that all sizes are taken from


@dataclass(frozen=True)
class Shapes:
    """How many scenes, of how many pixels, how many things distract at most, and the share of noisy backgrounds."""

    train: int = 6000
    valid: int = 200
    test: int = 500
    size: int = 64  # pixels across and down
    distractors: int = 3  # at least one, unless this is 0
    noisy: float = 0.5
    seed: int = 1

    def __post_init__(self) -> None:
        check_ranges(self, size=(16, 4096), distractors=(0, 8), noisy=(0, 1))


@dataclass(frozen=True, slots=True)
class Thing:
    """One drawn thing: where its box has its middle, and the radius of the circle of the same area."""

    shape: str
    colour: str
    x: float
    y: float
    radius: float

    @property
    def name(self) -> str:
        return f"{self.colour} {self.shape}"

    @property
    def box(self) -> Box:
        half_width, half_height = _reach(self.shape, self.radius)
        return self.x - half_width, self.y - half_height, self.x + half_width, self.y + half_height


@dataclass(frozen=True, slots=True)
class Scene:
    """A picture as a description: the two things that are named, largest first, then those that distract.

    ``grain`` seeds the noise of the background; None is a plain one.
    """

    things: tuple[Thing, ...]
    background: tuple[int, int, int] = (236, 236, 232)
    grain: int | None = None
    size: int = 64

    @property
    def caption(self) -> str:
        first, second = self.things[:2]
        across, down = first.x - second.x, first.y - second.y
        if abs(across) > abs(down):
            relation = "left of" if across < 0 else "right of"
        else:
            relation = "above" if down < 0 else "below"
        return f"a {first.name} {relation} a {second.name}"

    @property
    def captions(self) -> tuple[str, ...]:
        """All captions of the scene: there is one."""
        return (self.caption,)

    @property
    def places(self) -> tuple[Place, ...]:
        """The nouns of the caption, in their order, with the box of each."""
        return tuple((thing.shape, thing.box) for thing in self.things[:2])

    def draw(self, size: int | None = None) -> UInt8[ndarray, "size size 3"]:
        """The picture; ``size`` in place of the scene's own draws the same scene sharper or coarser."""
        pixels = size or self.size
        canvas = self._ground(pixels)
        for thing in self.things:
            rows, columns, cover = _drawn(thing, pixels)
            under = canvas[rows, columns]
            under += cover[..., None] * (np.asarray(COLOURS[thing.colour], np.float32) - under)
        return canvas.astype(np.uint8)

    def mask(self, number: int, size: int | None = None) -> Float[ndarray, "size size"]:
        """The share of each pixel that thing ``number`` covers: 0 and 1 are the named ones."""
        pixels = size or self.size
        whole = np.zeros((pixels, pixels), np.float32)
        rows, columns, cover = _drawn(self.things[number], pixels)
        whole[rows, columns] = cover
        return whole

    def _ground(self, pixels: int) -> Float[ndarray, "size size 3"]:
        canvas = np.empty((pixels, pixels, 3), np.float32)
        canvas[:] = self.background
        if self.grain is not None:
            # Coarse clouds with a fine grain on them, the same grey for all three channels.
            noise = np.random.default_rng(self.grain)
            clouds = noise.random((9, 9), np.float32)
            weights = _bilinear(9, pixels)
            shades = weights @ clouds @ weights.T + 0.6 * noise.random((pixels, pixels), np.float32)
            canvas += (NOISE * (shades / 1.6 - 0.5))[..., None]
            canvas += 0.5
            np.clip(canvas, 0, 255, out=canvas)
        return canvas


def generate(settings: Shapes) -> dict[str, list[Scene]]:
    """The scenes of each split; a split does not change with the size of another."""
    return drawn_splits(settings, "shapes", lambda draw: _scene(draw, settings))


def _scene(draw: random.Random, settings: Shapes) -> Scene:
    things = _named(draw)
    for _ in range(draw.randint(min(1, settings.distractors), settings.distractors)):
        shape, colour, radius = draw.choice(SHAPES), draw.choice(list(COLOURS)), draw.uniform(*SMALL)
        for _ in range(50):  # a scene without room for one more stays as it is
            thing = Thing(shape, colour, *_anywhere(draw, shape, radius), radius)
            if all(_are_apart(thing, other) for other in things):
                things.append(thing)
                break
    light = draw.randint(205, 245)
    background = (light, light - draw.randint(0, 12), light - draw.randint(0, 18))
    grain = draw.randrange(2**32) if draw.random() < settings.noisy else None
    return Scene(tuple(things), background, grain, settings.size)


def _named(draw: random.Random) -> list[Thing]:
    """The two named things, at a relation that was drawn first, so that each is as frequent."""
    (one, other), relation = draw.sample(SHAPES, 2), draw.choice(list(RELATIONS))
    colours = draw.choice(list(COLOURS)), draw.choice(list(COLOURS))
    across, down = RELATIONS[relation]
    while True:
        radii = draw.uniform(*LARGEST), draw.uniform(*SECOND)
        first = Thing(one, colours[0], *_anywhere(draw, one, radii[0]), radii[0])
        second = Thing(other, colours[1], *_anywhere(draw, other, radii[1]), radii[1])
        dx, dy = first.x - second.x, first.y - second.y
        along, aside = (dx * across, dy) if across else (dy * down, dx)
        if along > 0 and abs(aside) <= LEAN * along and _are_apart(first, second):
            return [first, second]


def _anywhere(draw: random.Random, shape: str, radius: float) -> tuple[float, float]:
    across, down = _reach(shape, radius)
    return draw.uniform(APART + across, 1 - APART - across), draw.uniform(APART + down, 1 - APART - down)


def _are_apart(one: Thing, other: Thing) -> bool:
    (left, top, right, bottom), (others_left, others_top, others_right, others_bottom) = one.box, other.box
    gaps = (others_left - right, left - others_right, others_top - bottom, top - others_bottom)
    return max(gaps) >= APART


# Shapes -------------------------------------------------------------------------------------------------------------
# A shape is a polygon around the middle of its box, or a circle; all are scaled to the area of a circle of radius 1.


def _star(points: int = 5, inner: float = 0.58) -> ndarray:
    turns = np.arange(2 * points) * math.pi / points
    reach = np.where(np.arange(2 * points) % 2, inner, 1.0)
    return np.stack([reach * np.sin(turns), -reach * np.cos(turns)], axis=1)


CORNERS: dict[str, list[tuple[float, float]]] = {
    "square": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
    "triangle": [(0, -1), (1, 0.8), (-1, 0.8)],
    "cross": [(-0.36, -1), (0.36, -1), (0.36, -0.36), (1, -0.36), (1, 0.36), (0.36, 0.36),
              (0.36, 1), (-0.36, 1), (-0.36, 0.36), (-1, 0.36), (-1, -0.36), (-0.36, -0.36)],
    "star": [(float(x), float(y)) for x, y in _star()],
}  # fmt: skip
SHAPES = ("circle", *CORNERS)


@cache
def _polygon(shape: str) -> Float[ndarray, "corners 2"]:
    """The corners of a shape whose area is π, around the middle of its box."""
    corners = np.array(CORNERS[shape], float)
    x, y = corners.T
    area = abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2
    corners -= (corners.min(0) + corners.max(0)) / 2
    return np.asarray(corners * math.sqrt(math.pi / area))


def _reach(shape: str, radius: float) -> tuple[float, float]:
    """Half of the width and of the height of the box."""
    across, down = _unit_reach(shape)
    return across * radius, down * radius


@cache
def _unit_reach(shape: str) -> tuple[float, float]:
    if shape == "circle":
        return 1.0, 1.0
    across, down = _polygon(shape).max(0)
    return float(across), float(down)


def _drawn(thing: Thing, pixels: int) -> tuple[slice, slice, Float[ndarray, "rows columns"]]:
    """The part of the picture in which a thing lies, and the share of each pixel there that it covers."""
    left, top, right, bottom = (edge * pixels for edge in thing.box)
    first_column, last_column = max(0, math.floor(left)), min(pixels, math.ceil(right))
    first_row, last_row = max(0, math.floor(top)), min(pixels, math.ceil(bottom))
    # Where the edges between pixels lie in the stencil: a pixel's share is a sum over a rectangle of it.
    across, down = STENCIL / (right - left), STENCIL / (bottom - top)
    columns = (np.arange(first_column, last_column + 1, dtype=np.float32) - left) * across
    rows = (np.arange(first_row, last_row + 1, dtype=np.float32) - top) * down
    sums = _between(_between(_stencil(thing.shape), rows).T, columns).T
    along = sums[1:] - sums[:-1]
    cover = (along[:, 1:] - along[:, :-1]) * (1 / (across * down))
    return slice(first_row, last_row), slice(first_column, last_column), cover


def _between(rows: ndarray, places: ndarray) -> ndarray:
    """The rows at these fractional places."""
    places = np.minimum(np.maximum(places, 0), STENCIL)
    before = np.minimum(places.astype(np.intp), STENCIL - 1)
    return np.asarray(rows[before] + (places - before)[:, None] * (rows[before + 1] - rows[before]))


@cache
def _stencil(shape: str) -> Float[ndarray, "edges edges"]:
    """The sums, over all that is above and to the left, of how much of each cell of its box a shape covers."""
    fine = 4 * STENCIL
    middles = (np.arange(fine) + 0.5) / fine * 2 - 1
    across, down = _unit_reach(shape)
    x, y = middles * across, middles[:, None] * down
    if shape == "circle":
        inside = x * x + y * y <= 1
    else:
        inside = np.zeros((fine, fine), bool)
        corners = _polygon(shape)
        for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            if y0 != y1:  # even-odd rule: a ray to the right crosses this side
                inside ^= ((y0 > y) != (y1 > y)) & (x < x0 + (y - y0) * (x1 - x0) / (y1 - y0))
    cells = inside.reshape(STENCIL, 4, STENCIL, 4).mean((1, 3))
    sums = np.zeros((STENCIL + 1, STENCIL + 1))
    sums[1:, 1:] = cells.cumsum(0).cumsum(1)
    return sums.astype(np.float32)


@cache
def _bilinear(coarse: int, pixels: int) -> Float[ndarray, "pixels coarse"]:
    """What each coarse cell counts for each pixel in a line of them."""
    places = np.linspace(0, coarse - 1, pixels)
    return np.asarray(np.maximum(0, 1 - np.abs(places[:, None] - np.arange(coarse))), np.float32)


EXAMPLES = (
    Scene(
        (
            Thing("circle", "red", 0.27, 0.42, 0.18),
            Thing("square", "blue", 0.74, 0.52, 0.125),
            Thing("star", "green", 0.5, 0.14, 0.055),
            Thing("square", "red", 0.55, 0.85, 0.05),
        )
    ),
    Scene(
        (
            Thing("star", "yellow", 0.6, 0.3, 0.175),
            Thing("triangle", "purple", 0.52, 0.76, 0.13),
            Thing("triangle", "yellow", 0.14, 0.6, 0.06),
        ),
        grain=5,
    ),
    Scene(
        (
            Thing("cross", "black", 0.71, 0.55, 0.17),
            Thing("circle", "green", 0.22, 0.44, 0.12),
            Thing("circle", "black", 0.4, 0.85, 0.06),
            Thing("cross", "green", 0.16, 0.8, 0.05),
            Thing("star", "red", 0.44, 0.13, 0.065),
        ),
        (222, 216, 210),
        grain=11,
    ),
)
