"""Points and the order to choose them in: the records of pointer networks (Vinyals, Fortunato & Jaitly 2015). No torch.

    sorting:  numbers           → the order that sorts them, ascending
    hull:     points (x, y)     → their convex hull's corners, counter-clockwise from the one with the lowest position

Positions count from 0. Both are drawn by seed on a grid of four decimals, without a point twice in a record: numbers
print as they are, no two are tied, and the hull is computed in whole numbers, so exactly. The user's own records are
lines of JSON: ``{"points": [[0.1, 0.7], [0.4, 0.2], [0.9, 0.5]], "order": [2, 0, 1]}``; a number may stand for a point
of one coordinate.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal

from saccade.data.config import DataConfig, check_least
from saccade.data.files.lines import text_lines, unpacked
from saccade.data.paths import locate
from saccade.data.splits import Splits, hold_out
from saccade.errors import InputError

GRID = 10_000  # a coordinate is one of so many steps from 0 to 1
FEWEST = {"sorting": 2, "hull": 3}  # points below which there is nothing to learn
DRAWN = {"train": 20_000, "valid": 1000, "test": 1000}  # records, unless the recipe says how many
LARGEST = 3.4e38  # what 32 bits hold
POINTS, ORDER = "points", "order"

Coordinates = tuple[tuple[float, ...], ...]
Place = tuple[float, float]


@dataclass(frozen=True)
class Points:
    """Points, all of one width, and the positions (from 0) that should be chosen, in that order."""

    source: Coordinates
    target: tuple[int, ...]


@dataclass(frozen=True)
class PointData(DataConfig):
    """The ``data`` part of a recipe for points.

    With ``source``, train, valid and test say how many records are drawn; without, they are JSONL files.
    """

    source: Literal["sorting", "hull"] | None = None
    train: int | str | None = None  # type: ignore[assignment]
    valid: int | str | None = None  # type: ignore[assignment]
    test: int | str | None = None  # type: ignore[assignment]
    format: Literal["jsonl"] | None = None
    least: int = 5  # points of a record that is drawn, from least …
    most: int = 10  # … to most, each number as often
    seed: int = 1  # the same seed draws the same records, everywhere

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, least=FEWEST.get(self.source or "", 1))
        if not self.least <= self.most <= GRID:
            raise ValueError(f"most must be from least={self.least} to {GRID}: got {self.most}")

    def check_source(self) -> None:
        if self.source is None and self.train is None:
            raise ValueError("source or train must be given, e.g. 'source: hull' or 'train: FILE': got neither")
        for name in DRAWN:
            given = getattr(self, name)
            if self.source is not None and (isinstance(given, str) or (given is not None and given < 1)):
                raise ValueError(f"{name} must be how many records to draw (1 or more) with a source: got {given}")
            if self.source is None and isinstance(given, int):
                raise ValueError(f"{name} must be a file (records are drawn with a source only): got {given}")


# Records that are drawn ----------------------------------------------------------------------------------------------


def generate(data: PointData, splits: Sequence[str] = ("test", "valid", "train")) -> dict[str, list[Points]]:
    """The records of each split. A split is drawn by itself: ``test`` does not change with the size of ``train``.

    What ``test`` holds is in no other split, and what ``valid`` holds is not in ``train``.
    """
    made: dict[str, list[Points]] = {}
    held: set[Coordinates] = set()
    for split in (name for name in ("test", "valid", "train") if name in splits):
        size = getattr(data, split) or DRAWN[split]
        rng = random.Random(f"{data.seed} {data.source} {split}")  # seeding by text is the same in every process
        made[split] = []
        while len(made[split]) < size:
            record = _draw(data, rng)
            if record.source not in held:
                made[split].append(record)
        if split != "train":
            held.update(record.source for record in made[split])
    return made


def _draw(data: PointData, rng: random.Random) -> Points:
    count = rng.randint(data.least, data.most)
    if data.source == "sorting":
        numbers = rng.sample(range(GRID), count)
        return Points(tuple((number / GRID,) for number in numbers), sorting_order(numbers))
    places = [divmod(place, GRID) for place in rng.sample(range(GRID * GRID), count)]
    return Points(tuple((x / GRID, y / GRID) for x, y in places), convex_hull(places))


def sorting_order(numbers: Sequence[float]) -> tuple[int, ...]:
    """The positions of the numbers, smallest number first; of equal ones the earlier first.

    >>> sorting_order([0.3, 0.1, 0.7])
    (1, 0, 2)
    """
    return tuple(sorted(range(len(numbers)), key=numbers.__getitem__))


def convex_hull(points: Sequence[Place]) -> tuple[int, ...]:
    """The positions of the hull's corners, counter-clockwise (y upwards) from the lowest position.

    A point on an edge is no corner; of equal points the first stands for all. Exact for whole numbers. By Andrew's
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


# Records from elsewhere ----------------------------------------------------------------------------------------------


def load_points(data: PointData, folder: Path, seed: int) -> Splits:
    """The records that ``data`` names; relative paths start at ``folder``."""
    if data.source is not None:
        made = generate(data)
        return Splits(made["train"], made["valid"], made["test"])
    files = {name: getattr(data, name) for name in DRAWN}
    records = {name: read_points(locate(file, folder)) for name, file in files.items() if file is not None}
    return hold_out(records, data.hold_out, seed)


