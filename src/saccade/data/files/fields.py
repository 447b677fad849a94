"""Some columns of a file, whatever the file is: tables, JSONL, Parquet, the hub, and lines that begin with their label.

What the values are, text or numbers, is for the reader to judge. A fault is told as it is in files of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from saccade.data.files.hub import header_of_hub, loaded, on_hub
from saccade.data.files.jsonl import header_of_jsonl, inner, object_of
from saccade.data.files.lines import Encoding, lines_of, unpacked, without_end
from saccade.data.files.parquet import header_of_parquet, leaves_of, rows_of, table_of
from saccade.data.files.records import EMPTY, NO_KEY, NOT_UTF8, WIDTH, Fault, fault
from saccade.data.files.tables import TABLES, Row, header_of_table
from saccade.errors import InputError

Name = str | int
FASTTEXT = "__label__"  # what fastText writes before a label
FORMATS = ("tsv", "csv", "jsonl", "parquet", "lines")


@dataclass(frozen=True, slots=True)
class Fields:
    """The values asked for, in that order, and where they stood; ``place`` says it where that is no line."""

    line: int
    values: tuple[Any, ...]
    place: str | None = None


def scan_fields(
    path: str | Path, wanted: Sequence[Name], *, format: str | None = None, encoding: Encoding = "utf-8"
) -> Iterator[Fields | Fault]:
    """The wanted columns (names, or numbers from 1) of every record of a file, as a stream.

    Numbers alone ask for no header of a table. Of ``lines`` the label is the first word and the text is the rest, whatever
    the columns are called: label first is what such files have in common.
    """
    if on_hub(path):
        return _hub(path, wanted)
    path = Path(path)
    kind = format_of(path, format)
    if kind in TABLES:
        return _table(path, kind, wanted, encoding)
    if kind == "lines":
        return _lines(path, encoding)
    return _jsonl(path, wanted, encoding) if kind == "jsonl" else _parquet(path, wanted)


def format_of(path: Path, format: str | None = None) -> str:
    """The format that is said, or else that the file's suffix says."""
    if format is not None:
        return format
    suffix = unpacked(path).suffix.lower().removeprefix(".")
    kind = "lines" if suffix == "txt" else suffix
    if kind not in FORMATS:
        found = f"the suffix {suffix!r}" if suffix else "a name without a suffix"
        hint = "set data.format; 'lines' are a label and its text, a space between them"
        known = ", ".join(FORMATS[:-1])
        raise InputError(
            path, expected=f"a file of labelled texts ({known}, txt, also .gz or .xz)", found=found, hint=hint
        )
    return kind


def columns_of(path: str | Path, format: str | None = None, encoding: Encoding = "utf-8") -> list[Name]:
    """What can be named as a column: a header's names, keys, or numbers from 1."""
    if on_hub(path):
        return [*(header_of_hub(path) or ())]
    path = Path(path)
    kind = format_of(path, format)
    if kind in TABLES:
        named = header_of_table(TABLES[kind](path, encoding))
        first = next((row for row in TABLES[kind](path, encoding) if isinstance(row, Row)), None)
        return [*named] if named else [*range(1, len(first.cells) + 1 if first else 1)]
    readers: dict[str, Callable[[Path], list[str] | None]] = {"jsonl": header_of_jsonl, "parquet": header_of_parquet}
    return [*(readers[kind](path) or ())] if kind in readers else []


def _table(path: Path, kind: str, wanted: Sequence[Name], encoding: Encoding) -> Iterator[Fields | Fault]:
    places: list[int] = []
    width, line, seen = 0, 0, False
    broken: Fault | None = None  # the first, where it came before the row that ought to be the header
    for row in TABLES[kind](path, encoding):
        if isinstance(row, Fault):
            broken, seen = broken if places or broken else row, True
            yield row
            continue
        line, cells = row
        if not places:
            try:
                places, width = _places(cells, wanted, path, line), len(cells)
            except InputError:
                if broken is None:
                    raise
                raise broken.error from None  # the header itself, perhaps, which is why its names are not found
            if any(isinstance(name, str) for name in wanted):
                continue
        seen = True
        if len(cells) != width:
            yield fault(line, WIDTH, path, expected=f"{width} columns", found=str(len(cells)))
        else:
            yield Fields(line, tuple(cells[place] for place in places))
    if places and not seen:
        raise InputError(path, line=line, expected="at least one record", found="only a header")


