"""Reads tables: TSV, where tabs alone divide, and CSV, where a quoted field may run over several lines.

A quotation mark that never closes would swallow the rest of a CSV: a row may run over ROW_LINES lines and LINE_LIMIT
characters, beyond which it is a fault at the line where it began, and reading goes on with the next line.
"""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from saccade.data.files import lines
from saccade.data.files.limits import max_record
from saccade.data.files.lines import Encoding, Line, lines_of, without_end
from saccade.data.files.records import (
    HEADER,
    NO_ROW,
    QUOTE,
    RETURN,
    WIDTH,
    Fault,
    Fields,
    Name,
    choose_columns,
    column_names,
    fault,
    shown_names,
)
from saccade.errors import InputError

ROW_LINES = 100
# Common names of columns; by these a first line is recognised as a header.
NAMES = frozenset(
    {
        "source", "target", "src", "tgt", "trg", "input", "output", "question", "answer", "text", "label", "id", "line",
        "sentence", "translation", "reference", "group", "document", "doc", "file", "author", "title", "description",
        "prompt", "completion", "word", "words", "phonemes", "pronunciation", "misspelled", "correct", "wrong", "right",
        "before", "after", "original", "summary", "headline", "deutsch", "englisch", "frage", "antwort", "eingabe", "ausgabe",
        "português", "inglês", "entrada", "saída", "pergunta", "resposta", "français", "anglais", "español", "inglés",
        "review", "rating", "stars", "sentiment", "category", "class", "topic", "intent", "comment", "message", "tweet", "body",
        "tag", "pos", "premise", "hypothesis", "candidate", "relevance",
        "image", "picture", "photo", "filename", "path", "caption", "captions",
        "english", "german", "french", "spanish", "portuguese", "italian", "dutch", "russian", "chinese", "japanese",
    }
)  # fmt: skip
LANGUAGES = frozenset(
    {
        "ar", "bg", "bn", "ca", "cs", "da", "de", "el", "en", "es", "et", "fa", "fi", "fr", "he", "hi", "hr", "hu", "hy",
        "id", "it", "ja", "ka", "ko", "lt", "lv", "nb", "nl", "no", "pl", "pt", "ro", "ru", "sk", "sl", "sr", "sv", "ta",
        "te", "th", "tr", "uk", "vi", "zh",
    }
)  # fmt: skip
SEP = re.compile(r"sep=([;,|\t])", re.IGNORECASE)
NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:[eE][-+]?\d+)?")
HEADED_ROWS, NEXT_ROWS = 1000, 50  # rows by which a header is recognised; those that must not repeat a name
LONGEST_NAME = 200  # characters
FEW_NUMBERS, FEW_LABELS, MOST_LABELS, TIMES = 5, 20, 100, 5  # what a column must hold to be one of numbers or of labels
Rows = Iterator["Row | Fault"]


class Row(NamedTuple):
    """The cells of a row, and the line where it begins."""

    line: int
    cells: list[str]


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
    """A line with a carriage return in it: the file's lines end in nothing else, or it is an accident."""
    hint = "lines that end in CR alone? save the file with LF" if line == 1 else None
    expected, found = "a line that ends in LF or CR LF", "a carriage return within it"
    return fault(line, RETURN, path, expected=expected, found=found, hint=hint)


class _Endless(Exception):
    """A row longer than the limits."""


class _Feed:
    """Lines for csv.reader, row by row. The lines of a malformed row can be read again."""

    def __init__(self, path: Path, encoding: Encoding) -> None:
        self.lines, self.again = lines_of(path, encoding), deque[Line]()
        self.longest = max_record(lines.LINE_LIMIT)
        self.row: list[Line] = []
        self.size = 0

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        line = self.again.popleft() if self.again else next(self.lines)
        self.row.append(line)
        self.size += len(line.text)
        if len(self.row) > ROW_LINES or (len(self.row) > 1 and self.size > self.longest):
            raise _Endless
        return line.text

    def begin(self) -> None:
        self.row, self.size = [], 0

    def after_first(self) -> None:
        self.again.extendleft(reversed(self.row[1:]))


