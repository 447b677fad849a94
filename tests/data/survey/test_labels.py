"""What ``saccade data`` finds out about labelled texts, and whether their recipe trains."""

from __future__ import annotations

import math

import pytest

from saccade.data.labels.classes import Classes
from saccade.data.labels.records import LabelColumns, LabelledData, WordTokens, load_labelled
from saccade.data.survey.labels import LabelSurvey
from saccade.recipes.recipe import read_recipe
from saccade.recipes.schema import dump_yaml

PLAIN = [(f"text {n} is good", "ab"[n % 2]) for n in range(100)]
ODD = ["true", "1", "null", "x: y", "#x", "no"]  # names that YAML would misread


@pytest.fixture
def table(tmp_path):
    def write(rows, name="x.tsv"):
        (tmp_path / name).write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
        return tmp_path / name

    return write


def planned(path, tests=()):
    return LabelSurvey(LabelledData(train=str(path)), tests).read()


def judged(path, **fields):
    return LabelSurvey(LabelledData(train=str(path), **fields), has_recipe=True, folder=path.parent).read()


def held_to(path, **fields) -> str:
    return "; ".join(judged(path, **fields).problems)


def test_rare_labels_are_listed_since_all_of_one_may_be_held_out(table, tmp_path) -> None:
    path = table([*PLAIN, *((f"rare {label}", label) for label in ODD)])
    (tmp_path / "my.yaml").write_text(dump_yaml(planned(path).recipe(tmp_path)))
    data = read_recipe(tmp_path / "my.yaml").data
    assert set(data.labels) == {"a", "b", *ODD}
    lacking = 0
    for seed in range(20):
        splits = load_labelled(data, tmp_path, seed)
        classes = Classes.of(splits.train, data.labels)
        lacking += 0 in classes.counts
        assert all(classes.number(record.target, "") >= 0 for record in (*splits.valid, *splits.test))
    assert lacking  # of some label every record was held out
    assert "labels" not in planned(table(PLAIN)).recipe()["data"]


def test_a_label_of_many_records_with_few_texts_is_rare_too(table) -> None:
    assert planned(table([*PLAIN, *[("the same", "c")] * 30])).recipe()["data"]["labels"] == ["a", "b", "c"]


def test_a_label_is_not_rare_where_nothing_is_held_out_of_train(table) -> None:
    path = table([*PLAIN, ("rare", "c")])
    assert "train may have no" not in " ".join(judged(path, valid=str(path), test=str(path)).notes)
    assert "train may have no text of c, where all are held out" in " ".join(judged(path).notes)


def test_a_recipe_is_held_to_its_own_max_length(table) -> None:
    path, longer = table(PLAIN), table([("a text of seven words, this is", "a")], "longer.tsv")
    assert held_to(path, max_length=4) == ""
    assert "100 texts exceed data.max_length=3 words (longest: 4): raise it" in held_to(path, max_length=3)
    assert "1 text exceeds data.max_length=4 words (longest: 8)" in held_to(path, test=longer.name, max_length=4)
    assert held_to(path, max_length=3, too_long="truncate") == ""
    assert "90 texts exceed data.max_length=14 characters (longest: 15)" in held_to(
        path, max_length=14, tokens=WordTokens("characters")
    )
    assert held_to(path, max_length=2, tokens=WordTokens("bpe")) == ""  # pieces are counted once they are learnt
    marked = table([(f"the <e1>sun</e1> {n}", "ab"[n % 2]) for n in range(9)], "marked.tsv")
    assert "(longest: 10)" in held_to(marked, max_length=5)
    assert held_to(marked, max_length=5, tokens=WordTokens("words", whole=("<e1>", "</e1>"))) == ""


def test_a_recipe_is_held_to_its_own_overlap(table) -> None:
    path, half = table(PLAIN), table([*PLAIN[:7], ("new", "a")], "half.tsv")
    for overlap in ("keep", "drop_test", "drop_train"):
        assert held_to(path, test=half.name, overlap=overlap) == ""
    assert "7 of 8 texts of" in held_to(path, test=half.name, overlap="error")
    assert "drop_train leaves none" in held_to(path, test="x.tsv", overlap="drop_train")
    assert "drop_test leaves none" in held_to(path, test="x.tsv", overlap="drop_test")


