"""The listing of runs: every state is told, nothing that lies there makes it fail, and torch is not loaded."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from saccade import api
from saccade.api.runs import describe, find_runs, order, read_run, training_alone
from saccade.errors import InputError, Interrupted, SaccadeError
from saccade.storage import read_json, write_json
from tests.tiny import tiny
from tests.training.test_loop import StopAt

NOBODY = 2**22 + 1  # beyond the largest process number


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """One finished run, one stopped, one that failed."""
    folder = tmp_path_factory.mktemp("runs")
    api.train(tiny("train.updates=3"), folder=folder / "done")
    with pytest.raises(Interrupted):
        api.train(tiny("train.updates=9"), folder=folder / "stopped", report=StopAt(5, signal.SIGINT))
    with pytest.raises(SaccadeError):
        api.train(tiny("train.lr=1e30", "train.clip=null", "train.optimiser=sgd"), folder=folder / "failed")
    return folder


@pytest.fixture
def runs(trained, tmp_path) -> Path:
    shutil.copytree(trained, tmp_path / "runs")
    return tmp_path / "runs"


def states(folder: Path) -> dict[str, str]:
    return {run.folder.name: run.state for run in find_runs(folder)}


def change(path: Path, **fields: object) -> None:
    write_json(path, {**read_json(path), **fields})


def test_every_state_is_told(runs):
    for name in ("killed", "running", "elsewhere"):
        shutil.copytree(runs / "stopped", runs / name)
    here = socket.gethostname()
    change(runs / "killed" / "status.json", state="running", process=NOBODY, host=here)
    change(runs / "running" / "status.json", state="running", process=os.getpid(), host=here)
    change(runs / "elsewhere" / "status.json", state="running", process=NOBODY, host="another-machine")
    (runs / "not a run").mkdir()
    (runs / "notes.txt").touch()
    with training_alone(runs / "running"):
        assert states(runs) == {
            "done": "done",
            "stopped": "interrupted",
            "failed": "failed",
            "killed": "interrupted",
            "running": "running",
            "elsewhere": "running",
        }
    told = {run.folder.name: run for run in find_runs(runs)}
    assert told["stopped"].reason == f"saccade train --resume {runs / 'stopped'}"
    assert told["stopped"].update == told["killed"].update == 5
    assert "expected a finite loss" in told["failed"].reason
    assert "another-machine" in told["elsewhere"].reason


def test_a_finished_run_says_what_it_is_and_what_it_reached(runs):
    figures = read_json(runs / "done" / "metrics.json")
    run = read_run(runs / "done")
    assert (run.name, run.model, run.task, run.parameters) == ("rnnsearch_dates", "rnnsearch", "translate", 3307)
    assert (run.watch, run.valid, run.test) == ("loss", figures["valid"], figures["test"])
    assert list(run.test) == ["exact_match", "cer", "perplexity"]  # the recipe's order
    assert (run.update, run.seconds, run.higher_is_better) == (3, figures["seconds"], False)
    assert json.loads(json.dumps(run.to_plain()))["folder"] == str(runs / "done")


def test_a_run_of_an_older_version_is_told_by_its_files(runs):
    for name in ("done", "stopped"):
        (runs / name / "status.json").unlink()
        about = read_json(runs / name / "run.json")
        write_json(runs / name / "run.json", {key: about[key] for key in ("name", "folder", "data", "changed")})
    assert states(runs) == {"done": "done", "stopped": "interrupted", "failed": "failed"}
    assert read_run(runs / "done").model == "rnnsearch"


def test_a_run_that_never_reached_a_checkpoint_cannot_be_resumed(runs):
    shutil.rmtree(runs / "stopped" / "checkpoints")
    assert read_run(runs / "stopped").reason == "before its first checkpoint: train again"


def test_a_saved_bundle_is_a_done_run(runs):
    api.load(runs / "done").save(runs / "saved")
    assert states(runs)["saved"] == "done"


DAMAGE = {
    "broken JSON": ("run.json", "{", "valid JSON"),
    "another document": ("run.json", "[]", "run.json: expected a JSON object"),
    "an altered config": ("config.json", None, "does not match its checksum"),
    "no config": ("config.json", "", "config.json"),
    "no weights": ("model.safetensors", "", "model.safetensors: expected a file of the bundle, found no such file"),
    "odd figures": ("metrics.json", '{"test": {"bleu": "many"}}', "test.bleu: expected a number"),
    "odd status": ("status.json", '{"state": "done", "best": {"metric": "loss"}}', None),
    "not text": ("status.json", b"\xff\xfe", "UTF-8"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_is_listed_with_the_reason(runs, damage):
    name, content, reason = DAMAGE[damage]
    path = runs / "done" / name
    if content is None:
        path.write_text(path.read_text().replace("3307", "3308"))
    elif content == "":
        path.unlink()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    run = read_run(runs / "done")
    if reason is None:
        assert run.state == "done"
        return
    assert run.state == "damaged"
    assert reason in run.reason
    assert states(runs)["stopped"] == "interrupted"
    assert describe(runs / "done")["state"] == "damaged"


def test_altered_weights_are_found_when_one_run_is_described(runs):
    weights = runs / "done" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-7])
    assert describe(runs / "done")["reason"].startswith("model.safetensors: expected the file as it was saved")


def test_a_folder_with_checkpoints_alone_is_damaged(runs):
    for name in ("run.json", "status.json", "recipe.yaml"):
        (runs / "stopped" / name).unlink()
    assert read_run(runs / "stopped").state == "damaged"


def test_a_description_holds_recipe_evaluations_signatures_and_files(runs):
    told = describe(runs / "done")
    assert told["recipe"]["model"]["hidden"] == 9
    assert told["records"] == {"train": 330, "valid": 35, "test": 37}
    assert [row["update"] for row in told["evaluations"]] == [3.0]
    assert told["files"]["model.safetensors"] == (runs / "done" / "model.safetensors").stat().st_size
    assert "train.updates" in told["changed"]
    with open(runs / "done" / "evaluations.csv", "a") as file:
        file.write("4,0,1.")
    assert len(describe(runs / "done")["evaluations"]) == 1


@pytest.mark.parametrize("name", ["update-000000005", ".next"])
def test_folders_that_training_removes_while_a_run_is_described_are_left_out(runs, monkeypatch, name):
    folder, scandir = next(iter((runs / "stopped").glob(f"checkpoints/{name}")), runs / "stopped" / name), os.scandir
    folder.mkdir(exist_ok=True)
    (folder / "state.x").touch()

    def vanishing(path):
        if not isinstance(path, int) and Path(path).name == name:  # rmtree itself passes numbers
            shutil.rmtree(path, ignore_errors=True)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", vanishing)
    assert describe(runs / "stopped")["state"] == "interrupted"
    assert not folder.exists()


def test_newest_come_first_and_a_figure_puts_the_best_first(runs):
    for name, when, loss in (("done", "2020-01-01T00:00:00+00:00", 5.0), ("other", "2021-01-01T00:00:00+02:00", 1.0)):
        if name == "other":
            shutil.copytree(runs / "done", runs / name)
        change(runs / name / "run.json", began=when)
        change(runs / name / "metrics.json", valid={"loss": loss, "bleu": loss}, test={"bleu": -loss})
    found = find_runs(runs)
    assert [run.folder.name for run in found if run.state == "done"] == ["other", "done"]
    assert [run.folder.name for run in order(found, "loss")][:2] == ["other", "done"]
    assert [run.folder.name for run in order(found, "bleu")][:2] == ["done", "other"]
    assert [run.folder.name for run in order(found, "test.bleu")][:2] == ["other", "done"]
    with pytest.raises(SaccadeError, match=r"--sort: expected one of .*test\.bleu, found 'blue'"):
        order(found, "blue")


def test_the_runs_of_a_sweep_are_listed(runs):
    (runs / "sweep").mkdir()
    write_json(runs / "sweep" / "sweep.json", {})
    shutil.move(runs / "done", runs / "sweep" / "1-hidden=3")
    assert states(runs)["1-hidden=3"] == "done"
    assert list(states(runs / "sweep")) == ["1-hidden=3"]


def test_no_folder_is_an_error_that_names_it(tmp_path):
    with pytest.raises(InputError, match="expected a folder of runs, found no such folder"):
        find_runs(tmp_path / "absent")
    with pytest.raises(InputError, match="expected a run's folder, or a folder of runs"):
        describe(tmp_path)


def test_listing_loads_no_torch(runs):
    program = (
        "import sys; from saccade.api.runs import describe, find_runs\n"
        f"runs = find_runs({str(runs)!r}); describe(runs[0].folder)\n"
        "sys.exit(7 if len(runs) == 3 and 'torch' not in sys.modules else 8)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 7
