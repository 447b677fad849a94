"""No label leaves unseen, and none does harm."""

import unicodedata

import pytest

from saccade.trace.axes import Positions, Tokens
from saccade.views.labels import is_character, is_complex, is_marker, plain, visible, word_at, words_of

HOSTILE = [
    "\x1b[31m", "\x1b]0;title\x07", "\x9b31m", "a\nb", "\r", "\t", "\x00", "\x7f", "\u202eevil", "\u2066", "\u200e",
    "\u2028", "\u2029", "\ufeff", "\ud800", "\udfff", "\U000e0041", "\ue000", "\uffff", "\u200b", "",
]  # fmt: skip


@pytest.mark.parametrize("label", HOSTILE)
@pytest.mark.parametrize("controls", ["pictures", "escapes"])
def test_nothing_that_acts_on_a_terminal_or_vanishes_is_left(label: str, controls: str) -> None:
    shown = visible(label, controls)  # type: ignore[arg-type]
    assert shown
    assert not any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp") for character in shown)
    assert plain(visible(label, "escapes")).isascii()
    assert plain(visible(label, "escapes")).isprintable()


def test_control_characters_are_pictures_or_escapes() -> None:
    assert visible("\x1b[31m\n\x7f") == "␛[31m␊␡"
    assert visible("\x1b[31m\n\x7f", "escapes") == "\\x1b[31m\\n\\x7f"


def test_spaces_are_shown_where_they_would_be_missed() -> None:
    assert visible(" ") == "␣"
    assert visible("  ") == "␣␣"
    assert visible("\u00a0") == "␣"
    assert visible("\u3000") == "␣"
    assert visible(" of the ") == "␣of the␣"


def test_marks_without_a_letter_stand_on_a_dotted_circle() -> None:
    assert visible("\u093f") == "◌\u093f"  # a Hindi vowel sign
    assert visible("\u064e") == "◌\u064e"  # an Arabic one
    assert visible("कि") == "कि"


def test_joiners_stay_inside_words_and_are_named_alone() -> None:
    assert visible("می\u200cخواهم") == "می\u200cخواهم"
    assert visible("👨\u200d👩") == "👨\u200d👩"
    assert visible("\u200c") == "U+200C"


def test_ordinary_text_is_left_as_it_is() -> None:
    for label in ("</script>", "$x_1^2$", "\\frac", "年月", "سلام", "▁the", "Ġa", "😀", "%s {0}"):
        assert visible(label) == label


def test_ascii_keeps_letters_and_spells_the_rest() -> None:
    assert plain("terça") == "terca"
    assert plain("großen") == "grossen"
    assert plain("年") == "\\u5e74"
    assert plain("😀") == "\\U0001f600"
    assert plain("␣…←") == "_~<"


def test_a_character_is_a_letter_with_its_marks_or_an_emoji() -> None:
    assert all(map(is_character, ["a", " ", "年", "é", "e\u0301", "👨\u200d👩\u200d👧", "🇩🇪", ""]))
    assert not any(map(is_character, ["ab", "年月", "<eos>", "😀😀"]))


def test_scripts_whose_letters_join_are_complex() -> None:
    assert is_complex("سلام")
    assert is_complex("हिन्दी")
    assert is_complex("שלום")
    assert not is_complex("großen")
    assert not is_complex("年月")


class TestWords:
    def test_characters_are_grouped_into_runs_of_letters_and_digits(self) -> None:
        axis = Tokens([*"5 de maio, 2009", "<eos>"])
        words = words_of(axis)
        texts = list(dict.fromkeys(word_at(axis, words, place)[0] for place in range(len(axis))))
        assert texts == ["5", " ", "de", "maio", ",", "2009", "<eos>"]

    def test_chinese_dates_come_apart_at_digits(self) -> None:
        axis = Tokens(list("2009年5月"))
        assert [word_at(axis, words_of(axis), place)[0] for place in (0, 4, 5, 6)] == ["2009", "年", "5", "月"]

    def test_marks_belong_to_the_letters_before_them(self) -> None:
        axis = Tokens(list("मंगल 5"))
        assert word_at(axis, words_of(axis), 1) == ("मंगल", [0, 1, 2, 3])

    def test_words_that_an_axis_names_are_taken(self) -> None:
        axis = Tokens(["un", "##do", "it"], words=(0, 0, 1))
        assert word_at(axis, words_of(axis), 1) == ("un##do", [0, 1])

    def test_whole_words_and_numbered_positions_stand_for_themselves(self) -> None:
        assert words_of(Tokens(["the", "cat"])) == (0, 1)
        assert words_of(Positions.of(12)) == tuple(range(12))


def test_markers_are_what_the_axis_says_or_what_looks_like_one() -> None:
    said = Tokens(["<b>", "x", "[SEP]"], special=(2,))
    assert [is_marker(said, place) for place in range(3)] == [False, False, True]
    unsaid = Tokens(["<eos>", "<", "<>", "< a>", "</s>"])
    assert [is_marker(unsaid, place) for place in range(5)] == [True, False, False, False, True]
