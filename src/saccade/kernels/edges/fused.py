"""Attention over edges in Triton: nothing is stored per edge, neither forward nor backward.

    e_ij = aᵀ act(q_i + k_j)     α_ij = softmax over the edges of i     out_i = Σ_j α_ij gain_ij value_j

A program has one node and BH of its heads. It goes through the node's edges a tile at a time, with a running maximum and sum
(an online softmax), and stores log Σ exp e, from which the backward pass recomputes every α. Gradients of receivers and of
`a` go through the same rows; gradients of senders through the rows by sender (`Graph.out_start`). No atomics, so results are
deterministic. The equations of the gradients are in blocked.py. Everything is computed in float32 and rounded once. Absent
gains or values are None.

Legend: N receivers, M senders, E edges, H heads, D width, W width of values; BE edges, BH heads, BD and BW numbers per tile.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from saccade.kernels.dtypes import promoted
from saccade.kernels.edges.differentiable import Engine, Gradients, Inputs
from saccade.kernels.edges.reference import MOST_WIDTH, Rule
from saccade.kernels.programs import tanh_and_slope


def tiles(H: int, D: int, W: int, degree: float) -> dict[str, int]:
    """Sides of the tiles (powers of two) and warps, from the sizes and the mean number of edges per row."""
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


def _weights(query: Tensor, key: Tensor, a: Tensor, rule: Rule) -> Tensor:
    dtype, graph, slope = promoted(query, key, a), rule.graph, rule.slope
    query, key, a = (tensor.contiguous() for tensor in (query, key, a))
    H = query.shape[1]
    weights = torch.empty(graph.size, H, dtype=torch.float32, device=query.device)
    if weights.numel():
        _, logsum = _look(query, key, None, a, rule)
        sides = tiles(H, query.shape[2], 1, graph.size / graph.receivers)
        weights_program[_grid(graph.receivers, H, sides)](
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
    gradients = _look_back(rows, grad_out.contiguous(), out, logsum, needed, rule)
    return tuple(None if grad is None else grad.to(row.dtype) for grad, row in zip(gradients, inputs, strict=True))


def _look(query: Tensor, key: Tensor, value: Tensor | None, a: Tensor, rule: Rule) -> tuple[Tensor, Tensor]:
    """out [N, H, W] (empty without values) and log Σ exp e [N, H], in float32."""
    (N, H, D), W = query.shape, 0 if value is None else value.shape[2]
    graph, gain = rule.graph, rule.gain
    out = torch.zeros(N, H, W, dtype=torch.float32, device=query.device)
    logsum = torch.zeros(N, H, dtype=torch.float32, device=query.device)
    if graph.size and H:
        sides = tiles(H, D, W, graph.size / N)
        forward_program[_grid(N, H, sides)](
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
            receivers_program[_grid(N, H, sides)](
                *rows, grad_out, logsum, shared, graph.start, graph.sender, gain, grad_query, parts_a,
                H, D, W, rule.slope, TANH=tanh, **sides,
            )  # fmt: skip
    if needed[1] or needed[2]:
        grad_key, grad_value = buffer(M, H, D), buffer(M, H, W)
        sides = tiles(H, D, W, graph.size / max(1, M))
        if graph.size and H:
            senders_program[_grid(M, H, sides)](
                *rows, grad_out, logsum, shared, graph.out_start, graph.out_receiver, graph.out_edge, gain,
                grad_key, grad_value, H, D, W, rule.slope, TANH=tanh, **sides,
            )  # fmt: skip
    gradients = (grad_query, grad_key, grad_value, None if parts_a is None else parts_a.sum(0))
    return tuple(gradient if need else None for gradient, need in zip(gradients, needed, strict=True))


def _grid(rows: int, H: int, sides: dict[str, int]) -> tuple[int, int]:
    return rows, triton.cdiv(H, sides["BH"])


def _refusal(dtype: torch.dtype, width: int) -> str | None:
    if dtype is torch.float64 or width > MOST_WIDTH:
        return f"it takes at most float32 and heads of at most {MOST_WIDTH} numbers, found {dtype} and {width}"
    return None


ENGINE = Engine("fused", _forward, _backward, _weights, _refusal)
edge_attention, edge_weights = ENGINE.edge_attention, ENGINE.edge_weights


# ---- Programs ----------------------------------------------------------------------------------------------------------


@triton.jit
def _rows(rows, nodes, heads, H, width, real, BW: tl.constexpr):
    """The rows of these nodes and heads, [BE, BH, BW] in float32; 0 where there is no edge, head or number."""
    w = tl.arange(0, BW)
    at = (nodes[:, None, None] * H + heads[None, :, None]) * width + w[None, None, :]
    mask = real[:, None, None] & (heads[None, :, None] < H) & (w[None, None, :] < width)
    return tl.load(rows + at, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def _row(rows, node, heads, H, width, BW: tl.constexpr):
    """One node's rows of these heads, [BH, BW] in float32."""
    w = tl.arange(0, BW)
    at = (node * H + heads[:, None]) * width + w[None, :]
    return tl.load(rows + at, mask=(heads[:, None] < H) & (w[None, :] < width), other=0.0).to(tl.float32)


