"""What a survey says about training: lengths, the cut, the verdict and a recipe."""

from pathlib import Path

import pytest

from saccade.data.pairs.records import Columns, PairData, PairFiles
from saccade.data.survey.cleaning import Cleaned
from saccade.data.survey.pairs import Reading
from saccade.data.survey.recipe import advise, limits_for, nice, power_of_two, recipe_text
from saccade.data.survey.tallies import Lengths
from saccade.data.tokenizers.tokenizer import TokenizerConfig
from saccade.recipes.recipe import read_recipe
from tests.surveyed import GOOD, look, table


def lengths(*values):
    made = Lengths()
    made.add(values)
    return made


def test_lengths_to_set_hold_the_longest_text():
    limits = limits_for(lengths(*[30] * 50, 83))
    assert (limits.max_length, limits.too_long, limits.cut) == (90, "error", 0)
    assert limits.batch_tokens == 2048


def test_a_few_far_longer_texts_are_cut_and_counted():
    limits = limits_for(lengths(*[40] * 990, *[47] * 20, 3000, 9000))
    assert (limits.max_length, limits.too_long, limits.cut) == (50, "truncate", 2)


def test_a_batch_holds_the_longest_text_that_is_allowed():
    assert limits_for(lengths(20_000)).batch_tokens >= 20_001


def test_round_numbers_are_no_less():
    assert [nice(length) for length in (0, 1, 83, 100, 101, 1000, 1234)] == [40, 40, 90, 100, 150, 1000, 1500]
    assert [power_of_two(number) for number in (1, 2, 3, 64, 65)] == [1, 2, 4, 64, 128]


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        (GOOD, "words"),
        ([("seven", "7"), ("eight", "8"), ("nine", "9")], "characters"),
        ([("私は犬が好きです。", "I like my dogs a lot.")] * 3, "characters"),
    ],
)
def test_the_cut_follows_from_the_texts(tmp_path, rows, kind):
    assert advise(look(table(tmp_path, rows))).cut.kind == kind


def test_words_beyond_any_vocabulary_are_cut_into_subwords(tmp_path, monkeypatch):
    monkeypatch.setattr("saccade.data.survey.recipe.LARGEST_WORDS", 5)
    result = look(table(tmp_path, GOOD))
    advice = advise(result)
    assert advice.cut.kind == "bpe"
    assert advice.limits.too_long == "truncate"
    assert "kind: bpe, size: 8000" in recipe_text(result, advice)


def test_a_rule_that_speaks_of_most_pairs_is_questioned(tmp_path):
    advice = advise(look(table(tmp_path, [(f"smile {n}", "😀") for n in range(9)] + GOOD)))
    assert any(note.startswith("no_letters speaks of 64% of the pairs") for note in advice.notes)


def test_two_sources_are_too_few(tmp_path):
    rows = [("a", "x"), ("b", "y"), ("b", "z")]
    assert not advise(look(table(tmp_path, rows))).would_train
    assert advise(look(table(tmp_path, [*rows, ("c", "z")]))).would_train


def test_a_recipe_is_judged_by_its_own_limits(tmp_path):
    result = look(table(tmp_path, [*GOOD, ("one",)]))
    data = {"train": "pairs.tsv", "faults": "drop"}
    assert advise(result, PairData(**data)).would_train
    assert "1 line is no pair" in advise(result, PairData(train="pairs.tsv")).because[0]
    short = advise(result, PairData(**data, max_length=7, tokens=TokenizerConfig(kind="words")))
    assert short.because[0].startswith("2 sources have more than data.max_length, 7 words, the longest 8")
    assert advise(result, PairData(**data, max_length=7, too_long="truncate")).would_train
    mixed = PairData(
        **data, max_length=8, tokens=TokenizerConfig(kind="words"), target_tokens=TokenizerConfig(kind="characters")
    )
    assert "targets have more than data.max_length, 8 characters" in advise(result, mixed).because[0]
    assert advise(result, PairData(**data, max_length=3, tokens=TokenizerConfig(kind="bpe"))).would_train


def test_a_recipe_that_forbids_overlap_would_not_train_with_one(tmp_path):
    path = table(tmp_path, GOOD)
    result = look(path, held_out={"test": Reading(path)})
    data = {"train": "pairs.tsv", "test": "pairs.tsv"}
    assert not advise(result, PairData(**data, overlap="error")).would_train
    assert any("would flatter" in note for note in advise(result, PairData(**data)).notes)
    assert advise(result, PairData(**data, overlap="drop_test")).notes == []


def test_the_recipe_reads_the_file_as_it_was_read(tmp_path):
    rows = [("1", *GOOD[0]), ("2", *GOOD[1]), ("broken",), ("3", *GOOD[2])]
    result = look(table(tmp_path, rows, "odd name: #1.txt"), columns=Columns(2, 3, group=1), format="tsv")
    (tmp_path / "my.yaml").write_text(recipe_text(result, advise(result)), encoding="utf-8")
    data = read_recipe(tmp_path / "my.yaml").data
    assert Path(data.train) == tmp_path / "odd name: #1.txt"
    assert (data.columns, data.format, data.faults) == (Columns(2, 3, group=1), "tsv", "drop")
    assert data.tokens == TokenizerConfig(kind="words", size=1000, min_count=2)


def test_the_recipe_of_two_files_and_of_a_cleaned_one(tmp_path):
    first, second = tmp_path / "a.en", tmp_path / "a.pt"
    first.write_text("one\ntwo\nthree\n")
    second.write_text("um\ndois\ntrês\n")
    recipe = tmp_path / "my.yaml"
    result = look((first, second))
    recipe.write_text(recipe_text(result, advise(result)), encoding="utf-8")
    assert read_recipe(recipe).data.train == PairFiles(str(first), str(second))
    with Cleaned(tmp_path / "out.tsv") as cleaned:
        result = look((first, second), cleaned=cleaned)
    recipe.write_text(recipe_text(result, advise(result)), encoding="utf-8")
    assert read_recipe(recipe).data.train == str(tmp_path / "out.tsv")


def test_the_recipe_of_a_cleaned_file_keeps_its_groups(tmp_path):
    rows = [("doc", *pair) for pair in GOOD]
    with Cleaned(tmp_path / "out.tsv", grouped=True) as cleaned:
        result = look(table(tmp_path, rows), columns=Columns(2, 3, group=1), cleaned=cleaned)
    (tmp_path / "my.yaml").write_text(recipe_text(result, advise(result)), encoding="utf-8")
    assert read_recipe(tmp_path / "my.yaml").data.columns == Columns(group="group")
