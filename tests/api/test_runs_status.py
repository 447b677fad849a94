"""How a run stands: a folder that a living process trains in belongs to that process alone."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from saccade import api
from saccade.api.runs import STATUS, alive, refuse_if_running
from saccade.errors import InputError, Interrupted
from saccade.storage import read_json, write_json
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


def test_a_run_is_resumed_once_the_process_that_trains_it_is_dead(stopped, other, tmp_path):
    run = shutil.copytree(stopped, tmp_path / "run")
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


def test_a_run_that_another_process_took_up_while_the_data_was_read_is_left_to_it(
    stopped, other, tmp_path, monkeypatch
):
    run = shutil.copytree(stopped, tmp_path / "run")
    read = api.training.read_splits
    monkeypatch.setattr(api.training, "read_splits", lambda *given: (running(run, other.pid), read(*given))[1])
    with pytest.raises(InputError, match="expected a run that no process trains"):
        api.resume(run)
    assert read_json(run / STATUS)["process"] == other.pid


def test_nothing_is_trained_over_a_run_of_a_living_process(stopped, other, tmp_path, command):
    run = shutil.copytree(stopped, tmp_path / "run")
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
