"""One value per query, as a product with rows that have a single 1: context[t] = Σₛ [s = index[t]] · value[s].

The formula that :mod:`saccade.kernels.hard.gathered` computes without reading the other values.

Legend: T queries, S keys, E width of values.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


def take(value: Float[Tensor, "*batch S E"], index: Int[Tensor, "*batch T"]) -> Float[Tensor, "*batch T E"]:
    """The value at each index; zeros where the index is −1, of a query that sees nothing."""
    keys = torch.arange(value.shape[-2], device=value.device)
    rows = (index.unsqueeze(-1) == keys).to(value.dtype)  # [B, T, S]
    return rows @ value
