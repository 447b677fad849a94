"""Makes pairs of neighbouring words with negative samples from texts (Mikolov et al. 2013, 2.2 and 2.3).

    subsampling a word w of the text stays with probability min(1, √(t / f(w))), f(w) its share of the text; the others are
                removed, so that windows reach further
    pair        (centre, context): the context is within r words of the centre, r drawn for each centre from 1 … window
    negatives   K words per pair, with probability ∝ count(w)^¾

All random choices are functions of the draw (seed and epoch), the stretch of text and the position: they differ in every epoch,
are the same in every process and for every batch size, and have no state.

Legend: P pairs, K negative samples per pair, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float32, Int64
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from saccade.data.batching import TensorBatch, rounded
from saccade.data.texts.masking import drawn

KEPT, REACH, AGAINST = range(3)  # what is drawn
POWER = 0.75
SLOTS = 22  # bits: the table that words are drawn from has 2²² entries

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Stretches:
    """The ids of all texts in one array, with the bounds of the stretches (one entry more than there are)."""

    ids: NDArray[np.int32]
    bounds: Numbers

    @classmethod
    def of(cls, texts: Iterable[NDArray[np.int32]], chunk: int) -> Stretches:
        """From the ids of texts; each is cut into equal parts of at most ``chunk`` words. Texts of one word are skipped."""
        parts, sizes = list[NDArray[np.int32]](), list[int]()
        for ids in texts:
            if len(ids) < 2:
                continue
            count = -(-len(ids) // chunk)
            ends = [len(ids) * number // count for number in range(count + 1)]
            sizes += [ends[number + 1] - ends[number] for number in range(count)]
            parts.append(ids)
        whole = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)
        return cls(whole, np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes, dtype=np.int64)]))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def first(self, count: int) -> Stretches:
        """The first stretches only."""
        bounds = self.bounds[: count + 1]
        return Stretches(self.ids[: int(bounds[-1])], bounds)


@dataclass(frozen=True)
class Frequencies:
    """From the counts of training words [V]: the probability that a word stays, and a table to draw negative samples from."""

    kept: NDArray[np.float64]
    table: NDArray[np.int32]

    @classmethod
    def of(cls, counts: Sequence[int], subsample: float) -> Frequencies:
        """From counts of which at least one is above 0."""
        frequencies = np.asarray(counts, dtype=np.float64)
        share = np.maximum(frequencies / frequencies.sum(), 1e-300)
        stay = np.minimum(1.0, np.sqrt(subsample / share)) if subsample else np.ones(len(frequencies))
        weights = np.cumsum(frequencies**POWER)
        places = (np.arange(1 << SLOTS) + 0.5) / (1 << SLOTS) * weights[-1]
        return cls(stay, np.searchsorted(weights, places, side="left").astype(np.int32))


@dataclass(frozen=True)
class Batch(TensorBatch):
    """Pairs of words with negative samples."""

    centres: Int64[Tensor, " P"]
    contexts: Int64[Tensor, " P"]
    against: Int64[Tensor, "P K"]
    weights: Float32[Tensor, " P"]  # 1; 0 for padding
    indices: list[int]
    tokens: int  # pairs, the units of the loss: known on the host

    def bucketed(self) -> Batch:
        """The same batch in one of few shapes; the added pairs have no weight."""
        more = rounded(max(1, len(self.centres)), 64) - len(self.centres)
        return replace(
            self,
            centres=functional.pad(self.centres, (0, more)),
            contexts=functional.pad(self.contexts, (0, more)),
            against=functional.pad(self.against, (0, 0, 0, more)),
            weights=functional.pad(self.weights, (0, more)),
        )


def collate(
    stretches: Stretches, visit: Sequence[int], frequencies: Frequencies, *, window: int, negatives: int
) -> Batch:
    """The pairs of some stretches, with negative samples."""
    rows, draw = np.asarray(visit, dtype=np.int64), getattr(visit, "draw", 0)
    ids, lots, owner = _subsampled(stretches, rows, draw, frequencies)
    first, second = _near(lots, owner, window)
    lot = drawn(lots[first], lots[second], AGAINST)
    slots = drawn(lot[:, None].view(np.int64), np.arange(negatives)[None]) >> np.uint64(64 - SLOTS)
    return Batch(
        centres=torch.from_numpy(ids[first]),
        contexts=torch.from_numpy(ids[second]),
        against=torch.from_numpy(frequencies.table[slots.view(np.int64)].astype(np.int64)),
        weights=torch.ones(len(first)),
        indices=rows.tolist(),
        tokens=len(first),
    )


def _subsampled(
    stretches: Stretches, rows: Numbers, draw: int, frequencies: Frequencies
) -> tuple[Numbers, Numbers, Numbers]:
    """The words that stay: their ids, a random number for each, and their stretch."""
    sizes = stretches.bounds[rows + 1] - stretches.bounds[rows]
    owner = np.repeat(np.arange(len(rows)), sizes)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    ids = stretches.ids[stretches.bounds[rows][owner] + place].astype(np.int64)
    lots = drawn(draw, rows[owner], place).view(np.int64)
    stay = _uniform(lots, KEPT) < frequencies.kept[ids]
    return ids[stay], lots[stay], owner[stay]


def _near(lots: Numbers, owner: Numbers, window: int) -> tuple[Numbers, Numbers]:
    """The centres and the words in their windows, as positions among the words that stay."""
    reach = 1 + (_uniform(lots, REACH) * window).astype(np.int64)
    firsts, seconds = list[Numbers](), list[Numbers]()
    for distance in range(1, window + 1):
        together = owner[distance:] == owner[:-distance]
        ahead = np.flatnonzero(together & (reach[:-distance] >= distance))
        behind = np.flatnonzero(together & (reach[distance:] >= distance))
        firsts += [ahead, behind + distance]
        seconds += [ahead + distance, behind]
    return np.concatenate(firsts), np.concatenate(seconds)


def _uniform(*keys: int | Numbers) -> NDArray[np.float64]:
    """Uniform in [0, 1)."""
    return (drawn(*keys) >> np.uint64(11)).astype(np.float64) * 2.0**-53
