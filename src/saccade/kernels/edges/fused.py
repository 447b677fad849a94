"""Attention over edges in Triton: nothing is kept for an edge, neither forward nor backward.

    e_ij = aᵀ act(q_i + k_j)     α_ij = softmax over the edges of i     out_i = Σ_j α_ij gain_ij value_j

A program has one receiver and some heads. It goes through the receiver's edges a tile at a time, with a running maximum
and sum (an online softmax), and leaves log Σ exp e behind, from which the backward pass has every α again. Gradients of
receivers and of `a` go through the same rows; gradients of senders through the rows by sender (`Graph.out_start`). No
atomics: the same bits every time. The equations of the gradients are in blocked.py. Everything is computed in float32
and rounded once.

Legend: N receivers, M senders, E edges, H heads, D width, W width of values; BE edges, BH heads, BD and BW numbers a tile.
"""

from __future__ import annotations

import torch
import triton
from jaxtyping import Float
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.dtypes import promoted
from saccade.kernels.edges import differentiable, programs, reference
from saccade.kernels.edges.differentiable import Gradients, Inputs
from saccade.kernels.edges.graph import Graph
from saccade.kernels.edges.reference import Act, Rule
from saccade.kernels.edges.serving import MOST_WIDTH


def tiles(H: int, D: int, W: int, degree: float) -> dict[str, int]:
    """Sides of the tiles (powers of two) and warps, from the sizes and the mean number of edges a row has."""
    BD, BW = triton.next_power_of_2(max(1, D)), triton.next_power_of_2(max(1, W))
    row = max(BD, BW)
    BH = min(triton.next_power_of_2(H), max(1, 128 // row))
    BE = min(triton.next_power_of_2(max(1, round(degree))), max(1, 2048 // (BH * row)), 32)
    numbers = BE * BH * row
    return {
        "BE": BE,
        "BH": BH,
        "BD": BD,
        "BW": BW,
        "num_warps": 1 if numbers <= 512 else 2 if numbers <= 1024 else 4,
        "num_stages": 2,
    }


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
    """What each receiver finds at its senders: as `reference.edge_attention`, in at most float32."""
    reference.check_shapes(query, key, a, graph, act, value, gain)
    _check_served(promoted(query, key, value, a), query, value)
    rule = Rule(graph, act, float(slope), None if gain is None else gain.detach().contiguous())
    return differentiable.attention(ENGINE, Inputs(query, key, value, a), rule)


def edge_weights(
    query: Float[Tensor, "N H D"],
    key: Float[Tensor, "M H D"],
    a: Float[Tensor, "H D"],
    graph: Graph,
    *,
    act: Act = "leaky_relu",
    slope: float = 0.2,
) -> Float[Tensor, "E H"]:
    """α of every edge, in the graph's order, without a gradient: to be looked at."""
    reference.check_shapes(query, key, a, graph, act)
    _check_served(promoted(query, key, a), query, query)
    return differentiable.weights(ENGINE, query, key, a, Rule(graph, act, float(slope)))


def _weights(query: Tensor, key: Tensor, a: Tensor, rule: Rule) -> Tensor:
    dtype, graph, slope = promoted(query, key, a), rule.graph, rule.slope
    query, key, a = (tensor.contiguous() for tensor in (query, key, a))
    H = query.shape[1]
    weights = torch.empty(graph.size, H, dtype=torch.float32, device=query.device)
    if weights.numel():
        _, logsum = _look(query, key, None, a, rule)
        sides = tiles(H, query.shape[2], 1, graph.size / graph.receivers)
        programs.weights_program[_grid(graph.receivers, H, sides)](
            query, key, a, graph.start, graph.sender, logsum, weights, H, query.shape[2], slope,
            TANH=rule.act == "tanh", **{name: side for name, side in sides.items() if name != "BW"},
        )  # fmt: skip
    return weights.to(dtype)


def _forward(inputs: Inputs, rule: Rule) -> tuple[Tensor, Tensor]:
    """out [N, H, W] and log Σ exp e [N, H], in float32."""
    query, key, value, a = (tensor.contiguous() for tensor in inputs)
    return _look(query, key, value, a, rule)


def _backward(
    inputs: Inputs, out: Tensor, logsum: Tensor, grad_out: Tensor, needed: tuple[bool, ...], rule: Rule
) -> Gradients:
    rows = [tensor.contiguous() for tensor in inputs]
    found = _look_back(rows, grad_out.contiguous(), out, logsum, needed, rule)
    return tuple(None if one is None else one.to(row.dtype) for one, row in zip(found, inputs, strict=True))


def _look(query: Tensor, key: Tensor, value: Tensor | None, a: Tensor, rule: Rule) -> tuple[Tensor, Tensor]:
    """out [N, H, W] (empty without values) and log Σ exp e [N, H], in float32."""
    (N, H, D), W = query.shape, 0 if value is None else value.shape[2]
    graph, gain = rule.graph, rule.gain
    out = torch.zeros(N, H, W, dtype=torch.float32, device=query.device)
    logsum = torch.zeros(N, H, dtype=torch.float32, device=query.device)
    if graph.size and H:
        sides = tiles(H, D, W, graph.size / N)
        programs.forward_program[_grid(N, H, sides)](
            query, key, value, a, graph.start, graph.sender, gain, out, logsum, H, D, W, rule.slope,
            TANH=rule.act == "tanh", **sides,
        )  # fmt: skip
    return out, logsum


def _look_back(
    rows: list[Tensor], grad_out: Tensor, out: Tensor, logsum: Tensor, needed: tuple[bool, ...], rule: Rule
) -> Gradients:
    """Float32 gradients of query, key, value and a; None where they are not needed."""
    query, _, value, _ = rows
    (N, H, D), (M, _, W) = query.shape, value.shape
    graph, gain, tanh = rule.graph, rule.gain, rule.act == "tanh"

    def buffer(*shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.float32, device=query.device)

    shared = (grad_out * out).sum(-1)  # [N, H]: Σ_j α p
    grad_query = grad_key = grad_value = parts_a = None
    if needed[0] or needed[3]:
        grad_query, parts_a = buffer(N, H, D), buffer(N, H, D)
        sides = tiles(H, D, W, graph.size / max(1, N))
        if graph.size and H:
            programs.receivers_program[_grid(N, H, sides)](
                *rows, grad_out, logsum, shared, graph.start, graph.sender, gain, grad_query, parts_a,
                H, D, W, rule.slope, TANH=tanh, **sides,
            )  # fmt: skip
    if needed[1] or needed[2]:
        grad_key, grad_value = buffer(M, H, D), buffer(M, H, W)
        sides = tiles(H, D, W, graph.size / max(1, M))
        if graph.size and H:
            programs.senders_program[_grid(M, H, sides)](
                *rows, grad_out, logsum, shared, graph.out_start, graph.out_receiver, graph.out_edge, gain,
                grad_key, grad_value, H, D, W, rule.slope, TANH=tanh, **sides,
            )  # fmt: skip
    found = (grad_query, grad_key, grad_value, None if parts_a is None else parts_a.sum(0))
    return tuple(gradient if need else None for gradient, need in zip(found, needed, strict=True))


def _grid(rows: int, H: int, sides: dict[str, int]) -> tuple[int, int]:
    return rows, triton.cdiv(H, sides["BH"])


def _check_served(dtype: torch.dtype, query: Tensor, value: Tensor) -> None:
    width = max(query.shape[-1], value.shape[-1])
    if dtype is torch.float64 or width > MOST_WIDTH:
        raise SaccadeError(
            f"the fused kernel serves at most float32 and heads of at most {MOST_WIDTH} numbers: found {dtype} and {width}; "
            "edges.blocked serves them"
        )


ENGINE = differentiable.Engine("fused", _forward, _backward, _weights)
