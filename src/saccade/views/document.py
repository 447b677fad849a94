"""A document with attention over sentences and words, drawn as in Yang et al. (2016): one sentence per line.

    bar of a sentence    p(sentence)
    shade of a word      √p(sentence) · p(word)      so that words of unimportant sentences stay faintly visible

A trace is such a document if its axes say so: words in sentences, a map from sentences to their words, and a single query
over the sentences. Without that query, words are shaded by their own weight and there are no bars.

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
from saccade.views.terminal.style import Style

LONGEST = 4000  # words of a document that is drawn
BAR = 8  # cells of a terminal; fewer if it is narrow


@dataclass(frozen=True, eq=False)
class Document:
    """Words in sentences: ``weights`` of the words within their sentence, and of the sentences if known."""

    words: Tokens
    weights: Float[ndarray, " N"]
    sentences: Float[ndarray, " S"] | None
    maps: tuple[AttentionMap, ...]  # it is drawn from these

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
    """The documents of a trace: at most one per map of words."""
    documents = []
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
        outers = [map for map in trace.maps if map.key == inner.query and map.queries == 1 and _alone(map, trace)]
        sentences = outers[-1].weights.detach().float().cpu().numpy()[0] if outers else None
        maps = (inner, outers[-1]) if outers else (inner,)
        documents.append(Document(words, rows[within, np.arange(len(words))], sentences, maps))
    return documents


def _alone(map: AttentionMap, trace: Trace) -> bool:
    """Whether a map kept weights and is the only one of its site (several heads are drawn separately)."""
    return map.kind in ("dense", "top") and sum(each.site == map.site for each in trace.maps) == 1


def axis_of(document: Document, trace: Trace) -> Axis | None:
    """The axis of the query over the sentences, e.g. the label."""
    return trace.axes.get(document.maps[-1].query) if document.sentences is not None else None


# In a terminal ------------------------------------------------------------------------------------------------------


def document_lines(document: Document, style: Style) -> list[str]:
    """One line per sentence, or more if it is long: a red bar, its weight, the shaded words.

    Without colours the word with the greatest weight follows each sentence."""
    strengths = document.strengths
    known = np.nan_to_num(strengths, nan=0.0, posinf=0.0)
    greatest = float(known.max(initial=0.0)) or 1.0
    longest = 1.0 if document.sentences is None else float(np.nan_to_num(document.sentences).max(initial=0.0)) or 1.0
    lines: list[str] = []
    for sentence, places in document.lines():
        head = "" if document.sentences is None else _head(float(document.sentences[sentence]), longest, style)
        indent = 0 if document.sentences is None else _bar(style) + len(" 0.00 ")
        rows = _rows(document, places, strengths / greatest, style.width - indent, style)
        if style.colour == "none":
            rows = _with_end(rows, _strongest(document, places, style), style.width - indent, style)
        lines += [(head if number == 0 else " " * indent) + row for number, row in enumerate(rows)]
    return lines


def _bar(style: Style) -> int:
    return min(BAR, style.width // 10)


def _head(weight: float, longest: float, style: Style) -> str:
    number = "   ?" if np.isnan(weight) else f"{weight:.2f}"
    return f"{style.red(style.bar(weight / longest, _bar(style)))} {number} "


def _rows(document: Document, places: Sequence[int], strengths: ndarray, room: int, style: Style) -> list[str]:
    """The words of a sentence on lines of ``room`` cells."""
    rows, used = [""], 0
    for place in places:
        text = style.short(style.label(document.words.labels[place]), max(1, room))
        size, apart = cell_len(text), int(bool(used) and document.spaced(place))
        if used and used + apart + size > room:
            rows, used, apart = [*rows, ""], 0, 0
        rows[-1] += " " * apart + style.row([(float(strengths[place]), style.fit(text, size))])
        used += apart + size
    return rows


def _with_end(rows: list[str], end: str, room: int, style: Style) -> list[str]:
    """Rows with ``end`` after the last one, or on a line of its own if there is no room."""
    if cell_len(rows[-1]) + cell_len(end) <= room:
        return [*rows[:-1], rows[-1] + end]
    return [*rows, style.short(end.strip(), room)]


def _strongest(document: Document, places: Sequence[int], style: Style) -> str:
    known = np.nan_to_num(document.weights[list(places)], nan=0.0, posinf=0.0)
    if not (known > 0).any():
        return style.own("  ← nothing")
    best = int(known.argmax())
    label = style.short(style.label(document.words.labels[places[best]]), 16)
    return style.own("  ← ") + style.fit(label, cell_len(label)) + f" {known[best]:.2f}"
