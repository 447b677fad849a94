"""Pairs of texts: the records of the task ``translate``, from a generated data set, from files, or from memory. No torch.

    tables, JSONL, Parquet, the hub     a column for each side; a table of two columns needs no header
    two text files                      line i of one belongs to line i of the other

Files may be gzipped or xz'd, and are read as a stream. Wholly blank lines are skipped; half a pair is a fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from saccade.data import reading
from saccade.data.columns import ColumnNames
from saccade.data.config import DataConfig, TooLong, check_least
from saccade.data.files import fields as columnar
from saccade.data.files.fields import COLUMNAR as FORMATS
from saccade.data.files.fields import first_row, scan_fields
from saccade.data.files.hub import on_hub
from saccade.data.files.lines import Encoding, parallel_lines, suffix_of, without_end
from saccade.data.files.records import EMPTY, Fault, Fields, Name
from saccade.data.files.tables import lone_return
from saccade.data.memory import WHERE, fields_in, group_of, records_in
from saccade.data.reading import FaultCounts, own_format, read_records
from saccade.data.splits import Splits
from saccade.data.tokenizers.tokenizer import TokenizerConfig
from saccade.data.toy.copy import Copies
from saccade.data.toy.dates import Dates
from saccade.data.toy.phonemes import Phonemes
from saccade.data.toy.spelling import Spelling
from saccade.errors import InputError

SOURCE, TARGET = "source", "target"
Files = str | Path | tuple[str | Path, str | Path]
CONVERT = {  # formats that have to be converted first, and how
    "po": "convert it first: po2csv of the translate-toolkit writes a CSV with columns source and target",
    "tmx": "convert it first with any TMX-to-TSV converter",
}


@dataclass(frozen=True, slots=True)
class Pair:
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class GroupedPair(Pair):
    """A pair of a document, an author, a file …: a group is held out whole or not at all."""

    group: str


@dataclass(frozen=True, slots=True)
class Found:
    """A pair, its line and its group."""

    line: int
    pair: Pair
    group: str | None = None  # the value of ``columns.group``, where that is named and not empty

    @property
    def record(self) -> Pair:
        """The pair, with its group where it has one."""
        return self.pair if self.group is None else GroupedPair(self.pair.source, self.pair.target, self.group)


@dataclass(frozen=True)
class Columns(ColumnNames):
    """Which columns (tables) or keys (JSONL) hold the source and the target."""

    source: str | int = SOURCE
    target: str | int = TARGET
    group: str | int | None = None

    def source_among(self, names: Iterable[Any]) -> Name:
        """The column of sources; the one called ``source`` where a table has that and not the named one."""
        known = set(map(str, names))
        return self.source if _is_among(self.source, known) or SOURCE not in known else SOURCE

    @property
    def named(self) -> bool:
        """Whether the two were chosen, rather than left at their defaults."""
        return (self.source, self.target) != (SOURCE, TARGET)


@dataclass(frozen=True)
class PairFiles:
    """Two line-aligned text files."""

    source: str
    target: str


@dataclass(frozen=True)
class PairData(DataConfig):
    """The ``data`` part of a recipe for pairs of texts: a file of pairs, or two files whose lines belong together."""

    paths: ClassVar[tuple[str, ...]] = (*DataConfig.paths, "spelling.words")
    rereads: ClassVar[tuple[str, ...]] = (*DataConfig.rereads, "columns", "max_length", "too_long")
    most_files: ClassVar[float] = 2  # line-aligned

    source: Literal["dates", "spelling", "phonemes", "copies"] | None = None
    train: str | PairFiles | None = None  # type: ignore[assignment]
    valid: str | PairFiles | None = None  # type: ignore[assignment]
    test: str | PairFiles | None = None  # type: ignore[assignment]
    format: Literal["tsv", "csv", "jsonl", "parquet"] | None = None
    columns: Columns = field(default_factory=Columns)
    dates: Dates = field(default_factory=Dates)
    spelling: Spelling = field(default_factory=Spelling)
    phonemes: Phonemes = field(default_factory=Phonemes)
    copies: Copies = field(default_factory=Copies)
    tokens: TokenizerConfig = field(default_factory=TokenizerConfig)
    target_tokens: TokenizerConfig | None = None  # when the two sides are cut differently
    shared: bool = False  # one vocabulary for both sides
    max_length: int = 400  # tokens of a source or target
    too_long: TooLong = "error"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, max_length=1)
        files = [file for file in (self.train, self.valid, self.test) if isinstance(file, str)]
        if self.format is not None and not files:
            raise ValueError(f"format must be left out where there is no single file of pairs: got {self.format}")
        if self.shared and self.target_tokens is not None:
            raise ValueError("target_tokens has no meaning with shared: true")

    def files(self, split: str) -> str | tuple[str, ...] | None:
        files: str | PairFiles | None = getattr(self, split)
        return (files.source, files.target) if isinstance(files, PairFiles) else files


# Records from files --------------------------------------------------------------------------------------------------


def load_splits(data: PairData, folder: Path, seed: int) -> Splits:
    """The pairs that ``data`` names; relative paths start at ``folder``."""

    def read(path: Files, split: str) -> tuple[list[Pair], list[str]]:
        # A split that is given is not held out of anything: its groups do not matter.
        columns = data.columns if split == "train" else replace(data.columns, group=None)
        settings = replace(data, columns=columns)
        pairs, notes = gather(path, settings)
        if not isinstance(path, tuple) and without_header(path, columns.source, data.format, data.encoding):
            # A header by other names looks like a pair.
            headless = f"no header names {columns.source!r} and {columns.target!r}: the first line was read as a pair"
            notes.insert(0, f"{path}: {headless}")
        return pairs, notes

    return reading.load_splits(data, folder, seed, lambda values: Pair(*values), read)


def read_file(path: Files, data: PairData, dropped: FaultCounts | None = None) -> list[Pair]:
    """The pairs of one more file, by the recipe's columns, and by its format where the suffix does not tell; or of two
    line-aligned files. Read strictly unless ``dropped`` counts malformed ones."""
    settings = replace(data, columns=replace(data.columns, group=None), format=None)
    format = None if isinstance(path, tuple) else own_format(path, data, FORMATS)
    return gather(path, settings, dropped, format=format, strict=dropped is None)[0]


def read_pairs(
    path: Files, *, source: str | int = SOURCE, target: str | int = TARGET, format: str | None = None
) -> list[Pair]:
    """Read all pairs of a file, or of two files whose lines belong together; the first fault is raised.

    ``source`` and ``target`` name the columns or keys, or count columns from 1; ``format`` overrides the file's suffix.
    A TSV or CSV of two columns needs no header when the names are the defaults.
    """
    return gather(path, PairData(train="-", columns=Columns(source, target)), format=format, strict=True)[0]


def gather(
    path: Files, data: PairData, dropped: FaultCounts | None = None, *, format: str | None = None, strict: bool = False
) -> tuple[list[Pair], list[str]]:
    """All pairs of a file or of two, and warnings about them; ``strict`` reading drops no fault."""
    group = data.columns.group
    first = path[0] if isinstance(path, tuple) else path
    format = format or (None if isinstance(path, tuple) else data.format)
    items = scan(path, columns=data.columns, format=format, encoding=data.encoding)
    records = (item if isinstance(item, Fault) else item.record for item in items)
    pairs, notes = read_records(
        first, records, data, dropped, strict=strict, called="pairs", expected="at least one pair"
    )
    if group is not None and not any(isinstance(pair, GroupedPair) for pair in pairs):
        expected = f"a record with {group!r}"
        raise InputError(first, field="columns.group", expected=expected, found="none that has it")
    return pairs, notes


DEFAULT = Columns()


def scan(
    path: Files, *, columns: Columns = DEFAULT, format: str | None = None, encoding: Encoding = "utf-8"
) -> Iterator[Found | Fault]:
    """Every pair and every fault of a file, or of two whose lines belong together, as a stream in bounded memory.

    ``format`` overrides the file's suffix. Raises InputError only where nothing more can be read (no such file, wrong
    columns, broken compression); what came before was given.
    """
    if isinstance(path, tuple | list):
        if len(path) != 2 or format is not None:
            found = f"{len(path)} files" if len(path) != 2 else f"format {format!r}"
            raise InputError(str(path[0]) if path else "no file", expected="two text files, plain lines", found=found)
        fields, where = _line_pairs(Path(path[0]), Path(path[1]), columns, encoding), path[0]
    else:
        where = path
        fields = scan_fields(
            path,
            columns.wanted,
            format=None if on_hub(path) else format_of(path, format),
            encoding=encoding,
            texts=(columns.source, columns.target),
            optional=() if columns.group is None else (columns.group,),
            headless=not columns.named and columns.group is None,
        )
    return (item if isinstance(item, Fault) else record_of(item, columns, where) for item in fields)


def _line_pairs(first: Path, second: Path, columns: Columns, encoding: Encoding) -> Iterator[Fields | Fault]:
    """The lines of two files that belong together; lines that are blank in both are skipped."""
    if columns.group is not None:
        raise InputError(first, field="columns.group", expected="a file with columns", found="plain lines")
    for lines in parallel_lines((first, second), encoding):
        number, texts = lines[0].number, tuple(without_end(line.text) for line in lines)
        broken = lines[0].fault or lines[1].fault
        returned = next((path for path, text in zip((first, second), texts, strict=True) if "\r" in text), None)
        if broken is not None or returned is not None:
            yield broken or lone_return(number, returned or first)
        elif not any(text.strip() for text in texts):
            continue
        elif all(text.strip() for text in texts):
            yield Fields(number, texts)
        else:
            where, text = (first, texts[0]) if not texts[0].strip() else (second, texts[1])
            yield _empty(Fields(number, texts), where, where.name, text)


def record_of(fields: Fields, columns: Columns, where: str | Path) -> Found | Fault:
    """The pair of a record's fields (source, target, and the group where one is named), or what is wrong with them."""
    source, target, *rest = fields.values
    for name, value in ((columns.source, source), (columns.target, target)):
        broken = fields.text_fault(value, name, where)
        if broken is not None:
            return broken
    for name, text in ((columns.source, source), (columns.target, target)):
        if not text.strip():
            return _empty(fields, where, name, text)
    return Found(fields.line, Pair(source, target), group_of(rest[0]) if rest else None)


