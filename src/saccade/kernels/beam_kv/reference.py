"""A step's look at kept keys and values, as it is written down.

    context[r, h] = Σₚ α[r, h, p] value[n(r, p), h, p]                                     p < count[⌊r / W⌋]
    α[r, h, p] = softmaxₚ(scale · query[r, h] · key[n(r, p), h, p])
    n(r, p) = ⌊r / W⌋ + line[r, p]        W = R / N rows look at one item; without a line it is wholly theirs

A row of a beam search goes on from another row, whose keys it would have to copy at every step. With a line of descent they
stay where they were written: ``line[r, p]`` says how many rows further on lies what row r kept at place p.

Legend: R rows, N items, W = R / N rows an item, H heads, P places kept, d width of a head.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.dtypes import working_dtype


def kept_attention(
    query: Float[Tensor, "R H d"],
    key: Float[Tensor, "N H P d"],
    value: Float[Tensor, "N H P d"],
    counts: Int[Tensor, " N"],
    line: Int[Tensor, "R P"] | None = None,
    *,
    scale: float,
) -> Float[Tensor, "R H d"]:
    """What each row reads of the places it has; zeros where it has none."""
    check(query, key, line)
    R, N, P = len(query), len(key), key.shape[2]
    dtype, each = working_dtype(query.dtype), R // N
    asked = query.to(dtype).unflatten(0, (N, each)).transpose(1, 2)  # [N, H, W, d]
    key, value = (in_line(part.to(dtype), line) for part in (key, value))
    beyond = torch.arange(P, device=query.device) >= counts.view(N, 1, 1, 1)
    scores = (asked @ key.transpose(-1, -2) * scale).masked_fill(beyond, -torch.inf)  # [N, H, W, P]
    weights = scores.softmax(dim=-1).masked_fill(beyond, 0.0)  # a row of −inf alone gives NaN
    context: Tensor = (weights @ value.masked_fill(beyond.transpose(-1, -2), 0.0)).transpose(1, 2).flatten(0, 1)
    return context.to(query.dtype)


def in_line(part: Float[Tensor, "R H P d"], line: Int[Tensor, "R P"] | None) -> Float[Tensor, "R H P d"]:
    """What each row kept, brought to it from where it was written."""
    if line is None:
        return part
    rows = torch.arange(len(part), device=part.device).unsqueeze(1) + line  # [R, P]
    return part[rows, :, torch.arange(part.shape[2], device=part.device)].transpose(1, 2)


def check(query: Tensor, key: Tensor, line: Tensor | None) -> None:
    """Rows must share items evenly, and where they have lines of descent, each has its own."""
    if len(key) == 0 or len(query) % len(key):
        raise SaccadeError(f"rows must be a multiple of items: got {len(query)} rows for {len(key)} items")
    if line is not None and len(query) != len(key):
        raise SaccadeError(f"a line of descent needs an item a row: got {len(query)} rows for {len(key)} items")
