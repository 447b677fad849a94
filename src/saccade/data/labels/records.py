"""Texts with a label each: the records of the task ``classify``, from a built-in source, from files, or from memory. No torch.

    tables, JSONL, Parquet, the hub     a column of text and one of labels; a second text too, where records are pairs
    lines                               "label text …", a record a line
    aspects                             three lines a record: a sentence with $T$, what stands there, the polarity
    relations                           blocks as in SemEval-2010's task 8: a sentence with two marked nouns, their relation
    folders                             one folder a label, one file a text:  train/pos/0_9.txt

A label is a name: numbers and true or false are taken as they are written.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from saccade.data.config import DataConfig, TooLong, check_least
from saccade.data.files.fields import FORMATS, Fields, Name, scan_fields
from saccade.data.files.hub import on_hub
from saccade.data.files.lines import opened, unpacked
from saccade.data.files.records import NOT_TEXT, NOT_UTF8, NUL, Fault, fault, kind_of, text_fault
from saccade.data.files.semeval import BLOCKS, scan_blocks
from saccade.data.memory import check_text, columns_in, items_of, made_of, missing, short, values_under
from saccade.data.reading import FaultCounts, load_parts, valid_records, warnings_about
from saccade.data.splits import Splits
from saccade.data.tokenizers.sentences import Nesting
from saccade.data.tokenizers.tokenizer import Kind, TokenizerConfig
from saccade.data.tokenizers.vectors import Vectors, check_vectors
from saccade.data.toy.contrasts import Contrasts
from saccade.data.toy.needles import Needles
from saccade.data.toy.opinions import Opinions
from saccade.data.toy.relations import Verbs
from saccade.errors import InputError

EMPTY = "no text or no label"
UNLISTED = "a label that data.labels does not list"
Text = str | tuple[str, str]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text, or two that are judged together, and the label; records of one group are held out together."""

    source: Text
    target: str
    group: str | None = None

    @property
    def first(self) -> str | None:
        """The first of two texts."""
        return self.source[0] if isinstance(self.source, tuple) else None


@dataclass(frozen=True)
class LabelColumns:
    """Which columns (tables) or keys (JSONL) hold what: names, or numbers from 1. ``second`` makes records pairs; ``group`` may
    be a column of texts too: then records that share it are held out together."""

    text: str | int = "text"
    label: str | int = "label"
    second: str | int | None = None
    group: str | int | None = None

    def __post_init__(self) -> None:
        for name in ("text", "label", "second", "group"):
            column = getattr(self, name)
            if column == "" or (isinstance(column, int) and column < 1):
                raise ValueError(f"{name} must be a column's name or its number from 1: got {column!r}")
        if self.text == self.second:
            raise ValueError(f"second must be another column than text: got {self.second!r}")
        if self.label in (self.text, self.second, self.group):
            raise ValueError(f"label must be another column than the others: got {self.label!r}")

    @property
    def wanted(self) -> tuple[Name, ...]:
        """The columns to look for: text, label, then the second text and the group where they are named."""
        return tuple(name for name in (self.text, self.label, self.second, self.group) if name is not None)


@dataclass(frozen=True)
class WordTokens(TokenizerConfig):
    """How documents are cut: into words, unless another kind is named."""

    kind: Kind = "words"
    size: int = 20_000


