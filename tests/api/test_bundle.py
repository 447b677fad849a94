"""A run's own held-out records: those of training, or none."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pandas
import pytest

from saccade import api
from saccade.errors import InputError
from saccade.explain import erasure
from saccade.explain.words import words
from saccade.recipes.recipe import read_recipe

pytestmark = pytest.mark.usefixtures("module_unchecked")

WORDS = ("soup", "film", "hotel", "novel", "song", "play", "garden")
RECIPE = """task: classify
data: {train: train.tsv%s}
model: {name: attentive_classifier, hidden: 5, embedding: 3}
train: {updates: 2, device: cpu, threads: 1}
metrics: [accuracy]
"""


def table(count: int, seed: int) -> str:
    draw = random.Random(seed)
    rows = [f"{' '.join(draw.choices(WORDS, k=5))} {number}\t{'ab'[number % 2]}" for number in range(count)]
    return "\n".join(["text\tlabel", *rows, ""])


@pytest.fixture(scope="module")
def trained(tmp_path_factory, module_unchecked) -> Path:
    """A run whose valid and test are drawn out of train, and one with files of their own."""
    folder = tmp_path_factory.mktemp("held")
    for name, seed in (("train", 1), ("valid", 2), ("test", 3)):
        (folder / f"{name}.tsv").write_text(table(93, seed))
    for name, files in (("drawn", ""), ("given", ", valid: valid.tsv, test: test.tsv")):
        (folder / f"{name}.yaml").write_text(RECIPE % files)
        api.train(read_recipe(folder / f"{name}.yaml"), folder=folder / "runs" / name)
    return folder


@pytest.fixture
def home(trained, tmp_path, monkeypatch) -> Path:
    """A copy, whose runs know it as their home."""
    home = shutil.copytree(trained, tmp_path / "home")
    for run in ("drawn", "given"):
        bundle = api.load(home / "runs" / run, device="cpu")
        object.__setattr__(bundle.recipe, "folder", home)
        bundle.save(home / "runs" / run)
    monkeypatch.chdir(home)
    return home


COMMANDS = {
    "evaluate": (("evaluate", "runs/drawn"), "test", "--data FILE"),
    "compare": (("compare", "runs/drawn", "runs/given", "--repeats", 0, "--samples", 5), "test", "--data FILE"),
    "calibrate": (("calibrate", "runs/drawn"), "valid", "saccade calibrate RUN FILE"),
    "words": (("words", "runs/drawn"), "test", "saccade words RUN FILE"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_held_out_records_are_not_drawn_again_from_changed_data(home, command, name) -> None:
    words, split, instead = COMMANDS[name]
    assert command(*words)[0] == 0
    (home / "train.tsv").write_text(table(131, 1))
    status, _, said = command(*words)
    assert status == 1
    assert f"runs/drawn: expected the data that the run was trained on, found other data: its {split} records" in said
    assert instead in said


def test_other_records_are_evaluated_whatever_became_of_the_data(home, command) -> None:
    (home / "train.tsv").write_text(table(131, 1))
    assert command("evaluate", "runs/drawn", "--data", "test.tsv")[0] == 0
    assert command("calibrate", "runs/drawn", "valid.tsv", "--test", "test.tsv")[0] == 0
    status, _, said = command("calibrate", "runs/drawn", "valid.tsv")
    assert status == 0 and "no figures on a test set" in said and "--test FILE" in said


def test_a_test_file_of_its_own_is_evaluated_though_train_changed(home, command) -> None:
    (home / "train.tsv").write_text(table(131, 1))
    assert command("evaluate", "runs/given")[0] == 0
    assert command("calibrate", "runs/given")[0] == 0


def test_a_run_that_kept_no_checksum_is_evaluated_as_before(home) -> None:
    path = home / "runs" / "drawn" / "run.json"
    path.write_text(json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != "data"}))
    (home / "train.tsv").write_text(table(131, 1))
    assert api.load(home / "runs" / "drawn", device="cpu").evaluate()["accuracy"] >= 0


def test_a_run_of_other_data_under_the_same_name_is_not_taken_for_one_of_the_same(home) -> None:
    """Its training records are unknown: whether it saw the first run's test records cannot be told."""
    (home / "train.tsv").write_text(table(131, 1))
    api.train(read_recipe(home / "drawn.yaml"), folder=home / "runs" / "later")
    found = api.compare([home / "runs" / "later", home / "runs" / "drawn"], device="cpu", samples=5, repeats=0)
    assert any(
        "cannot check whether drawn was trained on some of these inputs: the data" in note for note in found.notes
    )
    with pytest.raises(InputError, match="the data that the run was trained on"):
        api.compare([home / "runs" / "drawn", home / "runs" / "later"], device="cpu", samples=5, repeats=0)


def test_a_table_gives_a_prediction_per_row_as_its_texts_do(trained) -> None:
    bundle = api.load(trained / "runs" / "drawn", device="cpu")
    texts = ["soup film 1", "hotel novel song", "play"]
    expected = [prediction.value for prediction in bundle.predict(texts)]
    table = pandas.DataFrame({"id": [1, 2, 3], "text": texts, "label": ["a", "b", "a"]})
    for given in (table, table["text"], table.to_dict("list"), table.to_dict("records"), iter(texts)):
        assert [prediction.value for prediction in bundle.predict(given)] == expected
    assert bundle.evaluate(table).keys() == {"accuracy"}


def test_a_table_that_lacks_the_column_is_refused_and_not_read_as_the_names_of_its_columns(trained) -> None:
    bundle = api.load(trained / "runs" / "drawn", device="cpu")
    with pytest.raises(InputError, match="review") as refused:
        bundle.predict(pandas.DataFrame({"review": ["soup"], "stars": [3]}))
    assert "'text'" in str(refused.value)


def test_the_one_input_to_explain_may_lie_in_a_table(trained) -> None:
    bundle = api.load(trained / "runs" / "drawn", device="cpu")
    lain = erasure.curve(bundle, pandas.DataFrame({"text": ["soup film"]}))
    assert lain == erasure.curve(bundle, "soup film")
    with pytest.raises(InputError, match="one input"):
        erasure.curve(bundle, pandas.DataFrame({"text": ["soup", "film"]}))


def test_the_words_that_a_classifier_attends_to_are_found_in_tables_too(trained) -> None:
    bundle = api.load(trained / "runs" / "drawn", device="cpu")
    texts, labels = ["soup film 1", "hotel novel song", "play"], ["a", "b", "a"]
    table = pandas.DataFrame({"text": texts, "label": labels})
    expected = words(bundle, bundle.records_of(list(zip(texts, labels)))[0], least=1)
    assert words(bundle, table, least=1) == expected
