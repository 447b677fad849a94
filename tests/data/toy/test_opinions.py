"""The made opinions: the label follows from the deciding word, and from no other."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from saccade.data.toy.opinions import ADJECTIVES, OPPOSITE, Opinions, deciding, generate

MADE = generate(Opinions(train=700, valid=50, test=70, seed=3))


def test_the_label_follows_from_the_deciding_word_and_its_negation() -> None:
    negated = 0
    for text, label in MADE["train"]:
        start, end = deciding(text)
        said = next(kind for kind, words in ADJECTIVES.items() if text[start:end] in words)
        before = text[:start].split()[-2:]
        turned = "not" in before
        negated += turned
        assert label == (OPPOSITE[said] if turned else said), text
    assert 70 < negated < 170  # a quarter of two labels of three


def test_what_others_say_tells_nothing_and_labels_are_even() -> None:
    counts = Counter(label for _, label in MADE["train"])
    assert min(counts.values()) > 190
    praised = re.compile(rf"my sister \w+ it (?:\w+ )?(?:{'|'.join(ADJECTIVES['praise'])})")
    beside = Counter(label for text, label in MADE["train"] if praised.search(text))
    assert set(beside) == set(counts) and max(beside.values()) < 2 * min(beside.values())


def test_splits_share_no_text_and_a_seed_makes_the_same_texts() -> None:
    texts = {name: {text for text, _ in part} for name, part in MADE.items()}
    assert not texts["test"] & (texts["valid"] | texts["train"]) and not texts["valid"] & texts["train"]
    assert generate(Opinions(train=700, valid=50, test=70, seed=3)) == MADE
    assert generate(Opinions(train=7, valid=50, test=70, seed=3))["test"] == MADE["test"]
    assert generate(Opinions(train=700, valid=50, test=70, seed=4))["test"] != MADE["test"]


def test_a_text_without_an_opinion_of_mine_has_no_deciding_word() -> None:
    with pytest.raises(ValueError, match="must hold an opinion of mine"):
        deciding("about the film : a friend thought it brilliant .")
    with pytest.raises(ValueError, match="most must be from 1 to 8: got 0"):
        Opinions(most=0)
