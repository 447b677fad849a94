"""Chooses the device and precision (by Lightning Fabric) and the number of CPU threads."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from saccade.errors import SaccadeError
from saccade.nn.recurrent import GatedUnit
from saccade.training.config import Train

if TYPE_CHECKING:
    from lightning_fabric import Fabric

PRECISION = {"32": "32-true", "tf32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed"}
# Multiply-adds of one recurrent step below which a second thread costs more than it saves. Measured with
# benchmarks/threads/run.py: a step of batch × hidden × 3·hidden.
WORK_A_THREAD = 20_000_000
# The first updates are watched for so long; a main thread that runs for less than this share of the time lacks a core.
WATCHED_UPDATES, WATCHED_SECONDS, FREE = 10, 5.0, 0.6
BUSY = "other processes use the CPU"  # how a note on it begins


def make_fabric(train: Train) -> Fabric:
    """One device and a precision, as the recipe says."""
    from lightning_fabric import Fabric

    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if train.device != "auto" and not available[train.device]:
        there = ", ".join(name for name, is_there in available.items() if is_there)
        raise SaccadeError(f"train.device: expected one of this machine's devices ({there}), found {train.device!r}")
    if train.precision == "16" and (train.device == "cpu" or not (available["cuda"] or available["mps"])):
        expected = "32 or bf16 on a CPU, which does not train in float16"
        raise SaccadeError(f"train.precision: expected {expected}, found {train.precision!r}")
    if train.precision == "tf32":
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
    return Fabric(accelerator=train.device, devices=1, precision=PRECISION[train.precision])  # type: ignore[arg-type]


def choose_threads(train: Train, network: nn.Module, records: float) -> int:
    """The number of CPU threads: as the recipe says, or as many as a recurrent step of this size keeps busy.

    A recurrence is many small products one after another; on two threads they can take ten times as long as on one. The
    rule depends on the sizes alone, never on a clock, so that the same seed gives the same numbers.
    """
    if train.threads is not None:
        return train.threads
    widest = max((matrix.numel() for matrix in _recurrent(network)), default=0)
    if not widest:
        return cores()
    return max(1, min(cores(), int(records * widest / WORK_A_THREAD)))


class CoreWatch:
    """Measures during the first updates whether the CPU is free for them.

    The thread that trains computes all the time, unless other processes have its core. The number of threads is not changed
    then: it changes the order of sums, so the same seed would give other numbers.
    """

    def __init__(self, threads: int) -> None:
        self.threads, self.updates, self.wall, self.busy = threads, 0, 0.0, 0.0

    @contextmanager
    def update(self) -> Iterator[None]:
        """Time an update inside the block."""
        wall, busy = time.perf_counter(), time.thread_time()
        yield
        self.updates += 1
        self.wall += time.perf_counter() - wall
        self.busy += time.thread_time() - busy

    @property
    def done(self) -> bool:
        """Whether enough was seen."""
        return self.updates >= WATCHED_UPDATES and self.wall >= WATCHED_SECONDS

    @property
    def note(self) -> str:
        """What to say of a busy machine; empty where the CPU is free."""
        share = self.busy / self.wall if self.wall else 1.0
        if share >= FREE:
            return ""
        slower = (
            f"an update takes {self.wall / self.updates:.2g} s, at least {1 / share:.1f} times as long as on a free one"
        )
        if self.threads == 1:
            return f"{BUSY}: {slower}"
        advice = "threads wait for one another, so train.threads: 1 may be several times as quick (with other rounding)"
        return f"{BUSY} for whose cores {self.threads} threads were planned: {slower}; {advice}"


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _recurrent(network: nn.Module) -> Iterator[Tensor]:
    """The matrices that multiply a state at every step: the recurrent gate weights of each unit."""
    for part in network.modules():
        if isinstance(part, nn.RNNBase | nn.RNNCellBase):
            yield from (tensor for name, tensor in part.named_parameters() if name.startswith("weight_hh"))
        elif isinstance(part, GatedUnit):
            yield part.from_state.weight
