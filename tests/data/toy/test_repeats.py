"""The made task: every later mention has the tag of the first, and no word tells its tag by itself."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from saccade.data.toy.repeats import EXAMPLES, SIGNS, TAGS, Repeats, first_of, generate

SMALL = Repeats(train=300, valid=5, test=7)


def test_a_word_has_the_tag_that_the_number_behind_its_first_mention_tells() -> None:
    for words, tags in generate(SMALL)["train"]:
        for place, word in enumerate(words):
            if word not in SIGNS:
                first = first_of(words, place)
                assert tags[place] == tags[first] == TAGS[int(words[first + 1])]


def test_no_word_tells_its_tag_by_itself() -> None:
    found = defaultdict(Counter)
    for words, tags in generate(SMALL)["train"]:
        for word, tag in zip(words, tags):
            found[word][tag] += 1
    assert all(max(counts.values()) < 0.5 * sum(counts.values()) for word, counts in found.items() if word not in SIGNS)


def test_the_same_seed_draws_the_same_and_another_others() -> None:
    assert generate(SMALL) == generate(SMALL) != generate(Repeats(train=300, valid=5, test=7, seed=2))
    assert {name: len(part) for name, part in generate(SMALL).items()} == {"train": 300, "valid": 5, "test": 7}
    assert all(example.split() for example in EXAMPLES)


@pytest.mark.parametrize("fields", [{"train": 0}, {"least": 9}, {"most": 41}, {"words": 999}])
def test_numbers_that_cannot_be_are_refused(fields) -> None:
    with pytest.raises(ValueError, match="must"):
        Repeats(**fields)
