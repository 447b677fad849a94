"""Points and the order to choose them in: numbers to sort, and convex hulls (Vinyals, Fortunato & Jaitly 2015).

    sorting:  numbers           → the order that sorts them, ascending
    hull:     points (x, y)     → their convex hull's corners, counter-clockwise from the one with the lowest position

Positions count from 0. Both are drawn by seed on a grid of four decimals, without a point twice in a record: numbers print as
they are, no two are tied, and the hull is computed in whole numbers, so exactly.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

GRID = 10_000  # a coordinate is one of so many steps from 0 to 1
FEWEST = {"sorting": 2, "hull": 3}  # points below which there is nothing to learn
DRAWN = {"train": 20_000, "valid": 1000, "test": 1000}  # records, unless the recipe says how many
EXAMPLES: tuple[str, ...] = ()  # records of the test set

Coordinates = tuple[tuple[float, ...], ...]
Place = tuple[float, float]
Drawn = tuple[Coordinates, tuple[int, ...]]  # points, and the positions to choose in order


def generate(data: Any, splits: Sequence[str] = ("test", "valid", "train")) -> dict[str, list[Drawn]]:
    """(points, order) of each split of a recipe's ``data``. A split is drawn by itself: ``test`` does not change with the size
    of ``train``.

    The records of ``test`` are in no other split, and those of ``valid`` are not in ``train``.
    """
    made: dict[str, list[Drawn]] = {}
    held: set[Coordinates] = set()
    for split in (name for name in ("test", "valid", "train") if name in splits):
        size = getattr(data, split) or DRAWN[split]
        rng = random.Random(f"{data.seed} {data.source} {split}")  # seeding by text is the same in every process
        made[split] = []
        while len(made[split]) < size:
            points, order = _draw(data, rng)
            if points not in held:
                made[split].append((points, order))
        if split != "train":
            held.update(points for points, _ in made[split])
    return made


def _draw(data: Any, rng: random.Random) -> Drawn:
    count = rng.randint(data.least, data.most)
    if data.source == "sorting":
        numbers = rng.sample(range(GRID), count)
        return tuple((number / GRID,) for number in numbers), sorting_order(numbers)
    places = [divmod(place, GRID) for place in rng.sample(range(GRID * GRID), count)]
    return tuple((x / GRID, y / GRID) for x, y in places), convex_hull(places)


def sorting_order(numbers: Sequence[float]) -> tuple[int, ...]:
    """The positions of the numbers, smallest number first; of equal ones the earlier first.

    >>> sorting_order([0.3, 0.1, 0.7])
    (1, 0, 2)
    """
    return tuple(sorted(range(len(numbers)), key=numbers.__getitem__))


def convex_hull(points: Sequence[Place]) -> tuple[int, ...]:
    """The positions of the hull's corners, counter-clockwise (y upwards) from the lowest position.

    A point on an edge is not a corner; of equal points the first stands for all. Exact for whole numbers. By Andrew's
    monotone chain: the lower side from left to right, then the upper side back.

    >>> convex_hull([(5, 5), (9, 9), (0, 0), (0, 9), (9, 0)])
    (1, 3, 2, 4)
    """
    first: dict[Place, int] = {}
    for position, point in enumerate(points):
        first.setdefault(point, position)
    ordered = sorted(first)
    if len(ordered) < 2:
        return tuple(first.values())
    corners = [first[point] for point in (*_side(ordered)[:-1], *_side(ordered[::-1])[:-1])]
    start = corners.index(min(corners))
    return (*corners[start:], *corners[:start])


def _side(ordered: Sequence[Place]) -> list[Place]:
    """One side of the hull: of points in their order, those between which every turn is to the left."""
    side: list[Place] = []
    for point in ordered:
        while len(side) > 1 and _turn(side[-2], side[-1], point) <= 0:
            side.pop()
        side.append(point)
    return side


def _turn(a: Place, b: Place, c: Place) -> float:
    """Positive where the way a → b → c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
