"""Pads patients into batches: the ids of the codes of each visit, the days of the visits, and the outcomes.

Legend: B batch, T visits, K codes per visit, C outcomes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor
from torch.nn import functional

from saccade.data.batching import TensorBatch, rounded
from saccade.data.visits.records import Visit, days_of

NO_CODE = 0  # the padding id of codes
IGNORED = -1.0  # the outcome of a row that is padding
EncodedVisits = tuple[
    list[list[int]], list[float]
]  # of each visit the numbers of its codes, and the days since the first


@dataclass(frozen=True)
class Batch(TensorBatch):
    """Padded rows; outcomes after the last visit [B, C], or after every visit [B, T, C]."""

    codes: Int64[Tensor, "B T K"]
    times: Float32[Tensor, "B T"]
    lengths: Int64[Tensor, " B"]
    outcomes: Float32[Tensor, "B C"] | Float32[Tensor, "B T C"]
    indices: list[int]  # positions of the records in their corpus
    tokens: int  # outcomes, the units of the loss: known on the host

    def bucketed(self) -> Batch:
        """The batch padded to one of few shapes, by rows without outcomes and by empty visits and codes."""
        B, T, K = self.codes.shape
        rows, visits, codes = rounded(B, 8) - B, rounded(T, 4) - T, rounded(K, 4) - K
        tail = (0, 0, 0, visits, 0, rows) if self.outcomes.dim() == 3 else (0, 0, 0, rows)
        return replace(
            self,
            codes=functional.pad(self.codes, (0, codes, 0, visits, 0, rows), value=NO_CODE),
            times=functional.pad(self.times, (0, visits, 0, rows)),
            lengths=functional.pad(self.lengths, (0, rows), value=1),
            outcomes=functional.pad(self.outcomes, tail, value=IGNORED),
        )


def encode(visits: Sequence[Visit], numbers: dict[str, int]) -> EncodedVisits:
    """The numbers of the known codes of each visit, and its days since the first one."""
    days = [days_of(visit.time) for visit in visits]
    codes = [[numbers[code] for code in visit.codes if code in numbers] for visit in visits]
    return codes, [day - days[0] for day in days]


def collate(
    rows: Sequence[EncodedVisits],
    outcomes: Sequence[Sequence[float] | Sequence[Sequence[float]]],
    indices: Sequence[int],
) -> Batch:
    """Pad the rows of one batch. ``outcomes`` are one list per row, or one per visit of it."""
    lengths = [len(days) for _, days in rows]
    B, T, K = len(rows), max(lengths), max(1, max(len(codes) for visits, _ in rows for codes in visits))
    codes, times = np.full((B, T, K), NO_CODE, dtype=np.int64), np.zeros((B, T), dtype=np.float32)
    for number, (visits, days) in enumerate(rows):
        times[number, : len(days)] = days
        for visit, listed in enumerate(visits):
            codes[number, visit, : len(listed)] = listed
    if any(row and isinstance(row[0], list | tuple) for row in outcomes):
        targets = torch.full((B, T, len(outcomes[0][0])), IGNORED)  # type: ignore[arg-type]
        for number, row in enumerate(outcomes):
            targets[number, : len(row)] = torch.tensor(row, dtype=torch.float32)
    else:
        targets = torch.tensor(outcomes, dtype=torch.float32)
    table, lengths_ = torch.from_numpy(codes), torch.tensor(lengths)
    return Batch(table, torch.from_numpy(times), lengths_, targets, list(indices), int((targets != IGNORED).sum()))