@triton.jit
def _store_row(rows, node, heads, H, width, numbers, BW: tl.constexpr):
    w = tl.arange(0, BW)
    at = (node * H + heads[:, None]) * width + w[None, :]
    tl.store(rows + at, numbers, mask=(heads[:, None] < H) & (w[None, :] < width))


@triton.jit
def _act(x, slope, TANH: tl.constexpr):
    """act(x) and act'(x)."""
    if TANH:
        hidden, steepness = tanh_and_slope(x)
    else:
        steepness = tl.where(x > 0, 1.0, slope)
        hidden = x * steepness
    return hidden, steepness


@triton.jit
def _gains(gain, edges, heads, H, real, BE: tl.constexpr, BH: tl.constexpr):
    """The factors of these edges' weights, [BE, BH]."""
    if gain is not None:
        mask = real[:, None] & (heads[None, :] < H)
        factor = tl.load(gain + edges[:, None] * H + heads[None, :], mask=mask, other=0.0).to(tl.float32)
    else:
        factor = tl.full([BE, BH], 1.0, tl.float32)
    return factor


@triton.jit
def forward_program(
    query, key, value, a, start, sender, gain, out, logsum, H, D, W, slope,
    TANH: tl.constexpr, BE: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr, BW: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64)
    heads = tl.program_id(1) * BH + tl.arange(0, BH)
    q, a_row = _row(query, i, heads, H, D, BD), _row(a, 0, heads, H, D, BD)
    first, last = tl.load(start + i), tl.load(start + i + 1)
    highest = tl.full([BH], float("-inf"), tl.float32)
    total = tl.zeros([BH], dtype=tl.float32)
    found = tl.zeros([BH, BW], dtype=tl.float32)
    for tile in range(tl.cdiv(last - first, BE).to(tl.int32)):
        edges = first + tile * BE + tl.arange(0, BE)
        real = edges < last
        nodes = tl.load(sender + edges, mask=real, other=0)
        hidden, _ = _act(q[None, :, :] + _rows(key, nodes, heads, H, D, real, BD), slope, TANH)
        scores = tl.sum(hidden * a_row[None, :, :], axis=2)  # [BE, BH]
        scores = tl.where(real[:, None], scores, float("-inf"))
        now = tl.maximum(highest, tl.max(scores, axis=0))
        powers = tl.exp(scores - now[None, :])
        fading = tl.exp(highest - now)
        total = total * fading + tl.sum(powers, axis=0)
        if value is not None:
            powers = powers * _gains(gain, edges, heads, H, real, BE, BH)
            read = powers[:, :, None] * _rows(value, nodes, heads, H, W, real, BW)
            found = found * fading[:, None] + tl.sum(read, axis=0)
        highest = now
    if last > first:
        tl.store(logsum + i * H + heads, highest + tl.log(total), mask=heads < H)
        if value is not None:
            _store_row(out, i, heads, H, W, found / total[:, None], BW)


@triton.jit
def weights_program(
    query, key, a, start, sender, logsum, weights, H, D, slope,
    TANH: tl.constexpr, BE: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64)
    heads = tl.program_id(1) * BH + tl.arange(0, BH)
    q, a_row = _row(query, i, heads, H, D, BD), _row(a, 0, heads, H, D, BD)
    logs = tl.load(logsum + i * H + heads, mask=heads < H, other=0.0)
    first, last = tl.load(start + i), tl.load(start + i + 1)
    for tile in range(tl.cdiv(last - first, BE).to(tl.int32)):
        edges = first + tile * BE + tl.arange(0, BE)
        real = edges < last
        nodes = tl.load(sender + edges, mask=real, other=0)
        hidden, _ = _act(q[None, :, :] + _rows(key, nodes, heads, H, D, real, BD), slope, TANH)
        weight = tl.exp(tl.sum(hidden * a_row[None, :, :], axis=2) - logs[None, :])
        tl.store(weights + edges[:, None] * H + heads[None, :], weight, mask=real[:, None] & (heads[None, :] < H))