def csv_rows(path: Path, encoding: Encoding = "utf-8") -> Rows:
    """The rows of a CSV that are not blank."""
    # The module's own limit, 131,072 characters, is less than what a line may hold.
    csv.field_size_limit(max(csv.field_size_limit(), 2 * max_record(lines.LINE_LIMIT)))
    feed = _Feed(path, encoding)
    divider = _divided_by(path, encoding)
    reader = csv.reader(feed, strict=True, delimiter=divider)
    begun = False
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
        elif not begun and SEP.fullmatch(feed.row[0].text.strip()):
            begun = True  # Excel's first line, which names the divider
        elif cells:
            begun = True
            yield Row(feed.row[0].number, cells)


def _divided_by(path: Path, encoding: Encoding) -> str:
    """The separator: a comma, or if the first row has none outside quotation marks, what spreadsheets write instead."""
    text = next(
        (without_end(line.text) for line in lines_of(path, encoding) if not line.fault and line.text.strip()), ""
    )
    stated = SEP.fullmatch(text.strip())
    bare = re.sub(r'"[^"]*"', "", text)
    return stated[1] if stated else next((mark for mark in ",;\t|" if mark in bare), ",")


def _no_row(error: Exception, row: list[Line], path: Path) -> Fault:
    first, found = row[0], str(error)
    if first.fault is not None:
        return first.fault
    if isinstance(error, _Endless):
        found = f"one of more than {ROW_LINES:,} lines or {max_record(lines.LINE_LIMIT):,} characters"
    if "new-line character" in found:
        return lone_return(first.number, path)
    reason, hint = NO_ROW, None
    if len(row) > 1 or "end of data" in found:
        reason, hint = QUOTE, "a quotation mark that is never closed?"
    return fault(first.number, reason, path, expected="a CSV row", found=found, hint=hint)


def scan_table(
    path: Path, kind: str, wanted: Sequence[Name], *, headless: bool = False, encoding: Encoding = "utf-8"
) -> Iterator[Fields | Fault]:
    """The values of the wanted columns of every row. Numbers alone ask for no header; with ``headless``, a table with just as
    many columns as are wanted needs none either. Where there is a header nonetheless, it is a fault that is skipped.
    Empty cells at the end of a row, beyond the header or below cells without a name, are left out."""
    places: list[int] = []
    header: list[str] = []
    line, seen = 0, False
    broken: Fault | None = None  # the first fault, where it came before the row that ought to be the header
    for row in TABLES[kind](path, encoding):
        if isinstance(row, Fault):
            broken, seen = broken if places or broken else row, True
            yield row
            continue
        line, cells = row
        if not places:
            try:
                places, headed = _places(cells, wanted, headless, path, line)
            except InputError:
                if broken is None:
                    raise
                raise broken.error from None  # the fault may be the header itself, so its names were not found
            header = cells
            if headed:
                continue
            if header_of_table(TABLES[kind](path, encoding)) == cells:
                found = f"the header {shown_names(cells)}"
                yield fault(line, HEADER, path, expected="a record", found=found, skipped=True)
                headed = True
                continue
        seen = True
        if len(cells) > len(header):
            cells = cells[: len(header)] if not any(cells[len(header) :]) else cells
        elif headed and len(cells) > max(places) and not any(header[len(cells) :]):
            cells = [*cells, *header[len(cells) :]]
        if len(cells) == len(header):
            yield Fields(line, tuple(cells[place] for place in places))
        else:
            missing = header[len(cells)] if headed and len(cells) < len(header) else None
            expected = f"{len(header)} columns"
            yield fault(line, WIDTH, path, field=missing, expected=expected, found=str(len(cells)))
    if places and not seen:
        raise InputError(path, line=line, expected="at least one record", found="only a header")


