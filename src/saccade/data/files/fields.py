"""Reads some columns of a file of any format: tables, JSONL, Parquet, the hub, and lines that begin with their label.

Each kind of data checks whether its values are text or numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from saccade.data.files.hub import header_of_hub, on_hub, scan_hub
from saccade.data.files.jsonl import header_of_jsonl, scan_jsonl
from saccade.data.files.lines import Encoding, check_exists, lines_of, suffix_of, without_end
from saccade.data.files.parquet import header_of_parquet, scan_parquet
from saccade.data.files.records import EMPTY, Fault, Fields, Name, fault
from saccade.data.files.tables import TABLES, Row, header_of_table, scan_table
from saccade.errors import InputError

FASTTEXT = "__label__"  # what fastText writes before a label
COLUMNAR = ("tsv", "csv", "jsonl", "parquet")
FORMATS = (*COLUMNAR, "lines")


def scan_fields(
    path: str | Path,
    wanted: Sequence[Name],
    *,
    format: str | None = None,
    encoding: Encoding = "utf-8",
    texts: Collection[Name] = (),
    optional: Collection[Name] = (),
    headless: bool = False,
) -> Iterator[Fields | Fault]:
    """The wanted columns (names, or numbers from 1) of every record of a file, as a stream.

    Numbers alone ask for no header of a table; with ``headless``, a table with just the wanted number of columns needs none
    either. ``texts`` must be columns of text where a file has types. ``optional`` ones may be missing from single records. Of
    ``lines`` the label is the first word and the text is the rest, whatever the columns are called: label first is what such
    files have in common.
    """
    if on_hub(path):
        return scan_hub(path, wanted, optional=optional)
    path = Path(path)
    kind = format_of(path, format)
    if kind in TABLES:
        return scan_table(path, kind, wanted, headless=headless, encoding=encoding)
    if kind == "lines":
        return _lines(path, encoding)
    if kind == "jsonl":
        return scan_jsonl(path, wanted, optional=optional, encoding=encoding)
    return scan_parquet(path, wanted, texts=texts)


def format_of(
    path: str | Path,
    format: str | None = None,
    *,
    suffixes: Mapping[str, str] | None = None,
    expected: str = "a file of labelled texts (tsv, csv, jsonl, parquet, txt, also .gz or .xz)",
    hint: str = "set data.format; 'lines' are a label and its text, a space between them",
) -> str:
    """The given format, or else the one of the file's suffix; an InputError where neither tells."""
    if format is not None:
        return format
    known = {name: name for name in COLUMNAR} | {"txt": "lines", "lines": "lines"} if suffixes is None else suffixes
    suffix = suffix_of(path)
    if suffix not in known:
        if not suffix:
            check_exists(Path(path))  # a mistyped name, or a folder that is not there
        found = f"the suffix {suffix!r}" if suffix else "a name without a suffix"
        raise InputError(path, expected=expected, found=found, hint=hint)
    return known[suffix]


def header_of(path: str | Path, kind: str, encoding: Encoding = "utf-8") -> list[str] | None:
    """What can be named as a column; None where nothing can.

    Of a table its header, where the first row looks like one; of JSONL the keys of the first records.
    """
    if on_hub(path):
        return header_of_hub(path)
    if kind in TABLES:
        return header_of_table(TABLES[kind](Path(path), encoding))
    if kind == "lines":
        return None
    return header_of_jsonl(Path(path), encoding) if kind == "jsonl" else header_of_parquet(Path(path))


def first_row(path: str | Path, kind: str, encoding: Encoding = "utf-8") -> list[str] | None:
    """The cells of a table's first row; None where there is none, or the file is not a table."""
    if on_hub(path) or kind not in TABLES:
        return None
    return next((row.cells for row in TABLES[kind](Path(path), encoding) if isinstance(row, Row)), None)


def columns_of(path: str | Path, format: str | None = None, encoding: Encoding = "utf-8") -> list[Name]:
    """What can be named as a column: a header's names, keys, or numbers from 1 where there is no name."""
    kind = "" if on_hub(path) else format_of(path, format)
    names = header_of(path, kind, encoding) or [""] * len(first_row(path, kind, encoding) or ())
    return [name if name.strip() else number for number, name in enumerate(names, start=1)]


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
