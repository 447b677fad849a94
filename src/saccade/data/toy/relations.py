"""Generates relations: the verb between two marked nouns names the relation, the order of the marks its direction.

    "yesterday the <e2>storm</e2> caused a sudden <e1>flood</e1> and the driver found the letter"   →   cause(e2,e1)

Another clause may follow or come before whose verb, one of the same, joins two unmarked nouns: only the marks say which
verb counts. :func:`deciding` gives its position, to check whether a network attends to it.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from saccade.data.config import check_least
from saccade.data.toy import distinct_splits

RELATIONS = {
    "caused": "cause", "contained": "contain", "produced": "produce", "followed": "follow", "covered": "cover",
    "found": "find",
}  # fmt: skip
NOUNS = (
    "storm", "flood", "driver", "letter", "kettle", "water", "farmer", "cheese", "engine", "smoke", "child", "basket",
    "river", "village", "doctor", "report", "teacher", "lesson", "window", "garden",
)  # fmt: skip
ADJECTIVES = ("", "", "old ", "sudden ", "small ", "quiet ", "famous ", "heavy ")
ARTICLES = ("the", "a", "this", "their")
ASIDES = ("", "", "", ", near the bridge ,", ", as we know ,", "once again", "in the end")
BEGINNINGS = ("", "", "yesterday", "it is said that", "in spring", "they wrote that")
BETWEEN = ("and", "while", "because", "before")
EXAMPLES = (
    "yesterday the <e1>storm</e1> caused a sudden <e2>flood</e2>",
    "in spring this <e2>kettle</e2> , near the bridge , contained the <e1>water</e1> while a driver found the letter",
    "the child followed a doctor because their famous <e1>report</e1> covered the <e2>village</e2>",
)


@dataclass(frozen=True)
class Verbs:
    """The number of sentences, the share of them with a second, unmarked clause, and the seed of the draw."""

    train: int = 4000
    valid: int = 500
    test: int = 1000
    beside: float = 0.5
    seed: int = 1

    def __post_init__(self) -> None:
        check_least(self, train=1, valid=1, test=1)
        if not 0 <= self.beside <= 1:
            raise ValueError(f"beside must be between 0 and 1: got {self.beside}")


def generate(verbs: Verbs) -> dict[str, list[tuple[str, str]]]:
    """(sentence, relation) of each split. No sentence of ``test`` is in another split, and none of ``valid`` in ``train``."""
    return distinct_splits(verbs, "verbs", lambda draw: _draw(draw, verbs.beside))


def _draw(draw: random.Random, beside: float) -> tuple[str, str]:
    nouns = draw.sample(NOUNS, 4)
    verb, other = draw.choice(tuple(RELATIONS)), draw.choice(tuple(RELATIONS))
    order = draw.sample((1, 2), 2)
    marked = [f"<e{number}>{noun}</e{number}>" for number, noun in zip(order, nouns, strict=False)]
    clauses = [_clause(draw, marked[0], verb, marked[1])]
    if draw.random() < beside:
        clauses.insert(draw.randint(0, 1), _clause(draw, nouns[2], other, nouns[3]))
    text = f"{draw.choice(BEGINNINGS)} {f' {draw.choice(BETWEEN)} '.join(clauses)}"
    return text.strip(), f"{RELATIONS[verb]}(e{order[0]},e{order[1]})"


def _clause(draw: random.Random, first: str, verb: str, second: str) -> str:
    subject, thing = (f"{draw.choice(ARTICLES)} {draw.choice(ADJECTIVES)}{noun}" for noun in (first, second))
    return " ".join(part for part in (subject, draw.choice(ASIDES), verb, thing) if part)


def deciding(text: str) -> tuple[int, int]:
    """Where the verb between the marked nouns stands: its first character, and the one after its last.

    >>> text = "the <e1>storm</e1> caused a <e2>flood</e2>"
    >>> start, end = deciding(text)
    >>> text[start:end]
    'caused'
    """
    found = re.search(rf"</e[12]>.*?\b({'|'.join(RELATIONS)})\b", text)
    if found is None:
        raise ValueError(f"text must hold a verb after a marked noun: got {text!r}")
    return found.span(1)
