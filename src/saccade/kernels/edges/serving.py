"""Which kernel serves attention over edges, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from saccade.kernels.choose import Choice
from saccade.kernels.edges import blocked, reference
from saccade.kernels.edges.graph import Graph
from saccade.kernels.exporting import is_exporting
from saccade.kernels.launching import hindrances
from saccade.kernels.spelling import spelled

BLOCKED_PAYS_FROM = 1 << 20
"""Numbers in q + k over all edges from which they are worked through in runs: below, one run would hold them anyway."""

MOST_WIDTH = 1024
"""The widest head that the fused kernel holds in registers."""


@dataclass(frozen=True)
class EdgeChoice(Choice):
    """A choice that also has the kernel's way to α of every edge."""

    weights: Callable[..., Tensor]


def choose_edges(query: Tensor, key: Tensor, value: Tensor, graph: Graph) -> EdgeChoice:
    """The fused kernel where it can serve, else runs of edges, else, where these are few or exported, the reference."""
    _, H, D = query.shape
    width = max(D, value.shape[-1])
    numbers = graph.size * H * width
    sizes = (spelled(size) for size in (graph.size, H, width, numbers))
    whole = "{} edges of {} × {} numbers are {}".format(*sizes)
    if is_exporting():
        reason = f"{whole}, kept whole because an exported graph runs where this package's operators are not known"
        return EdgeChoice("edges.reference", reference.edge_attention, (reason,), reference.edge_weights)
    obstacles = _obstacles(query, key, value, width)
    if not obstacles:
        from saccade.kernels.edges import fused

        reason = f"{whole}, none of which are stored"
        return EdgeChoice("edges.fused", fused.edge_attention, (reason,), fused.edge_weights)
    unserved = tuple(f"edges.fused cannot serve: {obstacle}" for obstacle in obstacles)
    if numbers < BLOCKED_PAYS_FROM:
        few = f"{whole}, few enough to keep; edges.blocked pays from {BLOCKED_PAYS_FROM:,} on"
        return EdgeChoice("edges.reference", reference.edge_attention, (few, *unserved), reference.edge_weights)
    many = f"{whole}, worked through in runs"
    return EdgeChoice("edges.blocked", blocked.edge_attention, (many, *unserved), blocked.edge_weights)


def _obstacles(query: Tensor, key: Tensor, value: Tensor, width: int) -> list[str]:
    held_back = {
        "float64 is beyond its float32": torch.float64 in (query.dtype, key.dtype, value.dtype),
        f"heads of {width} numbers are wider than the {MOST_WIDTH} it holds in registers": width > MOST_WIDTH,
    }
    return hindrances(query) + [reason for reason, holds in held_back.items() if holds]
