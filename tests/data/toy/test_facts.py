"""Made questions about people: one candidate answers, no question is in two splits, and no count of words finds the answer."""

from __future__ import annotations

import pytest

from saccade.data.rankings.word_overlap import SharedWords
from saccade.data.toy.facts import EXAMPLES, PEOPLE, THINGS, Facts, generate
from saccade.metrics.ranking import by_chance, ranking_statistics

MADE = generate(Facts(train=300, valid=50, test=100))


def test_each_question_has_one_answer_among_so_many() -> None:
    for question, candidates, relevance in generate(Facts(7, 5, 3, candidates=5))["train"]:
        assert len(candidates) == len(relevance) == 5 and sum(relevance) == 1
        answer, who = candidates[relevance.index(1.0)], next(name for name in PEOPLE if name in question.split())
        assert who in answer.split()
        assert sum(thing in answer.split() for things in THINGS.values() for thing in things) == 1


def test_splits_share_no_question_and_the_same_seed_makes_the_same() -> None:
    train, valid, test = ({question for question, *_ in MADE[name]} for name in ("train", "valid", "test"))
    assert not train & test and not train & valid and not valid & test
    assert generate(Facts(train=300, valid=50, test=100)) == MADE
    assert generate(Facts(train=300, valid=50, test=100, seed=2)) != MADE


def test_counting_shared_words_does_not_find_the_answer() -> None:
    shared = SharedWords.of(text for _, texts, _ in MADE["train"] for text in texts)
    scores = [[shared.features(question, text)[1] for text in texts] for question, texts, _ in MADE["test"]]
    relevance = [grades for *_, grades in MADE["test"]]
    assert by_chance(relevance) == pytest.approx(0.4083, abs=1e-4)
    assert ranking_statistics("map", scores, relevance).value < 0.45


def test_the_examples_can_be_typed() -> None:
    assert all(len(each.split("\t")) == 4 for each in EXAMPLES)
    for fields in ({"train": 0}, {"candidates": 1}):
        with pytest.raises(ValueError, match="at least"):
            Facts(**fields)
