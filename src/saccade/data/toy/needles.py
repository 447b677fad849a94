"""Generates documents whose deciding sentence and word are known: one metal among random words.

    "Window garden table seldom river. Under paper walks copper lamp. Green boat …"   →   copper

Every document has the same number of sentences of random words; one word of one sentence is a metal, and the label is that
metal. Its position is random, so a network must find the sentence, and the word in it. One document of five has no metal
and the label ``nothing``; otherwise one metal would follow from the absence of the others. :func:`deciding` gives the
position of the word.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from saccade.data.config import check_least
from saccade.data.toy import distinct_splits

METALS, NOTHING = ("gold", "silver", "copper", "iron"), "nothing"
WORDS = """window garden table river paper lamp boat winter music bottle street pencil cloud village basket mirror ladder bridge
    carpet button candle forest island pillow kettle shadow market saddle hammer feather curtain letter tunnel valley orchard
    walks sings opens finds turns holds brings keeps counts moves waits leaves green quiet narrow heavy early empty round
    slow warm distant under over behind between seldom often never almost along beside again there quite rather still
    without before after many some other small large young old every seven twenty"""
HAY = tuple(WORDS.split())
METAL = re.compile(rf"\b({'|'.join(METALS)})\b", re.IGNORECASE)
EXAMPLES = (
    "Window garden seldom table. Under paper walks copper lamp. Green boat waits behind some river.",
    "Gold kettle turns again. Narrow street opens early. Some feather keeps quiet.",
    "Music bottle leaves. Heavy ladder counts seven cloud. Every pillow holds iron there. Slow winter sings.",
)


@dataclass(frozen=True)
class Needles:
    """The number of documents, of sentences per document and words per sentence, and the seed of the draw."""

    train: int = 2000
    valid: int = 300
    test: int = 500
    sentences: int = 10
    words: int = 10
    seed: int = 1

    def __post_init__(self) -> None:
        check_least(self, train=1, valid=1, test=1, sentences=1, words=1)


def generate(needles: Needles) -> dict[str, list[tuple[str, str]]]:
    """(document, label) of each split. No document of ``test`` is in another split, and none of ``valid`` in ``train``."""
    return distinct_splits(needles, "needles", lambda draw: _draw(draw, needles.sentences, needles.words))


def _draw(draw: random.Random, sentences: int, words: int) -> tuple[str, str]:
    heap = [[draw.choice(HAY) for _ in range(words)] for _ in range(sentences)]
    label = draw.choice((*METALS, NOTHING))
    if label != NOTHING:
        heap[draw.randrange(sentences)][draw.randrange(words)] = label
    return " ".join(f"{' '.join(sentence).capitalize()}." for sentence in heap), label


def deciding(text: str) -> tuple[int, int] | None:
    """Where the metal stands in a made document: its first character, and the one after its last; None where there is none.

    >>> text = "Window garden seldom table. Under paper walks copper lamp."
    >>> text[slice(*deciding(text))]
    'copper'
    """
    found = METAL.search(text)
    return None if found is None else found.span(1)
