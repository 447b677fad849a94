"""Pairs from wherever a recipe says: a built-in source, the user's own files, or what a program has in hand.

Imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Literal

from saccade.data.config import DataConfig, check_least
from saccade.data.files.catalogue import header_of_catalogue, scan_catalogue
from saccade.data.files.hub import header_of_hub, on_hub, scan_hub
from saccade.data.files.jsonl import header_of_jsonl, scan_jsonl
from saccade.data.files.line_pairs import scan_aligned
from saccade.data.files.lines import unpacked
from saccade.data.files.parquet import header_of_parquet, scan_parquet
from saccade.data.files.records import SOURCE, TARGET, Columns, Fault, Found, GroupedPair, Pair
from saccade.data.files.tables import TABLES, Row, header_of_table, scan_csv, scan_tsv
from saccade.data.files.tmx import header_of_tmx, scan_tmx
from saccade.data.memory import (
    ACCEPTED,
    DEFAULT_COLUMNS,
    WHERE,
    Values,
    _of_record,
    _of_table,
    check_text,
    made_of,
    missing,
    names_of,
    short,
)
from saccade.data.paths import locate
from saccade.data.reading import FaultCounts
from saccade.data.splits import Splits, hold_out, settle_overlap
from saccade.data.tokenizers.tokenizer import TokenizerConfig
from saccade.data.toy.copy import Copies
from saccade.data.toy.dates import Dates
from saccade.data.toy.pairs import Made, make
from saccade.data.toy.phonemes import Phonemes
from saccade.data.toy.spelling import Spelling
from saccade.errors import InputError


@dataclass(frozen=True)
class PairFiles:
    """Two line-aligned text files."""

    source: str
    target: str


@dataclass(frozen=True)
class PairData(DataConfig):
    """The ``data`` part of a recipe for pairs of texts: a file of pairs, or two files whose lines belong together."""

    source: Made | None = None
    train: str | PairFiles | None = None  # type: ignore[assignment]
    valid: str | PairFiles | None = None  # type: ignore[assignment]
    test: str | PairFiles | None = None  # type: ignore[assignment]
    format: Literal["tsv", "csv", "jsonl", "parquet", "po", "tmx"] | None = None
    columns: Columns = field(default_factory=Columns)
    dates: Dates = field(default_factory=Dates)
    spelling: Spelling = field(default_factory=Spelling)
    phonemes: Phonemes = field(default_factory=Phonemes)
    copies: Copies = field(default_factory=Copies)
    tokens: TokenizerConfig = field(default_factory=TokenizerConfig)
    target_tokens: TokenizerConfig | None = None  # when the two sides are cut differently
    shared: bool = False  # one vocabulary for both sides
    max_length: int = 400  # tokens of a source or target
    too_long: Literal["error", "truncate"] = "error"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, max_length=1)
        files = [file for file in (self.train, self.valid, self.test) if isinstance(file, str)]
        if self.format is not None and not files:
            raise ValueError(f"format must be left out where there is no single file of pairs: got {self.format}")
        if self.shared and self.target_tokens is not None:
            raise ValueError("target_tokens has no meaning with shared: true")


def read_file(path: Path, data: PairData) -> list[Pair]:
    """The pairs of one more file, by the recipe's columns, and by its format where the suffix says none.

    Read strictly whatever ``data.faults`` says: a figure on what happens to be left of a file would mean nothing.
    """
    columns = replace(data.columns, group=None)
    format = None if on_hub(path) or _suffix(path) in FORMATS else data.format
    return gather(path, columns=columns, format=format)[0]


def _suffix(path: Path) -> str:
    return unpacked(path).suffix.lower().removeprefix(".")


def load_splits(data: PairData, folder: Path, seed: int) -> Splits:
    """The pairs that ``data`` names; relative paths start at ``folder``."""
    if data.source is not None:
        made = make(data, lambda name: locate(name, folder))
        parts = {name: [Pair(*pair) for pair in part] for name, part in made.items()}
        return settle_overlap(hold_out(parts, data.hold_out, seed), data.overlap)
    pairs: dict[str, list[Pair]] = {}
    notes: list[str] = []
    for name in ("train", "valid", "test"):
        files = getattr(data, name)
        if files is not None:
            pairs[name], said = _read(files, data, folder, grouped=name == "train")
            notes += said
    splits = settle_overlap(hold_out(pairs, data.hold_out, seed), data.overlap)
    return replace(splits, notes=(*notes, *splits.notes))


def _read(files: str | PairFiles, data: PairData, folder: Path, *, grouped: bool) -> tuple[list[Pair], list[str]]:
    """The pairs of a split, and what the reader must know of how they were come by."""
    # A split that is given is not held out of anything: its groups do not matter.
    columns = data.columns if grouped else replace(data.columns, group=None)
    path: Files
    if isinstance(files, PairFiles):
        path, format, name = (locate(files.source, folder), locate(files.target, folder)), None, files.source
    else:
        path, format, name = files if on_hub(files) else locate(files, folder), data.format, files
    pairs, left_out = gather(path, columns=columns, format=format, faults=data.faults)
    notes = []
    if not isinstance(path, tuple) and without_header(path, columns.source, format):
        # A header by other names looks like a pair.
        headless = f"no header names {columns.source!r} and {columns.target!r}: the first line was read as a pair"
        notes.append(f"{name}: {headless}")
    if left_out:
        notes.append(f"{name}: {len(left_out):,} left out beside {len(pairs):,} pairs: {left_out}")
    return pairs, notes


# ----------------------------------------------------------------------------------------------------
# Pairs of texts from files: TSV, CSV, JSONL, Parquet, PO, TMX, two line-aligned text files, or a dataset of the hub.
#
# Files may be gzipped or xz'd. They are read as a stream. ``scan`` gives every pair and every fault; ``read_pairs`` is
# strict: the first fault is one InputError that names the file, the line, the field, what was expected and what was found.
# Wholly blank lines are skipped; half a pair is a fault.


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


def gather(
    path: Files,
    *,
    columns: Columns = DEFAULT,
    format: str | None = None,
    faults: Literal["error", "drop"] = "error",
) -> tuple[list[Pair], FaultCounts]:
    """All pairs of a file, and what was left out: what the file itself marks as no pair, and faults where they may be."""
    first = path[0] if isinstance(path, tuple | list) else path
    pairs: list[Pair] = []
    left_out = FaultCounts()
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


def pairs_of(data: Any, columns: Columns = DEFAULT_COLUMNS, left_out: FaultCounts | None = None) -> list[Pair]:
    """Pairs from a list of (source, target), of dicts or of pairs, from a dict of columns, or from a DataFrame or table.

    ``columns`` name the keys or columns; those called ``source`` and ``target`` are taken where the named ones are not
    there. Of a list of tuples they may be numbers from 1. A fault names the record's number, from 1; faults are counted in
    ``left_out`` where that is given.
    """
    values = _values(data, columns)
    return made_of(values, lambda each, number: _pair(each, number, columns), left_out, expected="pairs of texts")


def _pair(values: Values, number: int, columns: Columns) -> Pair:
    source, target, group = values
    for name, text in ((columns.source, source), (columns.target, target)):
        check_text(text, str(name), number, expected="text", filled="text on both sides of a pair")
    # Subclasses of str, such as numpy's, become plain.
    pair = Pair(str(source), str(target))
    grouped = not missing(group) and str(group).strip()
    return GroupedPair(pair.source, pair.target, str(group)) if grouped else pair


def _values(data: Any, columns: Columns) -> Iterator[Values]:
    if isinstance(data, str | bytes | Path):
        hint = "a file is named in the recipe, as data.train"
        raise InputError(WHERE, expected=ACCEPTED, found=short(data), hint=hint)
    names = names_of(data)
    if names is not None and hasattr(data, "__getitem__"):
        return _of_table(data, names, columns)
    if hasattr(data, "to_dict") and names is not None:
        data = data.to_dict("records")
    if not isinstance(data, Iterable):
        raise InputError(WHERE, expected=ACCEPTED, found=f"a {type(data).__name__}")
    return map(
        lambda item, number: _of_record(item, number, columns), data, count(1)
    )  # goes on after an item it refuses
