"""Pads labelled texts into batches: one row per text, or sentence by sentence.

One row per record, with special tokens before it and after each text:

    <bos> first <eos>            segments 0 0 0
    <bos> first <eos> second <eos>        0 0 0 1 1

The special tokens are the tokenizer's, with a BERT vocabulary [CLS] and [SEP]. A network of the layout ``plain`` gets rows
without them (:meth:`Batch.rows`), except the one between two texts.

Networks of the layout ``sentences`` get documents [B, S, W] and the length of each sentence (:class:`NestedBatch`):

    The fish was good. I came back.    →    tokens  5 6 7 8 9        lengths  5 4 0 0
                                                    3 4 2 9 ·
                                                    · · · · ·
                                                    · · · · ·

Padding sentences have length 0 and come last. A sentence that is too long becomes several.

Legend: B batch, S positions or sentences, W words of a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn import functional

from saccade.data.batching import TensorBatch, rounded
from saccade.data.config import TooLong
from saccade.data.tokenizers.sentences import Nesting
from saccade.errors import InputError

IGNORED = -100  # the label of a row that is padding
SHORTEST = 3  # one token between two special tokens
Layout = Literal["plain", "marked", "sentences"]
Ids = tuple[list[int], list[int] | None]  # of the text, of the second text where there is one
Rows = tuple[Int64[Tensor, "B S"], Int64[Tensor, " B"], Int64[Tensor, "B S"] | None]

STEP = 8  # on a GPU, sentences and words are padded to multiples, since a CUDA graph is recorded per shape
Document = list[list[int]]  # the ids of each sentence
NestedRows = tuple[Int64[Tensor, "B S W"], Int64[Tensor, "B S"], None]


@dataclass(frozen=True)
class Batch(TensorBatch):
    """Padded rows with special tokens, and the numbers of their labels."""

    text: Int64[Tensor, "B S"]
    lengths: Int64[Tensor, " B"]  # special tokens included
    labels: Int64[Tensor, " B"]
    segments: Int64[Tensor, "B S"] | None  # None: single texts
    indices: list[int]  # positions of the records in their corpus
    tokens: int  # records, the units of the loss: known on the host
    longest: int | None = None  # the most positions of a row

    def bucketed(self) -> Batch:
        """The same batch in one of few shapes: with rows without a label and padding on the right, which have no weight."""
        B, S = self.text.shape
        below = rounded(B, 8) - B
        # No more positions than the network has.
        right = (rounded(S, 4) if self.longest is None else min(rounded(S, 4), self.longest)) - S
        widened = (0, right, 0, below)
        return replace(
            self,
            text=functional.pad(self.text, widened),
            lengths=functional.pad(self.lengths, (0, below), value=SHORTEST),
            labels=functional.pad(self.labels, (0, below), value=IGNORED),
            segments=None if self.segments is None else functional.pad(self.segments, widened),
        )

    def rows(self, layout: Layout) -> Rows:
        """Tokens, lengths and segments for a layout: with all special tokens, or without the first and the last."""
        if layout == "marked":
            return self.text, self.lengths, self.segments
        # The last special token of a row is then beyond its length, like padding.
        return self.text[:, 1:-1], self.lengths - 2, None if self.segments is None else self.segments[:, 1:-1]


def marks_of(layout: Layout, pair: bool) -> int:
    """The number of special tokens in a row."""
    return 2 + pair if layout == "marked" else int(pair)


def fit(ids: Ids, limit: int, policy: TooLong, keep: Literal["first", "last"], where: str) -> tuple[Ids, bool]:
    """The ids, at most ``limit`` without special tokens, and whether any were cut; of two texts the longer is cut first.

    >>> fit(([1, 2, 3, 4], [5, 6]), 5, "truncate", "first", "")
    (([1, 2, 3], [5, 6]), True)
    """
    first, second = ids
    count = len(first) + len(second or ())
    if count <= limit:
        return ids, False
    if policy == "error":
        hint = f"set data.too_long: truncate, or data.max_length: {count}"
        raise InputError(where, expected=f"at most {limit} tokens", found=f"{count}", hint=hint)
    if second is None:
        return (_cut(first, limit, keep), None), True
    most = max(limit - min(len(first), len(second)), (limit + 1) // 2)  # of the longer
    shorter = limit - most
    sizes = (most, shorter) if len(first) >= len(second) else (shorter, most)
    return (_cut(first, sizes[0], keep), _cut(second, sizes[1], keep)), True


def _cut(ids: list[int], size: int, keep: Literal["first", "last"]) -> list[int]:
    return ids[:size] if keep == "first" else ids[max(0, len(ids) - size) :]


def collate(
    texts: Sequence[Ids], labels: Sequence[int], indices: Sequence[int], *, first: int, last: int, padding: int
) -> Batch:
    """Add special tokens and padding to the rows of one batch; ``first``, ``last`` and ``padding`` are their ids."""
    rows = [[first, *text, last, *(() if second is None else (*second, last))] for text, second in texts]
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    inside = np.arange(lengths.max()) < lengths[:, None]
    table = np.full(inside.shape, padding, dtype=np.int64)
    table[inside] = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
    segments = None
    if texts[0][1] is not None:
        starts = np.fromiter((len(text) + 2 for text, _ in texts), dtype=np.int64, count=len(rows))
        segments = torch.from_numpy((inside & (np.arange(lengths.max()) >= starts[:, None])).astype(np.int64))
    return Batch(
        text=torch.from_numpy(table),
        lengths=torch.from_numpy(lengths),
        labels=torch.tensor(list(labels), dtype=torch.int64),
        segments=segments,
        indices=list(indices),
        tokens=len(rows),
    )


@dataclass(frozen=True)
class NestedBatch(TensorBatch):
    """Padded documents, and the numbers of their labels."""

    text: Int64[Tensor, "B S W"]
    lengths: Int64[Tensor, "B S"]  # words of each sentence; 0: none
    labels: Int64[Tensor, " B"]
    indices: list[int]  # positions of the records in their corpus
    tokens: int  # records, the units of the loss: known on the host

    def bucketed(self) -> NestedBatch:
        """The same batch in one of few shapes: with documents without a label, empty sentences and padding, which have no
        weight."""
        B, S, W = self.text.shape
        below, behind, right = rounded(B, 8) - B, rounded(S, STEP) - S, rounded(W, STEP) - W
        lengths = functional.pad(self.lengths, (0, behind, 0, below))
        lengths[B:, 0] = 1  # a document without any word would have no mean
        return replace(
            self,
            text=functional.pad(self.text, (0, right, 0, behind, 0, below)),
            lengths=lengths,
            labels=functional.pad(self.labels, (0, below), value=IGNORED),
        )

    def rows(self, layout: Layout) -> NestedRows:
        """Tokens and lengths for the layout ``sentences``; there are no segments."""
        return self.text, self.lengths, None


def nested(limits: Nesting | None) -> Nesting:
    """The limits of a recipe, or the defaults."""
    return Nesting() if limits is None else limits


def fit_nested(
    document: Document, limit: int, nesting: Nesting, policy: TooLong, keep: Literal["first", "last"], where: str
) -> tuple[Document, bool]:
    """At most ``limit`` tokens in at most ``nesting.most`` sentences of ``nesting.words``, and whether any were cut.

    A sentence that is too long becomes several of about equal length; that does not count as a cut.

    >>> fit_nested([[1, 2, 3, 4, 5], [6]], 5, Nesting(most=9, words=3), "truncate", "first", "")
    ([[1, 2, 3], [4, 5]], True)
    """
    count = sum(map(len, document))
    if count > limit and policy == "error":
        hint = f"set data.too_long: truncate, or data.max_length: {count}"
        raise InputError(where, expected=f"at most {limit} tokens", found=f"{count}", hint=hint)
    shortened = _within(document, limit, keep) if count > limit else document
    parts = [part for sentence in shortened for part in _parted(sentence, nesting.words)]
    if len(parts) <= nesting.most:
        return parts, count > limit
    if policy == "error":
        hint = f"set data.too_long: truncate, or data.sentences.most: {len(parts)}"
        raise InputError(where, expected=f"at most {nesting.most} sentences", found=f"{len(parts)}", hint=hint)
    return (parts[: nesting.most] if keep == "first" else parts[-nesting.most :]), True


def _within(document: Document, limit: int, keep: Literal["first", "last"]) -> Document:
    """The first or the last ``limit`` tokens, in their sentences."""
    within: Document = []
    for sentence in document if keep == "first" else reversed(document):
        room = min(limit, len(sentence))
        if room:
            within.append(sentence[:room] if keep == "first" else sentence[len(sentence) - room :])
        limit -= room
    return within if keep == "first" else within[::-1]


def _parted(sentence: list[int], words: int) -> Document:
    """The sentence in as few parts as possible of at most ``words`` words."""
    count = -(-len(sentence) // words)
    size, longer = divmod(len(sentence), max(1, count))
    ends = [size * (number + 1) + min(number + 1, longer) for number in range(count)]
    return [sentence[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def collate_nested(
    documents: Sequence[Document], labels: Sequence[int], indices: Sequence[int], *, padding: int
) -> NestedBatch:
    """Pad the documents of one batch; ``padding`` is the id of the padding."""
    counts = np.fromiter(map(len, documents), dtype=np.int64, count=len(documents))
    real = np.arange(counts.max()) < counts[:, None]  # [B, S]
    lengths = np.zeros(real.shape, dtype=np.int64)
    lengths[real] = np.fromiter((len(sentence) for document in documents for sentence in document), dtype=np.int64)
    inside = np.arange(lengths.max()) < lengths[..., None]  # [B, S, W]
    table = np.full(inside.shape, padding, dtype=np.int64)
    table[inside] = np.fromiter(
        chain.from_iterable(sentence for document in documents for sentence in document), dtype=np.int64
    )
    return NestedBatch(
        text=torch.from_numpy(table),
        lengths=torch.from_numpy(lengths),
        labels=torch.tensor(list(labels), dtype=torch.int64),
        indices=list(indices),
        tokens=len(documents),
    )
