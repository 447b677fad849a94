"""Which writing system a text is in."""

from collections import Counter

import pytest

from saccade.data.survey.language_id import letters_of, main_scripts, script_of, script_shares, usual_scripts


@pytest.mark.parametrize(
    ("character", "script"),
    [
        ("a", "Latin"), ("ß", "Latin"), ("я", "Cyrillic"), ("λ", "Greek"), ("ع", "Arabic"), ("ש", "Hebrew"),
        ("ह", "Devanagari"), ("字", "Han"), ("ひ", "Hiragana"), ("カ", "Katakana"), ("ー", "Katakana"), ("한", "Hangul"),
        ("ก", "Thai"), ("Ａ", "Latin"), ("ｶ", "Katakana"), ("ª", "Latin"),
    ],
)  # fmt: skip
def test_a_letter_has_the_script_of_its_name(character, script):
    assert script_of(character) == script


@pytest.mark.parametrize("character", ["7", "٣", ".", " ", "€", "\u0301", "😀", "\x07", "\ufffd", "\U0010ffff"])
def test_what_is_no_letter_has_no_script(character):
    assert script_of(character) is None


def test_shares_are_of_the_letters_alone_and_the_largest_comes_first():
    shares = script_shares(Counter("привет abc 1234567890 !!!"))
    assert shares == pytest.approx({"Cyrillic": 6 / 9, "Latin": 3 / 9})
    assert list(shares) == ["Cyrillic", "Latin"]


def test_a_side_without_letters_has_no_scripts():
    assert script_shares(Counter("2017-03-05")) == {}
    assert main_scripts({}) == usual_scripts({}) == frozenset()


def test_a_stray_script_is_not_usual():
    assert usual_scripts({"Latin": 0.97, "Cyrillic": 0.03}) == {"Latin"}


def test_scripts_that_are_written_side_by_side_come_together():
    assert usual_scripts({"Hiragana": 0.96, "Katakana": 0.04}) == {"Han", "Hiragana", "Katakana"}
    assert usual_scripts({"Han": 1.0}) == {"Han"}
    assert main_scripts({"Hangul": 0.6, "Latin": 0.4}) == {"Hangul", "Han"}


def test_the_pattern_finds_letters_of_the_script_among_those_that_occur():
    pattern = letters_of(frozenset({"Cyrillic"}), "abc^]-\\яж")
    assert pattern.search("xyz ж")
    assert not pattern.search("abc^]-\\")


def test_the_pattern_of_no_letters_finds_nothing():
    assert not letters_of(frozenset({"Greek"}), "abc").search("abc λ")
