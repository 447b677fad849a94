"""Stops a request's work that nobody waits for, or that would take too long or hold too much memory.

Computations report their progress (:mod:`saccade.progress`), so a request's cost is measured on the request itself, on this
machine, with its beam, its inputs, their lengths and prefixes, and what its lens records. What it holds is estimated by
searches and by attention before they allocate it, and the memory of the process is measured. Every ``MEASURED`` seconds

    seconds = seconds so far + (1 − share done) · seconds per share, lately

Outputs are assumed to be as long as they may become. The first step does not count, since it also reads the inputs. One
estimate may be wrong, since the machine has other things to do: a request is refused after ``CERTAIN`` in a row that are too
long, or one that is ``FAR`` times too long. Before the first step, the positions that will be computed are estimated at the
best pace of earlier requests.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import TypeVar

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from saccade.progress import Progress, report, watched
from saccade.server.requests import Limits, Refusal

T = TypeVar("T")
MEASURED = 0.4  # seconds of steps from which the duration is estimated
CERTAIN, FAR = 3, 10
ENOUGH = 1000  # positions from which a pace can be told
HEAVY = 100_000_000  # bytes; after such a request memory is given back to the system
CHEAPER = "ask for shorter or fewer inputs, a narrower beam or a shorter prefix"


class Pace:
    """The best pace of a model so far, in seconds per position."""

    best: float | None = None


class Budget:
    """What one request may cost; ``run`` does its work within it."""

    def __init__(self, limits: Limits, pace: Pace) -> None:
        self.limits, self.pace = limits, pace
        self.abandoned = False  # nobody waits for the answer: set by any thread
        self.begun, self.most, self.positions, self.before = 0.0, 0, 0, 0
        self.too_long = 0  # estimates in a row
        self.since = 0.0, 0.0  # when the current measurement began, and the share done then

    def run(self, work: Callable[[], T]) -> T:
        """The result of ``work``. Raises a :class:`Refusal` when the work is too expensive or abandoned."""
        self.begun, self.before = time.monotonic(), resident()
        _report_layers()
        try:
            with watched(self._check):
                return work()
        except BaseException as error:
            traceback.clear_frames(error.__traceback__)  # the frames of a search hold its tensors
            raise
        finally:
            if self.most > HEAVY or time.monotonic() - self.begun > MEASURED:
                free_memory()

    def _check(self, progress: Progress) -> None:
        """Called between steps and between layers."""
        if self.abandoned:
            raise Refusal(499, "the request was abandoned")
        share, held, positions = progress
        taken = resident() - self.before
        self.most, self.positions = max(self.most, held, taken), positions or self.positions
        if max(held, taken) > self.limits.memory:
            found = f"estimated {_gigabytes(held)}" if held > taken else f"found {_gigabytes(taken)}"
            expected = _gigabytes(self.limits.memory)
            raise Refusal(422, f"request: expected work in at most {expected}, {found} ({CHEAPER})")
        if positions and self.pace.best is not None:
            self._check_time(positions * self.pace.best, sure=False)
        if share:
            self._measure(share)

    def _measure(self, share: float) -> None:
        """Estimate the time from that of the last steps."""
        now, (begun, done) = time.monotonic(), self.since
        computed = share * self.positions
        if computed > ENOUGH:
            pace = (now - self.begun) / computed
            self.pace.best = pace if self.pace.best is None else min(pace, self.pace.best)
        if done == 0:
            self.since = now, share
        if done == 0 or share <= done or now - begun < MEASURED:
            return
        self.since = now, share
        seconds = now - self.begun + (1 - share) * (now - begun) / (share - done)
        self.too_long = self.too_long + 1 if seconds > self.limits.seconds else 0
        self._check_time(seconds, sure=self.too_long >= CERTAIN)

    def _check_time(self, seconds: float, *, sure: bool) -> None:
        most = self.limits.seconds
        if seconds > (most if sure else FAR * most):
            message = f"request: expected work of at most {most:g} seconds, estimated {seconds:,.0f} ({CHEAPER})"
            raise Refusal(422, message)


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"


@cache
def _report_layers() -> None:
    """Let every layer report, so that work also stops within a step. For all modules of the process: a hook on those of one
    network would be added while others iterate over them."""
    register_module_forward_pre_hook(lambda *_: None if torch.compiler.is_compiling() else report())


def resident() -> int:
    """The bytes of memory that this process takes; 0 where the system does not tell. It takes some microseconds."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def free_memory() -> None:
    """Give freed memory back to the system, which the C library otherwise keeps for the next request."""
    gc.collect()
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # not every C library has it
            ctypes.CDLL(None).malloc_trim(0)
