"""Pairs of texts from files: TSV, CSV, JSONL, or two text files whose lines belong together; also gzipped or xz'd.

Files are read as a stream and strictly: a fault is one InputError that names the file, the line, the field, what was
expected and what was found. Wholly blank lines are skipped; half a pair is a fault.
"""

from __future__ import annotations

import csv
import gzip
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, cast

from saccade.errors import InputError

SOURCE, TARGET = "source", "target"
LINE_LIMIT = 1 << 20  # bytes: more than this in one line is a wrong file, not a sentence
OPENERS: dict[str, Callable[[Path], object]] = {".gz": gzip.open, ".xz": lzma.open}
BROKEN = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
SIGNATURES = {  # what the first bytes of a file that is not UTF-8 give away
    b"\x1f\x8b": "gzip data: its name should end in .gz",
    b"\xfd7zXZ": "xz data: its name should end in .xz",
    b"\xff\xfe": "UTF-16: save it as UTF-8",
    b"\xfe\xff": "UTF-16: save it as UTF-8",
    b"PK\x03\x04": "a zip archive or a spreadsheet: save it as TSV or CSV",
}


@dataclass(frozen=True)
class Pair:
    source: str
    target: str


@dataclass(frozen=True)
class Columns:
    """The names of the columns (TSV, CSV) or keys (JSONL) that are the source and the target."""

    source: str = SOURCE
    target: str = TARGET

    @property
    def named(self) -> bool:
        return (self.source, self.target) != (SOURCE, TARGET)

    def __str__(self) -> str:
        return f"columns {self.source!r} and {self.target!r}"


def read_pairs(
    path: str | Path | tuple[str | Path, str | Path],
    *,
    source: str = SOURCE,
    target: str = TARGET,
    format: str | None = None,
) -> list[Pair]:
    """Read all pairs of a file, or of two files whose lines belong together.

    `source` and `target` name the columns or keys; `format` ("tsv", "csv", "jsonl") overrides the file's suffix. A TSV
    or CSV of two columns needs no header when the names are the defaults.
    """
    if isinstance(path, tuple | list):
        if len(path) != 2 or format is not None:
            found = f"{len(path)} files" if len(path) != 2 else f"format {format!r}"
            raise InputError(str(path[0]) if path else "no file", expected="two text files, plain lines", found=found)
        first, second = (Path(part) for part in path)
        return _at_least_one(list(_aligned(first, second)), first)
    path = Path(path)
    reader = FORMATS[_format(path, format)]
    return _at_least_one(list(reader(path, Columns(source, target))), path)


def without_header(path: str | Path, source: str = SOURCE) -> bool:
    """Whether a TSV or CSV begins with a pair rather than with a header that names `source`."""
    path = Path(path)
    kind = _format(path, None)
    if kind not in TABLES:
        return False
    first = next(TABLES[kind](path), None)
    return first is not None and source not in first[1]


def _format(path: Path, format: str | None) -> str:
    known = ", ".join(FORMATS)
    if format is not None:
        if format not in FORMATS:
            raise InputError(path, field="format", expected=f"one of {known}", found=repr(format))
        return format
    name = path.with_suffix("") if path.suffix.lower() in OPENERS else path
    suffix = name.suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        found = f"the suffix {name.suffix!r}" if suffix else "a name without a suffix"
        hint = "set the format, or give two text files whose lines belong together"
        raise InputError(path, expected=f"a file of pairs ({known}, also .gz or .xz)", found=found, hint=hint)
    return suffix


def _at_least_one(pairs: list[Pair], path: Path) -> list[Pair]:
    if not pairs:
        raise InputError(path, expected="at least one pair", found="an empty file")
    return pairs


def text_lines(path: Path) -> Iterator[str]:
    """The lines of a text file with their ends, decoded one by one."""
    number = 0
    try:
        with _open(path) as file:
            while line := file.readline(LINE_LIMIT + 1):
                number += 1
                if len(line) > LINE_LIMIT:
                    expected = f"lines of at most {LINE_LIMIT:,} bytes"
                    raise InputError(path, line=number, expected=expected, found="a longer one")
                yield _decoded(line, path, number)
    except BROKEN as fault:
        kind = path.suffix.removeprefix(".")
        found = f"data that breaks off or is damaged ({fault})"
        raise InputError(path, line=number + 1, expected=f"whole {kind} data", found=found) from fault
    except OSError as fault:
        raise InputError(path, expected="a file that can be read", found=fault.strerror or str(fault)) from fault


def _open(path: Path) -> BinaryIO:
    if not path.exists():
        raise InputError(path, expected="a file", found="nothing of that name", hint=_nearby(path))
    if path.is_dir():
        raise InputError(path, expected="a file", found="a folder")
    opener = OPENERS.get(path.suffix.lower())
    return path.open("rb") if opener is None else cast(BinaryIO, opener(path))


def _nearby(path: Path) -> str:
    """What the folder of a missing file holds under a similar name."""
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    close = get_close_matches(path.name, sorted(entry.name for entry in path.parent.iterdir()), n=3)
    return f"did you mean {' or '.join(close)}?" if close else f"the folder {path.parent} has no similar name"


def _decoded(line: bytes, path: Path, number: int) -> str:
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as fault:
        # fault.object is what was decoded: without the byte order mark, where there was one
        offset = fault.start + len(line) - len(fault.object)
        found = f"the byte 0x{line[offset]:02x} at offset {offset} of the line"
        raise InputError(path, line=number, expected="UTF-8 text", found=found, hint=_looks(line, number)) from fault
    if "\0" in text:
        found = f"a NUL byte at offset {line.index(0)} of the line"
        raise InputError(path, line=number, expected="UTF-8 text", found=found, hint=_looks(line, number))
    return text


