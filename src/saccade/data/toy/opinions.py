"""Generates texts whose deciding word is known: several people give their opinion of a thing, and the label is what *I* said.

    "about the soup : my sister called it dull , the guide found it superb and i thought it lovely ."   →   praise

What the others say is random, so no word decides by itself: the label is in the adjective that follows ``i``, reversed where
``not`` stands before it (``neither`` has no opposite). :func:`deciding` gives the position of that
adjective, to check whether a network attends to it.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from saccade.data.config import check_least
from saccade.data.toy import distinct_splits

LABELS = ("praise", "blame", "neither")
ADJECTIVES = {
    "praise": ("superb", "lovely", "brilliant", "charming", "delightful", "wonderful", "splendid", "excellent"),
    "blame": ("dull", "awful", "clumsy", "tiresome", "dreadful", "horrid", "shoddy", "dismal"),
    "neither": ("average", "ordinary", "passable", "middling", "usual", "plain", "common", "typical"),
}
OPPOSITE = {"praise": "blame", "blame": "praise"}
THINGS = ("soup", "film", "hotel", "novel", "song", "play", "garden", "museum", "lecture", "concert", "cake", "poem")
PEOPLE = ("my sister", "the guide", "a friend", "the critic", "our teacher", "his uncle", "the waiter", "her cousin")
VERBS = ("found it", "called it", "thought it")
DEGREES = ("", "", "quite", "rather", "really")
NEGATED = 0.25  # the share of opinions of mine with a "not" before them
MINE = re.compile(rf"\bi (?:{'|'.join(VERBS)}) (?:not )?(?:(?:quite|rather|really) )?(\w+)")
EXAMPLES = (
    "about the soup : my sister called it dull , the guide found it superb and i thought it lovely .",
    "about the film : i found it not charming and a friend thought it brilliant .",
    "about the museum : the critic called it awful and i called it rather ordinary .",
)


@dataclass(frozen=True)
class Opinions:
    """The number of texts, the largest number of other people, and the seed of the draw."""

    train: int = 4000
    valid: int = 500
    test: int = 1000
    most: int = 3  # others who give their opinion: none to so many
    seed: int = 1

    def __post_init__(self) -> None:
        check_least(self, train=1, valid=1, test=1)
        if not 1 <= self.most <= len(PEOPLE):
            raise ValueError(f"most must be from 1 to {len(PEOPLE)}: got {self.most}")


def generate(opinions: Opinions) -> dict[str, list[tuple[str, str]]]:
    """(text, label) of each split. No text of ``test`` is in another split, and none of ``valid`` in ``train``."""
    return distinct_splits(opinions, "opinions", lambda draw: _draw(draw, opinions.most))


def _draw(draw: random.Random, most: int) -> tuple[str, str]:
    label = draw.choice(LABELS)
    negated = label in OPPOSITE and draw.random() < NEGATED
    said = ADJECTIVES[OPPOSITE[label] if negated else label]
    others = draw.sample(PEOPLE, draw.randint(0, most))
    clauses = [f"{who} {_opinion(draw, ADJECTIVES[draw.choice(LABELS)])}" for who in others]
    clauses.insert(draw.randint(0, len(clauses)), f"i {_opinion(draw, said, 'not ' * negated)}")
    *first, last = clauses
    told = f"{' , '.join(first)} and {last}" if first else last
    return f"about the {draw.choice(THINGS)} : {told} .", label


def _opinion(draw: random.Random, adjectives: tuple[str, ...], negation: str = "") -> str:
    degree = draw.choice(DEGREES)
    return f"{draw.choice(VERBS)} {negation}{degree}{' ' * bool(degree)}{draw.choice(adjectives)}"


def deciding(text: str) -> tuple[int, int]:
    """Where the adjective stands that decides a made text: its first character, and the one after its last.

    >>> text = "about the film : i found it not charming and a friend thought it brilliant ."
    >>> start, end = deciding(text)
    >>> text[start:end]
    'charming'
    """
    found = MINE.search(text)
    if found is None:
        raise ValueError(f"text must hold an opinion of mine: got {text!r}")
    return found.span(1)
