"""How far queries and keys reach: max |q| and max |k|, read from a GPU in one go (Triton).

Numbers that are not negative order like their bits, so the maximum is taken of integers; a NaN's bits are above all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor

from saccade.kernels.launching import launch

_BLOCK = 8192


@triton.jit
def _reach_kernel(query, key, out, queries, keys, blocks, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    if program < blocks:
        at = program.to(tl.int64) * BLOCK + place
        x = tl.load(query + at, mask=at < queries, other=0.0)
    else:
        at = (program - blocks).to(tl.int64) * BLOCK + place
        x = tl.load(key + at, mask=at < keys, other=0.0)
    bits = tl.abs(x.to(tl.float32)).to(tl.int32, bitcast=True)
    tl.atomic_max(out + (program >= blocks).to(tl.int32), tl.max(bits, axis=0))


def reach_of(query: Tensor, key: Tensor) -> tuple[float, float]:
    """max |q| and max |k| of contiguous tensors; NaN where there is one."""
    of_query, of_key = largest(query, key).view(torch.float32).tolist()
    return of_query, of_key


def ask(query: Tensor, key: Tensor) -> Callable[[], tuple[float, float]]:
    """:func:`reach_of` later: what is returned waits for the answer, and not for what the device was given after the question.

    One question at a time in a thread.
    """
    bits = largest(query, key)
    landing, arrived = _landing(query.device)
    landing.copy_(bits, non_blocking=True)
    arrived.record(torch.cuda.current_stream(query.device))

    def answer() -> tuple[float, float]:
        arrived.synchronize()
        of_query, of_key = landing.view(torch.float32).tolist()
        return of_query, of_key

    return answer


def largest(query: Tensor, key: Tensor) -> Tensor:
    """max |q| and max |k| of contiguous tensors as the bits of float32 numbers, on their device."""
    out = torch.zeros(2, dtype=torch.int32, device=query.device)
    sizes = query.numel(), key.numel()
    blocks = triton.cdiv(sizes[0], _BLOCK)
    programs = blocks + triton.cdiv(sizes[1], _BLOCK)
    launch(_reach_kernel, programs, (query, key, out), (*sizes, blocks), BLOCK=_BLOCK, num_warps=8)
    return out


_own = threading.local()


def _landing(device: torch.device) -> tuple[Tensor, torch.cuda.Event]:
    """Where the answers of this thread's questions to a device land, and the event that tells."""
    landings = _own.__dict__.setdefault("landings", {})
    if device not in landings:
        with torch.inference_mode(False):
            landings[device] = torch.empty(2, dtype=torch.int32, device="cpu", pin_memory=True), torch.cuda.Event()
    found: tuple[Tensor, torch.cuda.Event] = landings[device]
    return found