def _looks(line: bytes, number: int) -> str | None:
    kinds = [kind for signature, kind in SIGNATURES.items() if number == 1 and line.startswith(signature)]
    return f"this looks like {kinds[0]}" if kinds else None


def _without_end(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


def _pair(source: str, target: str, columns: Columns, path: Path, line: int) -> Pair:
    for field, text in ((columns.source, source), (columns.target, target)):
        if not text.strip():
            found = "nothing" if not text else "only spaces"
            raise InputError(path, line=line, field=field, expected="text on both sides of a pair", found=found)
    return Pair(source, target)


def _aligned(first: Path, second: Path) -> Iterator[Pair]:
    sides = Columns(first.name, second.name)
    number = 0
    for number, (source, target) in enumerate(zip_longest(text_lines(first), text_lines(second)), start=1):
        if source is None or target is None:
            shorter, longer = (first, second) if source is None else (second, first)
            expected, found = f"as many lines as in {longer}", f"the end after {number - 1} lines"
            raise InputError(shorter, line=number, expected=expected, found=found)
        if source.strip() or target.strip():
            where = first if not source.strip() else second
            yield _pair(_without_end(source), _without_end(target), sides, where, number)


def _tsv(path: Path, columns: Columns) -> Iterator[Pair]:
    return _table(_tsv_rows(path), columns, path)


def _tsv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    # Tabs alone divide: a quotation mark is a character like any other.
    rows = ((number, _without_end(line).split("\t")) for number, line in enumerate(text_lines(path), start=1))
    return ((number, row) for number, row in rows if row != [""])


def _csv(path: Path, columns: Columns) -> Iterator[Pair]:
    return _table(_csv_rows(path), columns, path)


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(text_lines(path), strict=True)
    while True:
        number = reader.line_num + 1  # where the row begins: a quoted field may run over several lines
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as fault:
            running_on = reader.line_num > number or "end of data" in str(fault)
            hint = "a quotation mark that is never closed?" if running_on else None
            raise InputError(path, line=number, expected="a CSV row", found=str(fault), hint=hint) from fault
        if row:
            yield number, row


def _table(rows: Iterator[tuple[int, list[str]]], columns: Columns, path: Path) -> Iterator[Pair]:
    """The pairs of a table, with a header that names the columns or without one."""
    first = next(rows, None)
    if first is None:
        return
    number, header = first
    source, target = _positions(header, columns, path, number)
    pair_seen = False
    if columns.source not in header:
        yield _pair(header[source], header[target], columns, path, number)
        pair_seen = True
    for number, row in rows:
        if len(row) != len(header):
            missing = header[len(row)] if len(row) < len(header) and columns.source in header else None
            expected, found = f"{len(header)} columns", f"{len(row)}"
            raise InputError(path, line=number, field=missing, expected=expected, found=found)
        yield _pair(row[source], row[target], columns, path, number)
        pair_seen = True
    if not pair_seen:
        raise InputError(path, line=number, expected="at least one pair", found="only a header")


def _positions(header: list[str], columns: Columns, path: Path, line: int) -> tuple[int, int]:
    wanted = (columns.source, columns.target)
    if all(header.count(name) == 1 for name in wanted):
        return header.index(columns.source), header.index(columns.target)
    alike = {name.strip().casefold() for name in header} & {name.strip().casefold() for name in wanted}
    if len(header) == 2 and not alike and not columns.named:
        return 0, 1
    found = ", ".join(repr(name[:40]) for name in header[:20])
    raise InputError(path, line=line, expected=str(columns), found=f"the columns {found}")


def _jsonl(path: Path, columns: Columns) -> Iterator[Pair]:
    for number, line in enumerate(text_lines(path), start=1):
        if line.strip():
            record = _record(line, path, number)
            source, target = (_field(record, name, path, number) for name in (columns.source, columns.target))
            yield _pair(source, target, columns, path, number)


def _record(line: str, path: Path, number: int) -> dict[str, object]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as fault:  # not JSON, a number of thousands of digits, brackets too deep
        raise InputError(path, line=number, expected="a JSON object", found=f"no JSON: {fault}") from fault
    if not isinstance(record, dict):
        raise InputError(path, line=number, expected="a JSON object", found=_json_name(record))
    return record


def _field(record: dict[str, object], name: str, path: Path, line: int) -> str:
    if name not in record:
        found = "the keys " + ", ".join(repr(key[:40]) for key in list(record)[:20]) if record else "no keys"
        raise InputError(path, line=line, field=name, expected=f"the key {name!r}", found=found)
    text = record[name]
    if not isinstance(text, str):
        raise InputError(path, line=line, field=name, expected="a string", found=_json_name(text))
    try:
        text.encode()
    except UnicodeEncodeError as fault:  # "\ud83d" alone is JSON, but no text
        found = f"half of a surrogate pair at character {fault.start}"
        raise InputError(path, line=line, field=name, expected="whole characters", found=found) from fault
    if "\0" in text:
        raise InputError(path, line=line, field=name, expected="text", found="a NUL character")
    return text


def _json_name(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


FORMATS: dict[str, Callable[[Path, Columns], Iterator[Pair]]] = {"tsv": _tsv, "csv": _csv, "jsonl": _jsonl}
TABLES: dict[str, Callable[[Path], Iterator[tuple[int, list[str]]]]] = {"tsv": _tsv_rows, "csv": _csv_rows}
