"""Pads questions with candidates into batches: one row per (question, candidate), and the rows of each question.

    question   [N, S]   the question, repeated for each of its candidates
    candidate  [N, T]
    places     [Q, C]   the rows of a question's candidates; −1 where it has fewer
    relevance  [Q, C]   of each candidate; 0 where there is none

Legend: N rows, Q questions, C most candidates of a question, S, T tokens, F features.
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

ABSENT = -1
Row = tuple[list[int], list[int], list[float]]  # ids of the question, ids of a candidate, features of the two


@dataclass(frozen=True)
class Batch(TensorBatch):
    """Padded rows; ``relevance`` is all 0 if unknown."""

    question: Int64[Tensor, "N S"]
    question_lengths: Int64[Tensor, " N"]
    candidate: Int64[Tensor, "N T"]
    candidate_lengths: Int64[Tensor, " N"]
    features: Float32[Tensor, "N F"]
    places: Int64[Tensor, "Q C"]
    relevance: Float32[Tensor, "Q C"]
    indices: list[int]  # positions of the questions in their corpus
    tokens: int  # the units of the loss: known on the host
    longest: int  # the most tokens of a question or a candidate

    def bucketed(self) -> Batch:
        """The same batch in one of few shapes: with rows without a question, padding, and questions without candidates."""
        (N, S), T = self.question.shape, self.candidate.shape[1]
        Q, C = self.places.shape
        below = rounded(N, 32) - N
        after_question, after_candidate = (min(rounded(size, 8), max(self.longest, size)) - size for size in (S, T))
        wider = (0, rounded(C, 8) - C, 0, rounded(Q, 8) - Q)
        return replace(
            self,
            question=functional.pad(self.question, (0, after_question, 0, below)),
            question_lengths=functional.pad(self.question_lengths, (0, below), value=1),
            candidate=functional.pad(self.candidate, (0, after_candidate, 0, below)),
            candidate_lengths=functional.pad(self.candidate_lengths, (0, below), value=1),
            features=functional.pad(self.features, (0, 0, 0, below)),
            places=functional.pad(self.places, wider, value=ABSENT),
            relevance=functional.pad(self.relevance, wider),
        )


def collate(
    questions: Sequence[Sequence[Row]], relevance: Sequence[Sequence[float]], indices: Sequence[int], *,
    padding: int, tokens: int, longest: int,
) -> Batch:  # fmt: skip
    """Pad the rows of one batch: of each question its rows, in the order of its candidates."""
    rows = [row for question in questions for row in question]
    question, question_lengths = _padded([row[0] for row in rows], padding)
    candidate, candidate_lengths = _padded([row[1] for row in rows], padding)
    most = max(map(len, questions))
    places = np.full((len(questions), most), ABSENT, dtype=np.int64)
    grades = np.zeros((len(questions), most), dtype=np.float32)
    start = 0
    for number, (own, given) in enumerate(zip(questions, relevance, strict=True)):
        places[number, : len(own)] = np.arange(start, start + len(own))
        grades[number, : len(own)] = given
        start += len(own)
    return Batch(
        question=question, question_lengths=question_lengths, candidate=candidate, candidate_lengths=candidate_lengths,
        features=torch.tensor([row[2] for row in rows], dtype=torch.float32),
        places=torch.from_numpy(places), relevance=torch.from_numpy(grades), indices=list(indices), tokens=tokens,
        longest=longest,
    )  # fmt: skip


def _padded(rows: Sequence[list[int]], padding: int) -> tuple[Tensor, Tensor]:
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    inside = np.arange(lengths.max()) < lengths[:, None]
    table = np.full(inside.shape, padding, dtype=np.int64)
    table[inside] = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
    return torch.from_numpy(table), torch.from_numpy(lengths)


def joined(batch: Batch, *, first: int, last: int) -> tuple[Tensor, Tensor, Tensor]:
    """Both texts in one row: tokens [N, W], lengths [N], segments [N, W] of ``<bos> question <eos> candidate <eos>``.

    Built on the batch's device, without a device-to-host synchronisation.
    """
    (N, S), T = batch.question.shape, batch.candidate.shape[1]
    question_length, candidate_length = (
        batch.question_lengths.unsqueeze(-1),
        batch.candidate_lengths.unsqueeze(-1),
    )  # [N, 1]
    place = torch.arange(S + T + 3, device=batch.question.device).expand(N, -1)  # [N, W]
    before, after = place - 1, place - question_length - 2
    in_question, in_candidate = (before >= 0) & (before < question_length), (after >= 0) & (after < candidate_length)
    tokens = torch.where(in_question, batch.question.gather(1, before.clamp(0, S - 1)), torch.zeros_like(place))
    tokens = torch.where(in_candidate, batch.candidate.gather(1, after.clamp(0, T - 1)), tokens)
    tokens = torch.where(place == 0, torch.full_like(place, first), tokens)
    marks = (place == question_length + 1) | (place == question_length + candidate_length + 2)
    tokens = torch.where(marks, torch.full_like(place, last), tokens)
    segments = ((after >= 0) & (after <= candidate_length)).to(torch.int64)
    return tokens, (question_length + candidate_length).squeeze(-1) + 3, segments
