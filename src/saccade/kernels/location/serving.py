"""Which kernel serves location-aware scores, and why."""

from __future__ import annotations

import torch
from torch import Tensor

from saccade.kernels.choose import Choice
from saccade.kernels.dtypes import promoted
from saccade.kernels.exporting import is_exporting
from saccade.kernels.launching import hindrances
from saccade.kernels.location import reference

MOST_FILTERS = 64
"""Features of a block of keys stay in registers: those of more filters would not."""


def choose_location_aware(query: Tensor, key: Tensor, v: Tensor, filters: Tensor) -> Choice:
    """The fused kernel where it can serve, else the reference with what stands in the way."""
    obstacles = _obstacles(query, key, v, filters)
    if obstacles:
        return Choice(
            "location_aware.reference",
            reference.location_aware_scores,
            tuple(f"location_aware.fused cannot serve: {obstacle}" for obstacle in obstacles),
        )
    from saccade.kernels.location import fused

    reason = "one query per item, a decoder's step, in one launch; q + k + L f is never stored"
    return Choice("location_aware.fused", fused.location_aware_scores, (reason,))


def _obstacles(query: Tensor, key: Tensor, v: Tensor, filters: Tensor) -> list[str]:
    dtype = promoted(query, key, v)
    held_back = {
        "an exported graph runs where this package's operators are not known": is_exporting(),
        f"there are {query.shape[-2]} queries for each item, not one": query.shape[-2] != 1,
        "the keys are shared by several items": key.shape[:-2] != query.shape[:-2],
        "float64 is beyond its float32": dtype is torch.float64,
        f"{len(filters)} filters are more than the {MOST_FILTERS} it holds in registers": len(filters) > MOST_FILTERS,
    }
    return hindrances(query) + [reason for reason, holds in held_back.items() if holds]