@dataclass(frozen=True)
class LabelledData(DataConfig):
    """The ``data`` part of a recipe for texts with a label each: files, or folders with one folder per label."""

    source: Literal["opinions", "contrasts", "verbs", "needles"] | None = None
    format: Literal["tsv", "csv", "jsonl", "parquet", "lines", "aspects", "relations"] | None = None
    columns: LabelColumns = field(default_factory=LabelColumns)
    labels: tuple[str, ...] | None = None  # all there are, in this order; as train has them, sorted, unless given
    opinions: Opinions = field(default_factory=Opinions)
    contrasts: Contrasts = field(default_factory=Contrasts)
    verbs: Verbs = field(default_factory=Verbs)
    needles: Needles = field(default_factory=Needles)
    tokens: WordTokens = field(default_factory=WordTokens)
    vectors: str | Vectors | None = None  # a file or a run that word embeddings begin with
    max_length: int = 400  # tokens of a text, or of the two of a pair together
    too_long: TooLong = "error"
    keep: Literal["first", "last"] = "first"  # which tokens of a text that is cut
    sentences: Nesting | None = (
        None  # cut each text into sentences, for a network that reads them one by one, such as han
    )
    balance: Literal["none", "weights"] = "none"  # weights: every label counts as much in the loss, however rare

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, max_length=2)
        if self.sentences is not None and (self.columns.second is not None or self.format == "aspects"):
            raise ValueError(f"sentences must be left out where records are pairs: got {self.sentences}")
        if self.labels is not None and (len(self.labels) < 2 or len(set(self.labels)) < len(self.labels)):
            raise ValueError(f"labels must be two or more different names: got {list(self.labels)}")
        check_vectors(self.vectors, self.tokens)
        if self.format == "lines" and self.columns.second is not None:
            raise ValueError(
                "columns must name no second text where records are lines: got " + repr(self.columns.second)
            )


# Records from files --------------------------------------------------------------------------------------------------


def built_in(source: str) -> Any:
    """The module of a built-in source: ``generate`` makes its splits, ``EXAMPLES`` are inputs worth looking at."""
    module = {"verbs": "relations"}.get(source, source)  # the source keeps its name in recipes
    return importlib.import_module(f"saccade.data.toy.{module}")


def load_labelled(data: LabelledData, folder: Path, seed: int) -> Splits:
    """The records that ``data`` names; relative paths start at ``folder``."""
    made: dict[str, list[Labelled]] = {}
    if data.source is not None:
        drawn = built_in(data.source).generate(getattr(data, data.source))
        made = {name: [Labelled(text, label) for text, label in part] for name, part in drawn.items()}
    return load_parts(data, folder, seed, made, gather)


def read_file(path: Path, data: LabelledData) -> list[Labelled]:
    """The records of one more file or folder, read strictly: a figure on what happens to be left would mean nothing."""
    suffix = unpacked(path).suffix.lower().removeprefix(".")
    known = FORMATS if data.format in BLOCKS else (*FORMATS, "txt")  # the blocks of one release stand in .TXT files
    format = None if on_hub(path) or suffix in known else data.format
    columns = replace(data.columns, group=None)
    return gather(path, replace(data, format=format, columns=columns), strict=True)[0]


def gather(path: str | Path, data: LabelledData, *, strict: bool = False) -> tuple[list[Labelled], list[str]]:
    """The records of a file or folder, and what the reader must know of how they were come by.

    The first fault is raised, with the word that ``data.faults: drop`` leaves it out; ``strict`` reading leaves none out.
    """
    left_out = FaultCounts()
    records = list(valid_records(scan(path, data), data, left_out, strict=strict, called="records"))
    return records, warnings_about(path, records, left_out, expected="at least one text with its label")


def scan(path: str | Path, data: LabelledData) -> Iterator[Labelled | Fault]:
    """Every record and every fault of a file, of a folder, or of a dataset of the hub."""
    if not on_hub(path) and Path(path).is_dir():
        yield from _folder(Path(path), data)
        return
    if data.format is not None and data.format in BLOCKS:
        blocks = replace(data, columns=LabelColumns(**BLOCKS[data.format]))
        for found in scan_blocks(Path(path), data.format, encoding=data.encoding):
            yield found if isinstance(found, Fault) else _record(found, blocks, path)
        return
    for found in scan_fields(path, data.columns.wanted, format=data.format, encoding=data.encoding):
        yield found if isinstance(found, Fault) else _record(found, data, path)


