"""Whether Triton's programs can be launched on a tensor's device, on which device they are, and how to launch them again.

Triton finds out at every launch which compiled program serves its arguments, which takes the host longer than the launch
itself. What it finds depends on the types of the tensors, on whether they begin at multiples of 16 bytes, and on the numbers
and constants: :func:`launch` remembers it by those.
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


_TRITON_FOUND = find_spec("triton") is not None  # no cache: torch.compile, which records through one, would warn of it


def has_fused(tensor: Tensor) -> bool:
    """Whether Triton serves this tensor's device: it is installed, and can compile and launch a program there."""
    return tensor.is_cuda and triton_installed() and _compiles(tensor)


def hindrances(tensor: Tensor) -> list[str]:
    """What keeps Triton from serving this tensor's device, in words; nothing where it serves."""
    found = []
    if not tensor.is_cuda:
        found.append(f"the tensors are on {tensor.device.type}, not on a CUDA device")
    if not triton_installed():
        found.append("triton is not installed")
    elif tensor.is_cuda and not has_fused(tensor):
        found.append("triton cannot compile here")
    return found


def _compiles(tensor: Tensor) -> bool:
    """Found out once a device, by a small program: without a C compiler, as in many containers, Triton launches nothing."""
    if torch.compiler.is_compiling():  # whose usual backend needs Triton too; what is tried would be recorded
        return True
    device = tensor.device.index
    if device not in _tried:
        if _is_fake(tensor) or torch.cuda.is_current_stream_capturing():  # nothing can be tried now
            return True
        _tried[device] = _try_on(tensor.device)
    return _tried[device]


def _is_fake(tensor: Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)


def _try_on(device: torch.device) -> bool:
    try:
        from saccade.kernels.trial import launched

        launched(device)
    except (
        Exception
    ) as error:  # whatever stands in the way: no compiler, another driver, a cache that cannot be written
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        if "out of memory" in reason.lower():  # of PyTorch or of Triton, which has no error of its own for it
            raise
        warnings.warn(
            f"Triton cannot compile here, so slower kernels serve on the GPU. It says {reason[:200]}", stacklevel=2
        )
        return False
    return True


_tried: dict[int | None, bool] = {}


def on_device_of(tensor: Tensor) -> contextlib.AbstractContextManager[Any]:
    """Triton launches on the current GPU, which need not be the tensor's."""
    if not tensor.is_cuda or tensor.device.index == torch.cuda.current_device():
        return _NOTHING
    return torch.cuda.device(tensor.device)


def launch(
    program: Any, programs: int, tensors: Sequence[Tensor], numbers: Sequence[float], /, **constants: object
) -> None:
    """``program[(programs,)](*tensors, *numbers, **constants)`` on the first tensor's device.

    The constants that are parameters of the program are its last ones; the others are Triton's own options.
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
