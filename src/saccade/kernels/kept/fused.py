"""A step's look at what is kept in one launch, by Triton; nothing is copied to the rows that went on from others.

Legend: R rows, N items, W = R / N rows an item, H heads, P places kept, d width of a head.
"""

from __future__ import annotations

import torch
import triton
from jaxtyping import Float, Int
from torch import Tensor

from saccade.kernels.kept import programs
from saccade.kernels.kept.reference import check
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
        programs.look[(R * H,)](
            query, key, value, counts.contiguous(), line, context, P, scale, R // N, H=H, D=D, **block, num_warps=1
        )
    return context