def test_texts_without_spaces_are_cut_into_characters(table, tmp_path) -> None:
    path = table([(f"总之昨天的汤我觉得{'喜欢' * (n % 5)}{chr(0x4E00 + n)}", "ab"[n % 2]) for n in range(60)])
    (tmp_path / "my.yaml").write_text(dump_yaml(planned(path).recipe(tmp_path)))
    data = read_recipe(tmp_path / "my.yaml").data
    assert (data.tokens.kind, data.tokens.min_count, data.max_length) == ("characters", 1, 24)
    mixed = [(f"{text}, as all of it is, 汤", label) for text, label in PLAIN]
    assert planned(table(mixed)).recipe()["data"]["tokens"]["kind"] == "words"


def test_few_different_texts_are_too_few_however_many_records_there_are(table) -> None:
    path = table([("good", "a"), ("bad", "b")] * 60)
    told = "120 training records with 2 different sources are too few to hold out a valid set and a test set"
    assert told in "; ".join(planned(path).problems)
    assert held_to(path, test="x.tsv") == "" == held_to(table([*PLAIN[:6]]))


def test_a_dataframe_written_with_its_index_is_read_by_its_names_and_trained_without_its_header(tmp_path) -> None:
    rows = (f"{n},{text},{label}\n" for n, (text, label) in enumerate(PLAIN))
    (tmp_path / "x.csv").write_text(",review,stars\n" + "".join(rows))
    survey = planned(tmp_path / "x.csv")
    assert survey.recipe()["data"]["columns"] == {"text": "review", "label": "stars"}
    assert (survey.counts, survey.train.records) == ({"a": 50, "b": 50}, 100)
    assert any("column 1" in note and "no name" in note for note in survey.notes)
    by_number = LabelledData(train="x.csv", columns=LabelColumns(2, 3))
    splits = load_labelled(by_number, tmp_path, seed=1)
    assert {record.target for part in (splits.train, splits.valid, splits.test) for record in part} == {"a", "b"}
    assert any("1 header row" in note for note in splits.notes)


def test_the_recipe_of_few_texts_keeps_the_last_network_and_that_of_many_the_best(table) -> None:
    few, many = (planned(table([(f"text {n} is good", "ab"[n % 2]) for n in range(count)])) for count in (301, 2301))
    written = few.recipe()
    assert written["model"]["encoder"] == "none" and written["data"]["tokens"]["min_count"] == 1
    assert written["train"]["keep"] == "last" and "watch" not in written["train"]
    assert written["data"]["hold_out"] == 0.15 and "hold_out" not in many.recipe()["data"]
    assert many.recipe()["train"]["watch"] == "accuracy" and "encoder" not in many.recipe()["model"]


@pytest.mark.parametrize("records", [23, 301, 1999])
def test_few_texts_are_trained_on_for_enough_updates(table, records) -> None:
    rows = [(f"text {n} is good", "ab"[n % 2]) for n in range(records)]
    train = planned(table(rows)).recipe()["train"]
    updates = train["epochs"] * math.ceil(0.7 * records / train["batch_records"])
    assert 100 <= updates <= 700


def test_no_text_is_cut_unless_a_few_are_far_longer_and_then_it_is_reported(table) -> None:
    rows = [(f"{'word ' * (n % 7)}text {n}", "ab"[n % 2]) for n in range(301)]
    longer = [(f"{'word ' * 47}text {n}", "ab"[n % 2]) for n in range(3)]  # not far from the rest
    assert planned(table([*rows, *longer])).recipe()["data"]["max_length"] >= 49
    far = planned(table([*rows, ("word " * 998 + "end x", "a")]))
    assert far.recipe()["data"]["max_length"] == 8
    assert any("1 text longer" in note and "1,000" in note and "8 words" in note for note in far.notes)
    assert not any("longer than" in note for note in planned(table([*rows, *longer])).notes)
