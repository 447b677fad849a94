"""Reads one token per line, a blank line after each sentence: the columns of the CoNLL tasks, and CoNLL-U.

    Confidence NN B-NP              columns, by tabs or by spaces, also several; -DOCSTART- begins a document and is not a token
    in IN B-PP

    # id 3f domain=en               before a sentence: lines of comment, as MultiCoNER and CoNLL-2012 have them. A line with
    #begin document (nw/1)          the file's number of columns is a word nonetheless: "# NN B-NP", "#tag O"

    # newdoc id = weblog-1          CoNLL-U: ten columns by tabs, lines of comment before a sentence
    1-2  das  _  _  …               a range of words that are written as one, and
    1.1  ate  eat  VERB  …          an empty node: neither is a word, both are skipped

Columns are counted from 1, or from the end with -1. A sentence is a record or a fault as a whole: without the malformed
line it would be another sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal

from saccade.data.files.limits import MAX_RECORD, max_record, raised
from saccade.data.files.lines import LINE_LIMIT, Encoding, lines_of, without_end
from saccade.data.files.records import LONG, WIDTH, Fault, fault
from saccade.errors import InputError

CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
DOCUMENT = "-DOCSTART-"
NEW_DOCUMENT = re.compile(r"#\s*newdoc(?:[ _]id)?\b\s*(?:=\s*(.*))?$")
BEGIN_DOCUMENT = re.compile(r"#begin document\b\s*([^;]*)")  # its parts follow a semicolon
# Comments even where they have as many columns as the file: "# text = hello" has four.
COMMENT = re.compile(r"#(?:begin|end) document\b|# +newdoc\b|# +id\s+\S|# +[^\s=]+(?: [^\s=]+)? +=(?: |$)")
WORD_ID, OTHER_ID = re.compile(r"[1-9]\d*"), re.compile(r"\d+-\d+|\d+\.\d+")
NO_TAG = "no word or no tag"
FIRST_WORDS = 200  # by which the layout of a file is known


@dataclass
class Sentence:
    """Words, their tags, the line of each, and the document of the sentence where the file says so."""

    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    document: str | None = None


def scan_conll(
    path: Path,
    word: str | int,
    tag: str | int,
    *,
    format: Literal["conll", "conllu"],
    encoding: Encoding = "utf-8",
) -> Iterator[Sentence | Fault]:
    """Every sentence of a file, or what is wrong with it."""
    places = _place(word, format, path), _place(tag, format, path)
    universal = format == "conllu"
    width, runs = (len(CONLLU), False) if universal else _layout(path, encoding)
    reader = _Reader(path, *places, width, universal, runs)
    for line in lines_of(path, encoding):
        text = without_end(line.text)
        if line.fault is not None:
            reader.broken(line.fault)
        elif text.strip(" \t"):
            reader.read(line.number, text)
        else:
            yield from reader.end()
    yield from reader.end()


def _layout(path: Path, encoding: Encoding) -> tuple[int, bool]:
    """The number of columns of the first line that is certainly a word, 0 where there is none; and whether several tabs are one
    divider: where the first words have as many columns only if they are, or all end in a tab."""
    lines = (without_end(line.text) for line in lines_of(path, encoding) if line.fault is None)
    words = (text for text in lines if text.strip(" \t") and not text.startswith("#") and _cells(text)[0] != DOCUMENT)
    first = list(islice(words, FIRST_WORDS))
    widths, joined = ({len(_cells(text, runs)) for text in first} for runs in (False, True))
    runs = len(joined) == 1 and (len(widths) > 1 or all(text.endswith("\t") for text in first))
    return (len(_cells(first[0], runs)) if first else 0), runs


def _cells(text: str, runs: bool = False) -> list[str]:
    if "\t" in text:
        return [cell for cell in text.split("\t") if cell] if runs else text.split("\t")
    return [cell for cell in text.split(" ") if cell]


def _place(column: str | int, format: str, path: Path) -> int:
    """Where a column stands: from 0, or below 0 from the end."""
    if format == "conllu":
        known = ", ".join(CONLLU[1:])
        if isinstance(column, str) and column.lower() in CONLLU[1:]:
            return CONLLU.index(column.lower())
        if isinstance(column, int) and 2 <= column <= len(CONLLU):
            return column - 1
        raise InputError(path, field="columns", expected=f"one of {known}, as CoNLL-U has them", found=repr(column))
    if isinstance(column, str) or column == 0:
        expected = "the number of a column, from 1, or from the end with -1"
        raise InputError(path, field="columns", expected=expected, found=repr(column))
    return column - 1 if column > 0 else column


class _Reader:
    """Collects lines into sentences."""

    def __init__(self, path: Path, word: int, tag: int, width: int, universal: bool, runs: bool) -> None:
        self.path, self.word, self.tag, self.universal = path, word, tag, universal
        self.runs = runs  # of tabs divide columns as one does
        self.width = width  # of a CoNLL file, as many columns as its first word has
        self.documents, self.document = 0, None if universal else ""
        self.sentence, self.fault, self.size = Sentence(), None, 0
        self.longest = max_record(LINE_LIMIT)

    sentence: Sentence
    fault: Fault | None
    document: str | None

    def broken(self, found: Fault) -> None:
        self.fault = self.fault or found
        self.sentence = Sentence()  # the rest of it is not kept

    def read(self, number: int, text: str) -> None:
        cells = _cells(text, self.runs)
        if text.startswith("#") and self._is_comment(text, cells):
            self._comment(text)
            return
        if not self.universal and cells[0] == DOCUMENT:
            self.documents += 1
            self.document = f"document {self.documents}"
            return
        self.width = self.width or len(cells)
        if len(cells) != self.width or self.width < 2:
            expected = f"{max(2, self.width)} columns{', as CoNLL-U has' if self.universal else ''}"
            self.broken(fault(number, WIDTH, self.path, expected=expected, found=str(len(cells))))
        elif not self.universal or self._is_word(number, cells[0]):
            self._token(number, cells)

    def _is_comment(self, text: str, cells: Sequence[str]) -> bool:
        """Whether a line that begins with # is a comment: always in CoNLL-U, else only where a sentence may begin."""
        if self.universal or text.startswith("#end document"):
            return True
        begun = bool(self.sentence.words) or self.fault is not None
        return not begun and (COMMENT.match(text) is not None or (self.width > 1 and len(cells) != self.width))

    def _comment(self, text: str) -> None:
        found = NEW_DOCUMENT.match(text) or BEGIN_DOCUMENT.match(text)
        if found is not None:
            self.documents += 1
            self.document = (found[1] or "").strip() or f"document {self.documents}"

    def _is_word(self, number: int, cell: str) -> bool:
        if WORD_ID.fullmatch(cell):
            return True
        if not OTHER_ID.fullmatch(cell):
            expected = "the number of a word, a range such as 1-2, or an empty node such as 1.1"
            self.broken(fault(number, WIDTH, self.path, field="id", expected=expected, found=repr(cell[:40])))
        return False

    def _token(self, number: int, cells: Sequence[str]) -> None:
        if not -len(cells) <= min(self.word, self.tag) <= max(self.word, self.tag) < len(cells):
            place = next(each for each in (self.word, self.tag) if not -len(cells) <= each < len(cells))
            column = place + 1 if place >= 0 else place
            expected, hint = f"a column {column}", "data.columns numbers them"
            found = f"{len(cells)} columns"
            raise InputError(self.path, line=number, field="columns", expected=expected, found=found, hint=hint)
        word, tag = cells[self.word], cells[self.tag].strip()
        if not word.strip():
            self.broken(fault(number, NO_TAG, self.path, expected="a word", found=repr(word)))
        elif tag.split() != [tag] or (self.universal and tag == "_"):
            expected = "a tag" if tag in ("", "_") else "a tag without blanks"
            self.broken(fault(number, NO_TAG, self.path, expected=expected, found=repr(tag[:40])))
        self.size += len(word) + len(tag) + 2
        if self.size > self.longest and self.fault is None:
            first = self.sentence.lines[0] if self.sentence.lines else number
            expected, hint = (
                f"a blank line after at most {self.longest:,} bytes of words",
                raised(MAX_RECORD, self.longest),
            )
            self.broken(fault(first, LONG, self.path, expected=expected, found="a longer sentence", hint=hint))
        if self.fault is None:
            self.sentence.words.append(word)
            self.sentence.tags.append(tag)
            self.sentence.lines.append(number)

    def end(self) -> Iterator[Sentence | Fault]:
        """The sentence that a blank line closes, if there is one."""
        if self.fault is not None:
            yield self.fault
        elif self.sentence.words:
            self.sentence.document = self.document or None
            yield self.sentence
        self.sentence, self.fault, self.size = Sentence(), None, 0
