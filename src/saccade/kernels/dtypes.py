"""The dtypes that kernels compute in and return."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor


def promoted(*tensors: Tensor | None) -> torch.dtype:
    """The smallest dtype that all of these tensors fit in; None is skipped."""
    first, *others = (tensor.dtype for tensor in tensors if tensor is not None)
    for dtype in others:
        first = torch.promote_types(first, dtype)
    return first


def result_dtype(first: Tensor, *others: Tensor | None) -> torch.dtype:
    """The dtype of a product of these tensors: the promoted one, or autocast's, which leaves float64 alone."""
    dtype, device = promoted(first, *others), first.device.type
    if dtype is not torch.float64 and _autocasts(device):
        return torch.get_autocast_dtype(device)
    return dtype


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """float16 and bfloat16 are computed in float32, the others as they are."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def working_dtype_of(*tensors: Tensor | None) -> torch.dtype:
    """The dtype to compute with these tensors in: the promoted one, float32 at least."""
    return torch.promote_types(promoted(*tensors), torch.float32)


def widened(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors as a kernel computes with them: rounded to the dtype of their product, in float32 at least."""
    dtype = result_dtype(*tensors)
    wide = working_dtype(dtype)
    return tuple([tensor if tensor.dtype is dtype is wide else tensor.to(dtype).to(wide) for tensor in tensors])


def without_autocast(tensor: Tensor) -> contextlib.AbstractContextManager[Any]:
    """Switches autocast off on the tensor's device: kernels settle their dtypes before they compute."""
    device = tensor.device.type
    return torch.autocast(device, enabled=False) if _autocasts(device) else _NOTHING


_NOTHING: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()


def _autocasts(device: str) -> bool:
    if device not in ("cpu", "cuda") and not torch.amp.is_autocast_available(device):
        return False
    return torch.is_autocast_enabled(device)
