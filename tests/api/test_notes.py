"""What training, evaluation and prediction in Python say of lost records, and of their progress."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

import saccade
from saccade import api
from saccade.errors import DataWarning
from saccade.recipes.recipe import read_recipe
from saccade.training.report import Notebook, Silence, Terminal, progress_report

pytestmark = pytest.mark.usefixtures("module_unchecked")

RECIPE = """task: classify
data: {train: train.tsv, test: test.tsv, faults: drop, max_length: 5, too_long: truncate}
model: {name: attentive_classifier, hidden: 5, embedding: 3}
train: {updates: 2, device: cpu, threads: 1}
metrics: [accuracy]
"""
LONG = "a film that goes on for too long"


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, module_unchecked) -> Path:
    home = tmp_path_factory.mktemp("notes")
    rows = [f"film {number} good\t{'ab'[number % 2]}" for number in range(31)]
    (home / "train.tsv").write_text("\n".join(["text\tlabel", *rows, "one column", f"{LONG}\tb", f"{LONG} 2\ta", ""]))
    (home / "test.tsv").write_text("\n".join(["text\tlabel", *rows[:7], f"{LONG}\tb", "\ta", ""]))
    (home / "my.yaml").write_text(RECIPE)
    return home / "my.yaml"


@pytest.fixture(scope="module")
def bundle(recipe):
    return saccade.train(recipe, folder=recipe.parent / "runs" / "my", progress=False)


LOST = ("dropped 1 of 34 records", "dropped 1 of 9 records", "texts cut to", "held out of train")


def test_a_bundle_has_the_notes_of_its_training(bundle) -> None:
    for fact in LOST:
        assert any(fact in note for note in bundle.notes), fact
    assert len(set(bundle.notes)) == len(bundle.notes)


def test_train_json_and_the_list_of_runs_have_the_notes(recipe, bundle, command, tmp_path) -> None:
    status, out, _ = command("train", recipe, "--out", tmp_path / "run", "--json")
    assert status == 0 and json.loads(out)["notes"] == list(bundle.notes)
    status, out, _ = command("train", recipe, "train.seed=1,2", "--out", tmp_path / "sweep", "--json")
    assert status == 0
    for member in json.loads(out)["members"]:
        for fact in LOST:
            assert any(fact in note for note in member["notes"]), fact


def test_training_in_python_tells_its_progress_and_its_notes_on_stderr_unless_it_is_switched_off(
    recipe, bundle, tmp_path, capsys
) -> None:
    api.train(read_recipe(recipe), folder=tmp_path / "run")
    out, said = capsys.readouterr()
    assert out == "" and "epoch" in said and "loss" in said and all(fact in said for fact in LOST)
    api.sweep(recipe, {"train.seed": [1, 2]}, folder=tmp_path / "loud")
    assert "run 2 of 2" in capsys.readouterr().err
    api.train(read_recipe(recipe), folder=tmp_path / "silent", progress=False)
    api.sweep(recipe, {"train.seed": [1, 2]}, folder=tmp_path / "sweep", progress=False)
    api.resume(tmp_path / "silent", progress=False)
    api.resume_sweep(tmp_path / "sweep", progress=False)
    assert capsys.readouterr() == ("", "")


def test_evaluate_warns_of_records_that_were_dropped_or_cut(recipe, bundle) -> None:
    for data in (recipe.parent / "test.tsv", None):
        with pytest.warns(DataWarning) as told:
            bundle.evaluate(data)
        assert ["dropped 1 of 9" in str(told[0].message), "1 of 8 texts cut" in str(told[1].message)] == [True, True]
        assert all(warning.filename == __file__ for warning in told)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bundle.evaluate([("good film", "a")])


def test_predict_warns_of_inputs_that_were_cut_and_the_command_line_does_not(bundle, command) -> None:
    with pytest.warns(DataWarning, match=r"1 of 3 inputs were cut \(input 2: .*5 tokens\)"):
        bundle.predict(["good film", LONG, "film"])
    with warnings.catch_warnings(record=True) as told:
        status, _, said = command("predict", bundle.folder, LONG)
    assert status == 0 and "cut to" in said
    assert not [warning for warning in told if issubclass(warning.category, DataWarning)]


# In a notebook --------------------------------------------------------------------------------------------------------


@pytest.fixture
def cell(monkeypatch) -> list[str]:
    """What a notebook's cell shows in its updated line, one entry per update."""
    shown: list[str] = []

    def display(data, *, raw, display_id):
        shown.append(data["text/plain"])
        return SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))

    shell = SimpleNamespace(kernel=object())
    ipython = SimpleNamespace(get_ipython=lambda: shell, display=SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr("saccade.training.report.OFTEN", 0.0)
    return shown


def test_a_notebook_shows_a_bar_that_moves_with_the_loss_and_the_notes_below(recipe, cell, tmp_path, capsys) -> None:
    api.train(read_recipe(recipe), folder=tmp_path / "run")
    assert any("epoch 1/" in line and "50%" in line and "loss" in line for line in cell)
    assert any("100%" in line and "epoch 2/" in line for line in cell)
    assert any("test" in line for line in cell) and cell[-1] == ""
    out, said = capsys.readouterr()
    assert "dropped 1 of 34" in out and "update 2" in out and said == ""


def test_the_place_of_the_progress_is_where_python_runs(cell, monkeypatch) -> None:
    assert isinstance(progress_report(True, "1/2"), Notebook) and isinstance(progress_report(False), Silence)
    monkeypatch.delitem(sys.modules, "IPython")
    assert isinstance(progress_report(True), Terminal)
