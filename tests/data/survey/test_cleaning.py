"""The rules of cleaning: what each speaks of, and what it lets pass."""

import pytest

from saccade.data.survey.cleaning import (
    NAMES,
    REPEATED_RULES,
    TEXT_RULES,
    check_names,
    leaked,
    plain,
    swapped_languages,
    swapped_scripts,
    switched,
    tidy,
    unexpected_script,
    writable,
)
from saccade.data.survey.language_id import letters_of
from saccade.errors import SaccadeError

RULES = {rule.name: rule for rule in TEXT_RULES}
LATIN, CYRILLIC = (
    letters_of(frozenset({name}), "abcdefghijklmnopqrstuvwxyzабвгдежзиклмнопрстуя") for name in ("Latin", "Cyrillic")
)

SPOKEN_OF = {
    "control": [("a\x07b", "c"), ("c", "\x1b[31mred"), ("a\x7f", "b"), ("a\x93b", "c")],
    "garbled": [
        ("caf\u00c3\u00a9", "café"), ("x", "it\u00e2\u20ac\u2122s"), ("a\ufffdb", "c"), ("\u00c2\u00a35", "£5"),
        ("\u00d0\u0178\u00d1\u20ac\u00d0\u00b8", "при"), ("manh\u00c3\u00a0", "x"), ("\u00ef\u00bb\u00bfa", "a"),
    ],
    "no_letters": [("...", "a"), ("a", "—"), ("😀", "smile"), ("_ _", "a")],
    "markup": [("<br>", "a"), ("a", "https://example.com/a?b=c"), ('<a href="x"></a>', "b"), ("www.example.com", "x")],
    "copied": [("This is not a name.", "This is not a name. "), ("我" * 31, "我" * 31)],
    "ratio": [("a", "b" * 20), ("ab" * 14, "abc")],
    "tags": [("a <b>bold</b> word", "x"), ("x", "line<br/>"), ("x", '<img src="y">')],
    "blanks": [(" a", "b"), ("a", "b "), ("a  b", "c"), ("a\tb", "c"), ("a", "b\u00a0")],
}  # fmt: skip
PASSED = {
    "control": [("a b\u2028", "é\t\n"), ("می\u200cخواهم", "want"), ("a\u00adb", "c")],
    "garbled": [
        ("NÃO FAÇA", "don't"), ("«MANH\u00c3\u00bb", "morning"), ("âge", "Âme"), ("Ñandú", "Ð"), ("naïve", "ï"),
        ("AMANH\u00c3\u00a0!", "tomorrow"),
    ],
    "no_letters": [("2017-03-05", "5 March"), ("7", "seven"), ("12:30", "12:30"), ("字", "ह")],
    "markup": [("see https://example.com", "a"), ("<b>bold</b>", "b"), ("a < b", "c"), ("...", "...")],
    "copied": [("Tom", "Tom"), ("Visual Studio Code", "Visual Studio Code"), ("a b c d", "a b c e")],
    "ratio": [("a", "b" * 19), ("ab", "b" * 18), ("a", "b" * 9)],
    "tags": [("a < b and c > d", "x"), ("<3", "x"), ("<>", "x"), ("i<n", "n>m")],
    "blanks": [("a b", "c"), ("a b c", "d e f")],
}  # fmt: skip


@pytest.mark.parametrize(("name", "pair"), [(name, pair) for name, pairs in SPOKEN_OF.items() for pair in pairs])
def test_a_rule_speaks_of_what_it_is_for(name, pair):
    assert RULES[name].test(*pair)


@pytest.mark.parametrize(("name", "pair"), [(name, pair) for name, pairs in PASSED.items() for pair in pairs])
def test_a_rule_lets_pass_what_only_looks_like_it(name, pair):
    assert not RULES[name].test(*pair)


def test_every_rule_about_texts_is_tried_here_both_ways():
    assert set(SPOKEN_OF) == set(PASSED) == set(RULES)


