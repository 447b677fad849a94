"""How a run stands: a folder that a living process trains in belongs to that process alone."""

import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import saccade
from saccade import api
from saccade.api.runs import LOCK, STATUS, alive, refuse_if_running
from saccade.errors import InputError, Interrupted, SaccadeError
from saccade.storage import read_json, write_json
from saccade.training.report import Silence
from tests.tiny import tiny
from tests.training.test_loop import StopAt

NOBODY = 2**22 + 1  # beyond the largest process number
HERE = socket.gethostname()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "stopped"
    with pytest.raises(Interrupted):
        api.train(tiny("train.updates=7"), folder=folder, report=StopAt(5, signal.SIGINT))
    return folder


@pytest.fixture
def other() -> Iterator[subprocess.Popen]:
    """A process that lives until it is killed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def running(folder: Path, process: object, host: str = HERE) -> dict[str, object]:
    """The run's status as that process would have left it."""
    status = {"state": "running", "at": "2026-01-31T17:05:09+01:00", "host": host, "process": process}
    write_json(folder / STATUS, status)
    return status


def unlocked(stopped: Path, tmp_path: Path) -> Path:
    """A run of an earlier release, which had no lock: only its status tells who trains it."""
    return shutil.copytree(stopped, tmp_path / "run", ignore=shutil.ignore_patterns(LOCK))


def test_a_run_is_resumed_once_the_process_that_trains_it_is_dead(stopped, other, tmp_path):
    run = unlocked(stopped, tmp_path)
    status = running(run, other.pid)
    told = rf"^{run}: expected a run that no process trains, found one that process {other.pid} on {HERE} still trains"
    with pytest.raises(InputError, match=told):
        api.resume(run)
    assert read_json(run / STATUS) == status
    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # dead, and still there: nobody has asked after it
    assert not alive(other.pid)
    assert api.resume(run).figures["updates"] == 7
    assert read_json(run / STATUS)["state"] == "done"


def test_nothing_is_trained_over_a_run_of_a_living_process(stopped, other, tmp_path, command):
    run = unlocked(stopped, tmp_path)
    status = running(run, other.pid)
    with pytest.raises(InputError, match="expected a new folder, found a run"):
        api.train(tiny("train.updates=1"), folder=run)
    code, _, err = command("train", "--resume", run)
    assert code == 1 and f"process {other.pid}" in err and len(err.splitlines()) == 1
    assert read_json(run / STATUS) == status


@pytest.mark.parametrize(
    ("process", "host"),
    [(NOBODY, HERE), (os.getpid(), HERE), (os.getpid(), "another-machine"), (None, HERE), ("7", HERE), (-1, HERE)],
    ids=["dead", "itself", "elsewhere", "none", "no number", "negative"],
)
def test_dead_processes_oneself_and_those_of_other_machines_do_not_keep_a_run(tmp_path, process, host):
    running(tmp_path, process, host)
    refuse_if_running(tmp_path)


@pytest.mark.parametrize("content", [None, "[3]", "{", '{"state": "running"}'])
def test_a_status_that_is_missing_or_damaged_keeps_no_run(tmp_path, content):
    if content is not None:
        (tmp_path / STATUS).write_text(content)
    refuse_if_running(tmp_path)


# ---- Locks: of several processes that start at the same moment, one trains


class Rival(Silence):
    """Waits, once its run has begun, until every other process had its turn."""

    def __init__(self, others: object) -> None:
        self.others = others

    def begin(self, total: int, done: int, epochs: int) -> None:
        self.others.wait(60)


def contend(kind: str, folder: Path, start: object, others: object, verdicts: object) -> None:
    torch.set_num_threads(1)
    start.wait(60)
    try:
        if kind == "train":
            api.train(tiny("train.updates=2"), folder=folder, report=Rival(others))
        else:
            api.resume(folder, report=Rival(others))
    except SaccadeError as error:
        verdicts.put((os.getpid(), str(error)))
        others.wait(60)
    else:
        verdicts.put((os.getpid(), "trained"))


