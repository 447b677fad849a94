"""Generates texts that cannot be tagged without looking back: a word's first occurrence is followed by a number that gives its
tag, and every later occurrence has the same tag.

    words   kefo 2 lumi 0 kefo lumi kefo
    tags    C    C A    A C    A    C

Words are invented and their tags are drawn again for each text, so nothing can be learnt about a word alone. Its tag follows
from the number after its first occurrence, at any distance. :func:`first_of` gives that position.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from saccade.data.config import check_least
from saccade.data.toy import drawn_splits

TAGS = ("A", "B", "C", "D")
SIGNS = tuple(map(str, range(len(TAGS))))  # 0 tells A, 1 tells B, …
SYLLABLES = ("ke", "fo", "lu", "mi", "ra", "to", "ne", "si", "ba", "do", "vu", "ze")
WORDS = tuple(first + second for first in SYLLABLES for second in SYLLABLES if first != second)
EXAMPLES = (
    "kefo 2 lumi 0 fora 1 mine 3 kefo fora lumi mine kefo",
    "mine 3 luto 3 keze 1 fovu 0 keze mine luto fovu keze mine",
)


@dataclass(frozen=True)
class Repeats:
    """The number of texts, of different words and of repetitions, and the seed of the draw."""

    train: int = 3000
    valid: int = 300
    test: int = 500
    words: int = 40  # there are in all
    least: int = 4  # different words of a text: from so many …
    most: int = 8  # … to so many
    again: int = 16  # words that come again
    seed: int = 1

    def __post_init__(self) -> None:
        check_least(self, train=1, valid=1, test=1, least=1, again=1)
        if not self.least <= self.most <= self.words <= len(WORDS):
            found = f"{self.least}, {self.most} and {self.words}"
            raise ValueError(f"least, most and words must rise, and be at most {len(WORDS)}: got {found}")


def generate(repeats: Repeats) -> dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]]:
    """(words, tags) of each split."""
    return drawn_splits(repeats, "repeats", lambda draw: _draw(draw, repeats))


def _draw(draw: random.Random, repeats: Repeats) -> tuple[tuple[str, ...], tuple[str, ...]]:
    tag_of = {
        word: draw.randrange(len(TAGS))
        for word in draw.sample(WORDS[: repeats.words], draw.randint(repeats.least, repeats.most))
    }
    words = [part for word, tag in tag_of.items() for part in (word, SIGNS[tag])]
    tags = [TAGS[tag] for tag in tag_of.values() for _ in range(2)]
    later = draw.choices(list(tag_of), k=repeats.again)
    return (*words, *later), (*tags, *(TAGS[tag_of[word]] for word in later))


def first_of(words: Sequence[str], place: int) -> int:
    """The first occurrence of the word at ``place``: the number behind it gives the tag."""
    return list(words).index(words[place])
