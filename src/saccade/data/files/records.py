"""The result of reading one record of a file: its fields and their line, or a fault with its reason."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade.errors import InputError

Name = str | int  # of a column: its name, or its number from 1

# Why a record is malformed, in words that can be counted.
NOT_UTF8 = "not UTF-8"
NUL = "a NUL character"
SURROGATE = "half of a surrogate pair"
LONG = "an over-long line"
GROWING = "a last line still being written"
RETURN = "a carriage return within a line"
EMPTY = "one side is empty"
WIDTH = "wrong number of columns"
HEADER = "header row"
QUOTE = "a quotation mark that never closes"
NO_ROW = "not a CSV row"
NOT_JSON = "not JSON"
NO_KEY = "a missing key"
NOT_TEXT = "not text"


@dataclass(frozen=True, slots=True)
class Fields:
    """The values of the wanted columns, in their order, and their line; ``place`` replaces the line where there is none."""

    line: int
    values: tuple[Any, ...]
    place: str | None = None

    def fault(self, reason: str, where: str | Path, column: Name, expected: str, found: str, **more: Any) -> Fault:
        """A fault in one of these fields."""
        return fault(
            self.line, reason, where, field=str(column), expected=expected, found=found, place=self.place, **more
        )

    def text_fault(self, value: object, column: Name, where: str | Path, reason: str | None = None) -> Fault | None:
        """What keeps a value from being text, if anything does; with a ``reason``, empty text is such a fault too."""
        broken = text_fault(value, str(column), self.line, where, place=self.place)
        if broken is not None or reason is None or (isinstance(value, str) and value.strip()):
            return broken
        return self.fault(reason, where, column, "a text", "only spaces" if value else "nothing")


@dataclass(frozen=True, slots=True)
class Fault:
    """A malformed record; reading can go on after it.

    Attributes:
        line: its number: of a line, a row (Parquet, the hub) or an entry of a list.
        reason: a short kind that can be counted.
        error: the whole sentence, as strict reading raises it.
        skipped: the recipe or the file itself excludes this record: strict reading passes over it.
        name: what the record is called where it is a file of its own.
    """

    line: int
    reason: str
    error: InputError
    skipped: bool = False
    name: str | None = None


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
    name: str | None = None,
) -> Fault:
    """A fault with its error message."""
    if place is not None:
        field = place if field is None else f"{place}: {field}"
    number = line if place is None and name is None else None
    error = InputError(where, line=number, field=field, expected=expected, found=found, hint=hint)
    return Fault(line, reason, error, skipped, name)


def text_fault(value: object, name: str, line: int, where: str | Path, *, place: str | None = None) -> Fault | None:
    """What keeps a value (of JSON, Parquet, a dataset) from being text, if anything does."""
    if not isinstance(value, str):
        return fault(line, NOT_TEXT, where, field=name, expected="a string", found=kind_of(value), place=place)
    try:
        value.encode()
    except UnicodeEncodeError as error:  # "\ud83d" alone is valid JSON, but not valid text
        half = f"half of a surrogate pair at character {error.start}"
        return fault(line, SURROGATE, where, field=name, expected="whole characters", found=half, place=place)
    if "\0" in value:
        return fault(line, NUL, where, field=name, expected="text", found="a NUL character", place=place)
    return None


def kind_of(value: object) -> str:
    """The type of a value, in JSON's words."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    names |= {bytes: "bytes", int: "a number", float: "a number"}
    return names.get(type(value), f"a {type(value).__name__}")


def label_of(value: Any) -> str | None:
    """A label as a name; None for a value that cannot be one."""
    if isinstance(value, str):
        return value.strip()
    if hasattr(value, "item") and not isinstance(value, list | tuple):  # numpy's numbers
        try:
            value = value.item()
        except (RuntimeError, TypeError, ValueError):  # an array of several
            return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a column of whole numbers with a gap in it
    if isinstance(value, bool):
        return str(value).lower()  # as JSON writes it, wherever it comes from: a table in memory may have been JSON
    return str(value) if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)) else None


def column_names(wanted: Sequence[Name]) -> str:
    """The wanted columns in a sentence: "the columns 'text' and 'label'"."""
    *first, last = map(repr, wanted)
    return f"the columns {', '.join(first)} and {last}" if first else f"the column {last}"


def choose_columns(wanted: Sequence[Name]) -> str:
    """The hint how columns are chosen."""
    setting = "data.columns names them" if len(wanted) > 1 else "data.column names it"
    return f"{setting}, or gives numbers from 1"


def shown_names(names: Any) -> str:
    """Names of columns or keys in a sentence, the first twenty of them."""
    return ", ".join(repr(str(name)[:40]) for name in list(names)[:20])
