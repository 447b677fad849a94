"""Pairs from what a program has in hand: a list of pairs or of dicts, a dict of columns, a DataFrame, an Arrow table.

Tables are known by what they can do, so that no package need be there: pandas, polars, PyArrow and HF datasets all name
their columns and give one by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, zip_longest
from pathlib import Path
from typing import Any, TypeVar

from saccade.data.files.jsonl import inner
from saccade.data.files.records import SOURCE, TARGET, Columns, Fault, Pair, text_fault
from saccade.data.reading import FaultCounts
from saccade.errors import InputError

WHERE = "data"
IN_MEMORY = "(given in memory)"  # what a saved recipe says of data that was passed from Python
DEFAULT_COLUMNS = Columns()
ACCEPTED = "pairs of texts, dicts, a DataFrame or a dict of columns"
T = TypeVar("T")
R = TypeVar("R")
Values = tuple[Any, Any, Any]  # source, target, group: still to be checked


def made_of(
    values: Iterator[T], record: Callable[[T, int], R], left_out: FaultCounts | None, *, expected: str
) -> list[R]:
    """What ``record`` makes of each value and its number, from 1. Where ``left_out`` is given, what it refuses is counted there
    and left out; else the first is raised."""
    records: list[R] = []
    for number in count(1):
        try:
            value = next(values)
        except StopIteration:
            break
        except InputError as error:
            _leave_out(error, number, left_out)
            continue
        try:
            records.append(record(value, number))
        except InputError as error:
            _leave_out(error, number, left_out)
    if not records:
        raise InputError(WHERE, expected=expected, found=f"none: left out were {left_out}" if left_out else "none")
    return records


def _leave_out(error: InputError, number: int, left_out: FaultCounts | None) -> None:
    if left_out is None:
        raise error
    left_out.add(Fault(number, f"where {error.expected} was expected", error))


def missing(value: Any) -> bool:
    """None, or what DataFrames have in its place: NaN, NA, NaT."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def check_text(text: Any, name: str, number: int, *, expected: str, filled: str) -> None:
    """Raise unless it is a text that can be read; a fault says ``expected`` of another type, ``filled`` of an empty text."""
    if not isinstance(text, str):
        found = f"nothing ({text!r})" if missing(text) else short(text)
        raise InputError(WHERE, line=number, field=name, expected=expected, found=found)
    fault = text_fault(text, name, number, WHERE)
    if fault is not None:
        raise fault.error
    if not text.strip():
        found = "nothing" if not text else "only spaces"
        raise InputError(WHERE, line=number, field=name, expected=filled, found=found)


def items_of(
    given: Any,
    accepted: str,
    of_table: Callable[[Any, list[Any]], Iterator[T]],
    of_item: Callable[[Any, int], T],
) -> Iterator[T]:
    """What a table holds, or each item of a list with its number from 1; anything else is an error that says ``accepted``."""
    if isinstance(given, str | bytes | Path):
        hint = "a file is named in the recipe, as data.train"
        raise InputError(WHERE, expected=accepted, found=short(given), hint=hint)
    names = names_of(given)
    if names is not None and hasattr(given, "__getitem__"):
        return of_table(given, names)
    if not isinstance(given, Iterable):
        raise InputError(WHERE, expected=accepted, found=f"a {type(given).__name__}")
    return map(of_item, given, count(1))  # goes on after an item that is refused


def columns_in(given: Any, names: Sequence[Any], wanted: Sequence[str | int], called: Sequence[str | int]) -> list[Any]:
    """The values of a table's wanted columns, as many of each; errors call them as the recipe does (``called``)."""
    lists = []
    for column in wanted:
        name = names[column - 1] if isinstance(column, int) and 1 <= column <= len(names) else column
        if name not in names:
            shown, expected = ", ".join(map(short, names[:20])), ", ".join(map(repr, called))
            hint = "data.columns names them"
            raise InputError(WHERE, field=str(name), expected=expected, found=f"the columns {shown}", hint=hint)
        lists.append(listed(given[name], str(name)))
    for column, values in zip(called, lists, strict=True):
        if len(values) != len(lists[0]):
            expected = f"{len(lists[0]):,} values, as in {called[0]!r}"
            raise InputError(WHERE, field=str(column), expected=expected, found=f"{len(values):,}")
    return lists


