"""Sweeps: the product is trained, a failure costs its own row alone, and what is done is not done again."""

import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys

import pytest

from saccade import api
from saccade.api import sweeps
from saccade.api.runs import training_alone
from saccade.errors import InputError, Interrupted, SaccadeError
from saccade.storage import read_json, write_json
from saccade.training.report import Silence
from tests.tiny import tiny
from tests.training.test_loop import StopAt

BASE = tiny("train.updates=2", "data.dates.train=99")


class Heard(Silence):
    def __init__(self, said: list[str]) -> None:
        self.said = said

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "sweep"
    overrides = {"train.lr": [0.001, 1e30], "train.seed": [1, 2, 3], "train.optimiser": "sgd", "train.clip": None}
    places: list[str] = []
    return api.sweep(BASE, overrides, folder=folder, report=lambda place: places.append(place) or Silence()), places


def test_the_product_is_trained_and_each_member_is_a_run(swept):
    sweep, places = swept
    assert [settings["train.seed"] for settings, _ in sweep.members] == ["1", "2", "3"] * 2
    assert [run.state for _, run in sweep.members] == ["done"] * 3 + ["failed"] * 3
    first = api.load(sweep.folder / "1-lr=0.001-seed=1")
    assert (first.recipe.train.lr, first.recipe.train.seed) == (0.001, 1)
    assert places[1] == "2/6 train.lr=0.001 train.seed=2"


def test_a_failure_is_told_in_its_row_and_the_others_continue(swept):
    sweep, _ = swept
    assert [settings["train.lr"] for settings, _ in sweep.failed] == ["1e+30"] * 3
    assert all("expected a finite loss" in run.reason for _, run in sweep.failed)
    assert [run.state for _, run in sweep.ranking][-3:] == ["failed"] * 3


def test_seeds_are_one_group_with_mean_and_deviation(swept):
    sweep, _ = swept
    good, bad = sweep.groups
    figures = [run.valid["loss"] for _, run in sweep.members if run.state == "done"]
    assert len(set(figures)) == 3
    assert good.settings == {"train.lr": "0.001"}
    assert good.valid == pytest.approx(statistics.fmean(figures))
    assert good.valid_deviation == pytest.approx(statistics.stdev(figures))
    assert (good.runs, good.done, bad.runs, bad.done, bad.valid) == (3, 3, 3, 0, None)
    assert sweep.best == good


def test_a_sweep_is_json(swept):
    sweep, _ = swept
    plain = json.loads(json.dumps(sweep.to_plain()))
    assert plain["watch"] == "loss"
    assert plain["failed"] == 3
    assert plain["best"]["settings"] == {"train.lr": "0.001"}
    assert plain["members"][0]["valid"]["loss"] == min(run.valid.get("loss", 9e9) for _, run in sweep.members)


def test_a_resumed_sweep_skips_what_is_done_and_trains_what_is_missing(swept, monkeypatch):
    sweep, _ = swept
    begun = []
    monkeypatch.setattr(sweeps, "train_in", lambda folder, beginning, report: begun.append(folder.name))
    monkeypatch.setattr(sweeps, "resume_trusted", lambda folder, data, report, trust: begun.append(folder.name))
    again = api.resume_sweep(sweep.folder)
    assert begun == ["4-lr=1e+30-seed=1", "5-lr=1e+30-seed=2", "6-lr=1e+30-seed=3"]
    assert [run.valid for _, run in again.members] == [run.valid for _, run in sweep.members]


def test_an_interrupted_sweep_continues_in_the_member_it_stood_in(tmp_path):
    folder, said = tmp_path / "sweep", list[str]()
    reports = iter([Silence(), StopAt(3, signal.SIGINT)])
    recipe = tiny("train.updates=5", "data.dates.train=99")
    with pytest.raises(Interrupted, match=r"stopped in run 2 of 3.*saccade train --resume .*sweep"):
        api.sweep(recipe, {"model.hidden": [5, 7, 3]}, folder=folder, report=lambda place: next(reports))
    assert api.read_run(folder / "2-hidden=7").update == 3
    assert not (folder / "3-hidden=3").exists()
    sweep = api.resume_sweep(folder, report=lambda place: Heard(said))
    assert [run.state for _, run in sweep.members] == ["done"] * 3
    assert [text for text in said if text.startswith("run ")] == [
        "run 2 of 3: model.hidden=7", "run 3 of 3: model.hidden=3"
    ]  # fmt: skip


