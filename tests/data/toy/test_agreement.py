"""The made language is what its grammar says, and its entropy is known."""

import math
import random

import pytest

from saccade.data.toy.agreement import (
    ACTING,
    ACTS,
    DETERMINERS,
    NOUNS,
    OBJECT,
    RESTING,
    THAT,
    Agreement,
    generate,
    optimum,
    sentence,
)


class Reader:
    """The one derivation of a sentence, and its probability: an account of the grammar of its own."""

    def __init__(self, words: list[str], clauses: float) -> None:
        self.words, self.clauses, self.place, self.log_prob = words, clauses, 0, 0.0

    def next(self) -> str | None:
        return self.words[self.place] if self.place < len(self.words) else None

    def take(self, forms: list[str]) -> str:
        word = self.next()
        assert word in forms, (self.words, self.place)
        self.place += 1
        self.log_prob -= math.log(len(forms))
        return word

    def choose(self, yes: bool, share: float) -> bool:
        self.log_prob += math.log(share if yes else 1 - share)
        return yes

    def noun_phrase(self) -> int:
        self.take(list(DETERMINERS))
        noun = self.take([form for pair in NOUNS for form in pair])
        number = next(pair.index(noun) for pair in NOUNS if noun in pair)
        if self.choose(self.next() == THAT, self.clauses):
            self.place += 1
            if self.choose(self.next() in DETERMINERS, OBJECT):
                other = self.noun_phrase()
                self.take([pair[other] for pair in ACTING])
            else:
                self.verb_phrase(number)
        return number

    def verb_phrase(self, number: int) -> None:
        acting = [pair[number] for pair in ACTING]
        if self.choose(self.next() in acting, ACTS):
            self.take(acting)
            self.noun_phrase()
        else:
            self.take([pair[number] for pair in RESTING])


def log_prob(text: str, clauses: float) -> float:
    reader = Reader(text.split(), clauses)
    reader.verb_phrase(reader.noun_phrase())
    assert reader.next() is None, text
    return reader.log_prob


def test_verbs_agree_with_their_subjects_across_clauses() -> None:
    assert log_prob("the dogs that the cat sees sleep", 0.3) < 0
    with pytest.raises(AssertionError):
        log_prob("the dogs that the cat sees sleeps", 0.3)


@pytest.mark.parametrize("clauses", [0.0, 0.3, 0.5])
def test_the_optimum_is_what_drawn_sentences_cost_in_the_mean(clauses: float) -> None:
    rng = random.Random(7)
    drawn = [sentence(clauses, rng) for _ in range(4000)]
    nats, words = -sum(log_prob(text, clauses) for text in drawn), sum(len(text.split()) for text in drawn)
    best = optimum(clauses)
    assert words / 4000 == pytest.approx(best.words, rel=0.06)
    assert math.exp(nats / (words + 4000)) == pytest.approx(best.perplexity, rel=0.01)


def test_without_clauses_the_optimum_can_be_worked_by_hand() -> None:
    # det noun verb, and in half of all sentences det noun again
    nats = 1.5 * (math.log(2) + math.log(16)) + math.log(2) + math.log(4)
    assert optimum(0.0).nats == pytest.approx(nats)
    assert optimum(0.0).words == pytest.approx(4.0)


def test_a_split_does_not_change_with_the_size_of_another() -> None:
    small, large = generate(Agreement(train=7, valid=3, test=5)), generate(Agreement(train=11, valid=3, test=5))
    assert small["test"] == large["test"] and small["train"] == large["train"][:7]
    assert generate(Agreement(7, 3, 5, seed=2))["train"] != small["train"]


@pytest.mark.parametrize("bad", [{"train": 0}, {"clauses": 0.7}, {"clauses": -0.1}])
def test_bad_sizes_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Agreement(**bad)  # type: ignore[arg-type]
