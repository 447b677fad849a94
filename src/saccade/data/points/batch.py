"""Pads records of points into batches.

Legend: B batch, S points, d numbers of a point, T target positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from saccade.data.batching import TensorBatch
from saccade.data.points.records import Points

IGNORED = -100  # after the end of a target; every other number is a position
END = 0  # points are numbered from 1


@dataclass(frozen=True)
class Batch(TensorBatch):
    """Padded records. The decoder reads ``target_in`` and should point at ``target_out``, one step ahead."""

    points: Float[Tensor, "B S d"]
    lengths: Int64[Tensor, " B"]
    target_in: Int64[Tensor, "B T"]  # END positions END …
    target_out: Int64[Tensor, "B T"]  # positions END IGNORED …
    indices: list[int]  # where the records stand in their corpus
    tokens: int  # real target positions, END counted: known without asking the device
    repeats: int | None = None  # the number (from 1) of a record, if any, whose order names a point twice


def collate(records: Sequence[Points], indices: Sequence[int]) -> Batch:
    """Close, shift and pad the records of one batch; ``indices`` says where each stands in its corpus."""
    targets = [[position + 1 for position in record.target] for record in records]
    lengths = [len(record.source) for record in records]
    most, steps = max(lengths), max(map(len, targets)) + 1
    absent = (0.0,) * len(records[0].source[0])
    padded = [[*record.source, *[absent] * (most - len(record.source))] for record in records]
    repeats = (index + 1 for target, index in zip(targets, indices, strict=True) if len(set(target)) < len(target))
    return Batch(
        points=torch.tensor(padded, dtype=torch.float32),
        lengths=torch.tensor(lengths),
        target_in=torch.tensor([[END, *target] + [END] * (steps - 1 - len(target)) for target in targets]),
        target_out=torch.tensor([[*target, END] + [IGNORED] * (steps - 1 - len(target)) for target in targets]),
        indices=list(indices),
        tokens=sum(len(target) + 1 for target in targets),
        repeats=next(repeats, None),
    )
