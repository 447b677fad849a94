"""What many texts amount to, counted in bounded memory."""

import random
from array import array
from collections import Counter

import pytest

from saccade.data.survey.tallies import WORD, Characters, Lengths, Repeats, Sample, Side, Vocabulary, with_several
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
    assert vocabulary.covering(0.9, 0.95, 0.99, 1.0) == (1, 2, 3, 4)
    assert (vocabulary.running, vocabulary.once) == (100, 1)


def test_a_full_vocabulary_says_so_and_still_counts_what_it_knows():
    vocabulary = Vocabulary(at_most=3)
    vocabulary.add(["a", "b", "c"])
    assert not vocabulary.full
    vocabulary.add(["a", "d", "e"])
    assert vocabulary.full
    assert vocabulary.counts == Counter({"a": 2, "b": 1, "c": 1})
    assert vocabulary.running == 6
    assert vocabulary.covering(0.5, 0.99) == (2, None)


def test_an_empty_vocabulary_covers_nothing():
    assert Vocabulary().covering(0.95) == (0,)


def test_characters_are_counted_across_chunks_up_to_the_last_code_point():
    characters = Characters()
    for chunk in (["aé", "a"], [], ["\U0010ffff", "é€"]):
        characters.add(chunk)
    assert characters.counts == Counter("aéa\U0010ffffé€")


def test_a_side_counts_lengths_words_and_characters():
    side = Side()
    assert side.add(["Hi, you!", "no"]) == [4, 1]
    assert side.vocabulary.counts == Counter(["Hi", ",", "you", "!", "no"])
    assert side.character_lengths.longest == 8
    assert side.word_lengths.longest == 4


def test_endless_words_are_counted_by_their_beginnings():
    side = Side()
    side.add(["x" * 100_000 + "y", "x" * 100_000 + "z"])
    assert side.vocabulary.counts == Counter({"x" * 100: 2})
    assert side.character_lengths.longest == 100_001


@pytest.mark.parametrize("chunk", [1, 3, 7, 1000])
def test_a_sample_is_even_bounded_and_the_same_whatever_the_chunks(chunk):
    sample: Sample[int] = Sample(10)
    for start in range(0, 1000, chunk):
        sample.add(list(range(1000))[start : start + chunk])
    assert 10 <= len(sample.items) < 20
    steps = {after - before for before, after in zip(sample.items, sample.items[1:])}
    assert len(steps) == 1
    assert sample.items[0] == 0


def test_a_short_stream_is_sampled_whole():
    sample: Sample[int] = Sample(10)
    sample.add([3, 5, 7])
    assert sample.items == [3, 5, 7]


def test_repeats_are_those_that_came_before():
    repeats = Repeats(array("q", [5, -7, 5, 3, -7, 5]))
    assert [repeats.came_before(row) for row in range(6)] == [False, False, True, False, True, True]
    assert repeats.different == 3


def test_what_was_kept_is_remembered_by_its_key():
    repeats = Repeats(array("q", [5, -7, 5]))
    assert not repeats.was_kept(2)
    repeats.keep(0)
    assert repeats.was_kept(2) and not repeats.was_kept(1)
    assert repeats.different_kept == 1


def test_keys_with_several_partners_are_counted_once():
    one = array("q", [1, 1, 2, 2, 3, 1])
    other = array("q", [7, 8, 7, 7, 9, 9])
    assert with_several(one, other) == 1
    assert with_several(other, one) == 2


def test_nothing_repeats_nothing():
    assert Repeats(array("q")).different == 0
    assert with_several(array("q"), array("q")) == 0
