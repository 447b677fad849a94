"""Calibration of a run: fitted by its validation records, kept in its folder, moved with it, taken back."""

from __future__ import annotations

import json
import shutil

import pytest

import saccade
from saccade.api import calibrate, load, undo_calibration
from saccade.errors import InputError, SaccadeError
from saccade.recipes.recipe import read_recipe
from saccade.tasks.calibration import CALIBRATION

pytestmark = pytest.mark.usefixtures("shapes_unchecked")

CHANGES = {
    "train": {"epochs": 6, "threads": 1, "device": "cpu", "watch": "accuracy"},
    "data.opinions": {"train": 99, "valid": 99, "test": 55},
    "model": {"hidden": 9, "embedding": 9},
    "metrics": ["accuracy", "ece"],
}
TEXTS = ["about the cake : i found it dull .", "about the song : a friend called it usual and i thought it superb ."]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, module_unchecked):
    folder = tmp_path_factory.mktemp("runs") / "run"
    saccade.train(read_recipe("attentive_opinions", changes=CHANGES), folder=folder)
    return folder


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def shares(folder) -> list[dict[str, float]]:
    return [dict(each.probabilities) for each in load(folder, device="cpu").predict(TEXTS)]


def test_it_is_fitted_by_the_validation_records_and_said_on_the_test_set(run) -> None:
    bundle = load(run, device="cpu")
    found = calibrate(bundle)
    assert found.records == 99 and found.fitted_on == "valid" and list(found.figures) == ["valid", "test"]
    valid, test = found.figures["valid"], found.figures["test"]
    assert valid["after"]["nll"] < valid["before"]["nll"]
    for part in (valid, test):
        assert part["after"]["accuracy"] == part["before"]["accuracy"]
    assert bundle.evaluate(metrics=["ece", "nll"]) == pytest.approx(
        {name: test["after"][name] for name in ("ece", "nll")}
    )


def test_a_run_keeps_it_when_it_is_loaded_copied_and_saved_elsewhere(run, tmp_path) -> None:
    before = shares(run)
    found = calibrate(load(run, device="cpu"))
    after = shares(run)
    assert [next(iter(each)) for each in after] == [next(iter(each)) for each in before] and after != before
    load(run, device="cpu").save(tmp_path / "elsewhere")
    assert shares(tmp_path / "elsewhere") == after
    assert shares(shutil.copytree(run, tmp_path / "copy")) == after
    assert json.loads((run / CALIBRATION).read_text())["temperature"] == found.temperature
    assert "Calibrated: logits are divided by" in (run / "card.md").read_text()
    assert found.picture.read_bytes().startswith(b"\x89PNG")


def test_figures_of_probabilities_are_those_of_the_run_as_it_is(run) -> None:
    once = load(run, device="cpu").figures["test"]
    found = calibrate(load(run, device="cpu"))
    now = load(run, device="cpu").figures["test"]
    assert now["ece"] == found.figures["test"]["after"]["ece"] != once["ece"] and now["accuracy"] == once["accuracy"]
    assert json.loads((run / "metrics.json").read_text())["test"] == now
    undo_calibration(load(run, device="cpu"))
    assert load(run, device="cpu").figures["test"] == pytest.approx(once)


def test_a_figure_that_other_test_records_left_unknown_comes_back(run) -> None:
    bundle = load(run, device="cpu")
    first, records = bundle.figures["test"]["ece"], bundle.records_of(None)[0]
    calibrate(bundle, records[:33], test=records[33:])
    assert set(load(run, device="cpu").figures["test"]) == {"accuracy"}
    found = calibrate(load(run, device="cpu"))
    assert load(run, device="cpu").figures["test"]["ece"] == found.figures["test"]["after"]["ece"]
    undo_calibration(load(run, device="cpu"))
    assert load(run, device="cpu").figures["test"]["ece"] == pytest.approx(first)


def test_taken_back_it_leaves_nothing(run) -> None:
    before, files = shares(run), sorted(path.name for path in run.iterdir())
    calibrate(load(run, device="cpu"))
    calibrate(load(run, device="cpu"))  # once more is the same
    undo_calibration(load(run, device="cpu"))
    assert shares(run) == before and sorted(path.name for path in run.iterdir()) == files
    with pytest.raises(InputError, match="expected a calibrated run, found one that is not"):
        undo_calibration(load(run, device="cpu"))


def test_an_altered_temperature_is_noticed(run) -> None:
    calibrate(load(run, device="cpu"))
    path = run / CALIBRATION
    path.write_text(path.read_text().replace('"records": 99', '"records": 98'))
    with pytest.raises(InputError, match=r"calibration\.json.*truncated or altered"):
        load(run)


def test_it_may_be_fitted_by_other_records_and_says_where_they_are_the_test_records(run, tmp_path) -> None:
    bundle = load(run, device="cpu")
    records = bundle.records_of(None)[0]
    found = calibrate(bundle, [(record.source, record.target) for record in records])
    assert found.fitted_on == "data" and found.records == 55
    assert "55 of the 55 test records are among those it was fitted on" in found.notes[0]
    file = tmp_path / "held.tsv"
    file.write_text("text\tlabel\n" + "".join(f"{record.source}\t{record.target}\n" for record in records))
    found = calibrate(load(run, device="cpu"), file, test=file)
    assert list(found.figures) == [str(file)]
    assert "ece" not in load(run, device="cpu").figures["test"]  # not measured again, so no longer known


def test_a_recipe_may_ask_for_it(tmp_path) -> None:
    changes = {**CHANGES, "train": {**CHANGES["train"], "calibrate": True}}
    bundle = saccade.train(read_recipe("attentive_opinions", changes=changes), folder=tmp_path / "run")
    kept = load(tmp_path / "run", device="cpu")
    assert kept.task.calibration is not None and (tmp_path / "run" / "reliability.png").is_file()
    assert kept.figures["test"]["ece"] == pytest.approx(kept.task.calibration.figures["test"]["after"]["ece"])
    assert kept.evaluate(metrics=["ece"])["ece"] == pytest.approx(bundle.figures["test"]["ece"])


def test_tasks_without_labels_are_refused_before_anything_is_trained(tmp_path) -> None:
    recipe = read_recipe("rnnsearch_dates", ["train.calibrate=true", "data.dates.train=40", "train.device=cpu"])
    with pytest.raises(
        InputError,
        match=r"train\.calibrate: expected false, unless .*probability.*'translate'",
    ):
        saccade.train(recipe, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_whose_data_was_in_memory_needs_records(run, tmp_path) -> None:
    bundle = load(run, device="cpu")
    texts = [(record.source, record.target) for record in bundle.records_of(None)[0]]
    changes = {**CHANGES, "train": {**CHANGES["train"], "epochs": 1}}
    own = saccade.train(read_recipe("attentive_opinions", changes=changes), texts, folder=tmp_path / "own")
    with pytest.raises(SaccadeError, match="given in memory: pass records"):
        calibrate(own)
    assert list(calibrate(own, texts).figures) == ["data", "test"]  # held out while it was trained
    found = calibrate(load(tmp_path / "own", device="cpu"), texts)
    assert list(found.figures) == ["data"] and "no figures on a test set" in found.notes[0]