def values_under(item: Mapping[Any, Any], wanted: Sequence[str | int], number: int) -> list[Any]:
    """The values of a dict's wanted keys."""
    found = [inner(item, str(name)) for name in wanted]
    for name, (_, known) in zip(wanted, found, strict=True):
        if not known:
            keys = f"keys {', '.join(map(str, list(item)[:20]))}" if item else "no keys"
            raise InputError(WHERE, line=number, field=str(name), expected=f"the key {name!r}", found=keys)
    return [value for value, _ in found]


def names_of(data: Any) -> list[Any] | None:
    """The names of a table's columns; None for what is no table."""
    if isinstance(data, Mapping):
        return list(data)
    names = getattr(data, "column_names", None)
    names = getattr(data, "columns", None) if names is None else names
    return None if names is None or callable(names) else list(names)


def _of_table(data: Any, names: Sequence[Any], columns: Columns) -> Iterator[Values]:
    chosen = _chosen(columns, names)
    lists = []
    for column in chosen.wanted:
        name = names[column - 1] if isinstance(column, int) and column <= len(names) else column
        outer = name if name in names else str(name).split(".")[0]
        if outer not in names:
            shown = ", ".join(map(short, names[:20]))
            hint = "data.columns names them"
            raise InputError(WHERE, field=str(name), expected=str(columns), found=f"the columns {shown}", hint=hint)
        values = listed(data[outer], str(outer))
        lists.append(values if outer == name else [_inside(value, str(name)) for value in values])
    for column, values in zip(chosen.wanted, lists, strict=True):
        if len(values) != len(lists[0]):
            expected = f"{len(lists[0]):,} values, as in {chosen.source!r}"
            raise InputError(WHERE, field=str(column), expected=expected, found=f"{len(values):,}")
    groups = lists[2] if len(lists) > 2 else ()
    return ((source, target, group) for source, target, group in zip_longest(lists[0], lists[1], groups))


def _chosen(columns: Columns, names: Iterable[Any]) -> Columns:
    """The columns that were named, or those that every program may use where none of them is there."""
    known = set(map(str, names))
    named = any(isinstance(column, int) or column.split(".")[0] in known or column in known
                for column in (columns.source, columns.target))  # fmt: skip
    return columns if named or not {SOURCE, TARGET} <= known else Columns(SOURCE, TARGET, columns.group)


def listed(column: Any, name: str) -> list[Any]:
    """The values of a table's column."""
    for method in ("to_pylist", "tolist", "to_list"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    if isinstance(column, str | bytes | Mapping) or not isinstance(column, Iterable):
        hint = "one record? put it into a list"
        raise InputError(WHERE, field=name, expected="a column of texts", found=short(column), hint=hint)
    return list(column)


def _inside(value: Any, name: str) -> Any:
    return inner(value, name.partition(".")[2])[0] if isinstance(value, Mapping) else None


def _of_record(item: Any, number: int, columns: Columns) -> Values:
    if isinstance(item, Pair):
        return item.source, item.target, getattr(item, "group", None)
    if isinstance(item, Mapping):
        chosen = _chosen(columns, item)
        parts = []
        for name in map(str, chosen.wanted):
            value, known = inner(item, name)
            if not known:
                found = f"keys {', '.join(map(str, list(item)[:20]))}" if item else "no keys"
                raise InputError(WHERE, line=number, field=name, expected="text", found=found)
            parts.append(value)
        return parts[0], parts[1], parts[2] if len(parts) > 2 else None
    places = [column - 1 if isinstance(column, int) else None for column in columns.wanted]
    if isinstance(item, tuple | list):
        counted = [place for place in places if place is not None]
        if len(counted) == len(places) and max(counted) < len(item):
            return item[counted[0]], item[counted[1]], item[counted[2]] if len(counted) > 2 else None
        if not counted and len(item) == 2:
            return item[0], item[1], None
    raise InputError(WHERE, line=number, expected="a pair of texts", found=short(item))


def short(value: Any) -> str:
    """A value in a sentence, on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:59]}…"
