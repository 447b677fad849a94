"""Location-aware scores (Chorowski et al. 2015, section 2.2): additive scores that depend on the previous query's weights.

    f_s = Σ_j F_j α_{s + j − r}                  j = 0 … 2r, α = 0 outside its keys
    score(q, k_s, α) = vᵀ tanh(q + k_s + L f_s)  q and k already projected

The sum runs forwards through the taps, as in PyTorch's `conv1d`; for learned filters the direction does not matter.
It stores T × S × D numbers. Legend: T queries, S keys, D width, C filters, r their radius, K = 2r + 1 taps.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from saccade.errors import SaccadeError
from saccade.kernels.additive.reference import check_widths

MOST_FILTERS = 64
"""The most filters whose features the fused kernel holds in registers."""


def location_aware_scores(
    query: Float[Tensor, "*#batch T D"],
    key: Float[Tensor, "*#batch S D"],
    v: Float[Tensor, "*#heads D"],
    previous: Float[Tensor, "*#batch T S"],
    filters: Float[Tensor, "C K"],
    location_weight: Float[Tensor, "D C"],
) -> Float[Tensor, "*batch T S"]:
    """Score every query against every key, given the weights of the query before (`previous`).

    The axes before the last two broadcast as in PyTorch; `v [H, D]` is one v per head.
    """
    check_shapes(query, key, v, previous, filters, location_weight)
    features = convolved(previous, filters)  # [*batch, T, S, C]
    place = features @ location_weight.mT  # [*batch, T, S, D]
    hidden = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3) + place)
    if v.dim() == 1:
        return hidden @ v
    return (hidden @ v[..., None, :, None]).squeeze(-1)


def convolved(previous: Float[Tensor, "*batch T S"], filters: Float[Tensor, "C K"]) -> Float[Tensor, "*batch T S C"]:
    """f_s = Σ_j F_j α_{s + j − r}: as many features as keys."""
    *batch, S = previous.shape
    C, K = filters.shape
    if previous.numel() == 0:
        return previous.new_zeros(*batch, S, C)
    rows = previous.to(filters.dtype).reshape(-1, 1, S)
    features = functional.conv1d(rows, filters.unsqueeze(1), padding=K // 2)  # [rows, C, S]
    return features.mT.reshape(*batch, S, C)


def check_shapes(
    query: Tensor, key: Tensor, v: Tensor, previous: Tensor, filters: Tensor, location_weight: Tensor
) -> None:
    """Raise for shapes that would fail later, or broadcast silently."""
    check_widths(query, key, v)
    if filters.dim() != 2 or filters.shape[1] % 2 == 0:
        raise SaccadeError(
            f"filters: expected [C, 2r + 1], an odd number of taps around each key, found {list(filters.shape)}"
        )
    if location_weight.shape != (v.shape[-1], filters.shape[0]):
        raise SaccadeError(
            f"location_weight: expected [D, C] = [{v.shape[-1]}, {filters.shape[0]}], found {list(location_weight.shape)}"
        )
    T, S = query.shape[-2], key.shape[-2]
    if previous.shape[-1] != S or previous.shape[-2] not in (1, T):
        raise SaccadeError(
            f"previous weights: expected [..., T, S] = [..., {T}, {S}], found {list(previous.shape)}; "
            "pass what weigh() returned for the query before, over the same keys"
        )
