"""What a survey reports of pairs, whether they would train, and the recipe it writes."""

import gzip
import json
import os
import random
from pathlib import Path

import pytest

from saccade.data.pairs.records import Columns, PairFiles
from saccade.data.survey import survey as skeleton
from saccade.data.survey.pairs import limits_for, nice, power_of_two
from saccade.data.survey.tallies import Lengths
from saccade.data.tokenizers.tokenizer import TokenizerConfig
from saccade.errors import InputError
from saccade.recipes.recipe import read_recipe
from saccade.recipes.schema import dump_yaml
from tests.surveyed import GOOD, look, table


def checks(survey):
    return [count for count, _ in survey.checks()]


def problems(path, **fields) -> str:
    return "; ".join(look(path, has_recipe=True, **fields).problems)


def test_lengths_and_words_are_counted_on_each_side(tmp_path):
    survey = look(table(tmp_path, GOOD))
    source, target = survey.train.sides["source"], survey.train.sides["target"]
    assert (survey.train.records, survey.train.fault_count) == (5, 0)
    assert source.character_lengths.longest == max(len(source) for source, _ in GOOD)
    assert (target.word_lengths.longest, source.vocabulary.counts["?"]) == (7, 2)
    assert (survey.repeated, survey.different) == (0, 5)


def test_faults_are_counted_by_reason_with_the_first_line_of_each(tmp_path):
    path = table(tmp_path, [*GOOD, ("one",), ("a", "b", "c"), ("x", " "), ("y", "")])
    faults = look(path).to_json()["faults"]
    assert {reason: (each["count"], each["line"]) for reason, each in faults.items()} == {
        "wrong number of columns": (2, 6),
        "one side is empty": (2, 8),
    }
    assert faults["one side is empty"]["example"].startswith(f"{path}:8: target: expected text")


def test_repeats_several_partners_and_identical_sides_are_counted_with_an_example(tmp_path):
    rows = [("a", "x"), ("b", "y"), ("a", "x"), ("a", "z"), ("c", "y"), ("a", "x"), ("d", "d ")]
    survey = look(table(tmp_path, rows))
    assert checks(survey) == [2, 1, 1, 1]
    assert survey.examples["repeated"] == 'line 3: "a" → "x"'
    assert survey.examples["contradicted"] == 'line 1: "a" → "x"'
    assert survey.examples["identical"].startswith('line 7: "d"')


def test_what_a_test_set_shares_is_counted_exactly_and_nearly(tmp_path):
    train = table(tmp_path, [*GOOD, ("Yes.", "Sim."), ("...", "…")])
    rows = [GOOD[0], ("yes", "sim"), ("YES!", "sim"), ("no", "não"), (GOOD[1][0], "outra"), ("...", "?")]
    survey = look(train, [table(tmp_path, rows, "t.tsv")])
    (held,) = survey.tests
    assert (held.records, held.met, held.near, held.whole) == (6, 3, 5, 1)
    assert survey.examples[held.name].startswith(f'line 1: "{GOOD[0][0]}"')
    (note,) = [note for note in survey.notes if "too optimistic" in note]
    assert note.startswith(f"5 of 6 pairs of {held.name}")


def test_a_test_set_of_sources_alone_beside_two_text_files(tmp_path):
    for name, text in (("a.en", "Yes.\nOne\nTwo\n"), ("a.pt", "Sim.\nUm\nDois\n"), ("test.en", "yes.\nno.\n")):
        (tmp_path / name).write_text(text)
    survey = look((tmp_path / "a.en", tmp_path / "a.pt"), [tmp_path / "test.en"])
    (held,) = survey.tests
    assert (survey.train.records, held.records, held.met, held.near) == (3, 2, 0, 1)
    assert "test" not in survey.recipe()["data"]
    assert not any("same target" in text for section in survey.sections() for _, text, *_ in section.rows)


def test_an_empty_file_and_one_of_faults_alone_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"pairs.tsv: expected at least one pair"):
        look(table(tmp_path, []))
    with pytest.raises(
        InputError, match=r"none: 2 wrong number of columns .*pairs.tsv:2: .*expected 2 columns, found 1"
    ):
        look(table(tmp_path, [("source", "target"), ("a",), ("b",)]))


def test_many_faults_would_not_train_and_a_few_are_dropped(tmp_path):
    path = table(tmp_path, [*GOOD, ("one",)])
    survey = look(path)
    assert not survey.problems and survey.recipe()["data"]["faults"] == "drop"
    assert any("1 malformed line" in note for note in survey.notes)
    (problem,) = look(table(tmp_path, [*GOOD, ("one",), ("two",)])).problems
    assert "2 malformed lines, the first: " in problem and "pairs.tsv:6" in problem


