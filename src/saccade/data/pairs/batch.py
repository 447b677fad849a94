"""Pads pairs of token ids into batches.

Legend: B batch, S source positions, T target positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn import functional

from saccade.data.batching import TensorBatch, closed_and_opened, extended, rounded
from saccade.errors import SaccadeError


@dataclass(frozen=True)
class Batch(TensorBatch):
    """Padded pairs. The decoder reads `target_in` and is trained to predict `target_out`, one step ahead."""

    source: Int64[Tensor, "B S"]  # tokens <eos> <pad> …
    source_lengths: Int64[Tensor, " B"]  # <eos> included
    target_in: Int64[Tensor, "B T"]  # <bos> tokens <pad> …
    target_out: Int64[Tensor, "B T"]  # tokens <eos> <pad> …
    target_lengths: Int64[Tensor, " B"]  # <eos> counted
    indices: list[int]  # positions of the pairs in their corpus
    tokens: int  # real target tokens, <eos> counted: known on the host

    def bucketed(self) -> Batch:
        """The same batch in one of few shapes: rows of length 1 without a target below, padding on the right of both sides.

        The padding has no weight in a loss. In 24 epochs of Multi30k with 4096 tokens per batch, 144 shapes become 57, for
        3 % more decoder steps and 7 % more positions.
        """
        (B, S), T = self.source.shape, self.target_in.shape[1]
        rows, source, target = rounded(B, 8) - B, rounded(S, 2) - S, rounded(T, 2) - T
        return replace(
            self,
            source=extended(self.source, rows, source),
            source_lengths=functional.pad(self.source_lengths, (0, rows), value=1),
            target_in=extended(self.target_in, rows, target),
            target_out=extended(self.target_out, rows, target),
            target_lengths=functional.pad(self.target_lengths, (0, rows), value=1),
        )


def collate(encoded: Sequence[tuple[list[int], list[int]]], indices: Sequence[int]) -> Batch:
    """Add <bos> and <eos> to the pairs of one batch and pad them; `indices` are their positions in the corpus."""
    if not encoded or len(encoded) != len(indices):
        raise SaccadeError(
            f"a batch needs pairs and an index for each: got {len(encoded)} pairs, {len(indices)} indices"
        )
    (source, _), source_lengths = closed_and_opened([source for source, _ in encoded])
    (target_out, target_in), target_lengths = closed_and_opened([target for _, target in encoded])
    return Batch(
        source=torch.from_numpy(source),
        source_lengths=torch.from_numpy(source_lengths),
        target_in=torch.from_numpy(target_in),
        target_out=torch.from_numpy(target_out),
        target_lengths=torch.from_numpy(target_lengths),
        indices=list(indices),
        tokens=int(target_lengths.sum()),
    )
