"""``saccade runs``: the listing and one run, as a person sees them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from saccade import api
from tests.tiny import tiny


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    for number in (1, 2):
        api.train(tiny(f"train.updates={number}"), folder=folder / "runs" / f"run-{number}")
    (folder / "runs" / "broken").mkdir()
    (folder / "runs" / "broken" / "run.json").write_text("{")
    return folder


@pytest.fixture
def saccade(command, monkeypatch, home):
    monkeypatch.chdir(home)
    return command


def test_runs_are_listed_with_state_figures_and_reasons(saccade):
    status, out, err = saccade("runs")
    assert status == 0, err
    lines = out.splitlines()
    assert lines[0].split() == ["run", "began", "state", "model", "parameters", "valid", "test", "seconds"]
    one = next(line for line in lines if line.startswith("runs/run-1 "))
    assert "done" in one
    assert "rnnsearch" in one
    assert "3,307" in one
    assert "loss 2." in one
    assert "exact_match 0.0000" in one
    broken = next(number for number, line in enumerate(lines) if line.startswith("runs/broken "))
    assert "damaged" in lines[broken]
    assert lines[broken + 1].startswith("  run.json:1: expected valid JSON")


def test_a_figure_sorts_them(saccade):
    status, out, _ = saccade("runs", "--sort", "loss", "--json")
    assert status == 0
    losses = [run["valid"]["loss"] for run in json.loads(out) if run["state"] == "done"]
    assert len(losses) == 2
    assert losses == sorted(losses)
    status, _, err = saccade("runs", "--sort", "los")
    assert status == 1
    assert "--sort: expected one of " in err


def test_one_run_is_described(saccade):
    status, out, err = saccade("runs", "runs/run-2")
    assert status == 0, err
    for told in ("state", "done", "train 330, valid 35, test 37", "test exact_match", "train_loss", "model.safetensors",
                 "together", "hidden: 9"):  # fmt: skip
        assert told in out, told
    status, out, _ = saccade("runs", "runs/run-2", "--json")
    assert json.loads(out)["recipe"]["model"]["hidden"] == 9
    status, out, _ = saccade("runs", "runs/broken")
    assert status == 0
    assert "damaged: run.json:1: expected valid JSON" in out


def test_no_runs_yet_is_not_an_error_but_a_folder_that_is_not_there_is(saccade, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, _ = saccade("runs")
    assert status == 0
    assert "no runs in runs yet" in out
    assert json.loads(saccade("runs", "--json")[1]) == []
    status, _, err = saccade("runs", "absent")
    assert status == 1
    assert err.strip() == "error: absent: expected a folder of runs, found no such folder"


def test_the_command_loads_no_torch(home):
    program = (
        "import sys; sys.argv = ['saccade', 'runs', 'runs']\n"
        "from saccade.cli import main\n"
        "try: main()\n"
        "finally: assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=home, capture_output=True, text=True, check=False)
    assert "runs/run-1" in done.stdout, done.stderr
    assert "AssertionError" not in done.stderr
