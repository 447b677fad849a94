"""One decoding step of attention over cached keys and values: Triton on a GPU without gradients, else the reference."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.kernels.beam_kv import reference
from saccade.kernels.launching import has_fused


def cached_attention(
    query: Float[Tensor, "R H d"],
    key: Float[Tensor, "N H P d"],
    value: Float[Tensor, "N H P d"],
    counts: Int[Tensor, " N"],
    line: Int[Tensor, "R P"] | None = None,
    *,
    scale: float,
) -> Float[Tensor, "R H d"]:
    """The context of each row over its cached positions (:func:`saccade.kernels.beam_kv.reference.cached_attention`)."""
    if not is_fused(query):
        return reference.cached_attention(query, key, value, counts, line, scale=scale)
    from saccade.kernels.beam_kv import fused

    return fused.cached_attention(query, key, value, counts, line, scale=scale)


def is_fused(query: Tensor) -> bool:
    """Whether the Triton kernel serves these queries."""
    return has_fused(query) and query.dtype != torch.float64 and not torch.is_grad_enabled()
