"""A step's look at what is kept in one launch, by Triton; nothing is copied to the rows that went on from others.

Legend: R rows, N items, W = R / N rows an item, H heads, P places kept, d width of a head.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from saccade.kernels.beam_kv.reference import check
from saccade.kernels.launching import on_device_of

CHUNK = 32  # places a program has at hand at once


def kept_attention(
    query: Float[Tensor, "R H d"],
    key: Float[Tensor, "N H P d"],
    value: Float[Tensor, "N H P d"],
    counts: Int[Tensor, " N"],
    line: Int[Tensor, "R P"] | None = None,
    *,
    scale: float,
) -> Float[Tensor, "R H d"]:
    """What each row reads of the places it has; zeros where it has none. It has no gradient."""
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


# ----------------------------------------------------------------------------------------------------
# The Triton program of a step's look at what is kept: the equation is that of reference.py, the launch is in fused.py.
#
# A program serves one row and head. It goes through the places in chunks of BP and keeps a running softmax; places beyond the
# row's count are not loaded. Arithmetic is float32. Without a ``line`` its part is left out.


@triton.jit(do_not_specialize=["P", "W"])  # few programs, whatever the sizes of a search
def look_program(
    query, key, value, counts, line, context,
    P, scale, W, H: tl.constexpr, D: tl.constexpr, BP: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Scores → softmax → read, of one row and head."""
    program = tl.program_id(0)
    r = (program // H).to(tl.int64)
    h = program % H
    n = r // W
    d = tl.arange(0, BD)
    inside = d < D
    asked = tl.load(query + (r * H + h) * D + d, mask=inside, other=0.0).to(tl.float32) * scale
    last = tl.minimum(P, tl.load(counts + n).to(tl.int32))
    top = -float("inf")
    total = 0.0
    read = tl.zeros([BD], tl.float32)
    for start in range(0, last, BP):
        p = start + tl.arange(0, BP)
        seen = p < last
        item = tl.zeros([BP], tl.int64) + n
        if line is not None:
            item += tl.load(line + r * P + p, mask=seen, other=0).to(tl.int64)
        place = ((item * H + h) * P + p) * D
        both = seen[:, None] & inside[None, :]
        keys = tl.load(key + place[:, None] + d[None, :], mask=both, other=0.0).to(tl.float32)
        scores = tl.where(seen, tl.sum(keys * asked[None, :], axis=1), -float("inf"))
        higher = tl.maximum(top, tl.max(scores, axis=0))
        faded = tl.exp(top - higher)
        shares = tl.exp(scores - higher)
        values = tl.load(value + place[:, None] + d[None, :], mask=both, other=0.0).to(tl.float32)
        read = read * faded + tl.sum(shares[:, None] * values, axis=0)
        total = total * faded + tl.sum(shares, axis=0)
        top = higher
    read = read / tl.where(total == 0.0, 1.0, total)
    tl.store(context + (r * H + h) * D + d, read.to(context.dtype.element_ty), mask=inside)
