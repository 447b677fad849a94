"""Chooses the device and precision (by Lightning Fabric) and the number of CPU threads."""

from __future__ import annotations

import os
from collections.abc import Iterator
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