@pytest.mark.parametrize("kind", ["train", "resume"])
def test_of_processes_that_start_at_the_same_moment_exactly_one_trains_and_the_others_name_it(kind, stopped, tmp_path):
    folder, count = tmp_path / "run", 3
    if kind == "resume":
        shutil.copytree(stopped, folder)
    processes = multiprocessing.get_context("spawn")  # CUDA does not work in forked ones
    start, others, verdicts = processes.Barrier(count), processes.Barrier(count), processes.Queue()
    rivals = [
        processes.Process(target=contend, args=(kind, folder, start, others, verdicts), daemon=True)
        for _ in range(count)
    ]
    for rival in rivals:
        rival.start()
    told = dict(verdicts.get(timeout=100) for _ in rivals)
    for rival in rivals:
        rival.join(60)
    [winner] = [process for process, text in told.items() if text == "trained"]
    for process, text in told.items():
        if process != winner:
            assert str(folder) in text and f"process {winner} on {HERE}" in text and len(text.splitlines()) == 1
    assert read_json(folder / STATUS)["state"] == "done"
    refuse_if_running(folder)


def test_the_lock_of_a_killed_process_is_free_and_that_of_a_living_one_shows_in_the_listing(tmp_path):
    script = (
        "import sys; from pathlib import Path; from saccade.api.runs import recorded, training_alone\n"
        "home = Path(sys.argv[1])\n"
        "with training_alone(home), recorded(home): print('held', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=rf"process {holder.pid} on {HERE}"):
            refuse_if_running(tmp_path)
        assert api.read_run(tmp_path).state == "running"
        holder.kill()
    refuse_if_running(tmp_path)
    status = read_json(tmp_path / STATUS)
    running(tmp_path, os.getppid())  # its number was given to another program
    refuse_if_running(tmp_path)
    assert status["state"] == "running" and api.read_run(tmp_path).state == "interrupted"


def test_runs_without_a_name_that_start_in_the_same_second_get_two_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "strftime", lambda form: "20260131-170509")
    recipe = tiny("train.updates=1")
    assert api.train(recipe).folder != api.train(recipe).folder


# ---- SIGTERM at any moment of a run


class StopIn(Silence):
    """Sends SIGTERM to this process at the start of the training or of the final evaluation."""

    def __init__(self, phase: str) -> None:
        self.phase = phase

    def say(self, text: str) -> None:
        if self.phase == "start":
            os.kill(os.getpid(), signal.SIGTERM)

    def testing(self, done: int, total: int) -> None:
        if self.phase == "test" and done == 0:
            os.kill(os.getpid(), signal.SIGTERM)

    def evaluated(self, epoch: int, update: int, line: str, figure: str) -> None:
        if self.phase == "last validation" and update == 7:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("phase", ["last validation", "test"])
def test_sigterm_after_training_leaves_a_run_that_resumes_with_its_test(phase, stopped, tmp_path):
    with pytest.raises(Interrupted, match=r"stopped.*saccade train --resume"):
        api.train(tiny("train.updates=7"), folder=tmp_path / "run", report=StopIn(phase))
    assert read_json(tmp_path / "run" / STATUS)["state"] == "interrupted"
    assert "--resume" in read_json(tmp_path / "run" / STATUS)["reason"]
    assert "test" not in saccade.load(tmp_path / "run").figures
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    whole = api.train(tiny("train.updates=7"), folder=tmp_path / "whole")
    assert api.resume(tmp_path / "run").figures["test"] == whole.figures["test"]


def test_sigterm_at_the_start_is_said_in_the_status(tmp_path):
    with pytest.raises(Interrupted, match="before the first checkpoint"):
        api.train(tiny("train.updates=7"), folder=tmp_path / "run", report=StopIn("start"))
    assert read_json(tmp_path / "run" / STATUS)["state"] == "interrupted"


def test_a_full_disk_under_the_log_is_one_line_and_the_run_resumes(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "log.csv").symlink_to("/dev/full")
    with pytest.raises(SaccadeError, match=r"log\.csv: could not write .*No space left on device"):
        api.train(tiny("train.updates=7"), folder=folder)
    assert read_json(folder / STATUS)["state"] == "failed"
    assert "log.csv" in read_json(folder / STATUS)["reason"]
