"""Computes metrics of labels, of directed relations and of tagged spans.

Labels: accuracy, and the F₁ of each label averaged over the labels that occur (macro).

    accuracy = right / all        F₁(c) = 2 tp / (2 tp + fp + fn)        f1 = mean of F₁(c) over the labels c that occur

A label occurs if a record has it or a prediction names it. Accuracy equals exact match.

Relations: the official score of SemEval-2010 task 8, (9+1)-way evaluation with directionality.

    F₁(r) = 2 tp / (predicted + true)        relation_f1 = mean of F₁(r) over the relations r of the true labels

A label is a relation with its direction, ``Cause-Effect(e1,e2)``; a label without brackets has no direction. ``predicted``
and ``true`` count the records with the relation r in either direction, ``tp`` those whose direction is right too: the right
relation in the wrong direction is both a false positive and a false negative of r. ``Other`` is not a relation and has no F₁ of
its own; nor has a relation that is predicted but never true: as in the official scorer, predicting it is a miss like predicting
``Other``. Without any true relation the score is 0.

Spans, counted as conlleval does (Tjong Kim Sang & Buchholz 2000), and tags token by token:

    accuracy = words with the right tag / words
    precision = right / predicted        recall = right / true        F₁ = 2 right / (predicted + true)

A predicted span is right if a true span of the same type has the same start and end; F₁ is over all spans of all types
(micro). Precision is 0 without predicted spans, recall is 0 without true ones. Spans are (start, end, type).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from saccade.errors import SaccadeError
from saccade.metrics.calibration import PROBABILITY_METRICS
from saccade.metrics.significance import Statistics
from saccade.metrics.text import Score, check_paired

LABEL_METRICS = ("accuracy", "f1", "relation_f1")
CLASSIFIER_METRICS = (*LABEL_METRICS, *PROBABILITY_METRICS)
IMAGE_METRICS = ("accuracy", "f1", *PROBABILITY_METRICS)


def label_scores(names: Sequence[str], predictions: Sequence[str], references: Sequence[str]) -> dict[str, Score]:
    """The named metrics of predicted labels."""
    statistics = (label_statistics(name, predictions, references) for name in names)
    return {each.name: Score(each.name, each.value, each.higher_is_better, each.signature) for each in statistics}


def label_statistics(name: str, predictions: Sequence[str], references: Sequence[str]) -> Statistics:
    """The statistics of a metric of labels: [right, 1] per record for accuracy; for f1 hits, false positives and false
    negatives, one column per label each.

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
    ours = np.array([number[label] for label in predictions])
    true = np.array([number[label] for label in references])
    if name == "accuracy":
        rows = np.stack([ours == true, np.ones(len(true))], axis=1).astype(float)
        return Statistics(name, rows, lambda sums: float(sums[0] / sums[1]), higher_is_better=True)
    predicted, expected = np.eye(len(labels))[ours], np.eye(len(labels))[true]  # [N, C]
    hits = predicted * expected
    rows = np.concatenate([hits, predicted - hits, expected - hits], axis=1)  # [N, 3 C]
    # A label may be missing in a resample: it is left out of that mean.
    return Statistics(name, rows, _macro, higher_is_better=True, signature="macro", labels=tuple(labels))


def _macro(sums: Float[ndarray, " K"]) -> float:
    hits, alarms, misses = sums.reshape(3, -1)
    whole = 2 * hits + alarms + misses
    occurring = whole > 0
    return float((2 * hits[occurring] / whole[occurring]).mean()) if occurring.any() else 0.0


OTHER = frozenset({"other", "_other", ""})


def relation_of(label: str) -> str:
    """The relation of a label, without its direction; "" for ``Other``.

    >>> relation_of("Cause-Effect(e2,e1)"), relation_of("Other")
    ('Cause-Effect', '')
    """
    name = label.partition("(")[0].strip()
    return "" if name.casefold() in OTHER else name


def relation_statistics(predictions: Sequence[str], references: Sequence[str]) -> Statistics:
    """The statistics of the score: per record and true relation, whether it was hit, predicted, true.

    >>> relation_statistics(["A(e1,e2)", "A(e1,e2)", "Other"], ["A(e1,e2)", "A(e2,e1)", "B(e1,e2)"]).value
    0.25
    """
    check_paired(predictions, references)
    ours, theirs = [[relation_of(label) for label in labels] for labels in (predictions, references)]
    names = np.array(sorted({*theirs} - {""}))
    predicted, expected = (np.array(labels)[:, None] == names for labels in (ours, theirs))  # [N, R]
    right = np.array([one == other for one, other in zip(predictions, references, strict=True)])[:, None]
    rows = np.concatenate([expected & right, predicted, expected], axis=1).astype(float)  # [N, 3 R]
    return Statistics("relation_f1", rows, _figure, higher_is_better=True, signature="macro, directed, without Other")


def _figure(sums: Float[ndarray, " K"]) -> float:
    hits, predicted, true = sums.reshape(3, -1)
    # The official scorer averages over the relations of its key, and a resample is a key of its own.
    occurring = true > 0
    return float((2 * hits[occurring] / (predicted + true)[occurring]).mean()) if occurring.any() else 0.0


TAG_METRICS = ("accuracy", "f1", "precision", "recall")
SPAN_METRICS = TAG_METRICS[1:]

Spans: TypeAlias = Sequence[tuple[int, int, str]]


