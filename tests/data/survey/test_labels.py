"""What ``saccade data`` finds out about labelled texts, and whether their recipe trains."""

from __future__ import annotations

import pytest

from saccade.data.labels.classes import Classes
from saccade.data.labels.records import LabelledData, WordTokens, load_labelled
from saccade.data.survey.labels import survey_labels
from saccade.recipes.recipe import read_recipe

PLAIN = [(f"text {n} is good", "ab"[n % 2]) for n in range(100)]
ODD = ["true", "1", "null", "x: y", "#x", "no"]  # names that YAML would misread


@pytest.fixture
def table(tmp_path):
    def write(rows, name="x.tsv"):
        (tmp_path / name).write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
        return tmp_path / name

    return write


def planned(path, tests=()):
    return survey_labels(path, LabelledData(train=str(path)), tests, planned=True)


def held_to(path, tests=(), **fields) -> str:
    return "; ".join(survey_labels(path, LabelledData(train=str(path), **fields), tests).problems)


def test_rare_labels_are_listed_since_all_of_one_may_be_held_out(table, tmp_path) -> None:
    path = table([*PLAIN, *((f"rare {label}", label) for label in ODD)])
    (tmp_path / "my.yaml").write_text(planned(path).recipe(tmp_path))
    data = read_recipe(tmp_path / "my.yaml").data
    assert set(data.labels) == {"a", "b", *ODD}
    lacking = 0
    for seed in range(20):
        splits = load_labelled(data, tmp_path, seed)
        classes = Classes.of(splits.train, data.labels)
        lacking += 0 in classes.counts
        assert all(classes.number(record.target, "") >= 0 for record in (*splits.valid, *splits.test))
    assert lacking  # of some label every record was held out
    assert "labels:" not in planned(table(PLAIN)).recipe()


def test_a_label_of_many_records_with_few_texts_is_rare_too(table) -> None:
    assert "labels: [a, b, c]" in planned(table([*PLAIN, *[("the same", "c")] * 30])).recipe()


def test_a_label_is_not_rare_where_nothing_is_held_out_of_train(table) -> None:
    path = table([*PLAIN, ("rare", "c")])
    data = LabelledData(train=str(path), valid=str(path), test=str(path))
    assert "train: may have no" not in " ".join(survey_labels(path, data, [path, path]).notes)
    assert "train: may have no record of c, where all" in " ".join(survey_labels(path, LabelledData(train="x")).notes)


def test_a_recipe_is_held_to_its_own_max_length(table) -> None:
    path, longer = table(PLAIN), table([("a text of seven words, this is", "a")], "longer.tsv")
    assert held_to(path, max_length=4) == ""
    assert "more than data.max_length, 3 words: 100, the longest 4: raise it" in held_to(path, max_length=3)
    assert "4 words: 1, the longest 8" in held_to(path, [longer], test="longer.tsv", max_length=4)
    assert held_to(path, max_length=3, too_long="truncate") == ""
    assert "14 characters: 90, the longest 15" in held_to(path, max_length=14, tokens=WordTokens("characters"))
    assert held_to(path, max_length=2, tokens=WordTokens("bpe")) == ""  # pieces are counted once they are learnt
    marked = table([(f"the <e1>sun</e1> {n}", "ab"[n % 2]) for n in range(9)], "marked.tsv")
    assert "the longest 10" in held_to(marked, max_length=5)
    assert held_to(marked, max_length=5, tokens=WordTokens("words", whole=("<e1>", "</e1>"))) == ""


def test_a_recipe_is_held_to_its_own_overlap(table) -> None:
    path, half = table(PLAIN), table([*PLAIN[:7], ("new", "a")], "half.tsv")
    for overlap in ("keep", "drop_test", "drop_train"):
        assert held_to(path, [half], test="half.tsv", overlap=overlap) == ""
    assert "7 of 8 texts of" in held_to(path, [half], test="half.tsv", overlap="error")
    assert "drop_train nothing is left to train on" in held_to(path, [path], test="x.tsv", overlap="drop_train")
    assert "drop_test nothing is left of it" in held_to(path, [path], test="x.tsv", overlap="drop_test")


def test_texts_without_spaces_are_cut_into_characters(table, tmp_path) -> None:
    path = table([(f"总之昨天的汤我觉得{'喜欢' * (n % 5)}{chr(0x4E00 + n)}", "ab"[n % 2]) for n in range(60)])
    (tmp_path / "my.yaml").write_text(planned(path).recipe(tmp_path))
    data = read_recipe(tmp_path / "my.yaml").data
    assert (data.tokens.kind, data.tokens.min_count, data.max_length) == ("characters", 1, 24)
    assert "kind: words" in planned(table([(f"{text}, as all of it is, 汤", label) for text, label in PLAIN])).recipe()


def test_few_different_texts_are_too_few_however_many_records_there_are(table) -> None:
    path = table([("good", "a"), ("bad", "b")] * 60)
    told = "120 training records with 2 different sources are too few to hold out a valid set and a test set"
    assert told in "; ".join(planned(path).problems)
    assert held_to(path, [path], test="x.tsv") == "" == held_to(table([*PLAIN[:6]]))
