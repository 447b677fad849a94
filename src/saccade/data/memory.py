"""Reads records from Python objects: a list of tuples or dicts, a dict of columns, a DataFrame, an Arrow table.

Tables are recognised by their methods, so no package is imported: in pandas, polars, PyArrow and HF datasets a table names
its columns and returns one by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from saccade.data.files.jsonl import fields_of, inner
from saccade.data.files.records import Fault, Fields, Name, choose_columns, column_names, fault, shown_names
from saccade.data.reading import FaultCounts
from saccade.errors import InputError

WHERE = "data"
INPUTS = "inputs"  # what is predicted, as errors name it
IN_MEMORY = "(given in memory)"  # what a saved recipe says of data that was passed from Python
WRONG_SHAPE = "not the shape of a record"
R = TypeVar("R")
Wanted = Callable[[Iterable[Any]], Sequence[Name]]  # the names there are → the columns to look for


def records_in(items: Iterable[R | Fault], dropped: FaultCounts | None, *, expected: str) -> list[R]:
    """The records among the items. Faults are counted in ``dropped`` where it is given, else the first is raised."""
    records: list[R] = []
    for item in items:
        if not isinstance(item, Fault):
            records.append(item)
        elif dropped is None or (dropped.skipped_only and not item.skipped):
            raise item.error
        else:
            dropped.add(item)
    if not records:
        raise InputError(WHERE, expected=expected, found=f"none: dropped were {dropped}" if dropped else "none")
    return records


def fields_in(
    given: Any,
    wanted: Wanted,
    values_of: Callable[[Any], tuple[Any, ...] | None],
    *,
    accepted: str,
    shape: str,
    arrange: Callable[[Fields], Fields] = lambda fields: fields,
    table: Callable[[Any, list[Any]], Iterator[Fields]] | None = None,
) -> Iterator[Fields | Fault]:
    """The fields of every record, numbered from 1, in whatever form the records are ``given``.

    Dicts and rows of a table give the ``wanted`` columns, which ``arrange`` puts into the kind's own order. ``values_of`` gives
    the values of anything else, such as a tuple, or None where it cannot be a record; ``shape`` says in that error what was
    expected. ``table`` reads tables in the kind's own way.
    """
    if isinstance(given, str | bytes | Path):
        hint = "a file is named in the recipe, as data.train"
        raise InputError(WHERE, expected=accepted, found=short(given), hint=hint)
    names = names_of(given)
    if names is not None and hasattr(given, "__getitem__"):
        rows = rows_of_table(given, names, wanted(names)) if table is None else table(given, names)
        return map(arrange, rows)
    if names is not None and hasattr(given, "to_dict"):
        given = given.to_dict("records")
    if not isinstance(given, Iterable):
        raise InputError(WHERE, expected=accepted, found=f"a {type(given).__name__}")

    def fields(item: Any, number: int) -> Fields | Fault:
        if isinstance(item, Mapping):
            found = fields_of(item, wanted(item), number, WHERE)
            return found if isinstance(found, Fault) else arrange(Fields(number, _without_gaps(found.values)))
        values = values_of(item)
        if values is None:
            return fault(number, WRONG_SHAPE, WHERE, expected=shape, found=short(item))
        return Fields(number, _without_gaps(values))

    return map(fields, given, count(1))


def rows_of_table(given: Any, names: Sequence[Any], wanted: Sequence[Name], where: str = WHERE) -> Iterator[Fields]:
    """The wanted fields of every row of a table; ``where`` names it in errors."""
    rows = zip(*columns_in(given, names, wanted, where), strict=True)
    return (Fields(number, _without_gaps(row)) for number, row in enumerate(rows, start=1))


def columns_in(given: Any, names: Sequence[Any], wanted: Sequence[Name], where: str = WHERE) -> list[list[Any]]:
    """The values of a table's wanted columns, all of one length; ``outer.inner`` is a key of a column of dicts."""
    lists: list[list[Any]] = []
    for column in wanted:
        name = names[column - 1] if isinstance(column, int) and 1 <= column <= len(names) else column
        outer, _, key = (name, "", "") if name in names else str(name).partition(".")
        if outer not in names:
            found, hint = f"the columns {shown_names(names)}", choose_columns(wanted)
            raise InputError(where, field=str(name), expected=column_names(wanted), found=found, hint=hint)
        values = _listed(given[outer], str(outer), where)
        lists.append(
            [inner(value, key)[0] if isinstance(value, Mapping) else None for value in values] if key else values
        )
    for column, values in zip(wanted, lists, strict=True):
        if len(values) != len(lists[0]):
            expected = f"{len(lists[0]):,} values, as in {wanted[0]!r}"
            raise InputError(where, field=str(column), expected=expected, found=f"{len(values):,}")
    return lists


