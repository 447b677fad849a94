"""Attention over a sparse graph: each node attends to its neighbours (GAT, Veličković et al. 2018; GATv2, Brody et al. 2022).

    e_ij = aᵀ LeakyReLU(q_i + k_j)        α_ij = softmax over the edges of i        out_i = Σ_j α_ij value_j

with q = W_l x and k = W_r x (GATv2). Where a fast kernel serves, neither pass stores edges × width numbers;
:func:`explain_edges` says which kernel does. GAT's own score is the same at width 1: see :func:`gat_score`.

Legend: N receivers, M senders, E edges, H heads, D width, W width of values.
"""

from __future__ import annotations

from typing import get_args

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.attention.checks import check_dropout, check_one_of, check_states
from saccade.errors import SaccadeError
from saccade.kernels.choose import EdgeChoice, choose_edges
from saccade.kernels.edges.graph import Graph
from saccade.kernels.edges.reference import Act
from saccade.trace.lens import Lens, Site

__all__ = ["Graph", "attend_edges", "explain_edges", "gat_score", "weigh_edges"]


def attend_edges(
    query: Float[Tensor, "N *H D"],
    key: Float[Tensor, "M *H D"],
    value: Float[Tensor, "M *H W"],
    graph: Graph,
    *,
    a: Float[Tensor, "*H D"] | None = None,
    act: Act = "leaky_relu",
    slope: float = 0.2,
    dropout: float = 0.0,
    lens: Lens | None = None,
    site: str | Site = "graph",
) -> Float[Tensor, "N *H W"]:
    """What each node reads from its neighbours: out_i = Σ_j softmax_j(aᵀ act(q_i + k_j)) value_j.

    A node without edges gets zeros. In GATv2 the values are the keys: pass ``value=key``.

    Args:
        query: W_l x of the receivers, [N, D] or with heads [N, H, D].
        key: W_r x of the senders, [M, D] or [M, H, D].
        value: values of the senders, [M, W] or [M, H, W].
        graph: who attends to whom; built once by :meth:`Graph.of` from a list of edges.
        a: the score's weights of act(q + k), [D] or [H, D]; None: all ones, for :func:`gat_score`.
        act: ``leaky_relu`` or ``tanh``, which makes it the additive score of Bahdanau et al.
        slope: slope of ``leaky_relu`` below 0.
        dropout: the probability of dropping a weight (pass 0 outside training); the lens records weights before it.
        lens: records the weights of all edges, whatever its ``keep``. It cannot edit them here.
        site: the name of this place for the lens.

    >>> graph = Graph.of(torch.tensor([[0, 0, 2], [1, 2, 0]]), receivers=3)
    >>> x = torch.randn(3, 4, 8)  # 3 nodes, 4 heads
    >>> attend_edges(x, x, x, graph, a=torch.randn(4, 8)).shape
    torch.Size([3, 4, 8])
    """
    if lens is not None and not isinstance(lens, Lens):
        raise SaccadeError(f"lens: expected a saccade.Lens, found {lens!r:.60}")
    check_dropout(dropout)
    check_one_of(get_args(Act), act=act)
    query, key, value, a, headless = _with_heads(query, key, value, a, graph)
    choice = choose_edges(query, key, value, graph)
    gain = None
    if dropout:
        gain = torch.nn.functional.dropout(query.new_ones(graph.size, query.shape[1]), dropout)
    out: Tensor = choice.function(query, key, value, a, graph, act=act, slope=slope, gain=gain)
    if lens is not None:
        _show(lens, Site.of(site), choice, query, key, a, graph, act, slope)
    return out.squeeze(1) if headless else out


def weigh_edges(
    query: Float[Tensor, "N *H D"],
    key: Float[Tensor, "M *H D"],
    graph: Graph,
    *,
    a: Float[Tensor, "*H D"] | None = None,
    act: Act = "leaky_relu",
    slope: float = 0.2,
) -> Float[Tensor, "E *H"]:
    """α of every edge, in the order of the list that the graph was built from, without a gradient.

    The arguments are those of :func:`attend_edges`.
    """
    query, key, _, a, headless = _with_heads(query, key, key, a, graph)
    with torch.no_grad():
        weights = choose_edges(query, key, key, graph).weights(query, key, a, graph, act=act, slope=slope)
    weights = graph.as_listed(weights)
    return weights.squeeze(1) if headless else weights


def gat_score(
    receivers: Float[Tensor, "N *H D"], senders: Float[Tensor, "M *H D"], a: Float[Tensor, "*H twoD"]
) -> tuple[Float[Tensor, "N *H 1"], Float[Tensor, "M *H 1"]]:
    """GAT's own score, LeakyReLU(aᵀ [W x_i ‖ W x_j]): query and key of width 1 whose sum is the argument.

    The first half of ``a`` belongs to the receiver, the second to the sender.

        query, key = gat_score(x, x, a)                       # x = W h  [N, H, D], a [H, 2 D]
        out = attend_edges(query, key, x, graph)              # no a: the score is the activation itself
    """
    D = receivers.shape[-1]
    if a.shape[-1] != 2 * D or senders.shape[-1] != D:
        raise SaccadeError(
            f"gat_score: expected features of one width D and a of 2 D, "
            f"found {D}, {senders.shape[-1]} and {a.shape[-1]}"
        )
    own, other = a.split(D, dim=-1)
    return (receivers * own).sum(-1, keepdim=True), (senders * other).sum(-1, keepdim=True)


def explain_edges(query: Tensor, key: Tensor, value: Tensor, graph: Graph) -> str:
    """Which kernel serves :func:`attend_edges`, and why a faster one does not."""
    query, key, value, _, _ = _with_heads(query, key, value, None, graph)
    return str(choose_edges(query, key, value, graph))


def _show(
    lens: Lens,
    site: Site,
    choice: EdgeChoice,
    query: Tensor,
    key: Tensor,
    a: Tensor,
    graph: Graph,
    act: Act,
    slope: float,
) -> None:
    if lens.edits:
        raise SaccadeError(f"site {site.name!r}: attention over edges can be recorded but not edited; pass edits=()")
    with torch.no_grad():
        weights = choice.weights(query, key, a, graph, act=act, slope=slope)
    lens.observe_edges(site, graph.edges, weights, keys=graph.senders)


def _with_heads(
    query: Tensor, key: Tensor, value: Tensor, a: Tensor | None, graph: Graph
) -> tuple[Tensor, Tensor, Tensor, Tensor, bool]:
    """[N, D] becomes [N, 1, D]; without `a`, the score sums. The last says whether there were no heads."""
    if not isinstance(graph, Graph):
        raise SaccadeError(f"graph: expected a Graph (Graph.of makes one of edges), found a {type(graph).__name__}")
    check_states(query=query, key=key, value=value)
    if a is not None:
        check_states(a=a if not isinstance(a, Tensor) or a.dim() > 1 else a.unsqueeze(0))
    headless = query.dim() == 2
    if query.dim() not in (2, 3) or not query.dim() == key.dim() == value.dim():
        found = ", ".join(str(list(tensor.shape)) for tensor in (query, key, value))
        raise SaccadeError(
            f"expected query, key and value all [nodes, width] or all [nodes, heads, width], found {found}"
        )
    if query.dim() == 2:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        a = None if a is None else a.unsqueeze(0)
    return query, key, value, query.new_ones(query.shape[1:]) if a is None else a, headless
