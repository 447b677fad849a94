"""How well probabilities tell records with an outcome from those without: AUC, average precision, and their intervals.

    auc    = P(p⁺ > p⁻) + ½ P(p⁺ = p⁻)  of a record with and one without the outcome: the Mann–Whitney U, over n⁺ n⁻
    auprc  = Σ_g (R_g − R_{g−1}) P_g     over the different probabilities, falling; precision P_g and recall R_g down to each

``nll``, ``brier`` and ``ece`` are those of :mod:`saccade.metrics.calibration`, of the labels "with" and "without". Several
outcomes have the mean over them; auc and auprc over those that some records have and some have not. Intervals are by the
bootstrap over patients: a patient's predictions, of which there may be one per visit, are drawn together.

Legend: N predictions, C outcomes, S resamples, G different probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from saccade.errors import SaccadeError
from saccade.metrics.calibration import PROBABILITY_METRICS, probability_scores
from saccade.metrics.significance import SAMPLES, Interval, draws, interval
from saccade.metrics.text import Score

Weighted = Callable[[ndarray, ndarray, ndarray], ndarray]


def auc(probabilities: Float[ndarray, " N"], truths: Int[ndarray, " N"]) -> float:
    """The area under the ROC curve; NaN where all records are of one kind.

    >>> auc(np.array([0.9, 0.4, 0.4, 0.1]), np.array([1, 1, 0, 0]))
    0.875
    """
    return float(weighted_auc(probabilities, truths, np.ones((1, len(truths))))[0])


def average_precision(probabilities: Float[ndarray, " N"], truths: Int[ndarray, " N"]) -> float:
    """The area under the curve of precision over recall, by steps and without interpolation; NaN without positive records.

    >>> round(average_precision(np.array([0.9, 0.8, 0.7]), np.array([1, 0, 1])), 4)
    0.8333
    """
    return float(weighted_precision(probabilities, truths, np.ones((1, len(truths))))[0])


def weighted_auc(
    probabilities: Float[ndarray, " N"], truths: Int[ndarray, " N"], counts: Float[ndarray, "S N"]
) -> Float[ndarray, " S"]:
    """The AUC of each resample, in which record n stands ``counts[s, n]`` times."""
    positive, negative = _by_probability(probabilities, truths, counts)
    below = negative.cumsum(1) - negative
    with np.errstate(invalid="ignore"):
        pairs = positive.sum(1) * negative.sum(1)
        return np.asarray((positive * (below + negative / 2)).sum(1) / np.where(pairs > 0, pairs, np.nan))


def weighted_precision(
    probabilities: Float[ndarray, " N"], truths: Int[ndarray, " N"], counts: Float[ndarray, "S N"]
) -> Float[ndarray, " S"]:
    """The average precision of each resample."""
    positive, negative = _by_probability(-probabilities, truths, counts)
    hits, alarms = positive.cumsum(1), negative.cumsum(1)
    precision = hits / np.maximum(hits + alarms, 1e-300)
    total = positive.sum(1)
    return np.asarray((positive * precision).sum(1) / np.where(total > 0, total, np.nan))


def _by_probability(
    probabilities: ndarray, truths: ndarray, counts: ndarray
) -> tuple[Float[ndarray, "S G"], Float[ndarray, "S G"]]:
    """How many with and without the outcome have each different probability, in rising order."""
    if not len(truths) or len(probabilities) != len(truths):
        raise SaccadeError(f"expected a probability per truth: got {len(probabilities)} for {len(truths)}")
    order = np.argsort(probabilities, kind="stable")
    _, starts = np.unique(probabilities[order], return_index=True)
    weights, true = counts[:, order], truths[order].astype(float)
    return np.add.reduceat(weights * true, starts, axis=1), np.add.reduceat(weights * (1 - true), starts, axis=1)


_RANKING: dict[str, tuple[Weighted, str]] = {
    "auc": (weighted_auc, "Mann-Whitney, ties count half"),
    "auprc": (weighted_precision, "average precision"),
}
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
            ones = np.ones((1, len(truths)))
            found = [function(probabilities[:, column], truths[:, column], ones)[0] for column in both]
            scores[name] = Score(name, float(np.mean(found)) if found else float("nan"), True, signature)
            continue
        parts = [
            probability_scores([name], np.stack([1 - p, p], axis=1), truths[:, column])[name]
            for column, p in enumerate(probabilities.T)
        ]
        mean = float(np.mean([part.value for part in parts]))
        scores[name] = Score(name, mean, False, parts[0].signature)
    return scores


def outcome_interval(
    name: str,
    probabilities: Float[ndarray, " N"],
    truths: Int[ndarray, " N"],
    *,
    patients: Int[ndarray, " N"] | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Interval:
    """The 95 % interval of ``auc`` or ``auprc`` by the bootstrap; ``patients`` numbers who is drawn together, from 0.

    Resamples in which all records are of one kind have no figure, and are left out.
    """
    if name not in _RANKING:
        raise SaccadeError(f"unknown metric {name!r}: expected one of {', '.join(_RANKING)}")
    who = np.arange(len(truths)) if patients is None else patients
    figures = [
        _RANKING[name][0](probabilities, truths, counts[:, who])
        for counts in draws(int(who.max(initial=-1)) + 1, samples, seed)
    ]
    known = np.concatenate(figures)
    known = known[np.isfinite(known)]
    if not len(known):
        raise SaccadeError(f"{name}: expected records with and without the outcome, found {len(truths)} of one kind")
    return interval(known)
