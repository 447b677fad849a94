"""Generates a small language to pre-train on: documents on one topic, of sentences whose words agree in number.

    document → sentences, whose nouns are all of one topic
    sentence → this noun verb . | these nouns verbs . | this noun verb the noun . | …

A masked determiner, a noun's number and a verb's number follow from the words around them; which noun and which verb it is
does not. The topic shows whether a second text follows the first, unless two documents have the same topic.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from saccade.data.config import check_least
from saccade.data.toy import drawn_splits

TOPICS = (
    ("dog", "cat", "horse"), ("car", "truck", "train"), ("apple", "pear", "plum"), ("king", "queen", "prince"),
    ("piano", "violin", "drum"), ("river", "lake", "stream"), ("doctor", "nurse", "patient"), ("star", "planet", "moon"),
    ("book", "poem", "novel"), ("table", "chair", "lamp"), ("shirt", "coat", "hat"), ("lawyer", "judge", "clerk"),
    ("rose", "tulip", "daisy"), ("eagle", "owl", "crow"), ("baker", "cook", "waiter"), ("hammer", "saw", "drill"),
    ("teacher", "pupil", "tutor"), ("sailor", "pirate", "captain"), ("spider", "beetle", "moth"),
    ("farmer", "shepherd", "miller"),
)  # fmt: skip
DETERMINERS = ("this", "these")
RESTING = (("waits", "wait"), ("moves", "move"), ("stays", "stay"), ("falls", "fall"))
ACTING = (("meets", "meet"), ("finds", "find"), ("follows", "follow"), ("leaves", "leave"))
EXAMPLES = (
    "[MASK] dogs wait .",
    "this king [MASK] the queen .",
    "this river moves . these lakes stay .\tthese rivers fall . this lake waits .",
)


@dataclass(frozen=True)
class Topics:
    """The number of documents, of sentences per document, and the seed of the draw."""

    train: int = 4_000
    valid: int = 200
    test: int = 400
    least: int = 4  # sentences per document
    most: int = 8
    seed: int = 1

    def __post_init__(self) -> None:
        check_least(self, train=2, valid=2, test=2, least=2, most=self.least)


def generate(topics: Topics) -> dict[str, list[str]]:
    """The documents of each split."""
    return drawn_splits(topics, "", lambda rng: document(topics, rng))


def document(topics: Topics, rng: random.Random) -> str:
    """Sentences about one topic."""
    nouns = rng.choice(TOPICS)
    return " ".join(sentence(nouns, rng) for _ in range(rng.randint(topics.least, topics.most)))


def sentence(nouns: tuple[str, ...], rng: random.Random) -> str:
    """One sentence: its determiner, noun and verb are all of one number."""
    number = rng.randrange(2)
    words = [DETERMINERS[number], _of_number(rng.choice(nouns), number)]
    if rng.random() < 0.5:
        return " ".join([*words, rng.choice(RESTING)[number], "."])
    return " ".join([*words, rng.choice(ACTING)[number], "the", _of_number(rng.choice(nouns), rng.randrange(2)), "."])


def families() -> list[tuple[str, ...]]:
    """The words of each topic, in both numbers."""
    return [tuple(_of_number(noun, number) for noun in nouns for number in range(2)) for nouns in TOPICS]


def _of_number(noun: str, number: int) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return plural if number else noun
