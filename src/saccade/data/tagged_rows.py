"""Tagged sentences to padded batches: a row a sentence, a mark before it and one after; a long one is parted into several rows.

    tokens    <bos>  Con  ##fi  ##dence  in   <eos>        a word may be several pieces
    tags       –     0    –     –        3     –           its first is tagged; – is IGNORED

A network that wants no marks is handed the rows without them (:meth:`Batch.rows`).

Legend: B batch, S positions, L characters of a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn import functional

from saccade.data.batching import rounded
from saccade.data.documents import IGNORED, SHORTEST, Layout
from saccade.data.schemes import Scheme, Span, spans_of, tags_of
from saccade.data.sending import Sendable
from saccade.data.word_reader import Cut, Letters

MARKS = 2  # of a row


@dataclass(frozen=True)
class Row:
    """A sentence or a part of one: its ids, where its words' first pieces stand, their tags' numbers, and their places in the
    corpus's table of spelled words (empty where characters are not read)."""

    ids: list[int]
    places: list[int]
    tags: list[int]
    spelled: list[int]


class Part(NamedTuple):
    """Words ``start`` up to, and without, ``end``."""

    start: int
    end: int


def parts_of(cut: Cut, limit: int) -> list[Part]:
    """A sentence of more tokens than ``limit`` in parts of whole words, each as long as it can be.

    >>> parts_of(Cut([7, 8, 9, 4, 5], [0, 1, 4]), 4)
    [Part(start=0, end=2), Part(start=2, end=3)]
    """
    ends = [*cut.places[1:], len(cut.ids)]
    parts, start = list[Part](), 0
    for word, end in enumerate(ends):
        if word > start and end - cut.places[start] > limit:
            parts.append(Part(start, word))
            start = word
    return [*parts, Part(start, len(cut.places))]


def tags_within(tags: Sequence[str], part: Part, scheme: Scheme) -> list[str]:
    """The tags of a part; a span that the cut goes through is one on either side."""
    if scheme == "none":
        return list(tags[part.start : part.end])
    inside = (
        Span(max(span.start, part.start) - part.start, min(span.end, part.end) - part.start, span.type)
        for span in spans_of(tags)
        if span.end > part.start and span.start < part.end
    )
    return tags_of(inside, part.end - part.start, scheme)


@dataclass(frozen=True)
class Batch(Sendable):
    """Padded rows with their marks, and the numbers of their tags."""

    text: Int64[Tensor, "B S"]
    lengths: Int64[Tensor, " B"]  # marks counted
    tags: Int64[Tensor, "B S"]
    characters: Int64[Tensor, "B S L"] | None  # None: words are cut to pieces
    indices: list[int]  # where the records stand in their corpus
    tokens: int  # tags, the units of the loss: known without asking the device
    longest: int | None = None  # positions that a row may have at most

    def bucketed(self) -> Batch:
        """The same batch in one of few shapes: rows without a tag below, padding on the right. Neither weighs anything."""
        B, S = self.text.shape
        below = rounded(B, 8) - B
        # A network may read so many positions and no more.
        right = (rounded(S, 4) if self.longest is None else min(rounded(S, 4), self.longest)) - S
        characters = self.characters
        if characters is not None:
            letters = rounded(characters.shape[2], 8) - characters.shape[2]
            characters = functional.pad(characters, (0, letters, 0, right, 0, below))
        return replace(
            self,
            text=functional.pad(self.text, (0, right, 0, below)),
            lengths=functional.pad(self.lengths, (0, below), value=SHORTEST),
            tags=functional.pad(self.tags, (0, right, 0, below), value=IGNORED),
            characters=characters,
        )

    def rows(self, layout: Layout) -> Batch:
        """The batch as a network wants its rows: with the marks, or without them, lengths counted so."""
        if layout == "marked":
            return self
        # A row's last mark then stands behind its end, as padding does.
        characters = None if self.characters is None else self.characters[:, 1:-1]
        text, tags = self.text[:, 1:-1], self.tags[:, 1:-1]
        return replace(self, text=text, tags=tags, lengths=self.lengths - MARKS, characters=characters)


def collate(
    rows: Sequence[Row], indices: Sequence[int], letters: Letters | None, *, first: int, last: int, padding: int
) -> Batch:
    """Mark and pad the rows of one batch; ``first``, ``last`` and ``padding`` are the ids of the marks.

    ``letters`` [words, L] spells the words of the corpus, and its row 0 nothing; None where characters are not read.
    """
    lengths = np.fromiter((len(row.ids) + MARKS for row in rows), dtype=np.int64, count=len(rows))
    shape = (len(rows), int(lengths.max()))
    text, tags = np.full(shape, padding, dtype=np.int64), np.full(shape, IGNORED, dtype=np.int64)
    spelled = np.zeros(shape, dtype=np.int64)
    for number, row in enumerate(rows):
        text[number, 0], text[number, len(row.ids) + 1] = first, last
        text[number, 1 : len(row.ids) + 1] = row.ids
        places = np.asarray(row.places, dtype=np.int64) + 1
        tags[number, places] = row.tags
        if letters is not None:
            spelled[number, places] = row.spelled
    characters = None
    if letters is not None:
        table = letters[spelled]  # [B, S, L]
        used = int((table != 0).any(axis=(0, 1)).nonzero()[0].max(initial=0)) + 1
        characters = torch.from_numpy(np.ascontiguousarray(table[:, :, :used]))
    return Batch(
        text=torch.from_numpy(text),
        lengths=torch.from_numpy(lengths),
        tags=torch.from_numpy(tags),
        characters=characters,
        indices=list(indices),
        tokens=sum(len(row.tags) for row in rows),
    )
