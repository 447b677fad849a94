"""Ranking metrics: mean average precision, mean reciprocal rank, precision at 1, and nearest neighbours of word vectors.

    average precision   AP = 1/R Σ_{i relevant} (relevant among the first i) / i        R relevant candidates of a question
    reciprocal rank     RR = 1 / (rank of the first relevant candidate)
    map, mrr, precision_at_1 = the mean over questions of AP, of RR, of [the first candidate is relevant]

A candidate is relevant if its relevance is above 0. Among equal scores relevant candidates rank last, so ties never help a
system. Questions without a relevant candidate are left out, as in the published WikiQA results; questions whose
candidates are all relevant count as 1.

Legend: N questions, V words, D width of a vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from saccade.errors import SaccadeError
from saccade.metrics.significance import Statistics
from saccade.metrics.text import Score

RANKING_METRICS = ("map", "mrr", "precision_at_1")
VECTOR_METRICS = ("pair_loss", "pair_accuracy", "neighbours")
SIGNATURE = "ties:last|unanswered:left out"
Numbers = Sequence[float]


def ranking_scores(names: Sequence[str], scores: Sequence[Numbers], relevance: Sequence[Numbers]) -> dict[str, Score]:
    """The named metrics: for each question the scores and the relevance of its candidates, in the same order."""
    statistics = (ranking_statistics(name, scores, relevance) for name in names)
    return {each.name: Score(each.name, each.value, each.higher_is_better, each.signature) for each in statistics}


def ranking_statistics(name: str, scores: Sequence[Numbers], relevance: Sequence[Numbers]) -> Statistics:
    """The statistics of a ranking metric: [value, 1] per question, [0, 0] without a relevant candidate.

    >>> ranking_statistics("map", [[0.9, 0.5, 0.1]], [[0, 1, 1]]).value
    0.5833333333333333
    """
    if name not in RANKING_METRICS:
        raise SaccadeError(f"unknown metric {name!r}: those of rankings are {', '.join(RANKING_METRICS)}")
    if len(scores) != len(relevance) or any(map(_unequal, scores, relevance)):
        raise SaccadeError("expected one score per candidate of each question, found more or fewer")
    rows = [_row(FIGURES[name], scored, graded) for scored, graded in zip(scores, relevance, strict=True)]
    return Statistics(
        name, np.array(rows, dtype=float).reshape(-1, 2), lambda sums: float(sums[0] / sums[1]) if sums[1] else 0.0,
        higher_is_better=True, signature=SIGNATURE,
    )  # fmt: skip


def order(scores: Numbers, relevance: Numbers | None = None) -> list[int]:
    """The candidates' numbers, best first; among equal scores relevant ones last (without ``relevance``, in input order).
    NaN ranks below all other scores.

    >>> order([0.2, 0.7, 0.7], [0, 1, 0])
    [2, 1, 0]
    """
    grades = [0.0] * len(scores) if relevance is None else relevance
    lowered = [math.inf if math.isnan(score) else -score for score in scores]
    return sorted(range(len(scores)), key=lambda number: (lowered[number], grades[number] > 0))


def by_chance(relevance: Sequence[Numbers]) -> float:
    """The expected mean average precision of a random order, exactly.

        E[AP] = 1/n Σ_{i=1}^{n} (1 + (i − 1)(R − 1)/(n − 1)) / i        R relevant ones of n

    >>> round(by_chance([[1, 0, 0], [0, 0]]), 4)
    0.6111
    """
    expected = []
    for grades in relevance:
        n, relevant = len(grades), sum(grade > 0 for grade in grades)
        if relevant:
            share = (relevant - 1) / (n - 1) if n > 1 else 0.0
            expected.append(sum((1 + (place - 1) * share) / place for place in range(1, n + 1)) / n)
    return sum(expected) / len(expected) if expected else 0.0


def _row(figure: Callable[[list[int]], float], scores: Numbers, relevance: Numbers) -> tuple[float, float]:
    ranked = order(scores, relevance)
    places = [place for place, number in enumerate(ranked, start=1) if relevance[number] > 0]
    return (figure(places), 1.0) if places else (0.0, 0.0)


def _unequal(scores: Numbers, relevance: Numbers) -> bool:
    return len(scores) != len(relevance)


# Functions of the ranks of the relevant candidates, from 1, increasing.
FIGURES: dict[str, Callable[[list[int]], float]] = {
    "map": lambda places: sum(found / place for found, place in enumerate(places, start=1)) / len(places),
    "mrr": lambda places: 1 / places[0],
    "precision_at_1": lambda places: float(places[0] == 1),
}


def neighbours(vectors: Float[Tensor, "V D"], groups: Sequence[Sequence[int]]) -> float:
    """The share of the grouped words whose nearest other word by cosine, cos(a, b) = a · b / (|a| |b|), is of their own group.

    >>> neighbours(torch.tensor([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0], [0.5, 1.0]]), [[0, 1], [2]])
    0.6666666666666666
    """
    rows = [row for group in groups for row in group]
    if not rows:
        raise SaccadeError("neighbours: expected groups of words, found none of their words in the vocabulary")
    unit = functional.normalize(vectors.float(), dim=-1)
    cosines = unit[rows] @ unit.T
    cosines[torch.arange(len(rows)), rows] = -torch.inf
    owner = {row: number for number, group in enumerate(groups) for row in group}
    nearest = cosines.argmax(-1).tolist()
    return sum(owner.get(near) == owner[row] for row, near in zip(rows, nearest, strict=True)) / len(rows)
