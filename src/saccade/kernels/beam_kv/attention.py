"""A step's look at what is kept, by the faster that serves: Triton's on a GPU where no gradient is asked for."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.kernels.beam_kv import reference
from saccade.kernels.launching import has_fused


def kept_attention(
    query: Float[Tensor, "R H d"],
    key: Float[Tensor, "N H P d"],
    value: Float[Tensor, "N H P d"],
    counts: Int[Tensor, " N"],
    line: Int[Tensor, "R P"] | None = None,
    *,
    scale: float,
) -> Float[Tensor, "R H d"]:
    """What each row reads of the places it has (:func:`saccade.kernels.beam_kv.reference.kept_attention`)."""
    if not is_fused(query):
        return reference.kept_attention(query, key, value, counts, line, scale=scale)
    from saccade.kernels.beam_kv import fused

    return fused.kept_attention(query, key, value, counts, line, scale=scale)


def is_fused(query: Tensor) -> bool:
    """Whether one launch would serve these queries."""
    return has_fused(query) and query.dtype != torch.float64 and not torch.is_grad_enabled()
