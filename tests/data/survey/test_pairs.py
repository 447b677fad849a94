"""What is in a file, what cleaning would leave out of it, and would it train."""

import gzip
import json
import os
import random
from pathlib import Path

import pytest

from saccade.data.pairs.records import Columns, read_pairs
from saccade.data.survey import pairs as census_module
from saccade.data.survey import pairs as survey_module
from saccade.data.survey.cleaning import Cleaned
from saccade.data.survey.pairs import Reading, summary
from saccade.data.survey.recipe import advise
from saccade.errors import InputError, SaccadeError
from tests.surveyed import GOOD, look, table


def found(result):
    return {tally.rule.name: tally.found for tally in result.rules if tally.found}


def left_out(result):
    return {tally.rule.name: tally.left_out for tally in result.rules if tally.left_out}


def test_lengths_words_languages_and_scripts_are_told_of_each_side(tmp_path):
    result = look(table(tmp_path, GOOD))
    assert (result.census.pairs, result.census.fault_count) == (5, 0)
    assert result.census.source.character_lengths.longest == max(len(source) for source, _ in GOOD)
    assert result.census.target.word_lengths.longest == 7
    assert result.census.source.vocabulary.counts["?"] == 2
    assert (result.source.language.language, result.target.language.language) == ("en", "pt")
    assert result.source.scripts == {"Latin": 1.0}
    assert found(result) == {}
    assert (result.left.pairs, result.left.sources) == (5, 5)


def test_faults_are_counted_by_reason_with_the_first_line_of_each(tmp_path):
    path = table(tmp_path, [*GOOD, ("one",), ("a", "b", "c"), ("x", " "), ("y", "")])
    faults = look(path).census.faults
    assert {reason: (tally.count, tally.line) for reason, tally in faults.items()} == {
        "wrong number of columns": (2, 6),
        "one side is empty": (2, 8),
    }


def test_repeats_are_counted_as_pairs_and_by_partners(tmp_path):
    result = look(table(tmp_path, [("a", "x"), ("b", "y"), ("a", "x"), ("a", "z"), ("c", "y"), ("a", "x")]))
    assert found(result) == {"duplicate": 2, "same_source": 3, "same_target": 3}
    assert left_out(result) == {"duplicate": 2}
    assert (result.several_targets, result.several_sources) == (1, 1)
    assert (result.left.pairs, result.left.sources) == (4, 3)


def test_the_first_of_the_repeats_that_is_good_is_kept(tmp_path):
    rows = [("a", "b" * 30), ("a", "x"), ("a", "y"), *GOOD]
    result = look(table(tmp_path, rows), drop=["same_source"])
    assert left_out(result) == {"ratio": 1, "same_source": 1}
    assert result.left.pairs == 6


def test_a_pair_is_counted_for_each_rule_and_left_out_for_the_first(tmp_path):
    result = look(table(tmp_path, [*GOOD, ("@@", "a line of many letters, far too long for it")]))
    assert found(result) == {"no_letters": 1, "ratio": 1}
    assert left_out(result) == {"no_letters": 1}


def test_kept_and_left_out_are_all_that_was_read(tmp_path):
    random.seed(3)
    alphabet = ["a", "b c", "...", "\x07", "caf\u00c3\u00a9", "word " * 7, "", "<br>", "я", "x" * 40, "www.a.b"]
    rows = [tuple(random.choice(alphabet) for _ in range(random.choice([2, 2, 2, 1, 3]))) for _ in range(500)]
    path = table(tmp_path, [("source", "target"), *rows])
    with Cleaned(tmp_path / "out.tsv") as cleaned:
        result = look(path, cleaned=cleaned, drop=["tags"], keep=["markup"])
    logged = [json.loads(line) for line in cleaned.log.read_text(encoding="utf-8").splitlines()]
    assert cleaned.written == result.left.pairs == len(read_pairs(cleaned.out)) > 10
    assert cleaned.left_out == len(logged) > 100
    assert cleaned.written + cleaned.left_out == result.census.read
    reasons = {name: sum(entry["rule"] == name for entry in logged) for name in {entry["rule"] for entry in logged}}
    assert reasons == {**left_out(result), "fault": result.census.fault_count}
    lines = path.read_text(encoding="utf-8").split("\n")
    for entry in logged:
        assert entry["rule"] == "fault" or lines[entry["line"] - 1] == f"{entry['source']}\t{entry['target']}"
    assert "markup" not in reasons