def read_file(path: Path, data: PointData) -> list[Points]:
    """The records of one file."""
    return read_points(path)


def read_points(path: str | Path) -> list[Points]:
    """The records of a JSONL file (also gzipped or xz'd)."""
    path = Path(path)
    name = unpacked(path)
    if name.suffix.lower() != ".jsonl":
        found = f"the suffix {name.suffix!r}" if name.suffix else "a name without a suffix"
        raise InputError(path, expected="a file of records (.jsonl, also .gz or .xz)", found=found)
    records = list(_records(path))
    if not records:
        raise InputError(path, expected="at least one record", found="an empty file")
    return records


def _records(path: Path) -> Iterator[Points]:
    for number, line in enumerate(text_lines(path), start=1):
        if line.strip():
            record = parse(line, path, line=number, expected="a JSON object")
            if not isinstance(record, dict):
                raise InputError(path, line=number, expected="a JSON object", found=_name(record))
            yield _record(record, path, number)


def parse(text: str, where: str | Path, *, expected: str, line: int | None = None) -> Any:
    """What a JSON text says."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as fault:
        # Its own sentence counts lines within the text, which is one line.
        found = f"no JSON: {fault.msg} (character {fault.pos + 1})"
    except (ValueError, RecursionError) as fault:  # a number of thousands of digits, brackets too deep
        found = f"no JSON: {fault}"
    raise InputError(where, line=line, expected=expected, found=found)


def records_of(data: Any) -> list[Points]:
    """Records from a list of (points, order), of dicts with those keys, or from a DataFrame with those columns."""
    if hasattr(data, "to_dict") and hasattr(data, "columns"):
        data = data.to_dict("records")
    records = []
    for number, item in enumerate(data, start=1):
        if isinstance(item, Points):
            item = (item.source, item.target)
        if not isinstance(item, Mapping):
            if not isinstance(item, tuple | list) or len(item) != 2:
                expected = "points and the order to choose them in"
                raise InputError("data", line=number, expected=expected, found=_short(item))
            item = dict(zip((POINTS, ORDER), item, strict=True))
        records.append(_record(item, "data", number))
    if not records:
        raise InputError("data", expected="records of points and their order", found="none")
    return records


def _record(record: Mapping[Any, Any], where: str | Path, line: int) -> Points:
    for key in (POINTS, ORDER):
        if key not in record:
            found = "the keys " + ", ".join(_short(key) for key in list(record)[:20]) if record else "no keys"
            raise InputError(where, line=line, field=key, expected=f"the key {key!r}", found=found)
    source = as_points(record[POINTS], where, line=line)
    return Points(source, _order(record[ORDER], len(source), where, line))


def as_points(value: Any, where: str | Path, *, line: int | None = None) -> Coordinates:
    """Points from lists of numbers, from numbers (points of one coordinate), or from arrays of either."""
    rows = _listed(value)
    if not isinstance(rows, list) or not rows:
        found = _name(rows) if not isinstance(rows, list) else "an empty list"
        raise InputError(where, line=line, field=POINTS, expected="a list of points", found=found)
    points: list[tuple[float, ...]] = []
    for number, row in enumerate(map(_listed, rows)):
        field = f"{POINTS}[{number}]"
        if isinstance(row, list):
            point = tuple(_coordinate(part, where, line, f"{field}[{i}]") for i, part in enumerate(row))
        else:
            point = (_coordinate(row, where, line, field),)
        if not point:
            raise InputError(where, line=line, field=field, expected="a point's numbers", found="an empty list")
        if points and len(point) != len(points[0]):
            expected = f"as many numbers as in {POINTS}[0], {len(points[0])}"
            raise InputError(where, line=line, field=field, expected=expected, found=str(len(point)))
        points.append(point)
    return tuple(points)


def _coordinate(value: Any, where: str | Path, line: int | None, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(where, line=line, field=field, expected="a number", found=_name(value))
    try:
        number = float(value)
    except OverflowError:  # a whole number of hundreds of digits
        number = math.inf
    if not abs(number) <= LARGEST:  # NaN is not below anything
        found = "NaN" if math.isnan(number) else "a larger one"
        raise InputError(where, line=line, field=field, expected="a number that 32 bits hold", found=found)
    return number


def _order(value: Any, count: int, where: str | Path, line: int) -> tuple[int, ...]:
    positions = _listed(value)
    if not isinstance(positions, list):
        raise InputError(where, line=line, field=ORDER, expected="a list of positions", found=_name(positions))
    for number, position in enumerate(positions):
        whole = isinstance(position, Integral) and not isinstance(position, bool)
        if not whole or not 0 <= int(position) < count:
            expected = f"a position from 0 to {count - 1}"
            found = _short(position) if _name(position) == "a number" else _name(position)
            raise InputError(where, line=line, field=f"{ORDER}[{number}]", expected=expected, found=found)
    return tuple(int(position) for position in positions)


def _listed(value: Any) -> Any:
    """Arrays and tuples as lists; the rest as it is."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _name(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number" if isinstance(value, Real) else f"a {type(value).__name__}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
