"""Computes confidence intervals, significance tests and scores by length.

The bootstrap, the paired bootstrap (Koehn 2004) and approximate randomisation (Noreen 1989; Riezler & Maxwell 2005).
Each sentence is a row of numbers (``Statistics``). Most corpus metrics are functions of sums over sentences, BLEU of n-gram
counts, exact match of hits: then the metric of any set of sentences costs one sum. Others, such as AUC, are functions of the
whole set (``of_set``), and are computed again on each resample.

    bootstrap        metric of N sentences drawn N times with replacement; 95 % of the samples lie in the interval
    paired           Δ* = other − first on the same draws;  p = (1 + #{|Δ* − mean Δ*| ≥ |Δ|}) / (1 + samples)
    randomisation    Δ* after swapping the two systems' outputs, sentence by sentence, with probability ½;
                     p = (1 + #{|Δ*| ≥ |Δ|}) / (1 + samples)

Both tests are two-sided; a system compared with itself has p = 1.

Scores by length (Bahdanau et al. 2015, fig. 2): sentences are sorted into buckets by a length, 1–10, 11–20, … words of the
source. A bucket's score is the corpus metric of its sentences, with a bootstrap interval.

Legend: N sentences, K numbers per sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from saccade.errors import SaccadeError
from saccade.metrics.text import check_known, check_paired, edits, sacrebleu_metric

SAMPLES = 1000
LEVEL = 0.95
BLOCK = 4_000_000  # numbers drawn at a time
REFERENCE_LENGTH = 1  # where sacrebleu's rows of BLEU hold it


@dataclass(frozen=True, eq=False)
class Statistics:
    """What a metric is computed from: ``figure`` maps the summed rows [K] of any sentences to their metric; with ``of_set``
    the rows [N, K] themselves, and NaN means that the metric is not defined for them. ``labels``: what the columns of each
    group of C count, where that depends on the predictions."""

    name: str
    rows: Float[ndarray, "N K"]
    figure: Callable[[ndarray], float]
    higher_is_better: bool
    signature: str | None = None
    of_set: bool = False
    labels: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def value(self) -> float:
        """The metric of all sentences."""
        return self.figure(self.rows if self.of_set else self.rows.sum(axis=0))

    @property
    def is_defined(self) -> bool:
        """False for BLEU if every reference has fewer than four words: its 0 would be meaningless."""
        if self.name == "bleu":
            return bool((self.rows[:, REFERENCE_LENGTH] >= 4).any())
        return not np.isnan(self.value)

    @property
    def by_sentence(self) -> Float[ndarray, " N"]:
        """The metric of each sentence alone."""
        return np.array([self.select([number]).value for number in range(len(self))])

    def resampled(self, counts: Float[ndarray, "S N"]) -> Float[ndarray, " S"]:
        """The metric of each resample, in which sentence n stands ``counts[s, n]`` times."""
        if self.of_set:
            return np.array([self.figure(self.rows.repeat(drawn, axis=0)) for drawn in counts.astype(int)])
        return np.array([self.figure(sums) for sums in counts @ self.rows])

    def select(self, numbers: Sequence[int]) -> Statistics:
        """The statistics of these sentences only."""
        return replace(self, rows=self.rows[list(numbers)])

    def over(self, labels: tuple[str, ...]) -> Statistics:
        """The same with columns for all of ``labels``: zeros for those that occur here nowhere."""
        if self.labels in ((), labels):
            return self
        N, places = len(self), [labels.index(label) for label in self.labels]
        rows = np.zeros((N, self.rows.shape[1] // len(places), len(labels)))
        rows[..., places] = self.rows.reshape(N, -1, len(places))
        return replace(self, rows=rows.reshape(N, -1), labels=labels)


@dataclass(frozen=True)
class Interval:
    low: float
    high: float


@dataclass(frozen=True)
class Paired:
    """The difference other − first, its 95 % interval, the p-values of both tests, and the share of resamples in which
    ``other`` was better."""

    difference: float
    low: float
    high: float
    bootstrap_p: float
    randomisation_p: float
    better: float


def statistics(
    name: str, predictions: Sequence[str], references: Sequence[str], *, bleu_tokenize: str = "13a"
) -> Statistics:
    """The statistics of a metric of :data:`saccade.metrics.text.METRICS`."""
    check_known([name])
    check_paired(predictions, references)
    predicted, expected = list(predictions), list(references)
    if name == "exact_match":
        hits = [[prediction == reference, 1] for prediction, reference in zip(predicted, expected, strict=True)]
        return Statistics(name, np.array(hits, dtype=float), _ratio, higher_is_better=True)
    if name in ("cer", "wer"):
        rows = np.array(edits(name, predicted, expected), dtype=float)
        return Statistics(name, rows, _ratio, higher_is_better=False)
    metric = sacrebleu_metric(name, bleu_tokenize)
    rows = metric._extract_corpus_statistics(predicted, [expected])
    signature = str(metric.get_signature())

    def figure(sums: Float[ndarray, " K"]) -> float:
        return float(metric._compute_score_from_stats(sums.tolist()).score)

    return Statistics(name, np.array(rows, dtype=float), figure, higher_is_better=name != "ter", signature=signature)


def bootstrap(of: Statistics, *, samples: int = SAMPLES, seed: int = 0) -> Float[ndarray, " samples"]:
    """The metric of ``samples`` corpora drawn from the sentences; the same seed draws the same sentences."""
    _check(samples)
    if np.isnan(of.value):
        raise SaccadeError(f"{of.name}: not defined on these {len(of):,} records (are all of one kind?)")
    return np.concatenate([of.resampled(counts) for counts in draws(len(of), samples, seed)])


def interval(figures: Float[ndarray, " samples"], level: float = LEVEL) -> Interval:
    """The central interval that holds a share ``level`` of the values; resamples without one are left out."""
    figures = figures[~np.isnan(figures)]
    low, high = np.quantile(figures, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def paired_difference(first: Statistics, other: Statistics, *, samples: int = SAMPLES, seed: int = 0) -> Paired:
    """Whether ``other`` differs from ``first``, both tested on the same sentences."""
    labels = tuple(sorted({*first.labels, *other.labels}))
    first, other = first.over(labels), other.over(labels)
    if (first.name, first.signature, first.rows.shape) != (other.name, other.signature, other.rows.shape):
        raise SaccadeError(
            f"expected the same metric on the same sentences: got {first.name} of {len(first)} "
            f"({first.signature}) and {other.name} of {len(other)} ({other.signature})"
        )
    difference = other.value - first.value
    resampled = bootstrap(other, samples=samples, seed=seed) - bootstrap(first, samples=samples, seed=seed)
    resampled = resampled[~np.isnan(resampled)]
    centred = np.abs(resampled - resampled.mean())
    sure = interval(resampled)
    better = resampled > 0 if first.higher_is_better else resampled < 0
    return Paired(
        difference,
        sure.low,
        sure.high,
        bootstrap_p=_p(centred, difference),
        randomisation_p=_p(np.abs(_randomised(first, other, samples, seed)), difference),
        better=float(better.mean()),
    )


def _randomised(first: Statistics, other: Statistics, samples: int, seed: int) -> Float[ndarray, " samples"]:
    generator = np.random.default_rng(seed)
    change, ours, theirs = other.rows - first.rows, first.rows.sum(axis=0), other.rows.sum(axis=0)
    differences = []
    for size in _blocks(len(first), samples):
        swaps = generator.integers(0, 2, size=(size, len(first)))
        if first.of_set:
            for swap in swaps[..., None] == 1:  # [N, 1]
                ours, theirs = (np.where(swap, *rows) for rows in ((other.rows, first.rows), (first.rows, other.rows)))
                differences.append(other.figure(theirs) - first.figure(ours))
            continue
        moved = swaps.astype(float) @ change  # [size, K]
        differences += [other.figure(theirs - each) - first.figure(ours + each) for each in moved]
    return np.array(differences)


def _p(differences: Float[ndarray, " samples"], observed: float) -> float:
    # Equal differences may differ in the last digit: they count as equal.
    return float((1 + (differences >= abs(observed) - 1e-10).sum()) / (1 + len(differences)))


def draws(sentences: int, samples: int, seed: int) -> Iterator[Float[ndarray, "block N"]]:
    """How often each sentence was drawn, one row per sample."""
    generator = np.random.default_rng(seed)
    for size in _blocks(sentences, samples):
        drawn = generator.integers(0, sentences, size=(size, sentences)) + np.arange(size)[:, None] * sentences
        yield np.bincount(drawn.ravel(), minlength=size * sentences).reshape(size, sentences).astype(float)


def _blocks(sentences: int, samples: int) -> list[int]:
    size = max(1, BLOCK // sentences)
    return [min(size, samples - start) for start in range(0, samples, size)]


def _ratio(sums: Float[ndarray, " 2"]) -> float:
    return float(sums[0] / sums[1]) if sums[1] else 0.0


def _check(samples: int) -> None:
    if samples < 1:
        raise SaccadeError(f"samples must be at least 1: got {samples}")


EDGES = (10, 20, 30, 40, 50)
QUANTILES = 5


@dataclass(frozen=True)
class Bucket:
    """Lengths from ``least`` to ``most``, inclusive (None: unbounded), and the numbers of their sentences."""

    least: int
    most: int | None
    sentences: tuple[int, ...]

    @property
    def name(self) -> str:
        if self.most is None:
            return f"≥ {self.least}"
        return str(self.least) if self.least == self.most else f"{self.least}–{self.most}"


@dataclass(frozen=True)
class BucketScore:
    """A bucket's score with its 95 % interval; None without sentences, or for BLEU if all have fewer than four words."""

    name: str
    count: int
    value: float | None = None
    low: float | None = None
    high: float | None = None


