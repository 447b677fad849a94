"""Pairs from tables: TSV, where tabs alone divide, and CSV, where a quoted field may run over several lines.

A quotation mark that never closes would swallow the rest of a CSV: a row may run over ROW_LINES lines and LINE_LIMIT
characters, beyond which it is a fault at the line where it began, and reading goes on with the next line.
"""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from saccade.data.files import lines
from saccade.data.files.lines import Encoding, Line, lines_of, without_end
from saccade.data.files.records import NO_ROW, QUOTE, RETURN, WIDTH, Columns, Fault, Found, fault, found
from saccade.errors import InputError

ROW_LINES = 100
# What people call the columns of a table of pairs; by these a first line is known for a header.
NAMES = frozenset(
    {
        "source", "target", "src", "tgt", "trg", "input", "output", "question", "answer", "text", "label", "id", "line",
        "sentence", "translation", "reference", "group", "document", "doc", "file", "author", "title", "description",
        "prompt", "completion", "word", "words", "phonemes", "pronunciation", "misspelled", "correct", "wrong", "right",
        "before", "after", "original", "summary", "headline", "deutsch", "englisch", "frage", "antwort", "eingabe", "ausgabe",
        "português", "inglês", "entrada", "saída", "pergunta", "resposta", "français", "anglais", "español", "inglés",
        "english", "german", "french", "spanish", "portuguese", "italian", "dutch", "russian", "chinese", "japanese",
    }
)  # fmt: skip
SEP = re.compile(r"sep=([;,|\t])", re.IGNORECASE)
LANGUAGE = re.compile(r"[a-z]{2,3}([-_][A-Za-z]{2,4})?")
Rows = Iterator["Row | Fault"]


class Row(NamedTuple):
    """The cells of a row, and the line where it begins."""

    line: int
    cells: list[str]


def scan_tsv(path: Path, columns: Columns) -> Iterator[Found | Fault]:
    """The pairs of a TSV."""
    return _scan(tsv_rows(path), columns, path)


def scan_csv(path: Path, columns: Columns) -> Iterator[Found | Fault]:
    """The pairs of a CSV."""
    return _scan(csv_rows(path), columns, path)


def tsv_rows(path: Path, encoding: Encoding = "utf-8") -> Rows:
    """The rows of a TSV that are not blank. A quotation mark is a character like any other."""
    for line in lines_of(path, encoding):
        if line.fault is not None:
            yield line.fault
            continue
        text = without_end(line.text)
        if "\r" in text:
            yield lone_return(line.number, path)
        elif text.strip(" "):  # a line of tabs is a row of nothing
            yield Row(line.number, text.split("\t"))


def lone_return(line: int, path: Path) -> Fault:
    """A line with a carriage return in it: of a file whose lines end in nothing else, or by accident."""
    hint = "lines that end in CR alone? save the file with LF" if line == 1 else None
    expected, found = "a line that ends in LF or CR LF", "a carriage return within it"
    return fault(line, RETURN, path, expected=expected, found=found, hint=hint)


class _Endless(Exception):
    """A row that runs on for longer than a row may."""


class _Feed:
    """Lines for csv.reader, row by row. The lines of a row that turns out to be none can be read again."""

    def __init__(self, path: Path, encoding: Encoding) -> None:
        self.lines, self.again = lines_of(path, encoding), deque[Line]()
        self.row: list[Line] = []
        self.size = 0

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        line = self.again.popleft() if self.again else next(self.lines)
        self.row.append(line)
        self.size += len(line.text)
        if len(self.row) > ROW_LINES or (len(self.row) > 1 and self.size > lines.LINE_LIMIT):
            raise _Endless
        return line.text

    def begin(self) -> None:
        self.row, self.size = [], 0

    def after_first(self) -> None:
        self.again.extendleft(reversed(self.row[1:]))


def csv_rows(path: Path, encoding: Encoding = "utf-8") -> Rows:
    """The rows of a CSV that are not blank."""
    # The module's own limit, 131,072 characters, is less than what a line may hold.
    csv.field_size_limit(max(csv.field_size_limit(), 2 * lines.LINE_LIMIT))
    feed = _Feed(path, encoding)
    divider = _divided_by(path, encoding)
    reader = csv.reader(feed, strict=True, delimiter=divider)
    said = False
    while True:
        feed.begin()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except (csv.Error, _Endless) as error:
            yield _no_row(error, feed.row, path)
            feed.after_first()
            continue
        broken = next((line.fault for line in feed.row if line.fault is not None), None)
        if broken is not None:
            yield broken
        elif not said and SEP.fullmatch(feed.row[0].text.strip()):
            said = True  # Excel's first line, which says what divides
        elif cells:
            said = True
            yield Row(feed.row[0].number, cells)


