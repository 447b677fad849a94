"""The dtypes that kernels compute in and return."""

from __future__ import annotations

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
    if dtype is not torch.float64 and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return dtype


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """float16 and bfloat16 are computed in float32, the others as they are."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def working_dtype_of(*tensors: Tensor | None) -> torch.dtype:
    """The dtype to compute with these tensors in: the promoted one, float32 at least."""
    return torch.promote_types(promoted(*tensors), torch.float32)


def without_autocast(tensor: Tensor) -> torch.autocast:
    """Switches autocast off on the tensor's device: kernels settle their dtypes before they compute."""
    return torch.autocast(tensor.device.type, enabled=False)