@triton.jit
def receivers_program(
    query, key, value, a, grad_out, logsum, shared, start, sender, gain, grad_query, parts_a, H, D, W, slope,
    TANH: tl.constexpr, BE: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr, BW: tl.constexpr,
):  # fmt: skip
    """∂q of one receiver, and its edges' part of ∂a."""
    i = tl.program_id(0).to(tl.int64)
    heads = tl.program_id(1) * BH + tl.arange(0, BH)
    q, a_row, g = _row(query, i, heads, H, D, BD), _row(a, 0, heads, H, D, BD), _row(grad_out, i, heads, H, W, BW)
    logs = tl.load(logsum + i * H + heads, mask=heads < H, other=0.0)
    mean = tl.load(shared + i * H + heads, mask=heads < H, other=0.0)
    to_query = tl.zeros([BH, BD], dtype=tl.float32)
    to_a = tl.zeros([BH, BD], dtype=tl.float32)
    first, last = tl.load(start + i), tl.load(start + i + 1)
    for tile in range(tl.cdiv(last - first, BE).to(tl.int32)):
        edges = first + tile * BE + tl.arange(0, BE)
        real = edges < last
        nodes = tl.load(sender + edges, mask=real, other=0)
        hidden, steepness = _act(q[None, :, :] + _rows(key, nodes, heads, H, D, real, BD), slope, TANH)
        scores = tl.where(real[:, None], tl.sum(hidden * a_row[None, :, :], axis=2), float("-inf"))
        pull = tl.sum(g[None, :, :] * _rows(value, nodes, heads, H, W, real, BW), axis=2)
        pull = pull * _gains(gain, edges, heads, H, real, BE, BH)
        grad_scores = tl.exp(scores - logs[None, :]) * (pull - mean[None, :])  # 0 where there is no edge
        to_query += tl.sum(grad_scores[:, :, None] * steepness, axis=0)
        to_a += tl.sum(grad_scores[:, :, None] * hidden, axis=0)
    _store_row(grad_query, i, heads, H, D, to_query * a_row, BD)
    _store_row(parts_a, i, heads, H, D, to_a, BD)


@triton.jit
def senders_program(
    query, key, value, a, grad_out, logsum, shared, out_start, out_receiver, out_edge, gain, grad_key, grad_value,
    H, D, W, slope,
    TANH: tl.constexpr, BE: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr, BW: tl.constexpr,
):  # fmt: skip
    """∂k and ∂value of one sender, over its incoming edges."""
    j = tl.program_id(0).to(tl.int64)
    heads = tl.program_id(1) * BH + tl.arange(0, BH)
    k, a_row, v = _row(key, j, heads, H, D, BD), _row(a, 0, heads, H, D, BD), _row(value, j, heads, H, W, BW)
    to_key = tl.zeros([BH, BD], dtype=tl.float32)
    to_value = tl.zeros([BH, BW], dtype=tl.float32)
    first, last = tl.load(out_start + j), tl.load(out_start + j + 1)
    for tile in range(tl.cdiv(last - first, BE).to(tl.int32)):
        at = first + tile * BE + tl.arange(0, BE)
        real = at < last
        nodes = tl.load(out_receiver + at, mask=real, other=0)
        known = real[:, None] & (heads[None, :] < H)
        logs = tl.load(logsum + nodes[:, None] * H + heads[None, :], mask=known, other=0.0)
        mean = tl.load(shared + nodes[:, None] * H + heads[None, :], mask=known, other=0.0)
        hidden, steepness = _act(k[None, :, :] + _rows(query, nodes, heads, H, D, real, BD), slope, TANH)
        scores = tl.where(real[:, None], tl.sum(hidden * a_row[None, :, :], axis=2), float("-inf"))
        weight = tl.exp(scores - logs)  # 0 where there is no edge
        g = _rows(grad_out, nodes, heads, H, W, real, BW)
        factor = tl.full([BE, BH], 1.0, tl.float32)
        if gain is not None:
            factor = _gains(gain, tl.load(out_edge + at, mask=real, other=0), heads, H, real, BE, BH)
        pull = tl.sum(g * v[None, :, :], axis=2) * factor
        to_key += tl.sum((weight * (pull - mean))[:, :, None] * steepness, axis=0)
        to_value += tl.sum((weight * factor)[:, :, None] * g, axis=0)
    _store_row(grad_key, j, heads, H, D, to_key * a_row, BD)
    _store_row(grad_value, j, heads, H, W, to_value, BW)