def names_of(data: Any) -> list[Any] | None:
    """The names of a table's columns; None for anything else."""
    if isinstance(data, Mapping):
        return list(data)
    names = getattr(data, "column_names", None)
    names = getattr(data, "columns", None) if names is None else names
    return None if names is None or callable(names) else list(names)


def _listed(column: Any, name: str, where: str) -> list[Any]:
    """The values of a table's column."""
    for method in ("to_pylist", "tolist", "to_list"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    if isinstance(column, str | bytes | Mapping) or not isinstance(column, Iterable):
        hint = "for one record, pass a list with it"
        raise InputError(where, field=name, expected="a column of texts", found=short(column), hint=hint)
    return list(column)


def inputs_in(
    given: Any,
    *,
    form: str,
    columns: Callable[[Sequence[Any]], Sequence[Name]],
    of_record: Callable[[Mapping[str, Any], str], Any],
    of_table: Callable[[Sequence[Name], Iterable[Fields]], list[Any]],
    depth: int = 0,
) -> list[Any]:
    """The inputs in what is handed over to be predicted: one input, an iterable of inputs, or a table.

    A table gives its ``columns``, of whose rows ``of_table`` makes inputs. A dict is a table where its values are deeper than
    one input, which is ``depth`` lists within each other; else it is one input. ``form`` is what messages call an input.
    """
    if isinstance(given, str):
        return [str(given)]
    names = names_of(given)
    if isinstance(given, Mapping) and not _holds_columns(given, columns(list(given)), depth):
        return [of_record(given, "input 1")]
    if names is not None:
        wanted = columns(names)
        if not wanted:
            expected = f"{form}, or a list of inputs: this task reads no tables"
            raise InputError(INPUTS, expected=expected, found=f"a {type(given).__name__}")
        return of_table(wanted, rows_of_table(given, names, wanted, INPUTS))
    unordered = isinstance(given, set | frozenset)
    if isinstance(given, bytes | bytearray | memoryview | Path) or unordered or not isinstance(given, Iterable):
        hint = "a set has no order: make it a list" if unordered else None
        expected = f"{form}, a list of inputs or a DataFrame"
        raise InputError(INPUTS, expected=expected, found=f"a {type(given).__name__}", hint=hint)
    items = given.to_pylist() if hasattr(given, "to_pylist") else given  # an Arrow array holds scalars of its own
    try:
        listed = enumerate(items, start=1)
    except TypeError:  # an array of no dimension
        raise InputError(INPUTS, expected=f"{form}, or a list of inputs", found=f"a {type(given).__name__}") from None
    return [
        of_record(item, f"input {number}") if isinstance(item, Mapping) else _without_gaps([item])[0]
        for number, item in listed
    ]


def _holds_columns(given: Mapping[Any, Any], wanted: Sequence[Name], depth: int) -> bool:
    """Whether a dict is a table: the columns that are wanted of it are deeper than the values of one input."""
    values = [given[name] for name in wanted if name in given]
    return bool(values) and all(_depth(value) > depth for value in values)


def _depth(value: Any) -> int:
    """The nesting depth of lists and arrays."""
    levels = 0
    while not isinstance(value, str | bytes | Mapping) and isinstance(value, Iterable) and hasattr(value, "__len__"):
        levels += 1
        value = next(iter(value), None)
    return levels


def missing(value: Any) -> bool:
    """Whether a value is None, or one of the missing values of DataFrames: NaN, NA, NaT."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def _without_gaps(values: Iterable[Any]) -> tuple[Any, ...]:
    """The values as JSON would have them: None where a table has a gap, plain text for subclasses such as numpy's."""
    return tuple(None if missing(value) else str(value) if isinstance(value, str) else value for value in values)


def group_of(value: Any) -> str | None:
    """The group that a field names; None where it is empty."""
    return None if value is None else str(value).strip() or None


def short(value: Any) -> str:
    """A value in a sentence, on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:59]}…"
