"""Points and the order to choose them in: the records of pointer networks (Vinyals, Fortunato & Jaitly 2015). No torch.

They are generated (:mod:`saccade.data.toy.points`), or lines of JSON: ``{"points": [[0.1, 0.7], [0.4, 0.2], [0.9, 0.5]],
"order": [2, 0, 1]}``. Positions count from 0; a number may stand for a point of one coordinate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal

from saccade.data.config import DataConfig, check_least
from saccade.data.files.fields import format_of, scan_fields
from saccade.data.files.records import Fault, Fields
from saccade.data.memory import WHERE, fields_in, records_in, short
from saccade.data.reading import FaultCounts, load_splits, read_records
from saccade.data.splits import Splits
from saccade.data.toy import points as toy
from saccade.data.toy.points import DRAWN, FEWEST, GRID, Coordinates
from saccade.errors import InputError

LARGEST = 3.4e38  # what 32 bits hold
MALFORMED = "malformed points or order"
POINTS, ORDER = "points", "order"


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


def generate(data: PointData, splits: Sequence[str] = tuple(DRAWN)) -> dict[str, list[Points]]:
    """The generated records of these splits."""
    return {name: [Points(*drawn) for drawn in part] for name, part in toy.generate(data, splits).items()}


# Records from files --------------------------------------------------------------------------------------------------


def load_points(data: PointData, folder: Path, seed: int) -> Splits:
    """The records that ``data`` names; relative paths start at ``folder``."""

    def read(path: Path, split: str) -> tuple[list[Points], list[str]]:
        return gather(path, data)

    return load_splits(data, folder, seed, lambda drawn: Points(*drawn), read, independent=True)


def read_file(path: Path, data: PointData, dropped: FaultCounts | None = None) -> list[Points]:
    """The records of one more file, read strictly unless ``dropped`` counts malformed ones."""
    return gather(path, data, dropped, strict=dropped is None)[0]


def gather(
    path: str | Path, data: PointData, dropped: FaultCounts | None = None, *, strict: bool = False
) -> tuple[list[Points], list[str]]:
    """The records of a JSONL file (also gzipped or xz'd), and warnings about them."""
    return read_records(path, scan(path, data), data, dropped, strict=strict, expected="at least one record")


def scan(path: str | Path, data: PointData) -> Iterator[Points | Fault]:
    """Every record and every fault of a file."""
    expected, suffixes = "a file of records (.jsonl, also .gz or .xz)", {"jsonl": "jsonl"}
    format = format_of(path, data.format, suffixes=suffixes, expected=expected, hint="set data.format")
    items = scan_fields(path, (POINTS, ORDER), format=format, encoding=data.encoding)
    return (item if isinstance(item, Fault) else record_of(item, path) for item in items)


def record_of(fields: Fields, where: str | Path) -> Points | Fault:
    """The record of points and their order, or what is wrong with them."""
    try:
        source = as_points(fields.values[0], where, line=fields.line)
        return Points(source, _order(fields.values[1], len(source), where, fields.line))
    except InputError as error:
        return Fault(fields.line, MALFORMED, error)


def records_of(given: Any, dropped: FaultCounts | None = None) -> list[Points]:
    """Records from a list of (points, order), of dicts with those keys, or from a table with those columns."""

    def values_of(item: Any) -> tuple[Any, ...] | None:
        if isinstance(item, Points):
            return item.source, item.target
        return tuple(item) if isinstance(item, tuple | list) and len(item) == 2 else None

    shape = "points and the order to choose them in"
    accepted = f"{shape}: a list of (points, order), of dicts, a DataFrame or a dict of columns"
    fields = fields_in(given, lambda names: (POINTS, ORDER), values_of, accepted=accepted, shape=shape)
    items = (item if isinstance(item, Fault) else record_of(item, WHERE) for item in fields)
    return records_in(items, dropped, expected="records of points and their order")


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
            found = short(position) if _name(position) == "a number" else _name(position)
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