def _places(first: list[str], wanted: Sequence[Name], path: Path, line: int) -> list[int]:
    twice = next((name for name in wanted if isinstance(name, str) and first.count(name) > 1), None)
    if twice is not None:
        places = [number for number, name in enumerate(first, start=1) if name == twice]
        found = f"{len(places)}: columns {', '.join(map(str, places))}"
        hint = "rename one of them in the file"
        raise InputError(path, line=line, field=twice, expected="one column of that name", found=found, hint=hint)
    known = [name - 1 if isinstance(name, int) else first.index(name) if name in first else -1 for name in wanted]
    if all(0 <= place < len(first) for place in known):
        return known
    shown = ", ".join(repr(name[:40]) for name in first[:20])
    hint = "data.columns names those of a header, or numbers them from 1 where there is none"
    raise InputError(path, line=line, expected=_called(wanted), found=f"the columns {shown}", hint=hint)


def _called(wanted: Sequence[Name]) -> str:
    *first, last = map(repr, wanted)
    return f"the columns {', '.join(first)} and {last}" if first else f"the column {last}"


def _lines(path: Path, encoding: Encoding) -> Iterator[Fields | Fault]:
    for line in lines_of(path, encoding):
        if line.fault is not None:
            yield line.fault
        elif line.text.strip():
            label, *rest = without_end(line.text).split(maxsplit=1)
            if rest:
                yield Fields(line.number, (rest[0].rstrip(), label.removeprefix(FASTTEXT)))
            else:
                expected = "a label, a space and a text"
                yield fault(line.number, EMPTY, path, expected=expected, found=f"one word, {label[:40]!r}")


def _jsonl(path: Path, wanted: Sequence[Name], encoding: Encoding) -> Iterator[Fields | Fault]:
    _check_names(wanted, path)
    for line in lines_of(path, encoding):
        if line.fault is not None:
            yield line.fault
        elif line.text.strip():
            record = object_of(line.text, path, line.number)
            yield record if isinstance(record, Fault) else _of_object(record, wanted, line.number, path)


def _check_names(wanted: Sequence[Name], path: Path) -> None:
    number = next((name for name in wanted if isinstance(name, int)), None)
    if number is not None:
        raise InputError(path, field="columns", expected="the names of keys", found=f"the number {number}")


def _of_object(
    record: dict[str, Any], wanted: Sequence[Name], line: int, where: str | Path, place: str | None = None
) -> Fields | Fault:
    values = []
    for name in map(str, wanted):
        value, known = inner(record, name)
        if not known:
            shown = ", ".join(repr(str(key)[:40]) for key in list(record)[:20])
            keys = f"the keys {shown}" if record else "no keys"
            return fault(line, NO_KEY, where, field=name, expected=f"the key {name!r}", found=keys, place=place)
        values.append(value)
    return Fields(line, tuple(values), place)


def _parquet(path: Path, wanted: Sequence[Name]) -> Iterator[Fields | Fault]:
    with table_of(path) as table:
        top, leaves = list(table.schema_arrow.names), leaves_of(table.schema_arrow)
        names = _named(wanted, top, leaves, path)
        number = 0
        for batch in table.iter_batches(1024, columns=list(dict.fromkeys(names)), use_threads=False):
            for row in rows_of(batch):
                number += 1
                place = f"row {number}"
                if row is None:
                    yield fault(number, NOT_UTF8, path, expected="UTF-8 text", found="other bytes", place=place)
                else:
                    yield _of_object(row, names, number, path, place)


def _hub(path: str | Path, wanted: Sequence[Name]) -> Iterator[Fields | Fault]:
    where, dataset = loaded(path)
    top = [str(name) for name in dataset.column_names]
    first: dict[str, Any] = next(iter(islice(dataset, 1)), {})
    dotted = [f"{key}.{below}" for key, value in first.items() if isinstance(value, dict) for below in value]
    names = _named(wanted, top, [*top, *dotted], where)
    # The hub keeps labels as numbers and their names beside them.
    classes = {name: getattr(dataset.features.get(name), "names", None) for name in names}
    for number, row in enumerate(dataset, start=1):
        found = _of_object(row, names, number, where, f"row {number}")
        if isinstance(found, Fields):
            values = tuple(_class_name(value, classes[name]) for name, value in zip(names, found.values, strict=True))
            found = Fields(number, values, found.place)
        yield found


def _class_name(value: Any, names: Sequence[str] | None) -> Any:
    return names[value] if names and isinstance(value, int) and 0 <= value < len(names) else value


def _named(wanted: Sequence[Name], top: Sequence[str], known: Any, where: str | Path) -> list[str]:
    names = [top[name - 1] if isinstance(name, int) and name <= len(top) else name for name in wanted]
    if any(name not in known for name in names):
        shown = ", ".join(repr(str(name)[:40]) for name in list(known)[:20])
        hint = "data.columns names them"
        raise InputError(where, expected=_called(wanted), found=f"the columns {shown}", hint=hint)
    return [str(name) for name in names]