def test_a_file_that_breaks_off_is_surveyed_as_far_as_it_goes(tmp_path):
    path = tmp_path / "pairs.tsv.gz"
    whole = gzip.compress("".join(f"{n} {random.random()}\t{random.random()} {n}\n" for n in range(5000)).encode())
    path.write_bytes(whole[: len(whole) // 2])
    survey = look(path)
    assert 1000 < survey.train.records < 4000
    assert "truncated" in str(survey.train.broken) and "truncated" in survey.problems[0]


def test_an_example_is_left_out_where_the_file_has_changed(tmp_path, monkeypatch):
    path = table(tmp_path, [*GOOD, GOOD[0]])
    find = skeleton.Survey._find_examples

    def rewrite_and_find(survey):
        table(tmp_path, [("x", "y")] * 9)
        find(survey)

    monkeypatch.setattr(skeleton.Survey, "_find_examples", rewrite_and_find)
    survey = look(path)
    assert survey.repeated == 1 and survey.examples == {}


def test_memory_is_bounded_by_characters_as_well_as_by_pairs(tmp_path, monkeypatch):
    chunks = []
    original = skeleton.Part.add
    monkeypatch.setattr(skeleton, "CHUNK_SIZE", 1000)
    monkeypatch.setattr(skeleton.Part, "add", lambda self, chunk: chunks.append(len(chunk)) or original(self, chunk))
    survey = look(table(tmp_path, [(f"{n} " + "long " * 100, f"{n} " + "text " * 100) for n in range(7)]))
    assert max(chunks) == 1 and survey.train.records == 7


def test_progress_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(skeleton, "CHUNK", 2)
    steps, path = [], table(tmp_path, GOOD)
    look(path, progress=lambda *step: steps.append(step))
    assert steps == [(str(path), 2), (str(path), 4)]


def test_the_json_form_has_every_key(tmp_path):
    path = table(tmp_path, [*GOOD, *GOOD, ("one",)])
    plain = json.loads(json.dumps(look(path, [path]).to_json()))
    assert set(plain) == {
        "file", "kind", "task", "unit", "format", "columns", "records", "different", "faults", "broken", "sides", "repeated",
        "contradicted", "examples", "tests", "headless", "identical", "several_sources", "tokens", "would_train", "problems",
        "notes",
    }  # fmt: skip
    assert (plain["records"], plain["different"], plain["repeated"]) == (10, 5, 5)
    assert set(plain["sides"]["source"]["characters"]) == {"mean", "median", "p95", "p99", "longest", "different"}
    assert plain["sides"]["source"]["vocabulary"]["capped"] is False
    (test,) = plain["tests"]
    assert (test["met"], test["near"], test["whole"], test["unseen_words"]) == (10, 10, 10, 0.0)


# Limits, the verdict, and the recipe


def test_limits_hold_the_longest_text():
    assert limits_for(Lengths([30] * 50 + [83])) == (90, "error", 2048)


def test_a_few_far_longer_texts_are_cut_and_counted(tmp_path):
    assert limits_for(Lengths([40] * 990 + [47] * 20 + [3000, 9000]))[:2] == (50, "truncate")
    survey = look(table(tmp_path, [*GOOD * 40, ("word " * 300, "x"), ("word " * 310, "y")]))
    (section,) = [section for section in survey.sections() if section.title == "Limits"]
    assert section.rows[0][0] == "2" and "40 words" in section.rows[0][1]
    assert survey.recipe()["data"]["too_long"] == "truncate"


def test_a_batch_holds_the_longest_text_that_is_allowed():
    assert limits_for(Lengths([20_000]))[2] >= 20_001


def test_round_numbers_are_no_less():
    assert [nice(length) for length in (0, 1, 83, 100, 101, 1000, 1234)] == [40, 40, 90, 100, 150, 1000, 1500]
    assert [power_of_two(number) for number in (1, 2, 3, 64, 65)] == [1, 2, 4, 64, 128]


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        (GOOD, "words"),
        ([("seven", "7"), ("eight", "8"), ("nine", "9")], "characters"),
        ([("私は犬が好きです。", "I like my dogs a lot.")] * 3, "characters"),
        ([("나는 우리 집 개를 아주 좋아한다.", "I like my dogs a lot.")] * 3, "words"),
    ],
)
def test_the_tokenizer_follows_from_the_texts(tmp_path, rows, kind):
    assert look(table(tmp_path, rows)).cut()[0] == kind


