"""One value per query, gathered: T · E numbers are read instead of S · E per query, and no row of weights is stored.

Its gradient is added to the chosen values only. torch.gather serves every device and dtype; there is nothing to fuse with it.

Legend: T queries, S keys, E width of values.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


def take(value: Float[Tensor, "*batch S E"], index: Int[Tensor, "*batch T"]) -> Float[Tensor, "*batch T E"]:
    """The value at each index; zeros where the index is −1, of a query that sees nothing."""
    batch = torch.broadcast_shapes(index.shape[:-1], value.shape[:-2])  # torch.gather would read the first items alone
    index, value = index.expand(*batch, -1), value.expand(*batch, -1, -1)
    seen = (index >= 0).unsqueeze(-1)
    if not value.shape[-2]:
        return value.new_zeros(*index.shape, value.shape[-1])
    places = index.clamp(min=0).unsqueeze(-1).expand(*index.shape, value.shape[-1])
    return value.gather(-2, places).masked_fill(~seen, 0.0)
