"""What a million texts amount to, counted in bounded memory: lengths, words, characters, repeats, and a sample.

Texts come in chunks and are forgotten. Lengths are kept as a histogram, words as a counter with a cap that says when
it was reached, repeats as one 64-bit hash a text, and the sample thins itself out as the file goes on.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Generic, TypeVar

import numpy as np

WORD = re.compile(r"\w+|[^\w\s]")  # as `tokens.kind: words` cuts: a run of letters and digits, or one mark
WORDS_AT_MOST = 500_000
WORD_LENGTH = 100  # where words are longer than this on average they are no words, and are counted by their beginnings

T = TypeVar("T")


class Lengths:
    """How long texts are: how many there are of each length."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def add(self, lengths: Iterable[int]) -> None:
        self.counts.update(lengths)

    @property
    def mean(self) -> float:
        total = self.counts.total()
        return sum(length * count for length, count in self.counts.items()) / total if total else 0.0

    @property
    def longest(self) -> int:
        return max(self.counts, default=0)

    def within(self, share: float) -> int:
        """The length that `share` of the texts do not exceed: 0.5 is the median."""
        wanted, seen = share * self.counts.total(), 0
        for length in sorted(self.counts):
            seen += self.counts[length]
            if seen >= wanted:
                return length
        return 0

    def above(self, limit: int) -> int:
        """How many texts are longer than the limit."""
        return sum(count for length, count in self.counts.items() if length > limit)


class Vocabulary:
    """The different words and how often each occurs. Beyond the cap no new word is added, and `full` says so."""

    def __init__(self, at_most: int = WORDS_AT_MOST) -> None:
        self.counts: Counter[str] = Counter()
        self.at_most, self.running, self.full = at_most, 0, False

    def add(self, words: Iterable[str]) -> None:
        words = list(words)
        self.running += len(words)
        if len(self.counts) >= self.at_most:
            known = [word for word in words if word in self.counts]
            self.full = self.full or len(known) < len(words)
            words = known
        self.counts.update(words)

    @property
    def once(self) -> int:
        """How many words occur exactly once."""
        return sum(count == 1 for count in self.counts.values())

    def covering(self, *shares: float) -> tuple[int | None, ...]:
        """How many words, the most frequent first, make up each share of the running ones; None beyond the cap."""
        counts = np.sort(np.fromiter(self.counts.values(), dtype=np.int64, count=len(self.counts)))[::-1]
        reached = np.cumsum(counts)
        places = [int(np.searchsorted(reached, share * self.running)) + 1 if self.running else 0 for share in shares]
        return tuple(place if place <= len(counts) else None for place in places)


class Characters:
    """How often each character occurs, by its number: at most nine megabytes, whatever the texts."""

    def __init__(self) -> None:
        self._counts = np.zeros(0, dtype=np.int64)

    def add(self, texts: Iterable[str]) -> None:
        codes = np.frombuffer("".join(texts).encode("utf-32-le"), dtype=np.uint32)
        counts = np.bincount(codes, minlength=len(self._counts))
        counts[: len(self._counts)] += self._counts
        self._counts = counts

    @property
    def counts(self) -> dict[str, int]:
        return {chr(code): int(self._counts[code]) for code in np.flatnonzero(self._counts).tolist()}


class Side:
    """One side of the pairs, all that is counted of it."""

    def __init__(self) -> None:
        self.characters = Characters()
        self.vocabulary = Vocabulary()
        self.character_lengths, self.word_lengths = Lengths(), Lengths()

    def add(self, texts: Sequence[str]) -> list[int]:
        """Count a chunk of texts; gives back their numbers of words."""
        words = list(map(WORD.findall, texts))
        lengths = list(map(len, words))
        self.characters.add(texts)
        running = chain.from_iterable(words)
        endless = sum(map(len, texts)) > WORD_LENGTH * sum(lengths)
        self.vocabulary.add((word[:WORD_LENGTH] for word in running) if endless else running)
        self.character_lengths.add(map(len, texts))
        self.word_lengths.add(lengths)
        return lengths


class Sample(Generic[T]):
    """Some of a stream whose length nobody knows, spread evenly over it, the same every time: each nth, with n doubled
    and every second one let go whenever twice as many as wanted have gathered."""

    def __init__(self, wanted: int) -> None:
        self.items: list[T] = []
        self._wanted, self._step, self._seen = wanted, 1, 0

    def add(self, items: Sequence[T]) -> None:
        for item in items[-self._seen % self._step :: self._step]:
            self.items.append(item)
        self._seen += len(items)
        while len(self.items) >= 2 * self._wanted:
            self.items, self._step = self.items[::2], 2 * self._step


class Repeats:
    """Which of a row of keys came before, from their hashes: eight bytes each, then four."""

    def __init__(self, hashes: array[int]) -> None:
        values, groups = np.unique(np.frombuffer(hashes, dtype=np.int64), return_inverse=True)
        self.different = len(values)
        self._groups = array("i", groups.astype(np.int32).tobytes())
        self._met, self._kept = bytearray(self.different), bytearray(self.different)

    def came_before(self, row: int) -> bool:
        """Whether the key of this row stood in an earlier one; rows are asked for in order, once."""
        group = self._groups[row]
        before, self._met[group] = self._met[group], 1
        return bool(before)

    def was_kept(self, row: int) -> bool:
        return bool(self._kept[self._groups[row]])

    def keep(self, row: int) -> None:
        self._kept[self._groups[row]] = 1

    @property
    def different_kept(self) -> int:
        return sum(self._kept)


def with_several(one: array[int], other: array[int]) -> int:
    """How many different keys of `one` stand beside at least two different keys of `other`."""
    both = np.stack([np.frombuffer(keys, dtype=np.int64) for keys in (one, other)], axis=1)
    if not len(both):
        return 0
    order = np.lexsort((both[:, 1], both[:, 0]))
    ordered = both[order]
    new = np.ones(len(ordered), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    _, partners = np.unique(ordered[new, 0], return_counts=True)
    return int((partners > 1).sum())