def test_a_sweep_whose_member_a_living_process_trains_is_left_to_it(swept, tmp_path, monkeypatch):
    sweep, _ = swept
    folder, begun = shutil.copytree(sweep.folder, tmp_path / "sweep"), list[str]()
    (folder / "5-lr=1e+30-seed=2" / ".lock").unlink()  # a run of an earlier release
    monkeypatch.setattr(sweeps, "train_in", lambda folder, beginning, report: begun.append(folder.name))
    monkeypatch.setattr(sweeps, "resume_trusted", lambda folder, data, report, trust: begun.append(folder.name))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        status = {"state": "running", "host": socket.gethostname(), "process": other.pid}
        write_json(folder / "5-lr=1e+30-seed=2" / "status.json", status)
        with pytest.raises(
            InputError, match=rf"5-lr=1e\+30-seed=2: expected a run .* found one that process {other.pid}"
        ):
            api.resume_sweep(folder)
        other.kill()
    assert begun == [] and read_json(folder / "5-lr=1e+30-seed=2" / "status.json") == status


def test_a_sweep_is_left_to_the_process_that_trains_it(swept, tmp_path):
    folder = shutil.copytree(swept[0].folder, tmp_path / "sweep")
    with (
        training_alone(folder),
        pytest.raises(InputError, match=rf"sweep: expected .* found process {os.getpid()} on "),
    ):
        api.resume_sweep(folder)


def test_the_order_is_that_of_the_validation_figure_never_of_the_test():
    runs = [
        api.Run("a", "a", "done", watch="bleu", valid={"bleu": 30.0, "loss": 1.0}, test={"bleu": 9.0}),
        api.Run("b", "b", "done", watch="bleu", valid={"bleu": 31.0, "loss": 2.0}, test={"bleu": 8.0}),
    ]
    members = [({"model.hidden": run.name}, run) for run in runs]
    assert [run.name for _, run in api.Sweep("s", "bleu", True, members).ranking] == ["b", "a"]
    assert api.Sweep("s", "bleu", True, members).best.settings == {"model.hidden": "b"}
    assert [run.name for _, run in api.Sweep("s", "loss", False, members).ranking] == ["a", "b"]


def test_every_member_is_checked_before_any_is_trained(tmp_path):
    with pytest.raises(InputError, match=r"model\.hidden"):
        api.sweep(BASE, {"model.hidden": [5, -1]}, folder=tmp_path / "sweep")
    assert not (tmp_path / "sweep").exists()


def test_a_sweep_is_not_written_over(swept):
    with pytest.raises(InputError, match="expected a new folder, found a sweep"):
        api.sweep(BASE, {"model.hidden": [5, 7]}, folder=swept[0].folder)


def test_data_in_hand_is_swept_over_too(tmp_path):
    pairs = [(f"quelle {number}", f"ziel {number}") for number in range(33)]
    sweep = api.sweep(BASE, ["model.hidden=3,5"], pairs, folder=tmp_path / "sweep")
    assert [run.state for _, run in sweep.members] == ["done", "done"]
    assert sweep.best.runs == 1
    assert sweep.best.valid_deviation is None


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda kept: [], "a sweep of version 1"),
        (lambda kept: {**kept, "version": 2}, "a sweep of version 1"),
        (lambda kept: {**kept, "members": [{"folder": "x"}]}, "does not fit together"),
        (
            lambda kept: {**kept, "members": [{**kept["members"][0], "folder": "../x"}]},
            "the name of a folder beside it",
        ),
    ],
)
def test_a_damaged_sweep_is_refused(swept, tmp_path, spoil, message):
    write_json(tmp_path / "sweep.json", spoil(read_json(swept[0].folder / "sweep.json")))
    with pytest.raises(SaccadeError, match=message):
        api.resume_sweep(tmp_path)
