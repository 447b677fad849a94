"""Whether Triton's programs can be launched on a tensor's device, and on which device they are."""

from __future__ import annotations

import contextlib
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

_NOTHING: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()


@cache
def triton_installed() -> bool:
    return find_spec("triton") is not None


def has_fused(tensor: Tensor) -> bool:
    """Whether Triton serves this tensor's device."""
    return tensor.is_cuda and triton_installed()


def on_device_of(tensor: Tensor) -> contextlib.AbstractContextManager[Any]:
    """Triton launches on the current GPU, which need not be the tensor's."""
    if not tensor.is_cuda or tensor.device.index == torch.cuda.current_device():
        return _NOTHING
    return torch.cuda.device(tensor.device)
