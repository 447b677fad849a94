"""Misspelt names: what is drawn, and that no misspelling is in two splits."""

import random

import pytest

from saccade.data.toy.spelling import SLIPS, Spelling, generate, misspell, names_of, words_of
from saccade.errors import InputError

SMALL = Spelling(train=300, valid=31, test=57)


def test_the_splits_have_the_sizes_asked_for_and_share_no_source():
    made = generate(SMALL)
    sources = [source for split in made.values() for source, _ in split]
    assert {split: len(pairs) for split, pairs in made.items()} == {"train": 300, "valid": 31, "test": 57}
    assert len(set(sources)) == len(sources)


def test_the_same_seed_gives_the_same_pairs_and_another_gives_others():
    assert generate(SMALL) == generate(SMALL)
    assert generate(SMALL) != generate(Spelling(train=300, valid=31, test=57, seed=2))


def test_targets_are_names_and_a_misspelling_never_spells_another_name():
    names = set(names_of("en"))
    pairs = [pair for split in generate(SMALL).values() for pair in split]
    assert all(target in names for _, target in pairs)
    assert all(source == target or source not in names for source, target in pairs)
    unchanged = sum(source == target for source, target in pairs) / len(pairs)
    assert 0.02 < unchanged < 0.2


def test_names_have_neither_digits_nor_brackets():
    names = names_of("en")
    assert {"Portuguese", "Brazil", "Lisbon", "US Dollar"} <= set(names)
    assert not [name for name in names if any(mark in name for mark in "()0123456789")]
    assert "Deutschland" in names_of("de")


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip.__name__)
def test_each_slip_changes_little(slip):
    draw = random.Random(3)
    for at in range(len("Kazakhstan")):
        spoilt = slip("Kazakhstan", at, draw)
        assert abs(len(spoilt) - len("Kazakhstan")) <= 1


def test_blanks_and_marks_are_never_hit():
    draw = random.Random(5)
    assert all(misspell("a-b c", draw).count("-") == 1 for _ in range(99))


def test_words_of_a_text_are_counted_and_rare_ones_left_out():
    lines = ["The harbour, the Harbour!", "a lighthouse 1999 harbour_x"]
    assert words_of(lines, 2) == ["harbour"]
    assert words_of(lines, 1) == ["harbour", "lighthouse"]


def test_too_few_words_for_so_many_misspellings_is_one_clear_error(tmp_path):
    (tmp_path / "my.txt").write_text("tree house\n")
    with pytest.raises(InputError, match="different misspellings"):
        generate(Spelling(words="my.txt", least=1, train=9999), tmp_path)
    (tmp_path / "my.txt").write_text("house\n")
    with pytest.raises(InputError, match=r"my\.txt.*found 1 such words"):
        generate(Spelling(words="my.txt", least=1), tmp_path)


def test_an_unknown_language_is_named():
    with pytest.raises(InputError, match=r"data\.spelling\.language.*found 'xx_nowhere'"):
        names_of("xx_nowhere")


def test_sizes_below_one_are_refused():
    with pytest.raises(ValueError, match="valid must be at least 1: got 0"):
        Spelling(valid=0)
