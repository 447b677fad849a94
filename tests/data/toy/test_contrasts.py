"""Made sentences that praise one thing and blame another."""

from __future__ import annotations

from collections import defaultdict

import pytest

from saccade.data.toy.contrasts import ADJECTIVES, EXAMPLES, Contrasts, deciding, generate


def test_every_sentence_has_two_records_with_opposite_labels() -> None:
    made = generate(Contrasts(train=30, valid=5, test=7))
    assert {name: len(part) for name, part in made.items()} == {"train": 60, "valid": 10, "test": 14}
    labels = defaultdict(list)
    for (sentence, _), label in [record for part in made.values() for record in part]:
        labels[sentence].append(label)
    assert all(sorted(each) == ["negative", "positive"] * (len(each) // 2) for each in labels.values())


def test_no_sentence_that_is_held_out_is_trained_on() -> None:
    made = generate(Contrasts(train=300, valid=50, test=70))
    train, valid, test = ({sentence for (sentence, _), _ in made[name]} for name in ("train", "valid", "test"))
    assert not (train & valid or train & test or valid & test)


def test_the_deciding_word_is_an_adjective_of_the_label() -> None:
    for (sentence, aspect), label in generate(Contrasts(train=200, valid=1, test=1))["train"]:
        start, end = deciding(sentence, aspect)
        assert sentence[start:end] in ADJECTIVES[label]
    with pytest.raises(ValueError, match="must say something of 'tea'"):
        deciding("the soup is good", "tea")


def test_the_same_seed_draws_the_same_and_another_seed_others() -> None:
    assert generate(Contrasts(9, 3, 3)) == generate(Contrasts(9, 3, 3)) != generate(Contrasts(9, 3, 3, seed=2))


def test_examples_are_a_sentence_a_tab_and_one_of_its_aspects() -> None:
    for example in EXAMPLES:
        sentence, aspect = example.split("\t")
        assert deciding(sentence, aspect)


def test_bad_sizes_name_the_field() -> None:
    with pytest.raises(ValueError, match="valid must be at least 1"):
        Contrasts(valid=0)
