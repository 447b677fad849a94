"""Triton functions that several kernels share, and the smallest program there is."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from saccade.kernels.launching import on_device_of


@triton.jit
def tanh_and_slope(x):
    """tanh x and 1 − tanh² x, each to a few roundings of itself at any magnitude; NaN passes.

    Far from 0 both come from e = exp(−2|x|), which cannot overflow. Below ¼, where 1 − e would cancel, tanh is its series:
    the first term left out is 1e-8 of the sum.
    """
    size = tl.abs(x)
    e = tl.exp(-2.0 * size)
    r = 1.0 / (1.0 + e)
    far = (1.0 - e) * r
    square = x * x
    series = 0.13333333 + square * (-0.05396825 + square * 0.02186949)
    near = x * (1.0 + square * (-0.33333333 + square * series))
    return tl.where(size < 0.25, near, tl.where(x < 0, -far, far)), 4.0 * e * r * r


@triton.jit
def one(out):
    """out[0] = 1."""
    tl.store(out, 1.0)


def launched(device: torch.device) -> torch.Tensor:
    """Launch `one` on the device; raises whatever keeps it from being compiled or launched."""
    out = torch.zeros(1, device=device)
    with on_device_of(out):
        one[(1,)](out)
    return out
