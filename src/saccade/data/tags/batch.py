"""Tagged sentences to padded batches: a row a sentence, a mark before it and one after; a long one is parted into several rows.

    tokens    <bos>  Con  ##fi  ##dence  in   <eos>        a word may be several pieces
    tags       –     0    –     –        3     –           its first is tagged; – is IGNORED

A network that wants no marks is handed the rows without them (:meth:`Batch.rows`).

Legend: B batch, S positions, L characters of a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn import functional

from saccade.data.batching import Corpus, TensorBatch, rounded
from saccade.data.labels.batch import IGNORED, SHORTEST, Layout
from saccade.data.tags.records import Tagged, TaggedData
from saccade.data.tags.schemes import Scheme, Span, spans_of, tags_of
from saccade.data.tags.tagset import Tags
from saccade.data.tokenizers.words import Cut, Letters, WordReader
from saccade.errors import InputError, preview

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
class Batch(TensorBatch):
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


# ----------------------------------------------------------------------------------------------------
# Tagged sentences made ready for batching: their rows, and a table that spells their words.
#
# A sentence of more tokens than ``data.max_length`` is an error, or with ``data.too_long: split`` several rows, each
# read by itself. A batch holds all rows of its records.

SHOWN = 12  # words of a sentence that an error quotes


def corpus_of(
    records: Sequence[Tagged], reader: WordReader, tags: Tags, data: TaggedData, where: str, first: int = 1
) -> Corpus:
    """The rows of records; those without tags are inputs. ``where`` names a record in errors, numbered from ``first``."""
    words = dict.fromkeys(word for record in records for word in record.source)
    places = {word: number for number, word in enumerate(words, start=1)}  # 0 is no word
    letters = reader.spelled(["", *places]) if reader.alphabet else None
    rows = [
        _rows(each, reader, tags, data, f"{where} {number}{_preview(each)}", places if reader.alphabet else None)
        for number, each in enumerate(records, start=first)
    ]
    count = sum(len(parts) > 1 for parts in rows)
    cut = f"{count:,} of {len(rows):,} sentences read in parts of at most {data.max_length} tokens" if count else ""
    costs = [sum(len(row.ids) + MARKS for row in parts) for parts in rows]
    return Corpus(records, rows, costs, cut=cut, shared=letters)


def _preview(record: Tagged) -> str:
    """How a sentence begins, in brackets after its number; of an input nothing, it is at hand."""
    return f" ({preview(' '.join(record.source[:SHOWN]))})" if record.target else ""


def _rows(
    record: Tagged, reader: WordReader, tags: Tags, data: TaggedData, where: str, places: Mapping[str, int] | None
) -> list[Row]:
    cut, limit = reader.cut(record.source), data.max_length
    if len(cut.ids) > limit and data.too_long == "error":
        hint = f"set data.too_long: split, or data.max_length: {len(cut.ids)}"
        raise InputError(where, expected=f"at most {limit} tokens", found=f"{len(cut.ids)}", hint=hint)
    made, ends = [], [*cut.places, len(cut.ids)]
    for part in parts_of(cut, limit):
        start = cut.places[part.start]
        end = min(ends[part.end], start + limit)  # one word may have more pieces than a row has room for
        own = [place - start for place in cut.places[part.start : part.end]]
        numbers = [0] * len(own)
        if record.target:
            numbers = tags.numbers(tags_within(record.target, part, tags.scheme), where)
        spelled = [] if places is None else [places[word] for word in record.source[part.start : part.end]]
        made.append(Row(cut.ids[start:end], own, numbers, spelled))
    return made
