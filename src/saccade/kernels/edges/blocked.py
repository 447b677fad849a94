"""Attention over edges in bounded memory, forward and backward, on any device.

It processes runs of edges, so that E × H × D numbers never exist at once, and recomputes act(q + k) in the backward pass.
With h = act(q_i + k_j), g the gradient of out and p_ij = gain_ij g_iᵀ value_j,

    ∂e_ij = α_ij (p_ij − Σ_j' α_ij' p_ij')         ∂q_i = Σ_j ∂e_ij a ∘ act'        ∂k_j = Σ_i ∂e_ij a ∘ act'
    ∂value_j = Σ_i α_ij gain_ij g_i                ∂a = Σ_ij ∂e_ij h

where Σ_j α_ij p_ij = g_iᵀ out_i. Besides inputs, outputs and their gradients it holds a few numbers per edge and head (E × H)
and a few runs. float16 and bfloat16 are computed in float32 and rounded once, at the end.

Legend: N receivers, M senders, E edges, H heads, D width, W width of values.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from saccade.kernels.dtypes import promoted, working_dtype_of
from saccade.kernels.edges.differentiable import Engine, Gradients, Inputs
from saccade.kernels.edges.graph import Graph
from saccade.kernels.edges.reference import Rule, segment_softmax

RUN_ELEMENTS = 1 << 20
"""Numbers in one run of edges: 4 MB in float32, so that the few runs alive at once stay in the cache."""


def _forward(inputs: Inputs, rule: Rule) -> tuple[Tensor, Tensor]:
    """out [N, H, W] and α [E, H], in the working dtype."""
    query, key, value, a = inputs
    weights = _weights(query, key, a, rule, working_dtype_of(*inputs))
    graph, gain = rule.graph, rule.gain
    out = weights.new_zeros(graph.receivers, *value.shape[1:])
    for run in _runs(graph, value):
        read = weights[run] if gain is None else weights[run] * gain[run]
        out.index_add_(0, graph.receiver[run], value[graph.sender[run]] * read.unsqueeze(-1))
    return out, weights


def _rounded_weights(query: Tensor, key: Tensor, a: Tensor, rule: Rule) -> Tensor:
    return _weights(query, key, a, rule, working_dtype_of(query, key, a)).to(promoted(query, key, a))


def _weights(query: Tensor, key: Tensor, a: Tensor, rule: Rule, working: torch.dtype) -> Tensor:
    graph = rule.graph
    scores = torch.empty(graph.size, query.shape[1], dtype=working, device=query.device)
    for run in _runs(graph, query):
        total = query[graph.receiver[run]].to(working) + key[graph.sender[run]]
        hidden = total.tanh_() if rule.act == "tanh" else functional.leaky_relu_(total, rule.slope)
        scores[run] = hidden.mul_(a).sum(-1)
    return segment_softmax(scores, graph)


def _backward(
    inputs: Inputs, out: Tensor, weights: Tensor, grad_out: Tensor, needed: tuple[bool, ...], rule: Rule
) -> Gradients:
    query, key, value, a = inputs
    graph, gain, working = rule.graph, rule.gain, weights.dtype
    grad_query, grad_key, grad_value, grad_a = (
        torch.zeros_like(tensor, dtype=working, memory_format=torch.contiguous_format) for tensor in inputs
    )
    grad_out = grad_out.to(working)
    shared = (grad_out * out).sum(-1)  # [N, H]: Σ_j α p
    for run in _runs(graph, query, value):
        receiver, sender, weight = graph.receiver[run], graph.sender[run], weights[run]
        from_out = grad_out[receiver]  # [run, H, W]
        read = weight if gain is None else weight * gain[run]
        pull = (from_out * value[sender]).sum(-1)
        grad_value.index_add_(0, sender, from_out.mul_(read.unsqueeze(-1)))
        grad_scores = (pull * read - weight * shared[receiver]).unsqueeze(-1)  # [run, H, 1]
        hidden, steepness = _activated(query, key, rule, run, working)
        grad_a += hidden.mul_(grad_scores).sum(0)
        steepness.mul_(grad_scores)
        grad_query.index_add_(0, receiver, steepness)
        grad_key.index_add_(0, sender, steepness)
    gradients = (grad_query.mul_(a), grad_key.mul_(a), grad_value, grad_a)
    return tuple(
        gradient.to(tensor.dtype) if need else None
        for gradient, tensor, need in zip(gradients, inputs, needed, strict=True)
    )


def _activated(query: Tensor, key: Tensor, rule: Rule, run: slice, working: torch.dtype) -> tuple[Tensor, Tensor]:
    """act(q + k) and act'(q + k) of a run of edges, [run, H, D] each."""
    total = query[rule.graph.receiver[run]].to(working) + key[rule.graph.sender[run]]
    if rule.act == "tanh":
        hidden = total.tanh_()
        return hidden, 1 - hidden.square()
    steepness = torch.full_like(total, rule.slope).masked_fill_(total > 0, 1.0)
    return total.mul_(steepness), steepness


def _runs(graph: Graph, *rows: Tensor) -> Iterator[slice]:
    """Slices of edges whose rows have at most RUN_ELEMENTS numbers; one edge at least."""
    most = max(1, RUN_ELEMENTS // max(1, max(tensor[0].numel() if len(tensor) else 1 for tensor in rows)))
    for first in range(0, graph.size, most):
        yield slice(first, min(graph.size, first + most))


ENGINE = Engine("blocked", _forward, _backward, _rounded_weights)
edge_attention, edge_weights = ENGINE.edge_attention, ENGINE.edge_weights