def buckets(lengths: Sequence[int], edges: Sequence[int] = EDGES) -> list[Bucket]:
    """Sentences by length; ``edges`` are the greatest lengths of the buckets, longer sentences share the last.

    >>> [(bucket.name, bucket.sentences) for bucket in buckets([3, 12, 40], edges=[10, 20])]
    [('1–10', (0,)), ('11–20', (1,)), ('≥ 21', (2,))]
    """
    edges = list(edges)
    if not edges or edges[0] < 1 or any(after <= before for before, after in pairwise(edges)):
        raise SaccadeError(f"edges: expected increasing integers such as 10, 20, 30, found {edges}")
    least, most = [1, *(edge + 1 for edge in edges)], [*edges, None]
    places = np.searchsorted(edges, lengths)
    return [
        Bucket(low, high, tuple(np.flatnonzero(places == number).tolist()))
        for number, (low, high) in enumerate(zip(least, most, strict=True))
    ]


def quantile_edges(lengths: Sequence[int], parts: int = QUANTILES) -> tuple[int, ...]:
    """Edges that divide the sentences into at most ``parts`` buckets of similar size."""
    if not len(lengths) or parts < 2:
        raise SaccadeError(f"quantiles need lengths and at least 2 parts: got {len(lengths)} lengths, {parts} parts")
    cuts = np.quantile(lengths, np.arange(1, parts) / parts, method="inverted_cdf")
    edges = tuple(int(edge) for edge in np.unique(cuts) if 1 <= edge < max(lengths))
    return edges or (max(1, max(lengths)),)


def score_by_length(
    of: Statistics, into: Sequence[Bucket], *, samples: int = SAMPLES, seed: int = 0
) -> list[BucketScore]:
    """The score of each bucket, from the :func:`statistics` of the whole corpus."""
    scores = []
    for bucket in into:
        part = of.select(bucket.sentences)
        if not len(part) or not part.is_defined:
            scores.append(BucketScore(bucket.name, len(part)))
            continue
        sure = interval(bootstrap(part, samples=samples, seed=seed))
        scores.append(BucketScore(bucket.name, len(part), part.value, sure.low, sure.high))
    return scores
