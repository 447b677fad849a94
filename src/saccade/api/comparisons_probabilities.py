"""What the metrics of probabilities (:mod:`saccade.metrics.calibration`) are computed from, record by record, so that runs can
be compared by them as by any other:

    ECE = Σ_b |right in B_b − confidence in B_b| / N      of sums over records, three a bin: how many, how sure, how often right
    Brier, NLL                                            means over records

Legend: N records, C labels, K bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from saccade.api.trained import Bundle, threads
from saccade.metrics.calibration import BINS, LEAST, SIGNATURES
from saccade.metrics.significance import Statistics
from saccade.tasks.calibration import shares_of


def probability_statistics(
    name: str, probabilities: Float[ndarray, "N C"], labels: Int[ndarray, " N"], bins: int = BINS
) -> Statistics:
    """The rows of ``ece``, ``brier`` or ``nll``; ``labels`` are the numbers of the true ones.

    >>> probability_statistics("ece", np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]), np.array([0, 1, 1]), bins=2).value
    0.13333333333333333
    """
    if name == "ece":
        rows = _binned(probabilities, labels, bins)
        return Statistics(name, rows, _gap, higher_is_better=False, signature=SIGNATURES[name])
    if name == "brier":
        truth = np.eye(probabilities.shape[1])[labels]
        figures = ((probabilities - truth) ** 2).sum(axis=1)
    else:
        figures = -np.log(np.maximum(probabilities[np.arange(len(labels)), labels], LEAST))
    rows = np.stack([figures, np.ones(len(labels))], axis=1)  # [N, 2]
    return Statistics(name, rows, _mean, higher_is_better=False, signature=SIGNATURES[name])


def _binned(probabilities: Float[ndarray, "N C"], labels: Int[ndarray, " N"], bins: int) -> Float[ndarray, "N 3K"]:
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    # A bin holds its upper edge: a probability of 1 falls into the last.
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    within = np.eye(bins)[place]  # [N, K]
    return np.concatenate([within, within * confidence[:, None], within * right[:, None]], axis=1)


def _gap(sums: Float[ndarray, " 3K"]) -> float:
    counts, confidence, right = sums.reshape(3, -1)
    return float(np.abs(right - confidence).sum() / counts.sum())


def _mean(sums: Float[ndarray, " 2"]) -> float:
    return float(sums[0] / sums[1])


def measured_probabilities(
    bundle: Bundle, records: Sequence[Any], where: str, metrics: Sequence[str]
) -> dict[str, Statistics]:
    """The metrics of a classifier's probabilities on these records, calibrated where the run is."""
    task = bundle.task
    with threads(bundle.threads):
        corpus = task.corpus(records, where)
        shares = shares_of(task.judgements(bundle.network, corpus), task.calibration)
    probabilities, labels = shares.double().cpu().numpy(), np.array(corpus.labels)
    return {name: probability_statistics(name, probabilities, labels) for name in metrics}
