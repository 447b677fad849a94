"""How sure a figure is, and whether two systems differ: the bootstrap, the paired bootstrap (Koehn 2004) and approximate
randomisation (Noreen 1989; Riezler & Maxwell 2005).

Every corpus metric here is a function of sums over sentences: BLEU of its n-gram counts, exact match of its hits. So a
sentence is kept as a row of numbers, and the figure of any collection of sentences costs one sum (``Statistics``).

    bootstrap        figures of N sentences drawn N times with replacement; 95 % of them lie in the interval
    paired           Δ* = other − first on the same draws;  p = (1 + #{|Δ* − mean Δ*| ≥ |Δ|}) / (1 + samples)
    randomisation    Δ* after the two systems' outputs change places, sentence by sentence, by the toss of a coin;
                     p = (1 + #{|Δ*| ≥ |Δ|}) / (1 + samples)

Both tests are two-sided, and a system is never different from itself: p = 1.

Legend: N sentences, K numbers a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from saccade.errors import SaccadeError
from saccade.metrics.text import bleu_by, check_known, check_paired

SAMPLES = 1000
LEVEL = 0.95
BLOCK = 4_000_000  # numbers drawn at a time
REFERENCE_LENGTH = 1  # where sacrebleu's rows of BLEU hold it


@dataclass(frozen=True, eq=False)
class Statistics:
    """What a metric is computed from: ``figure`` of the sum of the rows [N, K] of any sentences is their figure."""

    name: str
    rows: Float[ndarray, "N K"]
    figure: Callable[[Float[ndarray, " K"]], float]
    higher_is_better: bool
    signature: str | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def value(self) -> float:
        """The figure of all sentences."""
        return self.figure(self.rows.sum(axis=0))

    @property
    def is_defined(self) -> bool:
        """BLEU counts up to four words in a row: where every reference is shorter, its 0 would say nothing."""
        return self.name != "bleu" or bool((self.rows[:, REFERENCE_LENGTH] >= 4).any())

    @property
    def by_sentence(self) -> Float[ndarray, " N"]:
        """The figure of each sentence alone."""
        return np.array([self.figure(row) for row in self.rows])

    def select(self, numbers: Sequence[int]) -> Statistics:
        """The statistics of these sentences alone."""
        return replace(self, rows=self.rows[list(numbers)])


@dataclass(frozen=True)
class Interval:
    low: float
    high: float


@dataclass(frozen=True)
class Paired:
    """The difference other − first, its 95 % interval, the p-values of both tests, and the share of resamples in which the
    other was the better one."""

    difference: float
    low: float
    high: float
    bootstrap_p: float
    randomisation_p: float
    better: float


def statistics(
    name: str, predictions: Sequence[str], references: Sequence[str], *, bleu_tokenize: str = "13a"
) -> Statistics:
    """The rows of a metric named as in :data:`saccade.metrics.text.METRICS`."""
    check_known([name])
    check_paired(predictions, references)
    predicted, expected = list(predictions), list(references)
    if name == "exact_match":
        hits = [[prediction == reference, 1] for prediction, reference in zip(predicted, expected, strict=True)]
        return Statistics(name, np.array(hits, dtype=float), _ratio, higher_is_better=True)
    if name in ("cer", "wer"):
        from rapidfuzz.distance import Levenshtein

        units = [list(text) if name == "cer" else text.split() for text in (*predicted, *expected)]
        edits = map(Levenshtein.distance, units[: len(predicted)], units[len(predicted) :])
        rows = [[edit, len(reference)] for edit, reference in zip(edits, units[len(predicted) :], strict=True)]
        return Statistics(name, np.array(rows, dtype=float), _ratio, higher_is_better=False)
    metric = _sacrebleu(name, bleu_tokenize)
    rows = metric._extract_corpus_statistics(predicted, [expected])
    signature = str(metric.get_signature())

    def figure(sums: Float[ndarray, " K"]) -> float:
        return float(metric._compute_score_from_stats(sums.tolist()).score)

    return Statistics(name, np.array(rows, dtype=float), figure, higher_is_better=name != "ter", signature=signature)


def bootstrap(of: Statistics, *, samples: int = SAMPLES, seed: int = 0) -> Float[ndarray, " samples"]:
    """The figures of ``samples`` corpora drawn from the sentences; the same seed draws the same sentences."""
    _check(samples)
    drawn = [counts @ of.rows for counts in draws(len(of), samples, seed)]
    return np.array([of.figure(sums) for block in drawn for sums in block])


def interval(figures: Float[ndarray, " samples"], level: float = LEVEL) -> Interval:
    """The middle ``level`` of the figures."""
    low, high = np.quantile(figures, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def paired_difference(first: Statistics, other: Statistics, *, samples: int = SAMPLES, seed: int = 0) -> Paired:
    """Whether ``other`` differs from ``first``, both tested on the same sentences."""
    if (first.name, first.signature, first.rows.shape) != (other.name, other.signature, other.rows.shape):
        raise SaccadeError(
            f"expected two systems measured alike on the same sentences: got {first.name} of {len(first)} "
            f"({first.signature}) and {other.name} of {len(other)} ({other.signature})"
        )
    difference = other.value - first.value
    resampled = bootstrap(other, samples=samples, seed=seed) - bootstrap(first, samples=samples, seed=seed)
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
        moved = generator.integers(0, 2, size=(size, len(first))).astype(float) @ change  # [size, K]
        differences += [other.figure(theirs - each) - first.figure(ours + each) for each in moved]
    return np.array(differences)


def _p(differences: Float[ndarray, " samples"], observed: float) -> float:
    # Sums of the same numbers in another order may differ in the last digit: as far apart is far apart.
    return float((1 + (differences >= abs(observed) - 1e-10).sum()) / (1 + len(differences)))


def draws(sentences: int, samples: int, seed: int) -> Iterator[Float[ndarray, "block N"]]:
    """How often each sentence was drawn, a row a sample."""
    generator = np.random.default_rng(seed)
    for size in _blocks(sentences, samples):
        drawn = generator.integers(0, sentences, size=(size, sentences)) + np.arange(size)[:, None] * sentences
        yield np.bincount(drawn.ravel(), minlength=size * sentences).reshape(size, sentences).astype(float)


def _blocks(sentences: int, samples: int) -> list[int]:
    size = max(1, BLOCK // sentences)
    return [min(size, samples - start) for start in range(0, samples, size)]


def _ratio(sums: Float[ndarray, " 2"]) -> float:
    return float(sums[0] / sums[1]) if sums[1] else 0.0


def _sacrebleu(name: str, tokenize: str) -> Any:
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    if name == "bleu":
        return bleu_by(tokenize)
    return CHRF() if name == "chrf" else TER()


def _check(samples: int) -> None:
    if samples < 1:
        raise SaccadeError(f"samples must be at least 1: got {samples}")
