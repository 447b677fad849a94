"""Questions with candidates from what a program has in hand: lists, dicts, a dict of columns, a DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from saccade.data.files.fields import Fields
from saccade.data.files.records import Fault
from saccade.data.memory import columns_in, items_of, made_of, missing, short, values_under
from saccade.data.pairs import Tally
from saccade.data.ranked import RankColumns, Ranked, RankedData, Row, collected, row_of
from saccade.errors import InputError

WHERE = "data"
ACCEPTED = (
    "questions with candidates: a list of (question, candidates, relevance), of dicts, a DataFrame, a dict of columns"
)


def ranked_of(given: Any, data: RankedData, left_out: Tally | None = None) -> list[Ranked]:
    """Records from a list of (question, candidates, relevance) or of rows (question, candidate, relevance), of dicts of
    either, from a dict of columns, or from a table.

    ``data.columns`` name the keys or columns. A fault names the row's number, from 1; faults are counted in ``left_out``
    where that is given.
    """
    found = _fields(given, data.columns)
    rows = made_of(found, lambda fields, _: _row(fields, data.columns), left_out, expected="questions with candidates")
    return collected(rows)


def _row(fields: Fields, columns: RankColumns) -> Row:
    # A table in memory has NaN where there is nothing.
    values = tuple(None if missing(value) else value for value in fields.values)
    found = row_of(Fields(fields.line, values), columns, WHERE)
    if isinstance(found, Fault):
        raise found.error
    return found


def _fields(given: Any, columns: RankColumns) -> Iterator[Fields]:
    def of_table(table: Any, names: list[Any]) -> Iterator[Fields]:
        rows = zip(*columns_in(table, names, _wanted(columns, names), columns.wanted), strict=True)
        return (Fields(number, row) for number, row in enumerate(rows, start=1))

    return items_of(given, ACCEPTED, of_table, lambda item, number: _of_item(item, number, columns))


def _of_item(item: Any, number: int, columns: RankColumns) -> Fields:
    if isinstance(item, Ranked):
        return Fields(number, (item.source, item.candidates, item.target))
    if isinstance(item, Mapping):
        return Fields(number, tuple(values_under(item, _wanted(columns, item), number)))
    if isinstance(item, tuple | list) and len(item) == 3:
        return Fields(number, tuple(item))
    expected = "(question, candidates, relevance), (question, candidate, relevance) or a dict"
    raise InputError(WHERE, line=number, expected=expected, found=short(item))


def _wanted(columns: RankColumns, there: Iterable[Any]) -> tuple[str | int, ...]:
    """The columns; ``candidate`` is ``candidates`` where nobody named it and that is what there is."""
    several = columns.candidate == "candidate" and "candidate" not in there and "candidates" in there
    return tuple("candidates" if several and name == "candidate" else name for name in columns.wanted)