def _record(fields: Fields, data: LabelledData, where: str | Path) -> Labelled | Fault:
    text, label, *rest = fields.values
    columns = data.columns
    texts = [(columns.text, text)]
    if columns.second is not None:
        texts.append((columns.second, rest.pop(0)))
    for column, value in texts:
        broken = text_fault(value, str(column), fields.line, where, place=fields.place)
        if broken is not None:
            return broken
        if not value.strip():
            return _fault(fields, EMPTY, where, column, "a text", "nothing" if not value else "only spaces")
    name = label_of(label)
    if not name:
        reason, found = (NOT_TEXT, kind_of(label)) if name is None else (EMPTY, "nothing")
        return _fault(fields, reason, where, columns.label, "a label", found)
    if data.labels is not None and name not in data.labels:
        return _fault(fields, UNLISTED, where, columns.label, f"one of {', '.join(data.labels)}", repr(name))
    group = str(rest[0]).strip() if rest and rest[0] is not None else None
    return Labelled(text if len(texts) == 1 else (text, texts[1][1]), name, group or None)


def _fault(fields: Fields, reason: str, where: str | Path, column: Name, expected: str, found: str) -> Fault:
    return fault(fields.line, reason, where, field=str(column), expected=expected, found=found, place=fields.place)


def label_of(value: Any) -> str | None:
    """A label as a name; None for what can be none."""
    if isinstance(value, str):
        return value.strip()
    if hasattr(value, "item") and not isinstance(value, list | tuple):  # numpy's numbers
        try:
            value = value.item()
        except (RuntimeError, TypeError, ValueError):  # several of them
            return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a column of whole numbers with a gap in it
    if isinstance(value, bool):
        return str(value).lower()  # as JSON writes it, wherever it comes from: a table in memory may have been JSON
    return str(value) if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)) else None


def _folder(folder: Path, data: LabelledData) -> Iterator[Labelled | Fault]:
    """One folder a label, one file a text. Folders that ``data.labels`` does not list are passed over, and counted."""
    inside = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    labels = [entry for entry in inside if entry.is_dir()]
    if not labels:
        raise InputError(folder, expected="one folder for each label", found="no folder in it")
    for label in labels:
        files = sorted(entry for entry in label.iterdir() if entry.is_file() and not entry.name.startswith("."))
        listed = data.labels is None or label.name in data.labels
        for number, file in enumerate(files, start=1):
            if listed:
                yield _document(file, label.name, number, data)
            else:
                expected, reason = f"one of {', '.join(data.labels or ())}", f"of {label.name!r}, not among data.labels"
                yield fault(number, reason, label, expected=expected, found=label.name, skipped=True)


def _document(file: Path, label: str, number: int, data: LabelledData) -> Labelled | Fault:
    with opened(file) as stream:
        raw = stream.read()
    try:
        text = raw.decode("utf-8-sig" if data.encoding == "utf-8" else data.encoding).strip()
    except UnicodeDecodeError as error:
        found = f"the byte 0x{raw[error.start]:02x} at offset {error.start}"
        return fault(
            number, NOT_UTF8, file, expected=f"{data.encoding} text", found=found, place="file", hint="data.encoding?"
        )
    if "\0" in text:
        return fault(number, NUL, file, expected="a text", found="a NUL character", place="file")
    return (
        Labelled(text, label) if text else fault(number, EMPTY, file, expected="a text", found="nothing", place="file")
    )


# ----------------------------------------------------------------------------------------------------
# Labelled texts from what a program has in hand: a list of (text, label), of dicts, a dict of columns, a DataFrame.

WHERE = "data"
ACCEPTED = "texts with their labels: a list of (text, label), of dicts, a DataFrame or a dict of columns"
Values = tuple[Any, Any, Any]  # text (or two), label, group: still to be checked


def labelled_of(given: Any, data: LabelledData, left_out: FaultCounts | None = None) -> list[Labelled]:
    """Records from a list of (text, label), (first, second, label) or dicts, from a dict of columns, or from a table.

    ``data.columns`` name the keys or columns. A fault names the record's number, from 1; faults are counted in ``left_out``
    where that is given.
    """
    values = _values(given, data.columns)
    records = made_of(
        values, lambda each, number: _record_in_memory(each, number, data), left_out, expected="texts with their labels"
    )
    kinds = {isinstance(record.source, tuple) for record in records}
    if len(kinds) > 1:
        raise InputError(WHERE, expected="one text in every record, or two in every one", found="some of each")
    return records


def _record_in_memory(values: Values, number: int, data: LabelledData) -> Labelled:
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
