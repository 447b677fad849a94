"""Checks whether Triton can run on a tensor's device, and launches its programs with little host overhead.

At every launch Triton looks up the compiled program for its arguments, which takes the host longer than the launch itself.
The result depends on the dtypes of the tensors, on whether they start at multiples of 16 bytes, and on the numbers and
constants: :func:`launch` caches it by those.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

_NOTHING: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()


def triton_installed() -> bool:
    return _TRITON_FOUND


_TRITON_FOUND = find_spec("triton") is not None  # no lru_cache: torch.compile traces through it with a warning


def has_fused(tensor: Tensor) -> bool:
    """Whether Triton runs on this tensor's device: it is installed, and can compile and launch a program there."""
    return tensor.is_cuda and triton_installed() and _compiles(tensor)


def why_not_fused(tensor: Tensor) -> list[str]:
    """The reasons why Triton does not run on this tensor's device; empty where it does."""
    reasons = []
    if not tensor.is_cuda:
        reasons.append(f"the tensors are on {tensor.device.type}, not on a CUDA device")
    if not triton_installed():
        reasons.append("triton is not installed")
    elif tensor.is_cuda and not has_fused(tensor):
        reasons.append("triton cannot compile here")
    return reasons


def _compiles(tensor: Tensor) -> bool:
    """Tested once per device with a small program: without a C compiler, as in many containers, Triton cannot launch."""
    if torch.compiler.is_compiling():  # its default backend needs Triton too, and the trial would be traced
        return True
    device = tensor.device.index
    if device not in _tried:
        if _is_fake(tensor) or torch.cuda.is_current_stream_capturing():  # no trial is possible now
            return True
        _tried[device] = _try_on(tensor.device)
    return _tried[device]


def _is_fake(tensor: Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)


def _try_on(device: torch.device) -> bool:
    try:
        from saccade.kernels.programs import launched

        launched(device)
    except Exception as error:  # no compiler, another driver, a cache that cannot be written, …
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        if "out of memory" in reason.lower():  # from PyTorch, or from Triton, which has no error class for it
            raise
        warnings.warn(
            f"Triton cannot compile here, so slower kernels serve on the GPU. Its error: {reason[:200]}", stacklevel=2
        )
        return False
    return True


_tried: dict[int | None, bool] = {}


def on_device_of(tensor: Tensor) -> contextlib.AbstractContextManager[Any]:
    """Makes the tensor's GPU the current one, on which Triton launches."""
    if not tensor.is_cuda or tensor.device.index == torch.cuda.current_device():
        return _NOTHING
    return torch.cuda.device(tensor.device)


def launch(
    program: Any, programs: int, tensors: Sequence[Tensor], numbers: Sequence[float], /, **constants: object
) -> None:
    """``program[(programs,)](*tensors, *numbers, **constants)`` on the first tensor's device.

    Constants that are parameters of the program are its last parameters; the others are Triton's options.
    """
    pointers = [tensor.data_ptr() for tensor in tensors]
    aligned = True
    for pointer in pointers:
        aligned = aligned and not pointer & 15
    device = tensors[0].device.index
    kind = (id(program), device, tuple([tensor.dtype for tensor in tensors]), *numbers, *constants.values())
    known = _compiled.get(kind) if aligned else None
    with on_device_of(tensors[0]):
        if known is not None:
            compiled, last = known
            compiled[(programs, 1, 1)](*pointers, *numbers, *last)
            return
        compiled = program[(programs,)](*tensors, *numbers, **constants)
    if aligned and hasattr(compiled, "packed_metadata"):  # the interpreter compiles nothing
        if len(_compiled) >= _MOST_COMPILED:
            _compiled.clear()
        last = [constants[name] for name in program.arg_names[len(tensors) + len(numbers) :]]
        _compiled[kind] = (compiled, last)


_compiled: dict[tuple[Any, ...], tuple[Any, list[Any]]] = {}
_MOST_COMPILED = 4096
