"""Generates sentences in which the aspect alone decides the label: each praises one thing and criticises another.

    "the soup was lovely but the waiter is clumsy"   soup → positive   waiter → negative

Every sentence makes two records, one for each thing, with opposite labels. A classifier that cannot see which thing is meant
is right in exactly half of them. :func:`deciding` gives the position of the deciding word, to check whether a network
attends to it.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from saccade.data.config import check_least
from saccade.data.toy import distinct_splits

ADJECTIVES = {
    "positive": ("good", "lovely", "superb", "charming", "friendly"),
    "negative": ("bad", "awful", "clumsy", "dreadful", "dismal"),
}
THINGS = ("soup", "waiter", "wine", "view", "music", "bread", "house wine", "apple cake")
BEGINNINGS = ("", "", "all in all ", "to be honest ", "last night ", "as ever ")
VERBS = ("is", "was", "seemed")
DEGREES = ("", "", "very ", "rather ", "quite ")
BETWEEN = ("but", ", while", "and yet", ", though")
EXAMPLES = (
    "the soup was lovely but the waiter is clumsy\tsoup",
    "the soup was lovely but the waiter is clumsy\twaiter",
    "all in all the house wine is rather dismal , though the view seemed very good\tview",
)


@dataclass(frozen=True)
class Contrasts:
    """The number of sentences, each of which makes two records, and the seed of the draw."""

    train: int = 2000
    valid: int = 250
    test: int = 500
    seed: int = 1

    def __post_init__(self) -> None:
        check_least(self, train=1, valid=1, test=1)


def generate(contrasts: Contrasts) -> dict[str, list[tuple[tuple[str, str], str]]]:
    """((sentence, aspect), label) of each split. No sentence of ``test`` is in another, and none of ``valid`` in ``train``."""
    splits = distinct_splits(contrasts, "contrasts", _draw)
    return {
        split: [((sentence, thing), label) for sentence, labels in part for thing, label in labels.items()]
        for split, part in splits.items()
    }


def _draw(draw: random.Random) -> tuple[str, dict[str, str]]:
    """A sentence, and what it says of each of its two things."""
    things, labels = draw.sample(THINGS, 2), draw.sample(tuple(ADJECTIVES), 2)
    clauses = [
        f"the {thing} {draw.choice(VERBS)} {draw.choice(DEGREES)}{draw.choice(ADJECTIVES[label])}"
        for thing, label in zip(things, labels, strict=True)
    ]
    sentence = f"{draw.choice(BEGINNINGS)}{f' {draw.choice(BETWEEN)} '.join(clauses)}"
    return sentence, dict(zip(things, labels, strict=True))


def deciding(sentence: str, aspect: str) -> tuple[int, int]:
    """Where the adjective stands that decides for an aspect: its first character, and the one after its last.

    >>> sentence = "the soup was very lovely but the waiter is clumsy"
    >>> start, end = deciding(sentence, "soup")
    >>> sentence[start:end]
    'lovely'
    """
    pattern = rf"\bthe {re.escape(aspect)} (?:{'|'.join(VERBS)}) (?:(?:very|rather|quite) )?(\w+)"
    found = re.search(pattern, sentence)
    if found is None:
        raise ValueError(f"sentence must say something of {aspect!r}: got {sentence!r}")
    return found.span(1)
