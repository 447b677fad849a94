"""Made sentences with two marked nouns and the verb between them."""

from __future__ import annotations

import re

import pytest

from saccade.data.files.semeval import ENTITY_MARKS
from saccade.data.toy.relations import EXAMPLES, RELATIONS, Verbs, deciding, generate


def test_the_verb_names_the_relation_and_the_order_of_the_marks_its_direction() -> None:
    for text, label in generate(Verbs(train=200, valid=1, test=1))["train"]:
        start, end = deciding(text)
        first, second = re.findall(r"<(e[12])>", text)
        assert label == f"{RELATIONS[text[start:end]]}({first},{second})"
        assert all(text.count(mark) == 1 for mark in ENTITY_MARKS)


def test_all_labels_occur_and_only_some_sentences_have_a_clause_beside() -> None:
    made = generate(Verbs(train=400, valid=1, test=1))["train"]
    assert len({label for _, label in made}) == 2 * len(RELATIONS)
    beside = [sum(text.count(f" {verb} ") for verb in RELATIONS) > 1 for text, _ in made]
    assert 0.4 < sum(beside) / len(beside) < 0.6
    alone = generate(Verbs(train=100, valid=1, test=1, beside=0))["train"]
    assert all(sum(text.count(f" {verb} ") for verb in RELATIONS) == 1 for text, _ in alone)


def test_no_sentence_that_is_held_out_is_trained_on() -> None:
    made = generate(Verbs(300, 50, 70))
    train, valid, test = ({text for text, _ in made[name]} for name in ("train", "valid", "test"))
    assert not (train & valid or train & test or valid & test)


def test_the_same_seed_draws_the_same_and_another_seed_others() -> None:
    assert generate(Verbs(9, 3, 3)) == generate(Verbs(9, 3, 3)) != generate(Verbs(9, 3, 3, seed=2))


def test_examples_have_a_deciding_verb_and_a_text_without_marks_has_none() -> None:
    for example in EXAMPLES:
        assert deciding(example)
    with pytest.raises(ValueError, match="must hold a verb after a marked noun"):
        deciding("the storm caused a flood")


def test_bad_settings_name_the_field() -> None:
    for bad in ({"train": 0}, {"beside": 1.5}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            Verbs(**bad)
