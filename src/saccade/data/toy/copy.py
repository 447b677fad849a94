"""Generates rows of random words to be copied word for word, which shows the bottleneck of a fixed-size encoding.

    "k3 b1 q7 b1 …"  →  "k3 b1 q7 b1 …"

An encoder without attention must store the whole row in one vector; with attention it need not.
Lengths are spread evenly from ``shortest`` to ``longest``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from saccade.data.config import check_least

EXAMPLES: tuple[str, ...] = ()  # rows of the test set


@dataclass(frozen=True)
class Copies:
    """The number of rows, their lengths, the number of different words, and the seed of the draw."""

    train: int = 20_000
    valid: int = 500
    test: int = 2_000
    shortest: int = 10
    longest: int = 200
    words: int = 50
    seed: int = 1

    def __post_init__(self) -> None:
        check_least(self, train=1, valid=1, test=1, shortest=1, words=2)
        if self.longest < self.shortest:
            raise ValueError(f"longest must be at least shortest={self.shortest}: got {self.longest}")


def generate(copies: Copies) -> dict[str, list[tuple[str, str]]]:
    """(row, row) pairs of each split."""
    words = [f"{chr(ord('a') + number % 26)}{number // 26}" for number in range(copies.words)]
    draw = random.Random(copies.seed)
    made: dict[str, list[tuple[str, str]]] = {}
    lengths = range(copies.shortest, copies.longest + 1)
    for split in ("test", "valid", "train"):
        count = getattr(copies, split)
        # Evenly, not by chance: the k-th of n rows takes the k-th of n steps through the lengths.
        rows = [" ".join(draw.choices(words, k=lengths[number * len(lengths) // count])) for number in range(count)]
        draw.shuffle(rows)
        made[split] = [(row, row) for row in rows]
    return made
