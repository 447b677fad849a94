"""One decoding step of attention over cached keys and values in one Triton launch, without copying the cache between rows.

A program has one row and head. It reads the positions in chunks of BP with a running softmax (an online softmax); positions
beyond the row's count are not loaded. Arithmetic is float32.

Legend: R rows, N items, W = R / N rows per item, H heads, P cached positions, d width of a head.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from saccade.kernels.beam_kv.reference import check
from saccade.kernels.launching import on_device_of

CHUNK = 32  # positions that a program holds at once


def cached_attention(
    query: Float[Tensor, "R H d"],
    key: Float[Tensor, "N H P d"],
    value: Float[Tensor, "N H P d"],
    counts: Int[Tensor, " N"],
    line: Int[Tensor, "R P"] | None = None,
    *,
    scale: float,
) -> Float[Tensor, "R H d"]:
    """The context of each row over its cached positions; zeros where it has none. It has no gradient."""
    check(query, key, line)
    (R, H, D), (N, _, P, _) = query.shape, key.shape
    query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
    line = None if line is None else line.contiguous()
    context = torch.empty_like(query)
    block = {"BP": min(triton.next_power_of_2(max(1, P)), CHUNK), "BD": triton.next_power_of_2(D)}
    with on_device_of(query):
        look_program[(R * H,)](
            query, key, value, counts.contiguous(), line, context, P, scale, R // N, H=H, D=D, **block, num_warps=1
        )
    return context


@triton.jit(do_not_specialize=["P", "W"])  # so that few programs are compiled
def look_program(
    query, key, value, counts, line, context,
    P, scale, W, H: tl.constexpr, D: tl.constexpr, BP: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Scores → softmax → context, of one row and head."""
    program = tl.program_id(0)
    r = (program // H).to(tl.int64)
    h = program % H
    n = r // W
    d = tl.arange(0, BD)
    inside = d < D
    q = tl.load(query + (r * H + h) * D + d, mask=inside, other=0.0).to(tl.float32) * scale
    last = tl.minimum(P, tl.load(counts + n).to(tl.int32))
    top = -float("inf")
    total = 0.0
    read = tl.zeros([BD], tl.float32)
    for start in range(0, last, BP):
        p = start + tl.arange(0, BP)
        real = p < last
        item = tl.zeros([BP], tl.int64) + n
        if line is not None:
            item += tl.load(line + r * P + p, mask=real, other=0).to(tl.int64)
        place = ((item * H + h) * P + p) * D
        both = real[:, None] & inside[None, :]
        keys = tl.load(key + place[:, None] + d[None, :], mask=both, other=0.0).to(tl.float32)
        scores = tl.where(real, tl.sum(keys * q[None, :], axis=1), -float("inf"))
        higher = tl.maximum(top, tl.max(scores, axis=0))
        faded = tl.exp(top - higher)
        shares = tl.exp(scores - higher)
        values = tl.load(value + place[:, None] + d[None, :], mask=both, other=0.0).to(tl.float32)
        read = read * faded + tl.sum(shares[:, None] * values, axis=0)
        total = total * faded + tl.sum(shares, axis=0)
        top = higher
    read = read / tl.where(total == 0.0, 1.0, total)
    tl.store(context + (r * H + h) * D + d, read.to(context.dtype.element_ty), mask=inside)