def _empty(fields: Fields, where: str | Path, name: Name, text: str) -> Fault:
    return fields.fault(EMPTY, where, name, "text on both sides of a pair", "only spaces" if text else "nothing")


def header_of(path: str | Path, format: str | None = None, encoding: Encoding = "utf-8") -> list[str] | None:
    """What can be named as a column; None where nothing can."""
    return columnar.header_of(path, "" if on_hub(path) else format_of(path, format), encoding)


def without_header(
    path: str | Path, source: str | int = SOURCE, format: str | None = None, encoding: Encoding = "utf-8"
) -> bool:
    """Whether a TSV or CSV begins with a pair rather than with a header."""
    if on_hub(path) or isinstance(source, int):
        return False
    kind = format_of(path, format)
    first = first_row(path, kind, encoding)
    return first is not None and source not in first and columnar.header_of(path, kind, encoding) is None


def format_of(path: str | Path, format: str | None = None) -> str:
    """The given format, or else the one of the file's suffix."""
    known = ", ".join(FORMATS)
    if format is not None and format not in FORMATS:
        hint = CONVERT.get(format)
        raise InputError(path, field="format", expected=f"one of {known}", found=repr(format), hint=hint)
    other = "set data.format, or give two text files whose lines belong together"
    hint = CONVERT.get(suffix_of(path), other)
    expected = f"a file of pairs ({known}, also .gz or .xz)"
    return columnar.format_of(path, format, suffixes={name: name for name in FORMATS}, expected=expected, hint=hint)