def _divided_by(path: Path, encoding: Encoding) -> str:
    """The comma; or, where the first row has none outside quotation marks, what spreadsheets put in its place."""
    text = next(
        (without_end(line.text) for line in lines_of(path, encoding) if not line.fault and line.text.strip()), ""
    )
    told = SEP.fullmatch(text.strip())
    bare = re.sub(r'"[^"]*"', "", text)
    return told[1] if told else next((mark for mark in ",;\t|" if mark in bare), ",")


def _no_row(error: Exception, row: list[Line], path: Path) -> Fault:
    first, said = row[0], str(error)
    if first.fault is not None:
        return first.fault
    if isinstance(error, _Endless):
        said = f"one that runs on after {ROW_LINES:,} lines or {lines.LINE_LIMIT:,} characters"
    if "new-line character" in said:
        return lone_return(first.number, path)
    reason, hint = NO_ROW, None
    if len(row) > 1 or "end of data" in said:
        reason, hint = QUOTE, "a quotation mark that is never closed?"
    return fault(first.number, reason, path, expected="a CSV row", found=said, hint=hint)


def _scan(rows: Rows, columns: Columns, path: Path) -> Iterator[Found | Fault]:
    """The pairs of a table, with a header that names the columns or without one."""
    header: list[str] = []
    places: list[int] = []
    headed = seen = False
    line = 0
    for row in rows:
        if isinstance(row, Fault):
            yield row
            seen = True
            continue
        line, cells = row
        if not header:
            header = cells
            places, headed = _places(header, columns, path, line)
            if headed:
                continue
        seen = True
        if len(cells) != len(header):
            missing = header[len(cells)] if headed and len(cells) < len(header) else None
            expected, width = f"{len(header)} columns", str(len(cells))
            yield fault(line, WIDTH, path, field=missing, expected=expected, found=width)
            continue
        group = cells[places[2]].strip() if len(places) > 2 else None
        sides = (columns.source, columns.target)
        yield found(cells[places[0]], cells[places[1]], line, path, sides=sides, group=group)
    if header and not seen:
        raise InputError(path, line=line, expected="at least one pair", found="only a header")


def _places(first: list[str], columns: Columns, path: Path, line: int) -> tuple[list[int], bool]:
    """Where the wanted columns stand, and whether the first row is a header. Numbers alone ask for no header."""
    wanted = columns.wanted
    names = [column for column in wanted if isinstance(column, str)]
    widest = max((column for column in wanted if isinstance(column, int)), default=0)
    if all(first.count(name) == 1 for name in names) and widest <= len(first):
        places = [column - 1 if isinstance(column, int) else first.index(column) for column in wanted]
        if len(set(places)) == len(places):
            return places, bool(names)
    alike = {name.strip().casefold() for name in first} & {name.strip().casefold() for name in names}
    if len(first) == 2 and not alike and not columns.named and columns.group is None:
        return [0, 1], False
    shown = ", ".join(repr(name[:40]) for name in first[:20])
    raise InputError(path, line=line, expected=str(columns), found=f"the columns {shown}", hint=_divider(first))


def _divider(first: list[str]) -> str | None:
    """What seems to divide a row that was read as one column; or how columns are chosen."""
    if len(first) > 1:
        return "columns names those of a header, or numbers them from 1 where there is none"
    kinds = {";": "semicolons: set format: csv", ",": "commas: set format: csv"}
    return next((f"this looks divided by {kind}" for mark, kind in kinds.items() if mark in first[0]), None)


def header_of_table(rows: Rows) -> list[str] | None:
    """The first row where it looks like names rather than like a pair: all short and different, two of them known."""
    first = next((row for row in rows if isinstance(row, Row)), None)
    if first is None:
        return None
    names = [cell.strip() for cell in first.cells]
    short = all(0 < len(name) <= 30 and len(name.split()) <= 3 for name in names)
    known = [name for name in names if name.casefold() in NAMES or "_" in name or LANGUAGE.fullmatch(name.lower())]
    return first.cells if short and len(set(names)) == len(names) and len(known) >= min(2, len(names)) else None


TABLES: dict[str, Callable[..., Rows]] = {"tsv": tsv_rows, "csv": csv_rows}
