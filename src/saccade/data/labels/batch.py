"""Pads labelled texts into batches: one row per record, with special tokens before it and after each text.

    <bos> first <eos>            segments 0 0 0
    <bos> first <eos> second <eos>        0 0 0 1 1

The special tokens are the tokenizer's, with a BERT vocabulary [CLS] and [SEP]. A network of the layout ``plain`` gets rows
without them (:meth:`Batch.rows`), except the one between two texts.

Legend: B batch, S positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn import functional

from saccade.data.batching import TensorBatch, rounded
from saccade.data.config import TooLong
from saccade.errors import InputError

IGNORED = -100  # the label of a row that is padding
SHORTEST = 3  # one token between two special tokens
Layout = Literal["plain", "marked", "sentences"]
Ids = tuple[list[int], list[int] | None]  # of the text, of the second text where there is one
Rows = tuple[Int64[Tensor, "B S"], Int64[Tensor, " B"], Int64[Tensor, "B S"] | None]


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
