"""What a file of pairs gives as it is read: a pair and where it stood, or a fault and why it is no pair."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from saccade.errors import InputError

SOURCE, TARGET = "source", "target"

# Why a line is no pair, in words that can be counted.
NOT_UTF8 = "not UTF-8"
NUL = "a NUL character"
SURROGATE = "half of a surrogate pair"
LONG = "an over-long line"
GROWING = "a last line still being written"
RETURN = "a carriage return within a line"
EMPTY = "one side is empty"
WIDTH = "wrong number of columns"
QUOTE = "a quotation mark that never closes"
NO_ROW = "not a CSV row"
NOT_JSON = "not JSON"
NO_KEY = "a missing key"
NOT_TEXT = "not text"


@dataclass(frozen=True, slots=True)
class Pair:
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class GroupedPair(Pair):
    """A pair of a document, an author, a file …: a group is held out whole or not at all."""

    group: str


@dataclass(frozen=True)
class Columns:
    """Which columns (tables), keys (JSONL) hold the source and the target: names, or numbers from 1.

    ``group`` names one more, whose value keeps records together when splits are held out.
    """

    source: str | int = SOURCE
    target: str | int = TARGET
    group: str | int | None = None

    def __post_init__(self) -> None:
        for name in ("source", "target", "group"):
            column = getattr(self, name)
            if isinstance(column, int) and column < 1:
                raise ValueError(f"{name} must be a column's name or its number from 1: got {column}")
            if column == "":
                raise ValueError(f"{name} must be a column's name or its number from 1: got ''")
        if self.source == self.target:
            raise ValueError(f"target must be another column than source: got {self.target!r} for both")

    @property
    def named(self) -> bool:
        """Whether the two were chosen, rather than left as they are."""
        return (self.source, self.target) != (SOURCE, TARGET)

    @property
    def wanted(self) -> tuple[str | int, ...]:
        """The columns to look for."""
        return (self.source, self.target) if self.group is None else (self.source, self.target, self.group)

    def __str__(self) -> str:
        *first, last = (repr(column) for column in self.wanted)
        return f"columns {', '.join(first)} and {last}"


@dataclass(frozen=True, slots=True)
class Found:
    """A pair and where it stood."""

    line: int
    pair: Pair
    group: str | None = None  # the value of ``columns.group``, where that is named and not empty

    @property
    def record(self) -> Pair:
        """The pair, with its group where it has one."""
        return self.pair if self.group is None else GroupedPair(self.pair.source, self.pair.target, self.group)


@dataclass(frozen=True, slots=True)
class Fault:
    """A line that is no pair; reading can go on after it.

    Attributes:
        line: where it stood: a line, a row (Parquet, the hub).
        reason: a short kind that can be counted.
        error: the whole sentence, as strict reading raises it.
        skipped: the data itself leaves this record out (a folder that data.labels does not list): strict reading passes
            it over.
    """

    line: int
    reason: str
    error: InputError
    skipped: bool = False


def found(
    source: str,
    target: str,
    line: int,
    where: str | Path,
    *,
    sides: tuple[str | int, str | int],
    group: str | None = None,
    place: str | None = None,
) -> Found | Fault:
    """A pair, unless one side is empty. ``sides`` are what the two are called; ``place`` says where it stands, where
    that is no line."""
    if source and target and not source.isspace() and not target.isspace():
        return Found(line, Pair(source, target), group or None)
    name, text = (sides[0], source) if not source.strip() else (sides[1], target)
    return fault(
        line, EMPTY, where, field=str(name), expected="text on both sides of a pair",
        found="nothing" if not text else "only spaces", place=place,
    )  # fmt: skip


def fault(
    line: int,
    reason: str,
    where: str | Path,
    *,
    expected: str,
    found: str,
    field: str | None = None,
    hint: str | None = None,
    place: str | None = None,
    skipped: bool = False,
) -> Fault:
    """A fault with its sentence."""
    if place is not None:
        field = place if field is None else f"{place}: {field}"
    number = line if place is None else None
    error = InputError(where, line=number, field=field, expected=expected, found=found, hint=hint)
    return Fault(line, reason, error, skipped)


def text_fault(
    value: object, name: str, line: int, where: str | Path, *, missing: str = "null", place: str | None = None
) -> Fault | None:
    """What keeps a value (of JSON, Parquet, a dataset) from being text, if anything does."""
    if not isinstance(value, str):
        kind = missing if value is None else kind_of(value)
        return fault(line, NOT_TEXT, where, field=name, expected="a string", found=kind, place=place)
    try:
        value.encode()
    except UnicodeEncodeError as error:  # "\ud83d" alone is JSON, but no text
        half = f"half of a surrogate pair at character {error.start}"
        return fault(line, SURROGATE, where, field=name, expected="whole characters", found=half, place=place)
    if "\0" in value:
        return fault(line, NUL, where, field=name, expected="text", found="a NUL character", place=place)
    return None


def kind_of(value: object) -> str:
    """What a value is, in JSON's words."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    names |= {bytes: "bytes", int: "a number", float: "a number"}
    return names.get(type(value), f"a {type(value).__name__}")
