"""Files that are replaced together, and locks, when processes are killed at random moments or come at the same one."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from saccade import storage
from saccade.storage import InUse, current_file, locked, read_together, replaced_together

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes")

LARGE = 300_000  # bytes per file: a kill often comes while one is written
KILLS, ROUNDS = 30, 7
ENTERED, REFUSED = 7, 8


def save(folder: Path, number: int) -> None:
    with replaced_together(folder, last="last") as saving:
        for name in ("a", "b", "last"):
            (saving / name).write_text(f"{number:06}" * (LARGE // 6))


def number_of(folder: Path) -> int:
    """The number that all files have."""
    texts = read_together(
        folder, "last", lambda: [current_file(folder, name).read_text() for name in ("a", "b", "last")]
    )
    assert {len(text) for text in texts} == {LARGE}
    [number] = {text[place : place + 6] for text in texts for place in (0, LARGE // 2 // 6 * 6, LARGE - 6)}
    return int(number)


def child(action: Callable[[], object]) -> int:
    process = os.fork()
    if not process:
        try:
            action()
        finally:
            os._exit(1)
    return process


def test_a_kill_at_a_random_moment_of_saving_leaves_files_of_one_version(tmp_path) -> None:
    chance, numbers = random.Random(7), [0]
    save(tmp_path, 0)
    for kill in range(KILLS):
        ready, begun = os.pipe()

        def keep_saving(kill: int = kill, begun: int = begun) -> None:
            for number in range(1000):
                os.write(begun, b"x")
                save(tmp_path, kill * 1000 + number)

        process = child(keep_saving)
        for _ in range(1 + kill % 3):  # so many saves have begun
            os.read(ready, 1)
        os.close(ready), os.close(begun)
        time.sleep(chance.random() * 0.03)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        numbers.append(number_of(tmp_path))
    assert numbers == sorted(numbers) and len(set(numbers)) > 3


def test_of_two_processes_that_lock_one_file_at_the_same_moment_exactly_one_enters(tmp_path) -> None:
    for round in range(ROUNDS):
        start, end = multiprocessing.Barrier(2), multiprocessing.Barrier(2)
        lock = tmp_path / f"{round}" / ".lock"

        def enter(start=start, end=end, lock=lock) -> None:
            start.wait(100)
            try:
                with locked(lock, where=lock.parent, expected="a free run"):
                    end.wait(100)
                    os._exit(ENTERED)
            except InUse:
                end.wait(100)
                os._exit(REFUSED)

        processes = [child(enter) for _ in range(2)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
        assert sorted(codes) == [ENTERED, REFUSED]


def test_a_lock_file_that_its_last_holder_removed_is_not_held(tmp_path, monkeypatch) -> None:
    path, lock, removed = tmp_path / ".lock", storage._lock, []

    def removed_meanwhile(file) -> bool:
        if not removed:
            removed.append(path.unlink())
        return lock(file)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "_lock", removed_meanwhile)
        held = locked(path, where=tmp_path, expected="a free file")
        held.__enter__()
    with pytest.raises(InUse), locked(path, where=tmp_path, expected="a free file"):
        pytest.fail("both entered")
    held.__exit__(None, None, None)
    with locked(path, where=tmp_path, expected="a free file"):
        pass
