"""Attention over edges (GATv2, Brody et al. 2022): each receiver attends to the senders it has an edge to.

    e_ij = aᵀ act(q_i + k_j)        α_ij = exp e_ij / Σ_{j' of i} exp e_ij'        out_i = Σ_j α_ij gain_ij value_j

act is leaky_relu or tanh. At width 1 it is GAT's own score (Veličković et al. 2018), LeakyReLU(a_lᵀ x_i + a_rᵀ x_j).
A receiver without edges gets zeros. It stores E × H × D numbers: the specification.

Legend: N receivers, M senders, E edges (by receiver, as the graph has them), H heads, D width, W width of values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from saccade.errors import SaccadeError
from saccade.kernels.dtypes import promoted, working_dtype_of
from saccade.kernels.edges.graph import Graph

Act = Literal["leaky_relu", "tanh"]

MOST_WIDTH = 1024
"""The widest head that the fused kernel holds in registers."""


@dataclass(frozen=True, eq=False)
class Rule:
    """The graph, the activation and the gain: a kernel's arguments that have no gradients."""

    graph: Graph
    act: Act
    slope: float
    gain: Float[Tensor, "E H"] | None = None


def edge_attention(
    query: Float[Tensor, "N H D"],
    key: Float[Tensor, "M H D"],
    value: Float[Tensor, "M H W"],
    a: Float[Tensor, "H D"],
    graph: Graph,
    *,
    act: Act = "leaky_relu",
    slope: float = 0.2,
    gain: Float[Tensor, "E H"] | None = None,
) -> Float[Tensor, "N H W"]:
    """What each receiver reads from its senders. `gain` multiplies weights (dropout); it is a constant, without gradient."""
    check_shapes(query, key, a, graph, act, value, gain)
    dtype, working = promoted(query, key, a, value), working_dtype_of(query, key, a, value)
    weights = _weights(query.to(working), key.to(working), a.to(working), graph, act, slope)
    if gain is not None:
        weights = weights * gain.detach().to(weights.dtype)
    messages = weights.unsqueeze(-1) * value.to(working)[graph.sender]  # [E, H, W]
    return messages.new_zeros(len(query), *messages.shape[1:]).index_add(0, graph.receiver, messages).to(dtype)


def edge_weights(
    query: Float[Tensor, "N H D"],
    key: Float[Tensor, "M H D"],
    a: Float[Tensor, "H D"],
    graph: Graph,
    *,
    act: Act = "leaky_relu",
    slope: float = 0.2,
) -> Float[Tensor, "E H"]:
    """α of every edge, in the graph's order."""
    check_shapes(query, key, a, graph, act)
    working = working_dtype_of(query, key, a)
    weights = _weights(query.to(working), key.to(working), a.to(working), graph, act, slope)
    return weights.to(promoted(query, key, a))


def _weights(query: Tensor, key: Tensor, a: Tensor, graph: Graph, act: Act, slope: float) -> Tensor:
    hidden = query[graph.receiver] + key[graph.sender]  # [E, H, D]
    scores = ((hidden.tanh() if act == "tanh" else functional.leaky_relu(hidden, slope)) * a).sum(-1)
    return segment_softmax(scores, graph)


def segment_softmax(scores: Float[Tensor, "E H"], graph: Graph) -> Float[Tensor, "E H"]:
    """exp e / Σ exp e over the edges of each receiver, with their maximum subtracted first."""
    index = graph.receiver.unsqueeze(-1).expand(scores.shape)
    highest = scores.new_full((graph.receivers, scores.shape[1]), -math.inf)
    highest = highest.scatter_reduce(0, index, scores.detach(), "amax")
    powers = torch.exp(scores - highest[graph.receiver])
    return powers / torch.zeros_like(highest).index_add(0, graph.receiver, powers)[graph.receiver]


def check_shapes(
    query: Tensor,
    key: Tensor,
    a: Tensor,
    graph: Graph,
    act: Act,
    value: Tensor | None = None,
    gain: Tensor | None = None,
) -> None:
    """Raise for shapes that would fail later, or broadcast silently."""
    if act not in ("leaky_relu", "tanh"):
        raise SaccadeError(f"act must be 'leaky_relu' or 'tanh': got {act!r}")
    H, D = query.shape[1:]
    expected = {"query": [graph.receivers, H, D], "key": [graph.senders, H, D], "a": [H, D]}
    found = {"query": query, "key": key, "a": a}
    if value is not None:
        expected["value"], found["value"] = [graph.senders, H, value.shape[-1]], value
    if gain is not None:
        expected["gain"], found["gain"] = [graph.size, H], gain
    for name, tensor in found.items():
        if list(tensor.shape) != expected[name]:
            raise SaccadeError(f"{name}: expected {expected[name]} over {graph}, found {list(tensor.shape)}")
    if graph.sender.device != query.device:
        raise SaccadeError(
            f"the graph is on {graph.sender.device}, the queries on {query.device}: move it with graph.to(…)"
        )