def test_what_was_cleaned_needs_no_more_cleaning(tmp_path):
    rows = [*GOOD, *GOOD, ("Tom", "Tom"), ("a", "..."), ("the same four words here", "the same four words here")]
    with Cleaned(tmp_path / "out.jsonl") as cleaned:
        look(table(tmp_path, rows), cleaned=cleaned)
    again = look(tmp_path / "out.jsonl")
    assert left_out(again) == {}
    assert again.left.pairs == cleaned.written == 6


def test_rules_that_are_kept_leave_nothing_out_and_are_still_counted(tmp_path):
    result = look(table(tmp_path, [*GOOD, *GOOD]), keep=["duplicate"])
    assert found(result)["duplicate"] == 5
    assert left_out(result) == {}


def test_swapped_lines_are_found_by_their_language(tmp_path):
    swapped = ("Eu não sei o que ela disse", "I do not know what she said")
    result = look(table(tmp_path, [*GOOD * 3, swapped]), keep=["duplicate"])
    assert left_out(result) == {"swapped": 1}


def test_swapped_and_stray_lines_are_found_by_their_script(tmp_path):
    rows = [(f"the cat number {n}", f"кошка номер {n}") for n in "abcdefghijklmnopqrst"]
    result = look(table(tmp_path, [*rows, ("ещё одна кошка", "one more cat"), ("猫", "кот"), ("GitHub", "GitHub")]))
    assert left_out(result) == {"swapped": 1, "script": 1}
    assert next(tally.line for tally in result.rules if tally.rule.name == "swapped") == 21


def test_tidying_comes_before_counting(tmp_path):
    rows = [("a  b ", "x"), ("a b", "x"), ("c", "\u00a0y"), ("d", "z")]
    assert found(look(table(tmp_path, rows)))["blanks"] == 2
    result = look(table(tmp_path, rows), tidy=True)
    assert "blanks" not in found(result)
    assert left_out(result) == {"duplicate": 1}


def test_what_a_test_set_shares_is_counted_exactly_and_nearly(tmp_path):
    train = table(tmp_path, [*GOOD, ("Yes.", "Sim."), ("...", "…")])
    test = table(
        tmp_path,
        [GOOD[0], ("yes", "sim"), ("YES!", "sim"), ("no", "não"), (GOOD[1][0], "outra"), ("...", "?")],
        "t.tsv",
    )
    result = look(train, held_out={"t": Reading(test)})
    (held,) = result.held_out
    assert (held.read, held.exact, held.near, held.whole) == (6, 3, 5, 1)
    assert (held.line, held.example) == (1, GOOD[0][0])
    assert found(result)["leaked"] == 4


def test_a_test_set_of_sources_alone_has_no_whole_pairs(tmp_path):
    sources = tmp_path / "test.en"
    sources.write_text("yes.\nno.\n")
    train = table(tmp_path, [("Yes.", "Sim."), *GOOD])
    (held,) = look(train, held_out={"test": Reading((sources, sources))}).held_out
    assert (held.exact, held.near, held.whole) == (0, 1, None)


def test_two_text_files_are_pairs_of_lines(tmp_path):
    first, second = tmp_path / "a.en", tmp_path / "a.pt"
    first.write_text("one\ntwo\n\nthree\n")
    second.write_text("um\ndois\n\ntrês\n")
    assert look((first, second)).left.pairs == 3


def test_an_empty_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="expected at least one pair, found an empty file"):
        look(table(tmp_path, []))


def test_a_file_of_faults_alone_would_not_train(tmp_path):
    path = table(tmp_path, [("source", "target"), ("a",), ("b",)])
    result = look(path)
    assert (result.census.pairs, result.left.pairs) == (0, 0)
    advice = advise(result)
    assert not advice.would_train
    assert "2 of 2 lines are no pairs, mostly wrong number of columns" in advice.because[0]
    assert "at least 3 different sources are needed" in advice.because[1]


