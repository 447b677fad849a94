"""Whether words that belong together are nearest to each other: cos(a, b) = a · b / (|a| |b|)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from saccade.errors import SaccadeError

VECTOR_METRICS = ("pair_loss", "pair_accuracy", "neighbours")


def neighbours(vectors: Float[Tensor, "V D"], groups: Sequence[Sequence[int]]) -> float:
    """The share of the grouped words whose nearest other word, of all words, is of their own group.

    >>> neighbours(torch.tensor([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0], [0.5, 1.0]]), [[0, 1], [2]])
    0.6666666666666666
    """
    rows = [row for group in groups for row in group]
    if not rows:
        raise SaccadeError("neighbours: expected words that belong together, found none of them in the vocabulary")
    unit = functional.normalize(vectors.float(), dim=-1)
    cosines = unit[rows] @ unit.T
    cosines[torch.arange(len(rows)), rows] = -torch.inf
    owner = {row: number for number, group in enumerate(groups) for row in group}
    nearest = cosines.argmax(-1).tolist()
    return sum(owner.get(near) == owner[row] for row, near in zip(rows, nearest, strict=True)) / len(rows)