def tag_accuracy(predicted: Sequence[Sequence[Hashable]], true: Sequence[Sequence[Hashable]]) -> Statistics:
    """[right, words] of every sentence.

    >>> tag_accuracy([["A", "B"], ["A"]], [["A", "A"], ["A"]]).value
    0.6666666666666666
    """
    _check(predicted, true)
    rows = [
        (sum(one == other for one, other in zip(*each, strict=True)), len(each[1]))
        for each in zip(predicted, true, strict=True)
    ]
    return Statistics(
        "accuracy", np.array(rows, dtype=float), lambda sums: _share(sums[0], sums[1]), higher_is_better=True
    )


def span_statistics(name: str, predicted: Sequence[Spans], true: Sequence[Spans]) -> Statistics:
    """[right, predicted, true] of every sentence.

    >>> span_statistics("f1", [[(0, 2, "PER")]], [[(0, 2, "PER"), (3, 4, "LOC")]]).value
    0.6666666666666666
    """
    figures: dict[str, Callable[[Float[ndarray, " K"]], float]] = {
        "precision": lambda sums: _share(sums[0], sums[1]),
        "recall": lambda sums: _share(sums[0], sums[2]),
        "f1": lambda sums: _share(2 * sums[0], sums[1] + sums[2]),
    }
    if name not in figures:
        raise SaccadeError(f"unknown metric {name!r}: those of spans are {', '.join(SPAN_METRICS)}")
    _check(predicted, true)
    rows = [(len({*ours} & {*theirs}), len(ours), len(theirs)) for ours, theirs in zip(predicted, true, strict=True)]
    return Statistics(name, np.array(rows, dtype=float), figures[name], higher_is_better=True, signature="spans, micro")


def by_type(predicted: Sequence[Spans], true: Sequence[Spans]) -> dict[str, dict[str, float]]:
    """Precision, recall and F₁ per type of span, with the numbers of true (``count``) and predicted (``said``) ones."""
    _check(predicted, true)
    right, ours, theirs = Counter[str](), Counter[str](), Counter[str]()
    for one, other in zip(predicted, true, strict=True):
        ours.update(type for _, _, type in one)
        theirs.update(type for _, _, type in other)
        right.update(type for _, _, type in {*one} & {*other})
    return {type: _figures(right[type], ours[type], theirs[type]) for type in _ordered(ours, theirs)}


def by_tag(predicted: Sequence[Sequence[str]], true: Sequence[Sequence[str]]) -> dict[str, dict[str, float]]:
    """The same per tag, counted in words."""
    _check(predicted, true)
    pairs = Counter(pair for each in zip(predicted, true, strict=True) for pair in zip(*each, strict=True))
    ours, theirs = Counter[str](), Counter[str]()
    for (one, other), count in pairs.items():
        ours[one] += count
        theirs[other] += count
    return {tag: _figures(pairs[tag, tag], ours[tag], theirs[tag]) for tag in _ordered(ours, theirs)}


@dataclass(frozen=True)
class Confusion:
    """How often each true label was given each label: ``counts[true][predicted]``, both in the order of ``labels``."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    unit: str  # what is counted: records, words, spans

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]], labels: Sequence[str], unit: str) -> Confusion:
        """The matrix of (true, predicted) labels; those that never occur are left out.

        >>> Confusion.of([("a", "b"), ("a", "a")], ["b", "a", "c"], "records").counts
        ((0, 0), (1, 1))
        """
        counts = Counter(pairs)
        there = {label for pair in counts for label in pair}
        names = tuple(label for label in dict.fromkeys((*labels, *sorted(there))) if label in there)
        return cls(names, tuple(tuple(counts[true, said] for said in names) for true in names), unit)


NO_SPAN = "no span"  # in a confusion of spans, what was missed or found where there is none


def span_pairs(predicted: Sequence[Spans], true: Sequence[Spans]) -> Iterator[tuple[str, str]]:
    """(true, predicted) type of every span; the predicted span of a true one has its start and end.

    >>> list(span_pairs([[(0, 2, "PER"), (4, 5, "LOC")]], [[(0, 2, "ORG"), (3, 4, "PER")]]))
    [('ORG', 'PER'), ('PER', 'no span'), ('no span', 'LOC')]
    """
    for ours, theirs in zip(predicted, true, strict=True):
        said, right = ({(start, end): type for start, end, type in spans} for spans in (ours, theirs))
        yield from ((type, said.get(place, NO_SPAN)) for place, type in right.items())
        yield from ((NO_SPAN, type) for place, type in said.items() if place not in right)


def mistaken(
    predicted: Sequence[Sequence[str]], true: Sequence[Sequence[str]], most: int
) -> list[tuple[str, str, int]]:
    """The most frequent confusions of tags: (true, predicted, count)."""
    pairs = Counter(pair for each in zip(true, predicted, strict=True) for pair in zip(*each, strict=True))
    wrong = [(one, other, count) for (one, other), count in pairs.items() if one != other]
    return sorted(wrong, key=lambda each: (-each[2], each))[:most]


def _figures(right: int, predicted: int, true: int) -> dict[str, float]:
    shares = {
        "precision": _share(right, predicted),
        "recall": _share(right, true),
        "f1": _share(2 * right, predicted + true),
    }
    return {**shares, "count": true, "said": predicted}


def _ordered(ours: Counter[str], theirs: Counter[str]) -> list[str]:
    return sorted({*ours, *theirs}, key=lambda name: (-theirs[name], name))


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0


def _check(predicted: Sequence[Sequence[object]], true: Sequence[Sequence[object]]) -> None:
    if len(predicted) != len(true) or not true:
        raise SaccadeError(
            f"expected as many predictions as references, at least one: got {len(predicted)} and {len(true)}"
        )
