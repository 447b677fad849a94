"""One decoding step of attention over cached keys and values: the formula.

    context[r, h] = Σₚ α[r, h, p] value[n(r, p), h, p]                                     p < count[⌊r / W⌋]
    α[r, h, p] = softmaxₚ(scale · query[r, h] · key[n(r, p), h, p])
    n(r, p) = ⌊r / W⌋ + line[r, p]        W = R / N rows share one item; without a line all of it is theirs

A row of a beam search continues another row, whose keys it would have to copy at every step. With a line of descent they
stay where they were written: what row r cached at position p lies ``line[r, p]`` rows further on.

Legend: R rows, N items, W = R / N rows per item, H heads, P cached positions, d width of a head.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.dtypes import working_dtype


def cached_attention(
    query: Float[Tensor, "R H d"],
    key: Float[Tensor, "N H P d"],
    value: Float[Tensor, "N H P d"],
    counts: Int[Tensor, " N"],
    line: Int[Tensor, "R P"] | None = None,
    *,
    scale: float,
) -> Float[Tensor, "R H d"]:
    """The context of each row over its cached positions; zeros where it has none."""
    check(query, key, line)
    R, N, P = len(query), len(key), key.shape[2]
    dtype, W = working_dtype(query.dtype), R // N
    queries = query.to(dtype).unflatten(0, (N, W)).transpose(1, 2)  # [N, H, W, d]
    key, value = (in_line(part.to(dtype), line) for part in (key, value))
    beyond = torch.arange(P, device=query.device) >= counts.view(N, 1, 1, 1)
    scores = (queries @ key.transpose(-1, -2) * scale).masked_fill(beyond, -torch.inf)  # [N, H, W, P]
    weights = scores.softmax(dim=-1).masked_fill(beyond, 0.0)  # a row of only −inf gives NaN
    context: Tensor = (weights @ value.masked_fill(beyond.transpose(-1, -2), 0.0)).transpose(1, 2).flatten(0, 1)
    return context.to(query.dtype)


def in_line(part: Float[Tensor, "R H P d"], line: Int[Tensor, "R P"] | None) -> Float[Tensor, "R H P d"]:
    """Each row's cached keys or values, gathered from where they were written."""
    if line is None:
        return part
    rows = torch.arange(len(part), device=part.device).unsqueeze(1) + line  # [R, P]
    return part[rows, :, torch.arange(part.shape[2], device=part.device)].transpose(1, 2)


def check(query: Tensor, key: Tensor, line: Tensor | None) -> None:
    """Raise unless rows share items evenly, and each row has its own item where there is a line of descent."""
    if len(key) == 0 or len(query) % len(key):
        raise SaccadeError(f"rows must be a multiple of items: got {len(query)} rows for {len(key)} items")
    if line is not None and len(query) != len(key):
        raise SaccadeError(f"a line of descent needs one item per row: got {len(query)} rows for {len(key)} items")
