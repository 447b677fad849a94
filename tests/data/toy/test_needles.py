"""The made documents: one word of one sentence decides."""

from __future__ import annotations

import pytest

from saccade.data.tokenizers.sentences import sentences
from saccade.data.toy.needles import EXAMPLES, HAY, METALS, NOTHING, Needles, deciding, generate

SMALL = Needles(train=60, valid=7, test=9, sentences=5, words=3)


def test_the_label_is_the_one_metal_in_the_document() -> None:
    for text, label in generate(SMALL)["train"]:
        place = deciding(text)
        assert (NOTHING if place is None else text[slice(*place)].lower()) == label
        assert sum(word.strip(".").lower() in METALS for word in text.split()) == (label != NOTHING)
    assert not set(HAY) & set(METALS)


def test_a_document_has_the_sentences_that_were_asked_for() -> None:
    for text, _ in generate(SMALL)["train"]:
        places = sentences(text)
        assert len(places) == 5 and all(len(text[start:end].split()) == 3 for start, end in places)


def test_the_needle_stands_anywhere_and_every_label_is_as_likely() -> None:
    made = generate(Needles(train=2000))["train"]
    for label in (*METALS, NOTHING):
        assert 320 < sum(found == label for _, found in made) < 480
    within = [
        next(number for number, (_, end) in enumerate(sentences(text)) if place[0] < end)
        for text, place in ((text, deciding(text)) for text, _ in made)
        if place is not None
    ]
    assert all(100 < within.count(number) < 220 for number in range(10))


def test_splits_share_nothing_and_are_always_the_same() -> None:
    made = generate(SMALL)
    assert {name: len(part) for name, part in made.items()} == {"test": 9, "valid": 7, "train": 60}
    texts = [{text for text, _ in part} for part in made.values()]
    assert not (texts[0] & texts[1] or texts[0] & texts[2] or texts[1] & texts[2])
    assert made == generate(SMALL) != generate(Needles(train=60, valid=7, test=9, sentences=5, words=3, seed=2))


def test_sizes_are_checked_and_examples_are_of_known_words() -> None:
    with pytest.raises(ValueError, match="words must be at least 1: got 0"):
        Needles(words=0)
    known = {*HAY, *METALS}
    assert all(word.strip(".").lower() in known for text in EXAMPLES for word in text.split())
