"""Reads records of several lines: aspects of sentences, and relations between two marked nouns.

``aspects``, three lines per record, as the sets of SemEval-2014's task 4 are distributed:

    the $T$ was great but the bread was stale       the sentence, $T$ in the place of its aspect
    soup                                            the aspect
    1                                               -1, 0 or 1; or negative, neutral, positive

``relations``, blocks as in SemEval-2010's task 8, an empty line after each:

    7   "the <e1>storm</e1> caused a <e2>flood</e2>"     a number, a tab, the sentence in quotation marks
    Cause-Effect(e1,e2)                                 the relation of the two, with its direction, or Other
    Comment: …                                          skipped; it may be missing

A missing or additional line makes one record malformed: reading continues at the next sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from saccade.data.files.lines import Encoding, Line, lines_of, without_end
from saccade.data.files.records import Fault, Fields, fault

# What the values of a record are called, in the words of data.columns.
BLOCKS: dict[str, dict[str, str]] = {
    "aspects": {"text": "sentence", "label": "polarity", "second": "aspect", "group": "letters of the sentence"},
    "relations": {"text": "sentence", "label": "relation"},
}
TARGET = "$T$"
POLARITIES = {"-1": "negative", "0": "neutral", "1": "positive"}
BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]"}  # as the Penn Treebank writes them
ENTITY_MARKS = ("<e1>", "</e1>", "<e2>", "</e2>")
MARK = re.compile(r"</?e[12]>")
ORDER = ([*ENTITY_MARKS], [*ENTITY_MARKS[2:], *ENTITY_MARKS[:2]])
NUMBERED = re.compile(r"\s*(\d+)\s+(\S.*)")
COMMENT = "comment:"

MARKED = "<e1>…</e1> and <e2>…</e2>, each once, around two parts of the sentence"
NO_ASPECT = "no sentence with its aspect and polarity"
NO_RELATION = "no sentence with its relation"


def scan_blocks(path: Path, format: str, *, encoding: Encoding = "utf-8") -> Iterator[Fields | Fault]:
    """The records of a file, their values in the order of ``BLOCKS[format]``, and its faults, as a stream."""
    read = _aspects if format == "aspects" else _relations
    return read(path, lines_of(path, encoding))


# Aspects --------------------------------------------------------------------------------------------------------------


def _aspects(path: Path, lines: Iterator[Line]) -> Iterator[Fields | Fault]:
    block: list[Line] = []
    for line in lines:
        if line.fault is not None:
            yield line.fault
            block = []
        elif TARGET in line.text and block:
            yield _unfinished(path, block, f"another sentence with {TARGET} on line {line.number}")
            block = [line]
        elif block or line.text.strip():
            block.append(line)
            if len(block) == 1 and TARGET not in line.text:
                yield _no_target(path, line)
                block = []
        if len(block) == 3:
            yield _aspect(path, block)
            block = []
    if block:
        yield _unfinished(path, block, "the end of the file")


def _aspect(path: Path, block: Sequence[Line]) -> Fields | Fault:
    sentence, aspect, polarity = (_plain(line) for line in block)
    if not aspect:
        expected = f"the text that replaces {TARGET}"
        return fault(block[1].number, NO_ASPECT, path, field="aspect", expected=expected, found="an empty line")
    label = POLARITIES.get(polarity, polarity)
    if label not in POLARITIES.values():
        expected = f"{', '.join(POLARITIES)}, or {', '.join(POLARITIES.values())}"
        found = repr(polarity[:40]) if polarity else "an empty line"
        return fault(block[2].number, NO_ASPECT, path, field="polarity", expected=expected, found=found)
    text = sentence.replace(TARGET, aspect)
    # Records of one sentence are one group. They may differ in blanks and quotation marks, as the target was cut out.
    letters = "".join(character for character in text.casefold() if character.isalnum())
    return Fields(block[0].number, (text, label, aspect, letters))


def _plain(line: Line) -> str:
    text = without_end(line.text).strip()
    for written, bracket in BRACKETS.items():
        text = text.replace(written, bracket)
    return text


def _no_target(path: Path, line: Line) -> Fault:
    expected, found = f"a sentence with {TARGET} in the place of its aspect", repr(without_end(line.text)[:60])
    return fault(line.number, NO_ASPECT, path, field="sentence", expected=expected, found=found)


def _unfinished(path: Path, block: Sequence[Line], found: str) -> Fault:
    expected = "three lines: sentence, aspect, polarity"
    return fault(block[0].number, NO_ASPECT, path, expected=expected, found=f"{len(block)}, then {found}")


# Relations ------------------------------------------------------------------------------------------------------------


def _relations(path: Path, lines: Iterator[Line]) -> Iterator[Fields | Fault]:
    sentence: Line | None = None  # one that still waits for its relation
    for line in lines:
        text = without_end(line.text).strip()
        begins = NUMBERED.fullmatch(text) is not None
        if line.fault is not None:
            yield line.fault
            sentence = None
        elif begins:
            if sentence is not None:
                yield _no_relation(path, sentence, f"another sentence on line {line.number}")
            sentence = line
        elif sentence is not None and text:
            if text.casefold().startswith(COMMENT):
                yield _no_relation(path, sentence, f"a comment on line {line.number}")
            else:
                yield _relation(path, sentence, text)
            sentence = None
        elif text and not text.casefold().startswith(COMMENT):
            expected = "a number, a tab and a sentence in quotation marks, or a comment"
            yield fault(line.number, NO_RELATION, path, expected=expected, found=repr(text[:60]))
    if sentence is not None:
        yield _no_relation(path, sentence, "the end of the file")


def _relation(path: Path, sentence: Line, label: str) -> Fields | Fault:
    numbered = NUMBERED.fullmatch(without_end(sentence.text).strip())
    text = numbered[2].strip() if numbered is not None else ""
    if len(text) > 1 and text.startswith('"') and text.endswith('"'):
        text = text[1:-1].strip()
    found = unmarked(text)
    if found:
        return fault(sentence.number, NO_RELATION, path, field="sentence", expected=MARKED, found=found)
    return Fields(sentence.number, (text, label))


def unmarked(text: str) -> str:
    """The marks of a sentence that does not have two marked nouns; "" for one that does.

    >>> unmarked("the <e1>storm</e1> caused a flood")
    '<e1> </e1>'
    """
    marks = MARK.findall(text)
    return "" if marks in ORDER else " ".join(marks[:8]) or "no marks"


def _no_relation(path: Path, sentence: Line, found: str) -> Fault:
    expected = "a relation on the line after the sentence"
    return fault(sentence.number, NO_RELATION, path, field="relation", expected=expected, found=found)
