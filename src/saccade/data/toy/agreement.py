"""Generates a small language of known entropy: sentences whose verbs agree with their subjects across clauses.

    S     → NP[n] VP[n]                                   n: one or many
    NP[n] → det noun[n] | det noun[n] that VP[n] | det noun[n] that NP[m] sees[m]
    VP[n] → sleeps[n] | sees[n] NP

"the dogs that the cat sees sleep": the last verb depends on a word five positions earlier. A sentence has one derivation,
so its probability is the product of its choices, and the best that any model can do follows from the grammar alone:

    log(best perplexity) = E[−log p(sentence)] / E[words + 1]        the end of a sentence is one more token
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from saccade.data.config import check_least
from saccade.data.toy import drawn_splits

DETERMINERS = ("the", "some")
NOUNS = (
    ("dog", "dogs"), ("cat", "cats"), ("bird", "birds"), ("child", "children"),
    ("farmer", "farmers"), ("poet", "poets"), ("horse", "horses"), ("ghost", "ghosts"),
)  # fmt: skip
RESTING = (("sleeps", "sleep"), ("sings", "sing"), ("waits", "wait"), ("dances", "dance"))
ACTING = (("sees", "see"), ("hears", "hear"), ("follows", "follow"), ("likes", "like"))
THAT = "that"
OBJECT = 0.5  # of the clauses, the share in which the noun is what is seen
ACTS = 0.5  # of the verbs, the share that has an object
EXAMPLES = ("the dogs that the cat", "some child", "the ghost that follows the horses that the poets")


@dataclass(frozen=True)
class Agreement:
    """The number of sentences, how often a noun has a clause of its own, and the seed of the draw."""

    train: int = 20_000
    valid: int = 1_000
    test: int = 2_000
    clauses: float = 0.3
    seed: int = 1

    def __post_init__(self) -> None:
        check_least(self, train=1, valid=1, test=1)
        if not 0 <= self.clauses <= 0.6:  # above 2/3 sentences would not end
            raise ValueError(f"clauses must be between 0 and 0.6: got {self.clauses}")


def generate(agreement: Agreement) -> dict[str, list[str]]:
    """The sentences of each split, drawn independently: short ones recur, as the grammar says."""
    return drawn_splits(agreement, "", lambda rng: sentence(agreement.clauses, rng))


def sentence(clauses: float, rng: random.Random) -> str:
    """One sentence."""
    number = rng.randrange(2)
    return " ".join([*_noun_phrase(number, clauses, rng), *_verb_phrase(number, clauses, rng)])


def _noun_phrase(number: int, clauses: float, rng: random.Random) -> list[str]:
    words = [rng.choice(DETERMINERS), rng.choice(NOUNS)[number]]
    if rng.random() >= clauses:
        return words
    if rng.random() >= OBJECT:
        return [*words, THAT, *_verb_phrase(number, clauses, rng)]
    other = rng.randrange(2)
    return [*words, THAT, *_noun_phrase(other, clauses, rng), rng.choice(ACTING)[other]]


def _verb_phrase(number: int, clauses: float, rng: random.Random) -> list[str]:
    if rng.random() >= ACTS:
        return [rng.choice(RESTING)[number]]
    return [rng.choice(ACTING)[number], *_noun_phrase(rng.randrange(2), clauses, rng)]


@dataclass(frozen=True)
class Optimum:
    """The optimum of the grammar: mean nats per sentence, and mean words per sentence (its end not counted)."""

    nats: float
    words: float

    @property
    def perplexity(self) -> float:
        """Per word, the end of a sentence counted as one."""
        return math.exp(self.nats / (self.words + 1))


def optimum(clauses: float = Agreement.clauses) -> Optimum:
    """The entropy and the length of a sentence, from how often each rule is used.

        nouns = 1 + clauses · OBJECT · nouns + ACTS · verbs,   verbs = 1 + clauses · (1 − OBJECT) · nouns

    >>> round(optimum().perplexity, 4)
    5.0431
    """
    nouns = (1 + ACTS) / (1 - clauses * OBJECT - ACTS * clauses * (1 - OBJECT))
    verbs = 1 + clauses * (1 - OBJECT) * nouns
    seen = nouns * clauses * OBJECT  # clauses that end in a verb of their own
    noun = math.log(len(DETERMINERS)) + math.log(2 * len(NOUNS)) + _entropy(clauses) + clauses * _entropy(OBJECT)
    verb = _entropy(ACTS) + (1 - ACTS) * math.log(len(RESTING)) + ACTS * math.log(len(ACTING))
    nats = nouns * noun + verbs * verb + seen * math.log(len(ACTING))
    return Optimum(nats, nouns * (2 + clauses) + verbs + seen)


def _entropy(share: float) -> float:
    return -sum(p * math.log(p) for p in (share, 1 - share) if p > 0)
