"""How often the right label was said: accuracy, and the F₁ of the labels, averaged over them (macro).

    accuracy = right / all        F₁(c) = 2 tp / (2 tp + fp + fn)        f1 = mean of F₁(c) over the labels c that occur

A label occurs when a record has it or a prediction names it. Accuracy is the same as exact match; it is called what people
call it. ``relation_f1`` is of directed relations: :mod:`saccade.metrics.relations`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from saccade.errors import SaccadeError
from saccade.metrics.calibration import PROBABILITY_METRICS
from saccade.metrics.relations import relation_statistics
from saccade.metrics.significance import Statistics
from saccade.metrics.text import Score, check_paired

LABEL_METRICS = ("accuracy", "f1", "relation_f1")
CLASSIFIER_METRICS = (*LABEL_METRICS, *PROBABILITY_METRICS)


def label_scores(names: Sequence[str], predictions: Sequence[str], references: Sequence[str]) -> dict[str, Score]:
    """The named metrics of predicted labels."""
    found = {name: label_statistics(name, predictions, references) for name in names}
    return {name: Score(name, each.value, each.higher_is_better, each.signature) for name, each in found.items()}


def label_statistics(name: str, predictions: Sequence[str], references: Sequence[str]) -> Statistics:
    """What a metric of labels is computed from: for accuracy [right, 1] a record; for f1 its hits, false alarms and misses, a
    column a label each.

    >>> label_statistics("f1", ["a", "b", "b"], ["a", "a", "b"]).value
    0.6666666666666666
    """
    if name not in LABEL_METRICS:
        raise SaccadeError(f"unknown metric {name!r}: those of labels are {', '.join(LABEL_METRICS)}")
    check_paired(predictions, references)
    if name == "relation_f1":
        return relation_statistics(predictions, references)
    labels = sorted({*predictions, *references})
    number = {label: place for place, label in enumerate(labels)}
    said = np.array([number[label] for label in predictions])
    true = np.array([number[label] for label in references])
    if name == "accuracy":
        rows = np.stack([said == true, np.ones(len(true))], axis=1).astype(float)
        return Statistics(name, rows, lambda sums: float(sums[0] / sums[1]), higher_is_better=True)
    predicted, expected = np.eye(len(labels))[said], np.eye(len(labels))[true]  # [N, C]
    hits = predicted * expected
    rows = np.concatenate([hits, predicted - hits, expected - hits], axis=1)  # [N, 3 C]
    # In a resample a label that occurs in all of the records may be missing: it is left out of that mean.
    return Statistics(name, rows, _macro(len(labels)), higher_is_better=True, signature="macro")


def _macro(classes: int) -> Callable[[Float[ndarray, " K"]], float]:
    def figure(sums: Float[ndarray, " K"]) -> float:
        hits, alarms, misses = sums.reshape(3, classes)
        whole = 2 * hits + alarms + misses
        occurring = whole > 0
        return float((2 * hits[occurring] / whole[occurring]).mean()) if occurring.any() else 0.0

    return figure
