"""A document that was looked at on two levels, drawn as Yang et al. (2016) draw it: the text itself, a sentence a line.

    bar of a sentence    p(sentence)
    shade of a word      √p(sentence) · p(word)      so that the words of sentences that count little stay faintly visible

Which trace is such a document follows from its axes: words that lie in sentences, sentences that look at their words, and one
query that looks at the sentences. Without the last, words are shaded by their own weight and there are no bars.

Legend: S sentences, N words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from rich.cells import cell_len

from saccade.trace.axes import Axis, Sentences, Tokens
from saccade.trace.maps import AttentionMap, Trace
from saccade.views.terminal.style import Ink

LONGEST = 4000  # words: more than anyone reads in one picture
BAR = 8  # cells of a terminal; fewer where it is narrow


@dataclass(frozen=True, eq=False)
class Document:
    """Words in their sentences: ``weights`` of words in their sentence, and of the sentences where they were looked at."""

    words: Tokens
    weights: Float[ndarray, " N"]
    sentences: Float[ndarray, " S"] | None
    maps: tuple[AttentionMap, ...]  # that it is drawn from

    @property
    def strengths(self) -> Float[ndarray, " N"]:
        """√p(sentence) · p(word), or p(word)."""
        if self.sentences is None:
            return self.weights
        return np.asarray(np.sqrt(self.sentences[list(self.words.within)]) * self.weights)

    def lines(self) -> Iterator[tuple[int, list[int]]]:
        """Each sentence that has words, and the positions of its words."""
        for sentence, places in groupby(range(len(self.words)), key=self.words.within.__getitem__):
            yield sentence, list(places)

    def spaced(self, place: int) -> bool:
        """Whether a space stands before a word."""
        spans = self.words.spans
        if not 0 < place < len(spans):
            return place > 0
        between = self.words.text[spans[place - 1][1] : spans[place][0]]
        return any(character.isspace() for character in between)


def documents(trace: Trace) -> list[Document]:
    """The documents of a trace: at most one for each map of words."""
    found = []
    for inner in trace.maps:
        words = trace.axes.get(inner.key)
        parent = trace.axes.get(inner.query)
        nested = isinstance(words, Tokens) and words.parent == inner.query and isinstance(parent, Sentences)
        if not nested or not isinstance(words, Tokens) or not _alone(inner, trace) or not 0 < len(words) <= LONGEST:
            continue
        rows = inner.weights.detach().float().cpu().numpy()
        within = np.asarray(words.within)
        if len(words) != inner.keys or within.max() >= len(rows) or inner.step:
            continue
        outers = [each for each in trace.maps if each.key == inner.query and each.queries == 1 and _alone(each, trace)]
        sentences = outers[-1].weights.detach().float().cpu().numpy()[0] if outers else None
        maps = (inner, outers[-1]) if outers else (inner,)
        found.append(Document(words, rows[within, np.arange(len(words))], sentences, maps))
    return found


def _alone(map: AttentionMap, trace: Trace) -> bool:
    """Whether a map has its weights, and there is one at its site: of several heads each has a drawing of its own."""
    return map.kind in ("dense", "top") and sum(each.site == map.site for each in trace.maps) == 1


def axis_of(document: Document, trace: Trace) -> Axis | None:
    """The axis of the one that looks: a label, or whatever the sentences are read for."""
    return trace.axes.get(document.maps[-1].query) if document.sentences is not None else None


# In a terminal ------------------------------------------------------------------------------------------------------


def written(document: Document, ink: Ink) -> list[str]:
    """A sentence a line, or more where it is long: a red bar, its weight, the words on their shades.

    Without colours the word that weighs most stands behind each sentence."""
    strengths = document.strengths
    known = np.nan_to_num(strengths, nan=0.0, posinf=0.0)
    greatest = float(known.max(initial=0.0)) or 1.0
    longest = 1.0 if document.sentences is None else float(np.nan_to_num(document.sentences).max(initial=0.0)) or 1.0
    lines: list[str] = []
    for sentence, places in document.lines():
        head = "" if document.sentences is None else _head(float(document.sentences[sentence]), longest, ink)
        indent = 0 if document.sentences is None else _bar(ink) + len(" 0.00 ")
        rows = _rows(document, places, strengths / greatest, ink.width - indent, ink)
        if ink.colour == "none":
            rows = _ended(rows, _strongest(document, places, ink), ink.width - indent, ink)
        lines += [(head if number == 0 else " " * indent) + row for number, row in enumerate(rows)]
    return lines


def _bar(ink: Ink) -> int:
    return min(BAR, ink.width // 10)


def _head(weight: float, longest: float, ink: Ink) -> str:
    number = "   ?" if np.isnan(weight) else f"{weight:.2f}"
    return f"{ink.red(ink.bar(weight / longest, _bar(ink)))} {number} "


def _rows(document: Document, places: Sequence[int], strengths: ndarray, room: int, ink: Ink) -> list[str]:
    """The words of a sentence on lines of so many cells."""
    rows, used = [""], 0
    for place in places:
        text = ink.short(ink.label(document.words.labels[place]), max(1, room))
        size, apart = cell_len(text), int(bool(used) and document.spaced(place))
        if used and used + apart + size > room:
            rows, used, apart = [*rows, ""], 0, 0
        rows[-1] += " " * apart + ink.row([(float(strengths[place]), ink.fit(text, size))])
        used += apart + size
    return rows


def _ended(rows: list[str], end: str, room: int, ink: Ink) -> list[str]:
    """Rows with an end behind the last, or below it where it finds no room."""
    if cell_len(rows[-1]) + cell_len(end) <= room:
        return [*rows[:-1], rows[-1] + end]
    return [*rows, ink.short(end.strip(), room)]


def _strongest(document: Document, places: Sequence[int], ink: Ink) -> str:
    known = np.nan_to_num(document.weights[list(places)], nan=0.0, posinf=0.0)
    if not (known > 0).any():
        return ink.own("  ← nothing")
    best = int(known.argmax())
    label = ink.short(ink.label(document.words.labels[places[best]]), 16)
    return ink.own("  ← ") + ink.fit(label, cell_len(label)) + f" {known[best]:.2f}"
