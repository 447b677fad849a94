"""Which columns a file has, and which two of them are likely the pair: for when nobody said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from saccade.data.files.records import NO_KEY
from saccade.data.files.tables import NAMES, TABLES, Row
from saccade.data.pairs.records import Columns, Fault, Files, Found, format_of, header_of, on_hub, scan
from saccade.data.survey.language_id import NAMES as LANGUAGES
from saccade.data.survey.pairs import Reading
from saccade.errors import InputError

# Names that say which side a column is, whatever their order
SOURCES = frozenset(
    {"source", "src", "input", "question", "prompt", "misspelled", "wrong", "before", "original", "word"}
)
TARGETS = frozenset({"target", "tgt", "trg", "output", "answer", "completion", "correct", "right", "after", "phonemes"})
LOOKED_AT = 50  # lines from which samples are taken
MOST = 40  # columns that are shown


@dataclass(frozen=True)
class Column:
    """A column by its name, or by its number from 1 where there is no header, and a text from it."""

    name: str | int
    sample: str | None  # None: no text in the first lines


class UnknownColumns(InputError):
    """The pair's columns cannot be known; `available` are those there are."""

    def __init__(self, error: InputError, available: Sequence[Column]) -> None:
        super().__init__(error.where, expected=error.expected, found=error.found, line=error.line, field=error.field)
        self.args = error.args  # the same sentence, with its hint
        self.available = available


def settle_columns(reading: Reading) -> Reading:
    """The reading with its columns known: a header of just two names is taken at its word.

    Raises UnknownColumns where there are columns, but not those that are wanted.
    """
    files = reading.files
    if isinstance(files, tuple):
        return reading
    if not reading.columns.named:
        names = header_of(files, reading.format) or []
        if len(names) == 2 and names != [reading.columns.source, reading.columns.target] and _sure(names, reading):
            source, target = names[::-1] if _bare(names[0]) in TARGETS or _bare(names[1]) in SOURCES else names
            reading = replace(reading, columns=replace(reading.columns, source=source, target=target))
    try:
        first = list(islice(reading, LOOKED_AT))
    except InputError as error:
        if not _about_columns(error, reading.columns):
            raise
        raise _unknown(error, reading) from error
    faults = [item for item in first if isinstance(item, Fault) and item.reason == NO_KEY]
    if faults and len(faults) == len(first):
        raise _unknown(faults[0].error, reading)
    return reading


def _sure(names: Sequence[str], reading: Reading) -> bool:
    """Whether these are names. The first line of a table may be a pair of short words that only looks like a header."""
    if on_hub(str(reading.files)) or format_of(reading.paths[0], reading.format) not in TABLES:
        return True
    return all(_bare(name) in NAMES or _bare(name) in LANGUAGES for name in names)


def first_row(reading: Reading) -> tuple[str, str] | None:
    """The first row of a table of two columns that is read as a pair, where it might as well be a header."""
    files, columns = reading.files, reading.columns
    if isinstance(files, tuple) or on_hub(str(files)) or columns.named:
        return None
    kind = format_of(reading.paths[0], reading.format)
    first = next((row for row in TABLES[kind](Path(files)) if isinstance(row, Row)), None) if kind in TABLES else None
    if first is None or len(first.cells) != 2 or {columns.source, columns.target} & set(first.cells):
        return None
    wordy = all(len(cell.split()) in (1, 2, 3) and not re.search(r"\d", cell) for cell in first.cells)
    return (first.cells[0], first.cells[1]) if wordy else None


def _unknown(error: InputError, reading: Reading) -> InputError:
    available = columns_of(reading.files, reading.format)
    return UnknownColumns(error, available) if len(available) > 1 else error


def _about_columns(error: InputError, columns: Columns) -> bool:
    return error.expected in (str(columns), "a column of text") or error.field == "columns"


def columns_of(files: Files, format: str | None = None) -> list[Column]:
    """The columns of a file, each with a text from its first lines."""
    if isinstance(files, tuple):
        return []
    names = header_of(files, format)
    kind = None if on_hub(files) else format_of(Path(files), format)
    if kind in TABLES:
        rows = [row.cells for row in islice(TABLES[kind](Path(files)), LOOKED_AT) if isinstance(row, Row)]
        width = len(rows[0]) if rows else 0
        if len(rows) > 1 and set(enumerate(rows[0])) & set(enumerate(rows[1])):
            names = None  # what comes again below is no name
        below = rows if names is None else rows[1:]
        named: Sequence[str | int] = range(1, width + 1) if names is None else names
        cells = [next((row[i] for row in below if len(row) == width and row[i].strip()), None) for i in range(width)]
        return [Column(name, cell) for name, cell in zip(named, cells, strict=True)][:MOST]
    return [Column(name, _sample(files, name, names or [], format)) for name in (names or [])[:MOST]]


def _sample(files: Files, name: str, names: Sequence[str], format: str | None) -> str | None:
    """A text of one column, read beside whichever other column has texts too."""
    for other in [other for other in names if other != name][:4]:
        try:
            items = islice(scan(files, columns=Columns(name, other), format=format), LOOKED_AT)
            text = next((item.pair.source for item in items if isinstance(item, Found)), None)
        except InputError:  # the other is no column of text
            continue
        if text is not None:
            return text
    return None


def likely_pair(columns: Sequence[Column]) -> tuple[str | int, str | int] | None:
    """The first two columns called by a language, else the two with the longest texts; None where two have no texts."""
    texts = [column for column in columns if column.sample and not column.sample.strip().isnumeric()]
    languages = [column for column in texts if _bare(str(column.name)) in LANGUAGES]
    longest = sorted(texts, key=lambda column: -len(column.sample or ""))[:2]
    chosen = languages[:2] if len(languages) > 1 else [column for column in texts if column in longest]
    return (chosen[0].name, chosen[1].name) if len(chosen) > 1 else None


def _bare(name: str) -> str:
    """The language of a name such as pt_BR or translation.pt-BR."""
    return re.split(r"[-_]", name.strip().casefold().rpartition(".")[2])[0]