def test_words_beyond_any_vocabulary_are_split_into_subwords(tmp_path, monkeypatch):
    monkeypatch.setattr("saccade.data.survey.pairs.LARGEST_WORDS", 5)
    data = look(table(tmp_path, GOOD)).recipe()["data"]
    assert (data["tokens"], data["too_long"]) == ({"kind": "bpe", "size": 8000}, "truncate")


def test_two_sources_are_too_few(tmp_path):
    rows = [("a", "x"), ("b", "y"), ("b", "z")]
    (problem,) = look(table(tmp_path, rows)).problems
    assert "2 different sources are too few" in problem
    assert not look(table(tmp_path, [*rows, ("c", "z")])).problems


def test_a_recipe_is_judged_by_its_own_limits(tmp_path):
    path = table(tmp_path, [*GOOD, ("one",)])
    words, characters = TokenizerConfig(kind="words"), TokenizerConfig(kind="characters")
    assert problems(path, faults="drop") == ""
    assert "1 malformed line" in problems(path)
    found = problems(path, faults="drop", max_length=7, tokens=words)
    assert "2 sources exceed data.max_length=7 words (longest: 8)" in found
    assert problems(path, faults="drop", max_length=7, too_long="truncate") == ""
    notes = look(path, has_recipe=True, faults="drop", max_length=7, too_long="truncate", tokens=words).notes
    assert any("2 sources exceed data.max_length=7 words (longest: 8)" in note for note in notes)
    mixed = problems(path, faults="drop", max_length=8, tokens=words, target_tokens=characters)
    assert "5 targets exceed data.max_length=8 characters" in mixed and "sources" not in mixed
    assert problems(path, faults="drop", max_length=3, tokens=TokenizerConfig(kind="bpe")) == ""


def test_a_recipe_that_forbids_overlap_would_not_train_with_one(tmp_path):
    path = table(tmp_path, GOOD)
    assert "5 of 5 pairs" in problems(path, test=str(path), overlap="error")
    assert "drop_test leaves none" in problems(path, test=str(path), overlap="drop_test")
    survey = look(path, has_recipe=True, test=str(path))
    assert not survey.problems and any("too optimistic" in note for note in survey.notes)
    other = table(tmp_path, [GOOD[0], ("new", "novo")], "t.tsv")
    assert not any(
        "optimistic" in note for note in look(path, has_recipe=True, test=str(other), overlap="drop_test").notes
    )


def test_a_group_that_no_record_has_would_not_train(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps({"source": source, "target": target}) + "\n" for source, target in GOOD))
    assert "no record has the group 'nope'" in look(path, columns=Columns(group="nope")).problems


def test_the_recipe_reads_the_file_as_it_was_read(tmp_path):
    rows = [(n, *pair) for n, pair in zip("12345", GOOD, strict=True)]
    path = table(tmp_path, [*rows[:2], ("broken",), *rows[2:]], "odd name: #1.txt")
    survey = look(path, columns=Columns(2, 3, group=1), format="tsv")
    (tmp_path / "my.yaml").write_text(dump_yaml(survey.recipe()), encoding="utf-8")
    data = read_recipe(tmp_path / "my.yaml").data
    assert Path(data.train) == path
    assert (data.columns, data.format, data.faults) == (Columns(2, 3, group=1), "tsv", "drop")
    assert data.tokens == TokenizerConfig(kind="words", size=1000, min_count=2)


def test_the_recipe_of_two_files(tmp_path):
    first, second = tmp_path / "a.en", tmp_path / "a.pt"
    first.write_text("one\ntwo\n\nthree\n")
    second.write_text("um\ndois\n\ntrês\n")
    survey = look((first, second))
    assert survey.train.records == 3
    (tmp_path / "my.yaml").write_text(dump_yaml(survey.recipe()), encoding="utf-8")
    assert read_recipe(tmp_path / "my.yaml").data.train == PairFiles(str(first), str(second))


@pytest.mark.parametrize("name", ["v2021-08-07.eng-por", "v2020-07-28.eng-fra"])
def test_real_translations_are_good_data(name):
    path = Path(os.environ.get("SACCADE_DATA", "nowhere"), f"tatoeba_challenge/tatoeba-test-{name}.txt.gz")
    if not path.is_file():
        pytest.skip(f"SACCADE_DATA names no folder with {path.name}")
    survey = look(path, columns=Columns(3, 4), format="tsv")
    assert not survey.problems and survey.train.records > 5000 and survey.train.fault_count == 0
