"""Additive scores (Bahdanau et al. 2015, A.1.2): score(q, k) = vᵀ tanh(q + k), q and k already projected.

It holds the whole sum q + k, T × S × D numbers: the specification, and the fastest for a decoder's single step.
Legend: T queries, S keys, D width, H heads.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.errors import SaccadeError


def additive_scores(
    query: Float[Tensor, "*#batch T D"], key: Float[Tensor, "*#batch S D"], v: Float[Tensor, "*#heads D"]
) -> Float[Tensor, "*batch T S"]:
    """Score every query against every key.

    The axes before the last two broadcast as they do everywhere in PyTorch, and those of `v` line up with the last of
    them: `v [D]` serves all, `v [H, D]` beside `query [B, H, T, D]` is one v per head.
    """
    check_widths(query, key, v)
    hidden = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))  # [*batch, T, S, D]
    if v.dim() == 1:
        return hidden @ v
    return (hidden @ v[..., None, :, None]).squeeze(-1)


def check_widths(query: Tensor, key: Tensor, v: Tensor) -> None:
    """Raise unless the widths are equal: a width of 1 would broadcast silently."""
    widths = (query.shape[-1], key.shape[-1], v.shape[-1])
    if len(set(widths)) > 1:
        raise SaccadeError(
            "additive scores: expected query [..., T, D], key [..., S, D] and v [..., D] of one width D, found widths "
            f"{widths[0]}, {widths[1]} and {widths[2]}; project query and key to the width of v first"
        )
