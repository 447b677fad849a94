"""How a run stands, in a file beside it (``status.json``): running, interrupted, failed or done, and its best figure so far.

It is for people and for ``saccade runs``; training itself goes on from checkpoints, and asks it one thing: whether another
process is at work there. Imports no torch.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from saccade.errors import InputError, Interrupted, SaccadeError
from saccade.storage import read_json, write_json

STATUS = "status.json"


def now() -> str:
    """This second, with the offset from UTC: ``2026-01-31T17:05:09+01:00``."""
    return datetime.now().astimezone().isoformat(timespec="seconds")


class Status:
    """The open status of one run."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / STATUS
        self._content: dict[str, Any] = {}
        with suppress(SaccadeError):  # a run's first status, or one that was damaged
            self._content = dict(read_json(self._path))

    def write(self, state: str, **more: Any) -> None:
        """Change the state; what was known of the best figure stays."""
        kept = {name: self._content[name] for name in ("best",) if name in self._content}
        self._content = {"state": state, "at": now(), "host": socket.gethostname(), "process": os.getpid()}
        self._content |= kept | more
        write_json(self._path, self._content)

    def best(self, metric: str, figure: float, *, higher_is_better: bool, epoch: int, update: int) -> None:
        """The watched figure of the network that is kept, on the validation set: the best so far, unless the last is kept."""
        best = {"metric": metric, "figure": figure, "higher_is_better": higher_is_better, "epoch": epoch}
        self.write("running", best={**best, "update": update})


@contextmanager
def recorded(folder: Path) -> Iterator[Status]:
    """Running while it lasts; afterwards what became of it, whichever way it was left."""
    status = Status(folder)
    status.write("running")
    try:
        yield status
    except BaseException as error:
        stopped = isinstance(error, Interrupted | KeyboardInterrupt)
        reason = str(error) if isinstance(error, SaccadeError) else f"{type(error).__name__}: {error}"
        with suppress(SaccadeError):  # a full disk, say: the error itself is what must be told
            status.write("interrupted" if stopped else "failed", reason=" ".join(reason.split()))
        raise
    status.write("done")


def refuse_living(folder: Path) -> None:
    """Raise where another process of this machine still trains the run in this folder: both would write into it.

    Whether a process of another machine lives, or any where there is no POSIX, cannot be found out: its run may be resumed.
    """
    status: Any = None
    with suppress(SaccadeError):  # no status yet, or one that was damaged
        status = read_json(folder / STATUS)
    if not isinstance(status, dict) or status.get("state") != "running" or status.get("host") != socket.gethostname():
        return
    process = status.get("process")
    if os.name != "posix" or process == os.getpid() or not alive(process):
        return  # its own number a process may find there in a container that was started again
    found = f"one that process {process} on {status['host']} still trains"
    hint = f"wait for it or stop it; if that process is another program, delete {folder / STATUS}"
    raise InputError(folder, expected="a run that no process trains", found=found, hint=hint)


def alive(process: Any) -> bool:
    """Whether a process of this machine runs. Elsewhere than on POSIX asking is not safe: it is taken to run."""
    if not isinstance(process, int) or process <= 0:
        return False
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    with suppress(OSError, IndexError):  # Linux tells of a process that has ended and that nobody has asked after
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    return True
