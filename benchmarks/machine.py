"""What a table of results calls the machine that it was measured on: the CPU's name, or the GPU's."""

from __future__ import annotations

import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


def cpu_name() -> str:
    """The CPU's model name where Linux tells it; else what Python knows of it, at least its architecture."""
    try:
        lines = CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def device_name(device: str | None = None) -> str:
    """The GPU's name for "cuda", and for None where PyTorch finds a GPU; else the CPU's."""
    import torch  # here, since some scripts load it late: their --help is quick

    on_gpu = device == "cuda" or (device is None and torch.cuda.is_available())
    return torch.cuda.get_device_name() if on_gpu else cpu_name()
