"""Kills a process between every two of its file operations, to see what it leaves."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import torch

EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree")
KILLED, ENOUGH = 9, 500


def killed_before_each_file_operation(action: Callable[[], object], within: str) -> Iterator[int]:
    """Runs ``action`` in a child process that ends, without any cleaning up, before its first file operation in a folder, then
    before its second, and so on; yields after each, with the number of operations that were done. The last one was not killed.
    """
    for count in range(ENOUGH):
        child = os.fork()
        if not child:
            _act(action, count, within)
        _, status = os.waitpid(child, 0)
        yield count
        if os.waitstatus_to_exitcode(status) != KILLED:
            assert os.waitstatus_to_exitcode(status) == 0
            return
    raise AssertionError(f"more than {ENOUGH} file operations")


def _act(action: Callable[[], object], count: int, within: str) -> None:
    left = count

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in EVENTS and any(str(part).startswith(within) for part in arguments):
            if left == 0:
                os._exit(KILLED)
            left -= 1

    torch.cuda.is_available = lambda: False  # CUDA does not work in a forked process
    sys.addaudithook(hook)
    try:
        action()
    except BaseException:
        os._exit(1)
    os._exit(0)
