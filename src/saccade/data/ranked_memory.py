"""Questions with candidates from what a program has in hand: lists, dicts, a dict of columns, a DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from saccade.data.files.fields import Fields
from saccade.data.files.jsonl import inner
from saccade.data.files.records import Fault
from saccade.data.memory import listed, missing, names_of, short
from saccade.data.ranked import RankColumns, Ranked, RankedData, Row, collected, row_of
from saccade.errors import InputError

WHERE = "data"
ACCEPTED = (
    "questions with candidates: a list of (question, candidates, relevance), of dicts, a DataFrame, a dict of columns"
)


def ranked_of(given: Any, data: RankedData) -> list[Ranked]:
    """Records from a list of (question, candidates, relevance) or of rows (question, candidate, relevance), of dicts of
    either, from a dict of columns, or from a table.

    ``data.columns`` name the keys or columns. A fault names the row's number, from 1.
    """
    rows = [_row(fields, data.columns) for fields in _fields(given, data.columns)]
    if not rows:
        raise InputError(WHERE, expected="questions with candidates", found="none")
    return collected(rows)


def _row(fields: Fields, columns: RankColumns) -> Row:
    # A table in memory has NaN where there is nothing.
    values = tuple(None if missing(value) else value for value in fields.values)
    found = row_of(Fields(fields.line, values), columns, WHERE)
    if isinstance(found, Fault):
        raise found.error
    return found


def _fields(given: Any, columns: RankColumns) -> Iterator[Fields]:
    if isinstance(given, str | bytes | Path):
        hint = "a file is named in the recipe, as data.train"
        raise InputError(WHERE, expected=ACCEPTED, found=short(given), hint=hint)
    names = names_of(given)
    if names is not None and hasattr(given, "__getitem__"):
        return _of_table(given, names, columns)
    if not isinstance(given, Iterable):
        raise InputError(WHERE, expected=ACCEPTED, found=f"a {type(given).__name__}")
    return (_of_item(item, number, columns) for number, item in enumerate(given, start=1))


def _of_table(given: Any, names: list[Any], columns: RankColumns) -> Iterator[Fields]:
    lists = []
    for column in _wanted(columns, names):
        name = names[column - 1] if isinstance(column, int) and column <= len(names) else column
        if name not in names:
            shown, expected = ", ".join(map(short, names[:20])), ", ".join(map(repr, columns.wanted))
            hint = "data.columns names them"
            raise InputError(WHERE, field=str(name), expected=expected, found=f"the columns {shown}", hint=hint)
        lists.append(listed(given[name], str(name)))
    for column, values in zip(columns.wanted, lists, strict=True):
        if len(values) != len(lists[0]):
            expected = f"{len(lists[0]):,} values, as in {columns.question!r}"
            raise InputError(WHERE, field=str(column), expected=expected, found=f"{len(values):,}")
    return (Fields(number, row) for number, row in enumerate(zip(*lists, strict=True), start=1))


def _of_item(item: Any, number: int, columns: RankColumns) -> Fields:
    if isinstance(item, Ranked):
        return Fields(number, (item.source, item.candidates, item.target))
    if isinstance(item, Mapping):
        wanted = _wanted(columns, item)
        found = [inner(item, str(name)) for name in wanted]
        for name, (_, known) in zip(wanted, found, strict=True):
            if not known:
                keys = f"keys {', '.join(map(str, list(item)[:20]))}" if item else "no keys"
                raise InputError(WHERE, line=number, field=str(name), expected=f"the key {name!r}", found=keys)
        return Fields(number, tuple(value for value, _ in found))
    if isinstance(item, tuple | list) and len(item) == 3:
        return Fields(number, tuple(item))
    expected = "(question, candidates, relevance), (question, candidate, relevance) or a dict"
    raise InputError(WHERE, line=number, expected=expected, found=short(item))


def _wanted(columns: RankColumns, there: Iterable[Any]) -> tuple[str | int, ...]:
    """The columns; ``candidate`` is ``candidates`` where nobody named it and that is what there is."""
    several = columns.candidate == "candidate" and "candidate" not in there and "candidates" in there
    return tuple("candidates" if several and name == "candidate" else name for name in columns.wanted)
