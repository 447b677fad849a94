"""Figures by length (Bahdanau et al. 2015, fig. 2): does a model lose the thread of long sentences?

Sentences are sorted into buckets by a length, 1–10, 11–20, … words of the source; each bucket's figure is the corpus
metric of its sentences alone, with a bootstrap interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from saccade.errors import SaccadeError
from saccade.metrics.significance import SAMPLES, Statistics, bootstrap, interval

EDGES = (10, 20, 30, 40, 50)
QUANTILES = 5


@dataclass(frozen=True)
class Bucket:
    """Lengths from ``least`` to ``most`` (None: no end), both counted, and the numbers of the sentences that have them."""

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
    """A bucket's figure with its 95 % interval; none of no sentences, and no BLEU where all are shorter than four words."""

    name: str
    count: int
    value: float | None = None
    low: float | None = None
    high: float | None = None


def buckets(lengths: Sequence[int], edges: Sequence[int] = EDGES) -> list[Bucket]:
    """Sentences by length; ``edges`` are the greatest length of each bucket, and longer ones share the last.

    >>> [(bucket.name, bucket.sentences) for bucket in buckets([3, 12, 40], edges=[10, 20])]
    [('1–10', (0,)), ('11–20', (1,)), ('≥ 21', (2,))]
    """
    edges = list(edges)
    if not edges or edges[0] < 1 or any(after <= before for before, after in pairwise(edges)):
        raise SaccadeError(f"edges: expected growing whole numbers such as 10, 20, 30, found {edges}")
    least, most = [1, *(edge + 1 for edge in edges)], [*edges, None]
    places = np.searchsorted(edges, lengths)
    return [
        Bucket(low, high, tuple(np.flatnonzero(places == number).tolist()))
        for number, (low, high) in enumerate(zip(least, most, strict=True))
    ]


def quantile_edges(lengths: Sequence[int], parts: int = QUANTILES) -> tuple[int, ...]:
    """Edges that divide the sentences into at most ``parts`` buckets of about as many sentences each."""
    if not len(lengths) or parts < 2:
        raise SaccadeError(f"quantiles need lengths and at least 2 parts: got {len(lengths)} lengths, {parts} parts")
    cuts = np.quantile(lengths, np.arange(1, parts) / parts, method="inverted_cdf")
    edges = tuple(int(edge) for edge in np.unique(cuts) if 1 <= edge < max(lengths))
    return edges or (max(1, max(lengths)),)


def score_by_length(
    of: Statistics, into: Sequence[Bucket], *, samples: int = SAMPLES, seed: int = 0
) -> list[BucketScore]:
    """The figure of each bucket, from :func:`saccade.metrics.significance.statistics` of the whole corpus."""
    scores = []
    for bucket in into:
        part = of.select(bucket.sentences)
        if not len(part) or not part.is_defined:
            scores.append(BucketScore(bucket.name, len(part)))
            continue
        sure = interval(bootstrap(part, samples=samples, seed=seed))
        scores.append(BucketScore(bucket.name, len(part), part.value, sure.low, sure.high))
    return scores
