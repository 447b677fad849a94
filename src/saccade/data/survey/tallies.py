"""Counts lengths, words, characters and repeats of many texts in bounded memory.

Lengths are kept as a histogram, words as a counter with a cap, and what repeats is found by one 64-bit hash per text. That two
different texts of a million share a hash has a probability below one in ten million.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

WORD = re.compile(r"\w+|[^\w\s]")  # as `tokens.kind: words` splits: a run of letters and digits, or one mark
MOST_WORDS = 500_000
LONGEST_WORD = 100  # where words are longer than this on average, only their first characters are counted
PUNCTUATION = r"!-/:-@\[-`{-~¡«·»¿\u2010-\u205e\u3001-\u303f\uff01-\uff0f\uff1a-\uff20\u060c\u061b\u061f\u0964"
MARKS = re.compile(rf"(?<!\d)[{PUNCTUATION}]|[{PUNCTUATION}](?!\d)")  # a mark between digits is part of a number
# Thai, Lao, Tibetan, Myanmar, Khmer, kana and Chinese characters: scripts without spaces between words.
UNSPACED = re.compile(
    "[\u0e01-\u0fff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff]"
)
USUAL = 0.05  # a script with this share of the letters belongs to the texts

Text = str | tuple[str, ...]  # a text, or words that were split already


class Lengths:
    """A histogram of lengths."""

    def __init__(self, lengths: Iterable[int] = ()) -> None:
        self.counts: Counter[int] = Counter(lengths)

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

    def to_json(self) -> dict[str, Any]:
        percentiles = {name: self.within(share) for name, share in (("median", 0.5), ("p95", 0.95), ("p99", 0.99))}
        return {"mean": round(self.mean, 2), **percentiles, "longest": self.longest}


class Vocabulary:
    """Different words and how often each occurs. Beyond the cap no new word is added, and `full` is set."""

    def __init__(self, at_most: int = MOST_WORDS) -> None:
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

    def covering(self, share: float) -> int | None:
        """How many of the most frequent words make up a share of all running words; None beyond the cap."""
        counts = np.sort(np.fromiter(self.counts.values(), dtype=np.int64, count=len(self.counts)))[::-1]
        place = int(np.searchsorted(np.cumsum(counts), share * self.running)) + 1 if self.running else 0
        return place if place <= len(counts) else None

    def unseen_in(self, other: Vocabulary) -> float:
        """The share of these running words that another vocabulary lacks."""
        return sum(count for word, count in self.counts.items() if word not in other.counts) / max(1, self.running)

    def to_json(self) -> dict[str, Any]:
        cover = {"cover_95": self.covering(0.95), "cover_99": self.covering(0.99)}
        return {"running": self.running, "different": len(self.counts), "once": self.once, **cover, "capped": self.full}


class Side:
    """All that is counted of the texts of one column."""

    def __init__(self) -> None:
        self.characters, self.vocabulary = Counter[str](), Vocabulary()
        self.character_lengths, self.word_lengths = Lengths(), Lengths()

    def add(self, texts: Sequence[Text]) -> list[int]:
        """Count texts; returns their numbers of words."""
        words = [WORD.findall(text) if isinstance(text, str) else text for text in texts]
        joined = [text if isinstance(text, str) else " ".join(text) for text in texts]
        lengths = list(map(len, words))
        self.characters.update("".join(joined))
        running = chain.from_iterable(words)
        endless = sum(map(len, joined)) > LONGEST_WORD * sum(lengths)
        self.vocabulary.add((word[:LONGEST_WORD] for word in running) if endless else running)
        self.character_lengths.add(map(len, joined))
        self.word_lengths.add(lengths)
        return lengths

    @property
    def unspaced(self) -> bool:
        """Whether the texts are in a script without spaces between words: their words are whole clauses."""
        return unspaced(self.characters)

    def to_json(self) -> dict[str, Any]:
        return {
            "words": self.word_lengths.to_json(),
            "characters": {**self.character_lengths.to_json(), "different": len(self.characters)},
            "vocabulary": self.vocabulary.to_json(),
        }


def unspaced(characters: Mapping[str, int]) -> bool:
    """Whether at least 5 % of the letters are of a script without spaces between words."""
    letters = {character: count for character, count in characters.items() if character.isalpha()}
    without = sum(count for character, count in letters.items() if UNSPACED.match(character))
    return without > 0 and without >= USUAL * sum(letters.values())


def plain(text: str) -> str:
    """A text for comparing: one case, single spaces, no punctuation except between digits.

    >>> plain("Hello,  World!"), plain("12-7 = 5.0")
    ('hello world', '12-7 5.0')
    """
    return " ".join(MARKS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).split()) or text


def hashes(values: array[int]) -> NDArray[np.int64]:
    return np.frombuffer(values, dtype=np.int64)


def repeats(values: array[int]) -> tuple[int, int | None]:
    """How many values occurred before, and the row of the first of them."""
    first = np.unique(hashes(values), return_index=True)[1]
    again = np.ones(len(values), dtype=bool)
    again[first] = False
    return len(values) - len(first), int(again.argmax()) if again.any() else None


def with_several(one: array[int], other: array[int]) -> tuple[int, int | None]:
    """How many different values of `one` stand beside at least two different values of `other`, and the first such row."""
    both = np.stack([hashes(one), hashes(other)], axis=1)
    values, partners = np.unique(np.unique(both, axis=0)[:, 0], return_counts=True)
    rows = np.isin(both[:, 0], values[partners > 1])
    return int((partners > 1).sum()), int(rows.argmax()) if rows.any() else None
