"""What two texts share: by count, by how rare the words are, from both sides."""

from __future__ import annotations

import math

import pytest

from saccade.data.rankings.word_overlap import FEATURES, SharedWords
from saccade.errors import InputError

SHARED = SharedWords.of(["the cat sat", "the dog sat", "the owl", "the owl"])


def test_a_text_is_counted_once_and_rare_words_say_more() -> None:
    assert SHARED.candidates == 3 and SHARED.holding == {"sat": 2, "the": 3}
    assert SHARED.idf("the") == 0 < SHARED.idf("sat") < SHARED.idf("dog") == SHARED.idf("never seen")


def test_the_features_are_those_worked_by_hand() -> None:
    rare, common = math.log(4 / 2), math.log(4 / 3)
    found = SHARED.features("the dog sat ?", "The dog , a dog .")
    # {the, dog, sat} and {the, dog, a}: the, dog are shared, and "the" says nothing.
    assert found == pytest.approx([2 / 3, rare / (rare + common), 2 / 3, rare / (2 * rare)])
    assert len(found) == FEATURES and SHARED.features("? !", "…") == [0.0] * FEATURES


def test_it_is_kept_and_read_back() -> None:
    assert SharedWords.from_json(SHARED.to_json(), "x") == SHARED
    for broken in (
        "{",
        "[]",
        '{"candidates": 3}',
        '{"candidates": "x", "holding": {}}',
        '{"candidates": 1, "holding": 3}',
    ):
        with pytest.raises(InputError, match=r"shared_words.json"):
            SharedWords.from_json(broken, "shared_words.json")