# Records from memory -------------------------------------------------------------------------------------------------


def _is_among(column: Name, names: set[str]) -> bool:
    """Whether a table with these names has the column: by number, by name, or as a key of a column of dicts."""
    return isinstance(column, int) or column in names or column.split(".")[0] in names


def pairs_of(given: Any, columns: Columns = DEFAULT, dropped: FaultCounts | None = None) -> list[Pair]:
    """Pairs from a list of (source, target), of dicts or of pairs, from a dict of columns, or from a DataFrame or table.

    ``columns`` name the keys or columns; those called ``source`` and ``target`` are taken where the named ones are missing. Of
    a list of tuples they may be numbers from 1. A fault names the record's number, from 1; faults are counted in ``dropped``
    where that is given.
    """

    def wanted(names: Iterable[Any]) -> tuple[Name, ...]:
        known = set(map(str, names))
        there = any(_is_among(column, known) for column in columns.wanted[:2])
        chosen = columns if there or not {SOURCE, TARGET} <= known else replace(columns, source=SOURCE, target=TARGET)
        return chosen.wanted

    def values_of(item: Any) -> tuple[Any, ...] | None:
        if isinstance(item, Pair):
            return item.source, item.target, getattr(item, "group", None)
        places = [column - 1 for column in columns.wanted if isinstance(column, int)]
        if isinstance(item, tuple | list):
            if len(places) == len(columns.wanted) and max(places) < len(item):
                return tuple(item[place] for place in places)
            if not places and len(item) == 2:
                return tuple(item)
        return None

    accepted = "pairs of texts, dicts, a DataFrame or a dict of columns"
    fields = fields_in(given, wanted, values_of, accepted=accepted, shape="a pair of texts")
    items = (item if isinstance(item, Fault) else record_of(item, columns, WHERE) for item in fields)
    return [found.record for found in records_in(items, dropped, expected="pairs of texts")]
