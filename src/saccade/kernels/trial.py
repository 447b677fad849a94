"""The smallest program: whether Triton can compile and launch any is found out by this one."""

import torch
import triton
import triton.language as tl

from saccade.kernels.launching import on_device_of


@triton.jit
def one(out):
    """out[0] = 1."""
    tl.store(out, 1.0)


def launched(device: torch.device) -> torch.Tensor:
    """[1.0] from the program; raises what stands in the way of compiling or launching it."""
    out = torch.zeros(1, device=device)
    with on_device_of(out):
        one[(1,)](out)
    return out
