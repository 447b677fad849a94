"""Metrics of probabilities: expected calibration error, Brier score, negative log-likelihood.

    confidence(i) = max_c p_i(c)              right(i) = [argmax_c p_i(c) = y_i]
    ECE   = Σ_b |B_b| / N · |mean of right in B_b − mean confidence in B_b|      B_b: confidences in ((b − 1) / 15, b / 15]
    Brier = 1/N Σ_i Σ_c (p_i(c) − [y_i = c])²                                     from 0 to 2
    NLL   = 1/N Σ_i −ln p_i(y_i)

ECE with 15 bins as Guo et al. 2017 report it; the score of Brier 1950, summed over the labels.

Legend: N records, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from saccade.errors import SaccadeError
from saccade.metrics.text import Score

BINS = 15
SIGNATURES = {"ece": f"bins:{BINS}|width:equal|confidence:largest", "brier": "sum over labels", "nll": "nats"}
PROBABILITY_METRICS = tuple(SIGNATURES)
LEAST = 1e-300  # replaces a probability of 0 in a logarithm


@dataclass(frozen=True)
class Bins:
    """Records in equal bins of confidence from 0 to 1; ``confidence`` and ``accuracy`` are means, NaN if a bin is empty."""

    counts: Int[ndarray, " K"]
    confidence: Float[ndarray, " K"]
    accuracy: Float[ndarray, " K"]

    @property
    def error(self) -> float:
        """The expected calibration error."""
        full = self.counts > 0
        gaps = np.abs(self.accuracy[full] - self.confidence[full])
        return float((self.counts[full] * gaps).sum() / self.counts.sum())


def reliability(probabilities: Float[ndarray, "N C"], labels: Int[ndarray, " N"], bins: int = BINS) -> Bins:
    """Sort records into ``bins`` bins by the probability of the predicted label.

    >>> found = reliability(np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]), np.array([0, 1, 1]), bins=2)
    >>> found.counts, round(found.error, 3)
    (array([0, 3]), 0.133)
    """
    _check(probabilities, labels)
    if bins < 1:
        raise SaccadeError(f"bins must be at least 1: got {bins}")
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    # A bin includes its upper edge: a probability of 1 falls into the last bin.
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    counts = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        sure = np.bincount(place, weights=confidence, minlength=bins) / counts
        true = np.bincount(place, weights=right.astype(float), minlength=bins) / counts
    return Bins(counts, sure, true)


def ece(probabilities: Float[ndarray, "N C"], labels: Int[ndarray, " N"], bins: int = BINS) -> float:
    """The expected calibration error: the mean distance between confidence and accuracy."""
    return reliability(probabilities, labels, bins).error


def brier(probabilities: Float[ndarray, "N C"], labels: Int[ndarray, " N"]) -> float:
    """The mean squared distance between the probabilities and the truth, from 0 (best) to 2."""
    _check(probabilities, labels)
    truth = np.eye(probabilities.shape[1])[labels]
    return float(((probabilities - truth) ** 2).sum(axis=1).mean())


def nll(probabilities: Float[ndarray, "N C"], labels: Int[ndarray, " N"]) -> float:
    """The mean negative log-likelihood of the true labels, in nats."""
    _check(probabilities, labels)
    true = probabilities[np.arange(len(labels)), labels]
    return float(-np.log(np.maximum(true, LEAST)).mean())


_METRICS = {"ece": ece, "brier": brier, "nll": nll}


def probability_scores(
    names: Sequence[str], probabilities: Float[ndarray, "N C"], labels: Int[ndarray, " N"]
) -> dict[str, Score]:
    """The named metrics; ``labels`` are the numbers of the true labels."""
    unknown = [name for name in names if name not in _METRICS]
    if unknown:
        known = ", ".join(PROBABILITY_METRICS)
        raise SaccadeError(f"unknown metric {unknown[0]!r}: those of probabilities are {known}")
    return {name: Score(name, _METRICS[name](probabilities, labels), False, SIGNATURES[name]) for name in names}


def _check(probabilities: Float[ndarray, "N C"], labels: Int[ndarray, " N"]) -> None:
    if not len(labels) or len(labels) != len(probabilities):
        raise SaccadeError(
            f"expected one row of probabilities per label: got {len(probabilities)} rows for {len(labels)} labels"
        )
