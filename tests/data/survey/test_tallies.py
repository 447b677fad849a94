"""What many texts amount to, counted in bounded memory."""

import random
from array import array
from collections import Counter

import pytest

from saccade.data.survey.tallies import (
    WORD,
    Lengths,
    Side,
    Vocabulary,
    plain,
    repeats,
    unspaced,
    with_several,
)
from saccade.data.tokenizers.tokenizer import WORD as TOKENIZER_WORD


def test_lengths_give_what_sorting_all_of_them_would():
    drawn = [random.Random(7).randint(1, 50) ** 2 for _ in range(333)]
    lengths = Lengths()
    lengths.add(drawn[:100])
    lengths.add(drawn[100:])
    ordered = sorted(drawn)
    assert lengths.mean == pytest.approx(sum(drawn) / 333)
    assert lengths.longest == ordered[-1]
    for share in (0.5, 0.95, 0.99):
        at_most = lengths.within(share)
        assert sum(length <= at_most for length in drawn) >= share * 333 > sum(length < at_most for length in drawn)
    assert lengths.above(400) == sum(length > 400 for length in drawn)


def test_the_median_of_an_even_number_of_lengths_is_the_lower_one():
    lengths = Lengths()
    lengths.add([4, 1, 3, 2])
    assert lengths.within(0.5) == 2


def test_no_lengths_are_zero():
    assert (Lengths().mean, Lengths().longest, Lengths().within(0.5), Lengths().above(3)) == (0.0, 0, 0, 0)


def test_words_are_cut_as_the_tokenizer_cuts_them():
    assert WORD.pattern == TOKENIZER_WORD


def test_the_vocabulary_says_how_many_words_cover_a_share():
    vocabulary = Vocabulary()
    vocabulary.add(["a"] * 90 + ["b"] * 5 + ["c"] * 4 + ["d"])
    assert [vocabulary.covering(share) for share in (0.9, 0.95, 0.99, 1.0)] == [1, 2, 3, 4]
    assert (vocabulary.running, vocabulary.once) == (100, 1)


def test_a_full_vocabulary_says_so_and_still_counts_what_it_knows():
    vocabulary = Vocabulary(at_most=3)
    vocabulary.add(["a", "b", "c"])
    assert not vocabulary.full
    vocabulary.add(["a", "d", "e"])
    assert vocabulary.full
    assert vocabulary.counts == Counter({"a": 2, "b": 1, "c": 1})
    assert vocabulary.running == 6
    assert (vocabulary.covering(0.5), vocabulary.covering(0.99)) == (2, None)


def test_an_empty_vocabulary_covers_nothing():
    assert Vocabulary().covering(0.95) == 0


def test_a_side_counts_lengths_words_and_characters():
    side = Side()
    assert side.add(["Hi, you!", "no"]) == [4, 1]
    assert side.vocabulary.counts == Counter(["Hi", ",", "you", "!", "no"])
    assert side.character_lengths.longest == 8
    assert side.word_lengths.longest == 4
    side.add(["é\U0010ffff", "n"])
    assert side.characters == Counter("Hi, you!noné\U0010ffff")


def test_endless_words_are_counted_by_their_beginnings():
    side = Side()
    side.add(["x" * 100_000 + "y", "x" * 100_000 + "z"])
    assert side.vocabulary.counts == Counter({"x" * 100: 2})
    assert side.character_lengths.longest == 100_001


def test_words_that_were_split_already_stay_as_they_are():
    side = Side()
    assert side.add([("New-York", "is"), ("it",)]) == [2, 1]
    assert side.vocabulary.counts == Counter(["New-York", "is", "it"])


def test_unseen_words_are_a_share_of_the_running_words():
    known, other = Vocabulary(), Vocabulary()
    known.add(["a", "b"])
    other.add(["a", "c", "c", "b"])
    assert other.unseen_in(known) == 0.5 and Vocabulary().unseen_in(known) == 0.0


def test_repeats_are_those_that_came_before():
    assert repeats(array("q", [5, -7, 5, 3, -7, 5])) == (3, 2)
    assert repeats(array("q", [1, 2])) == (0, None) == repeats(array("q"))


def test_keys_with_several_partners_are_counted_once():
    one = array("q", [1, 1, 2, 2, 3, 1])
    other = array("q", [7, 8, 7, 7, 9, 9])
    assert with_several(one, other) == (1, 0)
    assert with_several(other, one) == (2, 0)
    assert with_several(array("q"), array("q")) == (0, None)


@pytest.mark.parametrize(
    ("text", "without_spaces"),
    [
        ("私は犬", True), ("ภาษาไทย", True), ("ｶﾅ", True), ("汤", True), ("한국어", False), ("привет", False),
        ("a mostly English sentence with one 汤 in it", False), ("2017-03-05", False), ("", False),
    ],
)  # fmt: skip
def test_scripts_without_spaces_between_words_are_known_by_a_share_of_the_letters(text, without_spaces):
    assert unspaced(Counter(text)) == without_spaces


def test_texts_are_compared_apart_from_case_spaces_and_punctuation():
    assert plain("Hello,  World!") == plain("hello world") != plain("hello worlds")
    assert plain("12-7") != plain("12/7") and plain("...") == "..."
