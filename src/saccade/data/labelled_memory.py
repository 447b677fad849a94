"""Labelled texts from what a program has in hand: a list of (text, label), of dicts, a dict of columns, a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from saccade.data.labelled import LabelColumns, Labelled, LabelledData, label_of
from saccade.data.memory import check_text, columns_in, items_of, made_of, missing, short, values_under
from saccade.data.pairs import Tally
from saccade.errors import InputError

WHERE = "data"
ACCEPTED = "texts with their labels: a list of (text, label), of dicts, a DataFrame or a dict of columns"
Values = tuple[Any, Any, Any]  # text (or two), label, group: still to be checked


def labelled_of(given: Any, data: LabelledData, left_out: Tally | None = None) -> list[Labelled]:
    """Records from a list of (text, label), (first, second, label) or dicts, from a dict of columns, or from a table.

    ``data.columns`` name the keys or columns. A fault names the record's number, from 1; faults are counted in ``left_out``
    where that is given.
    """
    values = _values(given, data.columns)
    records = made_of(
        values, lambda each, number: _record(each, number, data), left_out, expected="texts with their labels"
    )
    kinds = {isinstance(record.source, tuple) for record in records}
    if len(kinds) > 1:
        raise InputError(WHERE, expected="one text in every record, or two in every one", found="some of each")
    return records


def _record(values: Values, number: int, data: LabelledData) -> Labelled:
    source, target, group = values
    texts = source if isinstance(source, tuple) else (source,)
    for text in texts:
        check_text(text, str(data.columns.text), number, expected="a text", filled="a text")
    label = None if missing(target) else label_of(target)
    if not label:
        found = f"nothing ({target!r})" if missing(target) or label == "" else short(target)
        raise InputError(WHERE, line=number, field=str(data.columns.label), expected="a label", found=found)
    if data.labels is not None and label not in data.labels:
        expected = f"one of {', '.join(data.labels)}"
        raise InputError(WHERE, line=number, field=str(data.columns.label), expected=expected, found=repr(label))
    kept = None if missing(group) else str(group).strip()
    plain = tuple(map(str, texts))  # subclasses of str, such as numpy's, become plain
    return Labelled(plain[0] if len(plain) == 1 else (plain[0], plain[1]), label, kept or None)


def _values(given: Any, columns: LabelColumns) -> Iterator[Values]:
    def of_table(table: Any, names: list[Any]) -> Iterator[Values]:
        rows = zip(*columns_in(table, names, columns.wanted, columns.wanted), strict=True)
        return (_ordered(row, columns) for row in rows)

    return items_of(given, ACCEPTED, of_table, lambda item, number: _of_record(item, number, columns))


def _ordered(row: tuple[Any, ...], columns: LabelColumns) -> Values:
    """Values in the order of ``columns.wanted``, as (text or two, label, group)."""
    text, label, *rest = row
    source = text if columns.second is None else (text, rest.pop(0))
    return source, label, rest[0] if rest else None


def _of_record(item: Any, number: int, columns: LabelColumns) -> Values:
    if isinstance(item, Labelled):
        return item.source, item.target, item.group
    if isinstance(item, Mapping):
        return _ordered(tuple(values_under(item, columns.wanted, number)), columns)
    if isinstance(item, tuple | list) and len(item) == 2:
        source = tuple(item[0]) if isinstance(item[0], tuple | list) else item[0]
        if not isinstance(source, tuple) or len(source) == 2:
            return source, item[1], None
    if isinstance(item, tuple | list) and len(item) == 3:
        return (item[0], item[1]), item[2], None
    expected = "(text, label), (first, second, label) or a dict"
    raise InputError(WHERE, line=number, expected=expected, found=short(item))