def _places(first: list[str], wanted: Sequence[Name], headless: bool, path: Path, line: int) -> tuple[list[int], bool]:
    """Where the wanted columns stand, and whether the first row is a header."""
    names = [name for name in wanted if isinstance(name, str)]
    twice = next((name for name in names if first.count(name) > 1), None)
    if twice is not None:
        numbers = [number for number, name in enumerate(first, start=1) if name == twice]
        found = f"{len(numbers)}: columns {', '.join(map(str, numbers))}"
        hint = "rename one of them in the file"
        raise InputError(path, line=line, field=twice, expected="one column of that name", found=found, hint=hint)
    places = [name - 1 if isinstance(name, int) else first.index(name) if name in first else -1 for name in wanted]
    if all(0 <= place < len(first) for place in places) and len(set(places)) == len(set(wanted)):
        return places, bool(names)
    alike = {name.strip().casefold() for name in first} & {name.strip().casefold() for name in names}
    if headless and len(first) == len(wanted) and not alike:
        return list(range(len(first))), False
    found = f"the columns {shown_names(first)}"
    raise InputError(path, line=line, expected=column_names(wanted), found=found, hint=_divider(first, wanted))


def _divider(first: list[str], wanted: Sequence[Name]) -> str:
    """A hint: the likely separator of a row that was read as one column, or how columns are chosen."""
    kinds = {";": "semicolons: set format: csv", ",": "commas: set format: csv"}
    mark = next((mark for mark in kinds if mark in first[0]), None) if len(first) == 1 < len(wanted) else None
    if mark is not None:
        return f"the columns seem to be separated by {kinds[mark]}"
    return choose_columns(wanted)


def header_of_table(rows: Rows) -> list[str] | None:
    """The first row where it is a header rather than a record; cells without a name, such as that of pandas' index, are empty.

    Names are all different and do not come again below. Two of them are known, or the column below one of them is of another
    kind than the name: an index, numbers, or a few labels again and again. Where there are three names or more, two columns of
    longer texts tell as much. Names are short; the questions of a form are not, and only a column below tells them from texts.
    """
    first, *below = [row.cells for row in islice((row for row in rows if isinstance(row, Row)), HEADED_ROWS + 1)] or [
        []
    ]
    names = [cell.strip() for cell in first]
    named = [name for name in names if name]
    if not named or len(set(named)) < len(named) or any(len(name) > LONGEST_NAME for name in named):
        return None
    columns = [[row[place].strip() for row in below if place < len(row)] for place in range(len(names))]
    pairs = list(zip(names, columns, strict=True))
    if any(name and name in column[:NEXT_ROWS] for name, column in pairs):
        return None
    if any(len(name) > 30 or len(name.split()) > 3 for name in named):
        unlike = any(_is_unlike(name, [value for value in column if value], longer=True) for name, column in pairs)
        return first if unlike else None
    known = [name for name in named if _is_known(name) or ("_" in name and len(named) > 2)]
    unlike = any(_is_unlike(name, [value for value in column if value]) for name, column in pairs)
    wordy = len(named) > 2 and sum(bool(name) and _are_longer(column) for name, column in pairs) > 1
    return first if len(known) >= min(2, len(names)) or unlike or wordy else None


def _is_known(name: str) -> bool:
    return name.casefold() in NAMES or bare(name) in NAMES or bare(name) in LANGUAGES


def bare(name: str) -> str:
    """The language of a name such as pt_BR or translation.pt-BR."""
    return re.split(r"[-_]", name.strip().casefold().rpartition(".")[2])[0]


def _is_unlike(name: str, values: Sequence[str], *, longer: bool = False) -> bool:
    """Whether a name, or its absence, is of another kind than the values below it; it must be ``longer`` than labels where a
    rare label, beside a text, could stand there."""
    if not name:  # the index of a DataFrame
        starts = values[0] in ("0", "1") if len(values) > 1 else False
        return starts and all(value == str(int(values[0]) + row) for row, value in enumerate(values))
    if NUMBER.fullmatch(name):
        return False
    if len(values) >= FEW_NUMBERS and all(map(NUMBER.fullmatch, values)):
        return True
    labels = set(values)
    few = len(values) >= FEW_LABELS and len(labels) <= min(MOST_LABELS, len(values) // TIMES)
    longest = max(map(len, labels), default=0)
    return few and name not in labels and longest <= 40 and (not longer or len(name) > 2 * longest)


def _are_longer(values: Sequence[str]) -> bool:
    """Whether nine of ten values have more words than a name has."""
    values = values[:NEXT_ROWS]
    return len(values) >= FEW_LABELS and sum(len(value.split()) > 3 for value in values) >= 0.9 * len(values)


TABLES: dict[str, Callable[..., Rows]] = {"tsv": tsv_rows, "csv": csv_rows}
