"""Texts as sequences of ids, cut into chunks that a language model reads in one row: every token is predicted once.

    sequence       <bos> a b c d e <eos>            its tokens are predicted from those before them
    chunk of 3     reads <bos> a b → a b c          then reads c d e → d e <eos>
    context of 2   the second also reads a b before its own, and nothing is counted there

With ``layout: stream`` all records are one sequence, <eos> r₁ <eos> r₂ <eos> …: each record is begun and ended by <eos>.
With ``streams: n`` it is cut into n stretches of equal length, which n rows read on, chunk after chunk: batch i holds the
i-th chunk of each, and a row's state is carried from one to the next (truncated back-propagation through time).

Legend: B rows, T positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Bool, Int64
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from saccade.data.batching import TensorBatch, extended, rounded
from saccade.data.tokenizers.tokenizer import Tokenizer

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Piece:
    """The chunk that reads ``sequence[start:stop]`` and predicts ``sequence[start + 1 : stop + 1]``, after reading
    ``context`` tokens before it; ``continues`` the piece of the row before it."""

    sequence: int
    start: int
    stop: int
    context: int = 0
    continues: bool = False

    @property
    def width(self) -> int:
        return self.context + self.stop - self.start


@dataclass(frozen=True)
class Batch(TensorBatch):
    """Chunks side by side. The network reads ``inputs`` and should say ``outputs``, one token ahead."""

    inputs: Int64[Tensor, "B T"]  # tokens <pad> …
    outputs: Int64[Tensor, "B T"]  # <pad> where nothing is counted: in the context and after the end
    lengths: Int64[Tensor, " B"]
    continues: Bool[Tensor, " B"] | None  # rows whose state is that of the batch before; None: nothing is carried
    indices: list[int]  # which pieces of the corpus these are
    tokens: int  # predicted, <eos> counted: known without asking the device

    def bucketed(self) -> Batch:
        """The same batch in one of few shapes; what is added weighs nothing. Rows that carry a state are left as they are."""
        B, T = self.inputs.shape
        rows, columns = 0 if self.continues is not None else rounded(B, 8) - B, rounded(T, 2) - T
        return replace(
            self,
            inputs=extended(self.inputs, rows, columns),
            outputs=extended(self.outputs, rows, columns),
            lengths=functional.pad(self.lengths, (0, rows), value=1),
        )


def sequences_of(encoded: Sequence[Sequence[int]], *, stream: bool) -> list[Ids]:
    """The ids of records as they are read: each between <bos> and <eos>, or all of them as one stream."""
    if not stream:
        return [np.array([Tokenizer.BOS, *ids, Tokenizer.EOS], dtype=np.int64) for ids in encoded]
    joined = [np.array([*ids, Tokenizer.EOS], dtype=np.int64) for ids in encoded]
    return [np.concatenate([np.array([Tokenizer.EOS], dtype=np.int64), *joined])]


def pieces_of(sequences: Sequence[Ids], chunk: int, context: int) -> list[Piece]:
    """Chunks that know of nothing but their context."""
    return [
        Piece(number, start, min(start + chunk, len(ids) - 1), min(context, start))
        for number, ids in enumerate(sequences)
        for start in range(0, len(ids) - 1, chunk)
    ]


def streams_of(sequence: Ids, chunk: int, rows: int) -> list[Piece]:
    """The chunks of ``rows`` stretches of one sequence, ordered by batch: those of batch i are i · rows to (i + 1) · rows.

    Stretches differ by one token at most; a row that is done before the others has an empty chunk.
    """
    bounds = np.linspace(0, len(sequence) - 1, rows + 1).astype(int).tolist()
    steps = -(-max(end - begin for begin, end in pairwise(bounds)) // chunk)
    return [
        Piece(0, min(bounds[row] + i * chunk, bounds[row + 1]), min(bounds[row] + (i + 1) * chunk, bounds[row + 1]), 0, i > 0)
        for i in range(steps)
        for row in range(rows)
    ]  # fmt: skip


def plan_streams(pieces: Sequence[Piece], rows: int) -> list[list[int]]:
    """The batches of an epoch of ``rows`` streams, in the order of the text."""
    return [list(range(start, start + rows)) for start in range(0, len(pieces), rows)]


def collate_pieces(
    sequences: Sequence[Ids], pieces: Sequence[Piece], indices: Sequence[int], *, carried: bool = False
) -> Batch:
    """The rows of one batch, padded on the right; ``carried``: states go on from the batch before."""
    B, T = len(pieces), max(1, max(piece.width for piece in pieces))
    inputs, outputs = np.full((B, T), Tokenizer.PAD, dtype=np.int64), np.full((B, T), Tokenizer.PAD, dtype=np.int64)
    for row, piece in enumerate(pieces):
        ids = sequences[piece.sequence]
        inputs[row, : piece.width] = ids[piece.start - piece.context : piece.stop]
        outputs[row, piece.context : piece.width] = ids[piece.start + 1 : piece.stop + 1]
    return Batch(
        inputs=torch.from_numpy(inputs),
        outputs=torch.from_numpy(outputs),
        lengths=torch.tensor([piece.width for piece in pieces]),
        continues=torch.tensor([piece.continues for piece in pieces]) if carried else None,
        indices=list(indices),
        tokens=sum(piece.stop - piece.start for piece in pieces),
    )
