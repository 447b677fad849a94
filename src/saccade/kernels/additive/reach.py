"""How far queries and keys reach: max |q| and max |k|, read from a GPU in one go (Triton).

Numbers that are not negative order like their bits, so the maximum is taken of integers; a NaN's bits are above all of them.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

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
    out = torch.zeros(2, dtype=torch.int32, device=query.device)
    blocks = triton.cdiv(query.numel(), _BLOCK)
    grid = (blocks + triton.cdiv(key.numel(), _BLOCK),)
    _reach_kernel[grid](query, key, out, query.numel(), key.numel(), blocks, BLOCK=_BLOCK, num_warps=8)
    of_query, of_key = out.view(torch.float32).tolist()
    return of_query, of_key
