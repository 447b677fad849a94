"""Pads documents of sentences into batches: tokens [B, S, W] and the length of each sentence.

    The fish was good. I came back.    →    tokens  5 6 7 8 9        lengths  5 4 0 0
                                                    3 4 2 9 ·
                                                    · · · · ·
                                                    · · · · ·

Padding sentences have length 0 and come last. A sentence that is too long becomes several.

Legend: B batch, S sentences, W words of a sentence.
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
from saccade.data.labels.batch import IGNORED, Layout
from saccade.data.tokenizers.sentences import Nesting
from saccade.errors import InputError

STEP = 8  # on a GPU, sentences and words are padded to multiples, since a CUDA graph is recorded per shape
Document = list[list[int]]  # the ids of each sentence
NestedRows = tuple[Int64[Tensor, "B S W"], Int64[Tensor, "B S"], None]


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
