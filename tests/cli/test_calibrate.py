"""``saccade calibrate``."""

from __future__ import annotations

import json
import shutil

import pytest

import saccade
from saccade.recipes.recipe import read_recipe
from tests.tiny import tiny

CHANGES = {
    "train": {"epochs": 3, "threads": 1, "device": "cpu"},
    "data.opinions": {"train": 99, "valid": 55, "test": 25},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory, module_unchecked):
    home = tmp_path_factory.mktemp("runs")
    model = {"hidden": 5, "embedding": 6}
    saccade.train(read_recipe("attentive_opinions", changes={**CHANGES, "model": model}), folder=home / "labels")
    saccade.train(tiny("train.epochs=1"), folder=home / "texts")
    return home


@pytest.fixture
def run(runs, tmp_path):
    return shutil.copytree(runs / "labels", tmp_path / "run")


def test_before_and_after_are_printed_and_the_picture_is_named(command, run) -> None:
    status, out, err = command("calibrate", run)
    assert status == 0 and err == ""
    assert out.startswith("temperature ") and "fitted by 55 records (valid)" in out
    lines = [line.split() for line in out.splitlines() if " before " in line or " after " in line]
    assert [line[:2] for line in lines[::2]] == [["valid", "before"], ["test", "before"]] and len(lines) == 4
    assert lines[0][2] == lines[1][1]  # accuracy
    assert out.rstrip().endswith(str(run / "reliability.png")) and (run / "reliability.png").is_file()


def test_programs_get_all_of_it_and_it_can_be_taken_back(command, run) -> None:
    status, out, _ = command("calibrate", run, "--json")
    found = json.loads(out)
    assert status == 0 and found["records"] == 55 and set(found["figures"]) == {"valid", "test"}
    assert json.loads(command("predict", run, "about the cake : i found it dull .", "--json")[1])["output"]
    status, out, _ = command("calibrate", run, "--undo", "--json")
    assert status == 0 and json.loads(out)["temperature"] is None and not (run / "calibration.json").exists()


def test_records_that_it_was_trained_on_are_reported(command, run, tmp_path) -> None:
    from saccade.api import load

    bundle = load(run, device="cpu")
    recipe = bundle.recipe
    splits = bundle.task.load(recipe.data, recipe.folder, recipe.train.seed)
    known = {record.source for record in splits.train}
    fresh = [record for record in splits.valid if record.source not in known]
    path = tmp_path / "mine.tsv"
    header = "text\tlabel\n"
    path.write_text(header + "".join(f"{each.source}\t{each.target}\n" for each in (*splits.train[:7], *fresh[:31])))
    told = "7 of the 38 records that it was fitted on were trained on"
    status, _, err = command("calibrate", run, path)
    assert status == 0 and f"note: {told}" in err
    status, out, _ = command("calibrate", run, path, "--json")
    assert status == 0 and any(note.startswith(told) for note in json.loads(out)["notes"])
    path.write_text(header + "".join(f"{each.source}\t{each.target}\n" for each in fresh))
    status, _, err = command("calibrate", run, path)
    assert status == 0 and "trained on" not in err


def test_figures_of_probabilities_can_be_asked_for(command, run) -> None:
    status, out, _ = command("evaluate", run, "--metric", "ece", "--metric", "brier", "--metric", "nll", "--json")
    found = json.loads(out)
    assert status == 0 and set(found["figures"]) == {"ece", "brier", "nll"} and "bins:15" in found["signatures"]["ece"]


def test_what_cannot_be_calibrated_is_one_line(command, runs, run) -> None:
    for words, message in (
        (
            (runs / "texts",),
            "error: calibration needs a task that gives every label a probability, such as classify: found 'trans",
        ),
        ((run, "--undo"), "expected a calibrated run, found one that is not"),
        ((run, "x.tsv", "--undo"), "error: command line: --undo removes a calibration: expected no data"),
        ((run, "nowhere.tsv"), "error: nowhere.tsv"),
    ):
        status, _, err = command("calibrate", *words)
        assert status == 1 and message in err and "Traceback" not in err
