"""Pairs of texts from files: TSV, CSV, JSONL, Parquet, PO, TMX, two line-aligned text files, or a dataset of the hub.

Files may be gzipped or xz'd. They are read as a stream. ``scan`` gives every pair and every fault; ``read_pairs`` is
strict: the first fault is one InputError that names the file, the line, the field, what was expected and what was found.
Wholly blank lines are skipped; half a pair is a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from saccade.data.files.aligned import scan_aligned
from saccade.data.files.catalogue import header_of_catalogue, scan_catalogue
from saccade.data.files.hub import header_of_hub, on_hub, scan_hub
from saccade.data.files.jsonl import header_of_jsonl, scan_jsonl
from saccade.data.files.lines import OPENERS, text_lines, unpacked
from saccade.data.files.parquet import header_of_parquet, scan_parquet
from saccade.data.files.records import SOURCE, TARGET, Columns, Fault, Found, GroupedPair, Pair
from saccade.data.files.tables import TABLES, Row, header_of_table, scan_csv, scan_tsv
from saccade.data.files.tmx import header_of_tmx, scan_tmx
from saccade.errors import InputError

__all__ = [
    "OPENERS", "Columns", "Fault", "Files", "Found", "GroupedPair", "Pair", "Tally", "format_of", "gather", "header_of",
    "read_pairs", "scan", "text_lines", "without_header",
]  # fmt: skip

Files = str | Path | tuple[str | Path, str | Path]
DEFAULT = Columns()


def scan(path: Files, *, columns: Columns = DEFAULT, format: str | None = None) -> Iterator[Found | Fault]:
    """Every pair and every fault of a file, or of two whose lines belong together, as a stream in bounded memory.

    ``format`` overrides the file's suffix. Raises InputError only where nothing more can be read (no such file, wrong
    columns, broken compression); what came before was given.
    """
    if isinstance(path, tuple | list):
        if len(path) != 2 or format is not None:
            found = f"{len(path)} files" if len(path) != 2 else f"format {format!r}"
            raise InputError(str(path[0]) if path else "no file", expected="two text files, plain lines", found=found)
        return scan_aligned(Path(path[0]), Path(path[1]), columns)
    if on_hub(path):
        return scan_hub(path, columns)
    path = Path(path)
    return FORMATS[format_of(path, format)](path, columns)


class Tally:
    """Faults counted by their reasons, with the place of each one's first."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.first: dict[str, int] = {}

    def add(self, fault: Fault) -> None:
        self.counts[fault.reason] = self.counts.get(fault.reason, 0) + 1
        self.first.setdefault(fault.reason, fault.line)

    def __len__(self) -> int:
        return sum(self.counts.values())

    def __str__(self) -> str:
        ordered = sorted(self.counts.items(), key=lambda item: -item[1])
        return ", ".join(f"{count:,} {reason} (first: {self.first[reason]:,})" for reason, count in ordered)


def gather(
    path: Files,
    *,
    columns: Columns = DEFAULT,
    format: str | None = None,
    faults: Literal["error", "drop"] = "error",
) -> tuple[list[Pair], Tally]:
    """All pairs of a file, and what was left out: what the file itself marks as no pair, and faults where they may be."""
    first = path[0] if isinstance(path, tuple | list) else path
    pairs: list[Pair] = []
    left_out = Tally()
    for item in scan(path, columns=columns, format=format):
        if isinstance(item, Found):
            pairs.append(item.record)
        elif faults == "drop" or item.skipped:
            left_out.add(item)
        else:
            raise item.error
    if not pairs:
        found = f"none: left out were {left_out}" if left_out else "an empty file"
        raise InputError(first, expected="at least one pair", found=found)
    if columns.group is not None and not any(isinstance(pair, GroupedPair) for pair in pairs):
        expected = f"a record with {columns.group!r}"
        raise InputError(first, field="columns.group", expected=expected, found="none that has it")
    return pairs, left_out


def read_pairs(
    path: Files, *, source: str | int = SOURCE, target: str | int = TARGET, format: str | None = None
) -> list[Pair]:
    """Read all pairs of a file, or of two files whose lines belong together; the first fault is raised.

    ``source`` and ``target`` name the columns or keys, or count columns from 1; ``format`` overrides the file's suffix.
    A TSV or CSV of two columns needs no header when the names are the defaults.
    """
    return gather(path, columns=Columns(source, target), format=format)[0]


def header_of(path: str | Path, format: str | None = None) -> list[str] | None:
    """What can be named as a column; None where nothing can.

    Of a table its header, where the first row looks like one; of JSONL the first record's keys; of TMX the languages.
    """
    if on_hub(path):
        return header_of_hub(path)
    path = Path(path)
    return HEADERS[format_of(path, format)](path)


def without_header(path: str | Path, source: str | int = SOURCE, format: str | None = None) -> bool:
    """Whether a TSV or CSV begins with a pair rather than with a header that names ``source``."""
    if on_hub(path) or isinstance(source, int):
        return False
    path = Path(path)
    kind = format_of(path, format)
    if kind not in TABLES:
        return False
    first = next((row for row in TABLES[kind](path) if isinstance(row, Row)), None)
    return first is not None and source not in first.cells


def format_of(path: Path, format: str | None = None) -> str:
    """The format that is said, or else that the file's suffix says."""
    known = ", ".join(FORMATS)
    if format is not None:
        if format not in FORMATS:
            raise InputError(path, field="format", expected=f"one of {known}", found=repr(format))
        return format
    name = unpacked(path)
    suffix = name.suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        found = f"the suffix {name.suffix!r}" if suffix else "a name without a suffix"
        hint = "set the format, or give two text files whose lines belong together"
        raise InputError(path, expected=f"a file of pairs ({known}, also .gz or .xz)", found=found, hint=hint)
    return suffix


FORMATS: dict[str, Callable[[Path, Columns], Iterator[Found | Fault]]] = {
    "tsv": scan_tsv,
    "csv": scan_csv,
    "jsonl": scan_jsonl,
    "parquet": scan_parquet,
    "po": scan_catalogue,
    "tmx": scan_tmx,
}
HEADERS: dict[str, Callable[[Path], list[str] | None]] = {
    "tsv": lambda path: header_of_table(TABLES["tsv"](path)),
    "csv": lambda path: header_of_table(TABLES["csv"](path)),
    "jsonl": header_of_jsonl,
    "parquet": header_of_parquet,
    "po": header_of_catalogue,
    "tmx": header_of_tmx,
}