@pytest.mark.parametrize("pair", [("Hello.", "Привет."), ("Schön, daß…", "Хорошо"), ("seven", "7"), ("1 м", "1 m")])
def test_an_ordinary_pair_is_left_out_by_no_rule(pair):
    assert [rule.name for rule in TEXT_RULES if rule.on and rule.test(*pair)] == []


def test_a_side_in_another_script_is_spoken_of_and_a_name_in_latin_is_not():
    stray = unexpected_script(LATIN, CYRILLIC).test
    assert stray("где вокзал", "где вокзал")
    assert stray("字", "иероглиф")
    assert stray("the cat sat on the mat", "the cat sat on the mat")
    assert not stray("GitHub", "GitHub")
    assert not stray("GitHub is там", "гитхаб is here and there")
    assert not stray("12", "...")


def test_sides_in_each_others_script_are_swapped():
    swapped = swapped_scripts(LATIN, CYRILLIC).test
    assert swapped("кот", "cat")
    assert not swapped("cat", "кот")
    assert not swapped("кот (cat)", "cat")
    assert not swapped("кот", "кот")
    assert not swapped("12", "cat")


def test_sides_in_each_others_language_are_swapped():
    swapped = swapped_languages("en", "pt").test
    english, portuguese = "This is the house that they built", "Esta é uma casa que eles não fizeram"
    assert swapped(portuguese, english)
    assert not swapped(english, portuguese)
    assert not swapped(portuguese, portuguese)
    assert not swapped(portuguese, "Lisboa")
    assert not swapped(f"the {portuguese}", english)


def test_a_source_of_the_test_set_is_leaked_whatever_its_case_blanks_and_marks():
    rule = leaked(frozenset({hash(plain("Yes, I do!"))}))
    assert rule.test("yes i  DO", "sim")
    assert not rule.test("yes you do", "sim")


@pytest.mark.parametrize(
    ("one", "other"), [("Hello,  World!", "hello world"), ("¿Qué — tal?", "qué tal"), ("ＡＢＣ", "abc"), ("A.B", "a b")]
)
def test_plain_forms_ignore_case_blanks_and_marks(one, other):
    assert plain(one) == plain(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("12-7", "12/7"), ("3.4", "34"), ("कि", "की"), ("a+b", "ab"), ("resume", "résumé"), ("...", "?!")],
)
def test_plain_forms_keep_numbers_and_letters_apart(one, other):
    assert plain(one) != plain(other)


def test_tidy_makes_runs_of_blanks_one_space():
    assert tidy(" a \t b\u00a0\n") == "a b"


@pytest.mark.parametrize("text", ["a\tb", "a\nb", "a\rb"])
def test_what_a_tsv_cannot_hold_is_unwritable(text):
    assert writable("a TSV").test(text, "x") and writable("a TSV").test("x", text)
    assert not writable("a TSV").test("a b", "c")


def test_rules_are_turned_off_and_on_by_name():
    ratio, tags = RULES["ratio"], RULES["tags"]
    assert ratio.on and not tags.on
    assert not switched(ratio, ["ratio"], []).on
    assert switched(tags, [], ["tags"]).on
    assert switched(ratio, ["tags"], ["copied"]).on
    assert switched(ratio, ["ratio"], []).test is ratio.test


@pytest.mark.parametrize(
    ("keep", "drop", "said"),
    [
        (["ration"], [], "--keep: expected one of control, "),
        (["ration"], [], "(did you mean ratio?)"),
        ([], ["nothing at all"], "--drop: expected one of"),
        (["ratio"], ["tags", "ratio"], "--keep ratio --drop ratio: expected one of the two, found both"),
        ([], ["leaked"], "--drop leaked: expected a test set to compare with, found none (give --test)"),
    ],
)
def test_names_that_cannot_be_meant_are_refused(keep, drop, said):
    with pytest.raises(SaccadeError) as error:
        check_names(keep, drop, with_test=False)
    assert said in str(error.value)


def test_all_names_are_different_and_accepted():
    assert len(set(NAMES)) == len(NAMES)
    assert {rule.name for rule in (*TEXT_RULES, *REPEATED_RULES)} < set(NAMES)
    check_names(NAMES, [], with_test=True)
