"""Rows to copy: their lengths, their words, their splits."""

import pytest

from saccade.data.toy.copy import Copies, generate


def test_the_target_is_the_source_and_lengths_are_spread_evenly():
    made = generate(Copies(train=7, valid=5, test=191, shortest=10, longest=200, words=13))
    assert all(source == target for split in made.values() for source, target in split)
    assert sorted(len(source.split()) for source, _ in made["test"]) == list(range(10, 201))


def test_there_are_as_many_different_words_as_asked_for():
    made = generate(Copies(train=57, valid=3, test=3, words=31))
    assert len({word for split in made.values() for source, _ in split for word in source.split()}) == 31


def test_the_same_seed_gives_the_same_rows_and_no_row_is_in_two_splits():
    small = Copies(train=99, valid=11, test=13)
    assert generate(small) == generate(small)
    rows = [source for split in generate(small).values() for source, _ in split]
    assert len(set(rows)) == len(rows)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"longest": 3}, "longest must be at least shortest=10: got 3"), ({"words": 1}, "words must be at least 2: got 1"),
     ({"test": 0}, "test must be at least 1: got 0")],
)  # fmt: skip
def test_impossible_sizes_are_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        Copies(**wrong)