def test_a_file_that_breaks_off_is_surveyed_as_far_as_it_goes(tmp_path):
    path = tmp_path / "pairs.tsv.gz"
    whole = gzip.compress("".join(f"{n} {random.random()}\t{random.random()} {n}\n" for n in range(5000)).encode())
    path.write_bytes(whole[: len(whole) // 2])
    with Cleaned(tmp_path / "out.tsv") as cleaned:
        result = look(path, cleaned=cleaned)
    assert 1000 < result.census.pairs < 4000
    assert "breaks off" in str(result.census.broken)
    assert cleaned.written == result.census.pairs
    assert not advise(result).would_train


def test_a_file_that_changes_between_the_passes_is_refused(tmp_path, monkeypatch):
    path = table(tmp_path, GOOD)
    monkeypatch.setattr(survey_module, "_tongue", rewriting(path, [*GOOD[:2], ("other", "words"), *GOOD[3:]]))
    with pytest.raises(InputError, match=r"pairs\.tsv:3: expected a file that stays as it is"):
        look(path)


def test_a_file_that_shrinks_between_the_passes_is_refused(tmp_path, monkeypatch):
    path = table(tmp_path, GOOD)
    monkeypatch.setattr(survey_module, "_tongue", rewriting(path, GOOD[:3]))
    with pytest.raises(InputError, match="expected a file that stays as it is"):
        look(path)


def test_a_file_that_grows_between_the_passes_is_read_as_it_was(tmp_path, monkeypatch):
    path = table(tmp_path, GOOD)
    monkeypatch.setattr(survey_module, "_tongue", rewriting(path, [*GOOD, *GOOD, ("more", "x")]))
    assert look(path).left.pairs == 5


def rewriting(path, rows):
    """The step between the passes, which now finds another file when it is over."""
    original = survey_module._tongue

    def step(*arguments):
        table(path.parent, rows, path.name)
        return original(*arguments)

    return step


def test_memory_is_bounded_by_characters_as_well_as_by_pairs(tmp_path, monkeypatch):
    chunks = []
    original = census_module.Census._add
    monkeypatch.setattr(census_module, "CHUNK_SIZE", 1000)
    monkeypatch.setattr(
        census_module.Census, "_add", lambda self, chunk, held: chunks.append(len(chunk)) or original(self, chunk, held)
    )
    result = look(table(tmp_path, [(f"{n} " + "long " * 100, f"{n} " + "text " * 100) for n in range(7)]))
    assert max(chunks) == 1
    assert all(len(pair.source) <= 1000 for pair in result.census.sample.items)
    assert result.census.pairs == 7


def test_progress_is_told_in_both_passes(tmp_path, monkeypatch):
    monkeypatch.setattr(census_module, "CHUNK", 2)
    monkeypatch.setattr(survey_module, "EVERY", 2)
    told = []
    look(table(tmp_path, GOOD), progress=lambda *step: told.append(step))
    assert told == [("reading", 2, None), ("reading", 4, None), ("checking", 2, 5), ("checking", 4, 5)]


def test_a_misspelt_rule_is_refused_before_anything_is_read(tmp_path):
    with pytest.raises(SaccadeError, match="did you mean duplicate"):
        look(tmp_path / "nothing.tsv", keep=["duplicates"])


def test_the_summary_is_plain_data_with_every_key(tmp_path):
    path = table(tmp_path, [*GOOD, *GOOD, ("one",)])
    result = look(path, held_out={"test": Reading(path)})
    plain = json.loads(json.dumps(summary(result, advise(result), None, [])))
    assert set(plain) == {
        "files", "format", "columns", "headless", "tidied", "read", "pairs", "faults", "broken", "source", "target", "repeats",
        "rules", "left", "leakage", "advice", "verdict", "recipe", "next", "cleaned",
    }  # fmt: skip
    assert (plain["read"], plain["pairs"], plain["left"]) == (11, 10, {"pairs": 0, "sources": 0})
    assert plain["faults"][0]["line"] == 11
    assert plain["repeats"] == {"pairs": 5, "sources_with_several_targets": 0, "targets_with_several_sources": 0}
    assert plain["source"]["words"]["capped"] is False
    assert set(plain["source"]["characters"]) == {"mean", "median", "p95", "p99", "longest", "different"}
    assert plain["leakage"][0]["exact_sources"] == 10
    assert plain["rules"][-1]["example"]["line"] == 6


@pytest.mark.parametrize(
    ("name", "columns", "format", "languages"),
    [
        ("tatoeba_challenge/tatoeba-test-v2021-08-07.eng-por.txt.gz", Columns(3, 4), "tsv", ("en", "pt")),
        ("tatoeba_challenge/tatoeba-test-v2020-07-28.eng-fra.txt.gz", Columns(3, 4), "tsv", ("en", "fr")),
    ],
)
def test_real_translations_are_good_data(name, columns, format, languages):
    folder = os.environ.get("SACCADE_DATA")
    if not folder or not Path(folder, name).is_file():
        pytest.skip(f"SACCADE_DATA names no folder with {name}")
    result = look(Path(folder, name), columns=columns, format=format)
    assert (result.source.language.language, result.target.language.language) == languages
    assert result.left.pairs >= 0.999 * result.census.read
    assert advise(result).would_train
