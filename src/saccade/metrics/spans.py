"""How well tags were said: token by token, and span by span as conlleval counts (Tjong Kim Sang & Buchholz 2000).

    accuracy = words with the right tag / words
    precision = right / said        recall = right / true        F₁ = 2 right / (said + true)

A span is right when one of the same type begins and ends at the same words; F₁ is over all spans of all types (micro). Where
nothing is said precision is 0, where nothing is true recall is. How tags are read as spans is not decided here: spans come as
(start, end, type).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from saccade.errors import SaccadeError
from saccade.metrics.significance import Statistics

TAG_METRICS = ("accuracy", "f1", "precision", "recall")
SPAN_METRICS = TAG_METRICS[1:]

Spans: TypeAlias = Sequence[tuple[int, int, str]]


def tag_accuracy(said: Sequence[Sequence[Hashable]], true: Sequence[Sequence[Hashable]]) -> Statistics:
    """[right, words] of every sentence.

    >>> tag_accuracy([["A", "B"], ["A"]], [["A", "A"], ["A"]]).value
    0.6666666666666666
    """
    _check(said, true)
    rows = [
        (sum(one == other for one, other in zip(*each, strict=True)), len(each[1]))
        for each in zip(said, true, strict=True)
    ]
    return Statistics(
        "accuracy", np.array(rows, dtype=float), lambda sums: _share(sums[0], sums[1]), higher_is_better=True
    )


def span_statistics(name: str, said: Sequence[Spans], true: Sequence[Spans]) -> Statistics:
    """[right, said, true] of every sentence.

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
    _check(said, true)
    rows = [(len({*ours} & {*theirs}), len(ours), len(theirs)) for ours, theirs in zip(said, true, strict=True)]
    return Statistics(name, np.array(rows, dtype=float), figures[name], higher_is_better=True, signature="spans, micro")


def by_type(said: Sequence[Spans], true: Sequence[Spans]) -> dict[str, dict[str, float]]:
    """Precision, recall and F₁ of each type of span, how many there are (``count``) and were said; the commonest first."""
    _check(said, true)
    right, ours, theirs = Counter[str](), Counter[str](), Counter[str]()
    for one, other in zip(said, true, strict=True):
        ours.update(type for _, _, type in one)
        theirs.update(type for _, _, type in other)
        right.update(type for _, _, type in {*one} & {*other})
    return {type: _figures(right[type], ours[type], theirs[type]) for type in _ordered(ours, theirs)}


def by_tag(said: Sequence[Sequence[str]], true: Sequence[Sequence[str]]) -> dict[str, dict[str, float]]:
    """The same of each tag, a word being what a span is there."""
    _check(said, true)
    pairs = Counter(pair for each in zip(said, true, strict=True) for pair in zip(*each, strict=True))
    ours, theirs = Counter[str](), Counter[str]()
    for (one, other), count in pairs.items():
        ours[one] += count
        theirs[other] += count
    return {tag: _figures(pairs[tag, tag], ours[tag], theirs[tag]) for tag in _ordered(ours, theirs)}


def mistaken(said: Sequence[Sequence[str]], true: Sequence[Sequence[str]], most: int) -> list[tuple[str, str, int]]:
    """The pairs of tags that are mistaken for one another most often: (true, said, how often)."""
    pairs = Counter(pair for each in zip(true, said, strict=True) for pair in zip(*each, strict=True))
    wrong = [(one, other, count) for (one, other), count in pairs.items() if one != other]
    return sorted(wrong, key=lambda each: (-each[2], each))[:most]


def _figures(right: int, said: int, true: int) -> dict[str, float]:
    shares = {"precision": _share(right, said), "recall": _share(right, true), "f1": _share(2 * right, said + true)}
    return {**shares, "count": true, "said": said}


def _ordered(ours: Counter[str], theirs: Counter[str]) -> list[str]:
    return sorted({*ours, *theirs}, key=lambda name: (-theirs[name], name))


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0


def _check(said: Sequence[Sequence[object]], true: Sequence[Sequence[object]]) -> None:
    if len(said) != len(true) or not true:
        raise SaccadeError(f"expected as many predictions as references, and some: got {len(said)} and {len(true)}")
