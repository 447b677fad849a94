"""The official score of SemEval-2010's task 8: macro-averaged F₁ of directed relations, ``Other`` left out.

    F₁(r) = 2 tp / (said + true)        relation_f1 = mean of F₁(r) over the relations r

A label is a relation and its direction, ``Cause-Effect(e1,e2)``; without brackets it is a relation that has none. ``said``
and ``true`` count the records that were given the relation r and that have it, whichever way; ``tp`` those where the
direction is right too; where no relation occurs at all, the score is 0. The right relation the wrong way round is thus a
false alarm and a miss of r at once. ``Other`` is no relation: to say it of one is a miss, to say one of it a false alarm. The
task calls this (9+1)-way evaluation with directionality.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from saccade.metrics.significance import Statistics
from saccade.metrics.text import check_paired

OTHER = frozenset({"other", "_other", ""})


def relation_of(label: str) -> str:
    """The relation of a label, without its direction; "" for ``Other``.

    >>> relation_of("Cause-Effect(e2,e1)"), relation_of("Other")
    ('Cause-Effect', '')
    """
    name = label.partition("(")[0].strip()
    return "" if name.casefold() in OTHER else name


def relation_statistics(predictions: Sequence[str], references: Sequence[str]) -> Statistics:
    """What the score is computed from: a row a record, whether each relation was hit, was said, is true.

    >>> relation_statistics(["A(e1,e2)", "A(e1,e2)", "Other"], ["A(e1,e2)", "A(e2,e1)", "B(e1,e2)"]).value
    0.25
    """
    check_paired(predictions, references)
    said, true = [[relation_of(label) for label in labels] for labels in (predictions, references)]
    names = np.array(sorted({*said, *true} - {""}))
    predicted, expected = (np.array(labels)[:, None] == names for labels in (said, true))  # [N, R]
    right = np.array([one == other for one, other in zip(predictions, references, strict=True)])[:, None]
    rows = np.concatenate([expected & right, predicted, expected], axis=1).astype(float)  # [N, 3 R]
    return Statistics("relation_f1", rows, _figure, higher_is_better=True, signature="macro, directed, without Other")


def _figure(sums: Float[ndarray, " K"]) -> float:
    hits, said, true = sums.reshape(3, -1)
    # In a resample a relation may be missing: it is left out of that mean.
    occurring = said + true > 0
    return float((2 * hits[occurring] / (said + true)[occurring]).mean()) if occurring.any() else 0.0
