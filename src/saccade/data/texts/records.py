"""Texts from files: plain text, a column of a table, JSONL, Parquet, a dataset of the hub, or a folder of such files. No torch.

A record is a line of a plain text file, or the whole file (``unit: file``); elsewhere it is a row. Blank lines and empty
rows are no records. Files may be gzipped or xz'd.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from saccade.data.config import DataConfig, check_least
from saccade.data.files.hub import loaded, on_hub
from saccade.data.files.jsonl import inner, object_of
from saccade.data.files.lines import text_lines, unpacked, without_end
from saccade.data.files.parquet import BATCH, leaves_of, rows_of, table_of
from saccade.data.files.records import Fault, text_fault
from saccade.data.files.tables import TABLES, Row
from saccade.data.paths import locate
from saccade.data.splits import Splits, hold_out, settle_overlap
from saccade.data.tokenizers.tokenizer import TokenizerConfig
from saccade.data.toy import agreement
from saccade.data.toy.agreement import Agreement
from saccade.errors import InputError

Format = Literal["txt", "csv", "tsv", "jsonl", "parquet"]
FORMATS: tuple[Format, ...] = ("txt", "csv", "tsv", "jsonl", "parquet")
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True, slots=True)
class Text:
    """A text to learn from."""

    source: str


@dataclass(frozen=True)
class TextData(DataConfig):
    """The ``data`` part of a recipe for language models: files or folders of texts."""

    source: Literal["agreement"] | None = None
    format: Format | None = None
    agreement: Agreement = field(default_factory=Agreement)
    column: str | int = "text"  # of a table (its name, or its number from 1), a key of JSONL, a column of Parquet
    unit: Literal["line", "file"] = "line"  # what a record is in plain text
    tokens: TokenizerConfig = field(default_factory=TokenizerConfig)
    layout: Literal["records", "stream"] = "records"  # stream: all records of a split as one text
    chunk: int = 128  # tokens that are predicted in one row; longer texts are cut into several
    context: int = 0  # tokens before its own that a chunk also reads
    streams: int | None = None  # rows that each read on, chunk after chunk, with their state carried
    longest: int = 100  # tokens of a continuation

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, chunk=1, context=0, streams=1, longest=1)
        if self.streams is not None and self.layout != "stream":
            raise ValueError(f"streams must be left out unless layout is stream: got {self.streams}")
        if self.streams is not None and self.context:
            raise ValueError(f"context must be 0 with streams, whose state is carried: got {self.context}")
        if (isinstance(self.column, int) and self.column < 1) or self.column == "":
            raise ValueError(f"column must be a column's name or its number from 1: got {self.column!r}")


def load_texts(data: TextData, folder: Path, seed: int) -> Splits:
    """The texts that ``data`` names; relative paths start at ``folder``."""
    if data.source is not None:
        # Drawn independently, as the grammar says: without those in common its entropy would be another.
        made = agreement.generate(data.agreement)
        train, valid, test = ([Text(text) for text in made[name]] for name in SPLITS)
        return Splits(train, valid, test)
    named = {name: getattr(data, name) for name in SPLITS}
    places = {name: file if on_hub(file) else locate(file, folder) for name, file in named.items() if file is not None}
    texts = {name: read_texts(place, data) for name, place in places.items()}
    return settle_overlap(hold_out(texts, data.hold_out, seed), data.overlap)


def read_texts(path: str | Path, data: TextData) -> list[Text]:
    """The texts of a file, a folder or a dataset; the first fault is raised."""
    found = [Text(text) for text in _texts(path, data) if text.strip()]
    if not found:
        raise InputError(path, expected="at least one text", found="none")
    return found


def texts_of(given: Any, data: TextData) -> list[Text]:
    """Texts from a list of texts, a list of dicts or a DataFrame with the column ``data.column``."""
    if hasattr(given, "to_dict") and hasattr(given, "columns"):
        given = given.to_dict("records")
    if isinstance(given, str):
        raise InputError("data", expected="a list of texts", found="one text")
    texts = []
    for number, item in enumerate(given, start=1):
        if isinstance(item, Mapping):
            if data.column not in item:
                keys = ", ".join(map(repr, list(item)[:20])) or "none"
                raise InputError("data", line=number, expected=f"the key {data.column!r}", found=f"the keys {keys}")
            item = item[data.column]
        item = item.source if isinstance(item, Text) else item
        broken = text_fault(item, "text", number, "data")
        if broken is not None:
            raise broken.error
        if item.strip():
            texts.append(Text(item))
    if not texts:
        raise InputError("data", expected="at least one text", found="none")
    return texts


def _texts(path: str | Path, data: TextData) -> Iterator[str]:
    if on_hub(path):
        yield from _of_hub(path, data)
        return
    path = Path(path)
    if path.is_dir():
        files = [file for file in sorted(path.rglob("*")) if file.is_file() and _ending(file) in FORMATS]
        if not files:
            raise InputError(path, expected=f"a folder with files ({', '.join(FORMATS)})", found="none of them")
        for file in files:
            yield from _texts(file, data)
        return
    kind = data.format or _ending(path)
    if kind not in FORMATS:
        found = f"the ending {unpacked(path).suffix!r}" if kind else "a name without an ending"
        expected = f"a file of texts ({', '.join(FORMATS)}, also .gz or .xz) or a folder of them"
        raise InputError(path, expected=expected, found=found, hint="data.format says how to read it")
    if kind == "txt":
        lines = map(without_end, text_lines(path))
        yield from lines if data.unit == "line" else ["\n".join(lines)]
    elif kind == "jsonl":
        yield from _of_jsonl(path, data)
    elif kind == "parquet":
        yield from _of_parquet(path, data)
    else:
        yield from _of_table(kind, path, data.column)


def _ending(path: Path) -> str:
    return unpacked(path).suffix.lower().removeprefix(".")


def _of_table(kind: str, path: Path, column: str | int) -> Iterator[str]:
    place, width = None, 0
    for row in TABLES[kind](path):
        if isinstance(row, Fault):
            raise row.error
        if place is None:
            place, headed, width = *_place(row, column, path), len(row.cells)
            if headed:
                continue
        if len(row.cells) != width:
            raise InputError(path, line=row.line, expected=f"{width} columns", found=str(len(row.cells)))
        yield row.cells[place]


def _place(first: Row, column: str | int, path: Path) -> tuple[int, bool]:
    """Where the column stands, and whether the first row is a header. A table of one column needs none."""
    if isinstance(column, int) and column <= len(first.cells):
        return column - 1, False
    if column in first.cells:
        return first.cells.index(str(column)), True
    if len(first.cells) == 1 and column == "text":
        return 0, False
    shown = ", ".join(repr(cell[:40]) for cell in first.cells[:20])
    hint = "data.column names a column of the header, or numbers it from 1 where there is none"
    raise InputError(path, line=first.line, expected=f"the column {column!r}", found=f"the columns {shown}", hint=hint)


def _of_jsonl(path: Path, data: TextData) -> Iterator[str]:
    for number, line in enumerate(text_lines(path), start=1):
        if line.strip():
            record = object_of(line, path, number)
            if isinstance(record, Fault):
                raise record.error
            yield _value(record, data.column, number, path)


def _of_parquet(path: Path, data: TextData) -> Iterator[str]:
    with table_of(path) as table:
        names = list(leaves_of(table.schema_arrow))
        column = names[data.column - 1] if isinstance(data.column, int) and data.column <= len(names) else data.column
        if column not in names:
            shown = ", ".join(repr(name[:40]) for name in names[:20])
            raise InputError(path, expected=f"the column {column!r}", found=f"the columns {shown}")
        number = 0
        for batch in table.iter_batches(BATCH, columns=[column], use_threads=False):
            for row in rows_of(batch):
                number += 1
                if row is None:
                    raise InputError(path, field=f"row {number}", expected="UTF-8 text", found="other bytes")
                yield _value(row, column, number, path, place=f"row {number}")


def _of_hub(path: str | Path, data: TextData) -> Iterator[str]:
    name, dataset = loaded(path)
    for number, row in enumerate(dataset, start=1):
        yield _value(row, data.column, number, name, place=f"row {number}")


def _value(record: Mapping[str, Any], column: str | int, line: int, where: str | Path, place: str | None = None) -> str:
    value, known = inner(record, str(column))
    if not known:
        shown = ", ".join(repr(str(key)[:40]) for key in list(record)[:20]) or "none"
        field, number = (place, None) if place else (str(column), line)
        hint = "data.column says which holds the text"
        raise InputError(
            where, line=number, field=field, expected=f"the key {str(column)!r}", found=f"the keys {shown}", hint=hint
        )
    broken = text_fault(value, str(column), line, where, place=place)
    if broken is not None:
        raise broken.error
    text: str = value
    return text
