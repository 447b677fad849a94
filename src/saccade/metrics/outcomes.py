"""Computes AUC and average precision of predicted probabilities, and the statistics for their intervals.

    auc    = P(p⁺ > p⁻) + ½ P(p⁺ = p⁻)  of a record with and one without the outcome: the Mann–Whitney U, over n⁺ n⁻
    auprc  = Σ_g (R_g − R_{g−1}) P_g     over the different probabilities, falling; precision P_g and recall R_g down to each

``nll``, ``brier`` and ``ece`` are those of :mod:`saccade.metrics.calibration`, of the labels "with" and "without". Several
outcomes have the mean over them; auc and auprc over those that some records have and some have not. A resample of
patients (:func:`outcome_statistics`) has all predictions of each, of which there may be one per visit.

Legend: N predictions, C outcomes, P patients, G different probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from saccade.errors import SaccadeError
from saccade.metrics.calibration import PROBABILITY_METRICS, probability_scores
from saccade.metrics.significance import Statistics
from saccade.metrics.text import Score


def auc(probabilities: Float[ndarray, " N"], truths: Int[ndarray, " N"]) -> float:
    """The area under the ROC curve; NaN where all records are of one kind.

    >>> auc(np.array([0.9, 0.4, 0.4, 0.1]), np.array([1, 1, 0, 0]))
    0.875
    """
    positive, negative = _by_probability(probabilities, truths)
    pairs = positive.sum() * negative.sum()
    return float((positive * (negative.cumsum() - negative / 2)).sum() / pairs) if pairs else nan


def average_precision(probabilities: Float[ndarray, " N"], truths: Int[ndarray, " N"]) -> float:
    """The area under the curve of precision over recall, by steps and without interpolation; NaN without positive records.

    >>> round(average_precision(np.array([0.9, 0.8, 0.7]), np.array([1, 0, 1])), 4)
    0.8333
    """
    positive, negative = _by_probability(-probabilities, truths)
    hits, total = positive.cumsum(), positive.sum()
    return float((positive * hits / (hits + negative.cumsum())).sum() / total) if total else nan


def _by_probability(probabilities: ndarray, truths: ndarray) -> tuple[Float[ndarray, " G"], Float[ndarray, " G"]]:
    """The numbers of records with and without the outcome at each distinct probability, in ascending order."""
    if not len(truths) or len(probabilities) != len(truths):
        raise SaccadeError(f"expected a probability per truth: got {len(probabilities)} for {len(truths)}")
    order = np.argsort(probabilities, kind="stable")
    _, starts = np.unique(probabilities[order], return_index=True)
    true = truths[order].astype(float)
    return np.add.reduceat(true, starts), np.add.reduceat(1 - true, starts)


_RANKING = {"auc": (auc, "Mann-Whitney, ties count half"), "auprc": (average_precision, "average precision")}
OUTCOME_METRICS = (*_RANKING, *PROBABILITY_METRICS)


def outcome_scores(
    names: Sequence[str], probabilities: Float[ndarray, "N C"], truths: Int[ndarray, "N C"]
) -> dict[str, Score]:
    """The named metrics of predicted outcomes; auc and auprc are NaN where no outcome is one that some records have and some
    have not."""
    unknown = [name for name in names if name not in OUTCOME_METRICS]
    if unknown:
        raise SaccadeError(f"unknown metric {unknown[0]!r}: those of outcomes are {', '.join(OUTCOME_METRICS)}")
    both = [column for column in range(truths.shape[1]) if 0 < truths[:, column].sum() < len(truths)]
    scores: dict[str, Score] = {}
    for name in names:
        if name in _RANKING:
            function, signature = _RANKING[name]
            found = [function(probabilities[:, column], truths[:, column]) for column in both]
            scores[name] = Score(name, float(np.mean(found)) if found else nan, True, signature)
            continue
        parts = [
            probability_scores([name], np.stack([1 - p, p], axis=1), truths[:, column])[name]
            for column, p in enumerate(probabilities.T)
        ]
        mean = float(np.mean([part.value for part in parts]))
        scores[name] = Score(name, mean, False, parts[0].signature)
    return scores


def outcome_statistics(
    name: str,
    probabilities: Float[ndarray, "N C"],
    truths: Int[ndarray, "N C"],
    patients: Int[ndarray, " N"] | None = None,
) -> Statistics:
    """The statistics of a metric, for bootstrap and significance tests; ``patients`` numbers who is drawn together, from 0.

    >>> outcome_statistics("auc", np.array([[0.9], [0.4], [0.4]]), np.array([[1], [1], [0]])).value
    0.75
    """
    N, C = truths.shape
    who = np.arange(N) if patients is None else patients
    counts = np.bincount(who)
    places = np.arange(N) - np.repeat(counts.cumsum() - counts, counts)  # among the predictions of a patient
    order = np.argsort(who, kind="stable")
    rows = np.full((len(counts), counts.max(), 2 * C), nan)
    rows[who[order], places] = np.concatenate([probabilities, truths], axis=1)[order]

    def figure(rows: Float[ndarray, "P K"]) -> float:
        there = rows.reshape(-1, 2 * C)
        there = there[~np.isnan(there[:, 0])]
        return outcome_scores([name], there[:, :C], there[:, C:].astype(int))[name].value

    score = outcome_scores([name], probabilities, truths)[name]
    return Statistics(name, rows.reshape(len(counts), -1), figure, score.higher_is_better, score.signature, of_set=True)
