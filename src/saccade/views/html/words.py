"""Which word each token belongs to, so that a page can show words where a model reads pieces of them."""

from __future__ import annotations

import unicodedata

from saccade.trace.axes import Tokens
from saccade.views.labels import JOINERS, is_marker, words_of

# Scripts that put no spaces between words: there each character stands for itself.
UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")


def words_in(axis: Tokens) -> list[int]:
    """For each token the number of its word: as the axis says, else by where it stands in the text, else by its letters.
    Empty where every token is a word."""
    numbers = list(axis.words) if len(axis.words) == len(axis.labels) else _by_place(axis)
    return numbers if len(set(numbers)) < len(numbers) else []


def spans_in(axis: Tokens) -> list[tuple[int, int]] | None:
    """The characters that each token covers: as the axis says, where that is in its text, else where its label is found;
    None where it is not."""
    said = len(axis.spans) == len(axis.labels) and all(0 <= start <= end <= len(axis.text) for start, end in axis.spans)
    return list(axis.spans) if said else _found(axis)


def _by_place(axis: Tokens) -> list[int]:
    spans = spans_in(axis)
    if spans is None:
        return list(words_of(axis))
    words = _words(axis.text)
    numbers: list[int] = []
    last: int | None = None
    for position, (start, end) in enumerate(spans):
        begins = next((place for place in range(start, end) if not axis.text[place].isspace()), None)
        word = None if begins is None or is_marker(axis, position) else words[begins]
        numbers.append(numbers[-1] + (word is None or word != last) if numbers else 0)
        last = word
    return numbers


def _found(axis: Tokens) -> list[tuple[int, int]] | None:
    """Where the labels stand in the text, one after the other with nothing but spaces between; None where they do not."""
    spans, place = [], 0
    for position, label in enumerate(axis.labels):
        if is_marker(axis, position):
            spans.append((place, place))
            continue
        start = place
        while not axis.text.startswith(label, start) and axis.text[start : start + 1].isspace():
            start += 1
        if not axis.text.startswith(label, start):
            return None
        place = start + len(label)
        spans.append((start, place))
    return spans


def _words(text: str) -> list[int]:
    """For each character the number of the word it lies in: letters, marks and digits together, other signs alone."""
    numbers: list[int] = []
    last = ""
    for character in text:
        kind = _kind(character)
        # A mark belongs to whatever it is put on.
        same = bool(numbers) and (kind == "mark" or (kind == "word" and last == "word"))
        numbers.append(numbers[-1] + (not same) if numbers else 0)
        last = kind if kind != "mark" else last
    return numbers


def _kind(character: str) -> str:
    category = unicodedata.category(character)
    if category[0] == "M" or character in JOINERS:
        return "mark"
    if category[0] not in "LN" or unicodedata.name(character, "").startswith(UNSPACED):
        return ""
    return "word"
