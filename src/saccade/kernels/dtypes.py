"""In which type a kernel computes, and in which it answers."""

from __future__ import annotations

import torch
from torch import Tensor


def promoted(*tensors: Tensor) -> torch.dtype:
    """The type that all of these fit in."""
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype


def result_dtype(*tensors: Tensor) -> torch.dtype:
    """What a product of these gives: the promoted type, or autocast's, which leaves float64 alone."""
    dtype, device = promoted(*tensors), tensors[0].device.type
    if dtype is not torch.float64 and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return dtype


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """float16 and bfloat16 are computed in float32, the others as they are."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
