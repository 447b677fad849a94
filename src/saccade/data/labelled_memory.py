"""Labelled texts from what a program has in hand: a list of (text, label), of dicts, a dict of columns, a DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from saccade.data.files.jsonl import inner
from saccade.data.labelled import LabelColumns, Labelled, LabelledData, label_of
from saccade.data.memory import check_text, listed, missing, names_of, short
from saccade.errors import InputError

WHERE = "data"
ACCEPTED = "texts with their labels: a list of (text, label), of dicts, a DataFrame or a dict of columns"
Values = tuple[Any, Any, Any]  # text (or two), label, group: still to be checked


def labelled_of(given: Any, data: LabelledData) -> list[Labelled]:
    """Records from a list of (text, label), (first, second, label) or dicts, from a dict of columns, or from a table.

    ``data.columns`` name the keys or columns. A fault names the record's number, from 1.
    """
    records = []
    for number, (source, target, group) in enumerate(_values(given, data.columns), start=1):
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
        records.append(Labelled(plain[0] if len(plain) == 1 else (plain[0], plain[1]), label, kept or None))
    if not records:
        raise InputError(WHERE, expected="texts with their labels", found="none")
    kinds = {isinstance(record.source, tuple) for record in records}
    if len(kinds) > 1:
        raise InputError(WHERE, expected="one text in every record, or two in every one", found="some of each")
    return records


def _values(given: Any, columns: LabelColumns) -> Iterator[Values]:
    if isinstance(given, str | bytes | Path):
        hint = "a file is named in the recipe, as data.train"
        raise InputError(WHERE, expected=ACCEPTED, found=short(given), hint=hint)
    names = names_of(given)
    if names is not None and hasattr(given, "__getitem__"):
        return _of_table(given, names, columns)
    if not isinstance(given, Iterable):
        raise InputError(WHERE, expected=ACCEPTED, found=f"a {type(given).__name__}")
    return (_of_record(item, number, columns) for number, item in enumerate(given, start=1))


def _of_table(given: Any, names: list[Any], columns: LabelColumns) -> Iterator[Values]:
    lists = []
    for column in columns.wanted:
        name = names[column - 1] if isinstance(column, int) and column <= len(names) else column
        if name not in names:
            shown = ", ".join(map(short, names[:20]))
            expected = ", ".join(map(repr, columns.wanted))
            hint = "data.columns names them"
            raise InputError(WHERE, field=str(name), expected=expected, found=f"the columns {shown}", hint=hint)
        lists.append(listed(given[name], str(name)))
    for column, values in zip(columns.wanted, lists, strict=True):
        if len(values) != len(lists[0]):
            expected = f"{len(lists[0]):,} values, as in {columns.text!r}"
            raise InputError(WHERE, field=str(column), expected=expected, found=f"{len(values):,}")
    return (_ordered(row, columns) for row in zip(*lists, strict=True))


def _ordered(row: tuple[Any, ...], columns: LabelColumns) -> Values:
    """Values in the order of ``columns.wanted``, as (text or two, label, group)."""
    text, label, *rest = row
    source = text if columns.second is None else (text, rest.pop(0))
    return source, label, rest[0] if rest else None


def _of_record(item: Any, number: int, columns: LabelColumns) -> Values:
    if isinstance(item, Labelled):
        return item.source, item.target, item.group
    if isinstance(item, Mapping):
        found = [inner(item, str(name)) for name in columns.wanted]
        for name, (_, known) in zip(columns.wanted, found, strict=True):
            if not known:
                keys = f"keys {', '.join(map(str, list(item)[:20]))}" if item else "no keys"
                raise InputError(WHERE, line=number, field=str(name), expected=f"the key {name!r}", found=keys)
        return _ordered(tuple(value for value, _ in found), columns)
    if isinstance(item, tuple | list) and len(item) == 2:
        source = tuple(item[0]) if isinstance(item[0], tuple | list) else item[0]
        if not isinstance(source, tuple) or len(source) == 2:
            return source, item[1], None
    if isinstance(item, tuple | list) and len(item) == 3:
        return (item[0], item[1]), item[2], None
    expected = "(text, label), (first, second, label) or a dict"
    raise InputError(WHERE, line=number, expected=expected, found=short(item))
