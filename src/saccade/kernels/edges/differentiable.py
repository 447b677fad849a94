"""Attention over edges with gradients, over an engine that computes it and its gradients: blocked.py or fused.py.

Kept for the backward pass: the inputs, the output in the working type, and what the engine wants to have again: α of every
edge [E, H] in blocked.py, log Σ exp e of every receiver [N, H] in fused.py.

Under torch.compile it is the operator ``saccade::edge_attention``, which passes through whole; elsewhere it is a function of
autograd, which costs the host less.

Legend: N receivers, M senders, E edges, H heads, D width, W width of values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.kernels.dtypes import promoted
from saccade.kernels.edges import reference
from saccade.kernels.edges.graph import Graph
from saccade.kernels.edges.reference import Act, Rule
from saccade.kernels.second_order import gradients_through

Gradients = tuple[Tensor | None, ...]
"""One for each of the inputs, None where none was asked for."""


class Inputs(NamedTuple):
    """The tensors that attention over edges has gradients for."""

    query: Float[Tensor, "N H D"]
    key: Float[Tensor, "M H D"]
    value: Float[Tensor, "M H W"]
    a: Float[Tensor, "H D"]


@dataclass(frozen=True)
class Engine:
    """What computes attention over edges.

    ``forward(inputs, rule)`` gives out [N, H, W] in the working type and what is kept. ``backward(inputs, out, kept, grad_out,
    needed, rule)`` gives the gradients of the inputs, in their own dtypes. ``weights(query, key, a, rule)`` gives α [E, H].
    """

    name: str
    forward: Callable[[Inputs, Rule], tuple[Tensor, Tensor]]
    backward: Callable[[Inputs, Tensor, Tensor, Tensor, tuple[bool, ...], Rule], Gradients]
    weights: Callable[[Tensor, Tensor, Tensor, Rule], Tensor]


def attention(engine: Engine, inputs: Inputs, rule: Rule) -> Float[Tensor, "N H W"]:
    """What each receiver finds, by this engine, differentiable, in the inputs' promoted type."""
    out: Tensor
    if torch.compiler.is_compiling():
        options = (*_tensors_of(rule.graph), rule.act, float(rule.slope), engine.name)
        out = torch.ops.saccade.edge_attention(*inputs, rule.gain, *options)[0]
    else:
        out = _EdgeAttention.apply(engine, rule, *inputs)
    return out.to(promoted(*inputs))


def weights(engine: Engine, query: Tensor, key: Tensor, a: Tensor, rule: Rule) -> Float[Tensor, "E H"]:
    """α of every edge, in the graph's order, without a gradient, in the inputs' promoted type."""
    with torch.no_grad():
        if not torch.compiler.is_compiling():
            return engine.weights(query, key, a, rule)
        start, receiver, sender, *_ = _tensors_of(rule.graph)
        options = (start, receiver, sender, rule.act, float(rule.slope), engine.name)
        found: Tensor = torch.ops.saccade.edge_weights(query, key, a, *options)
        return found


def working_dtype(*tensors: Tensor) -> torch.dtype:
    """float16 and bfloat16 are computed in float32, the others as they are."""
    return torch.promote_types(promoted(*tensors), torch.float32)


class _EdgeAttention(torch.autograd.Function):
    """query [N, H, D], key [M, H, D], value [M, H, W], a [H, D] → [N, H, W] in the working type."""

    @staticmethod
    def forward(ctx: Any, engine: Engine, rule: Rule, *tensors: Tensor) -> Tensor:
        out, kept = engine.forward(Inputs(*tensors), rule)
        ctx.save_for_backward(*tensors, out, kept)
        ctx.engine, ctx.rule = engine, rule
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Gradients:
        *tensors, out, kept = ctx.saved_tensors
        inputs, needed = Inputs(*tensors), ctx.needs_input_grad[2:]
        if torch.is_grad_enabled():
            return None, None, *_differentiable(inputs, grads[0], needed, ctx.rule)
        return None, None, *ctx.engine.backward(inputs, out, kept, grads[0], needed, ctx.rule)


def _differentiable(inputs: Inputs, grad_out: Tensor, needed: tuple[bool, ...], rule: Rule) -> Gradients:
    """Gradients that will be differentiated again: the reference's."""

    def plainly(query: Tensor, key: Tensor, value: Tensor, a: Tensor) -> Tensor:
        return reference.edge_attention(
            query, key, value, a, rule.graph, act=rule.act, slope=rule.slope, gain=rule.gain
        )

    return gradients_through(plainly, inputs, (grad_out,), needed)


# ---- The operators ----------------------------------------------------------------------------------------------------

_ROWS = "Tensor start, Tensor receiver, Tensor sender, Tensor out_start, Tensor out_edge, Tensor out_receiver"
_HOW = "str act, float slope, str engine"


@torch.library.custom_op(
    "saccade::edge_attention",
    mutates_args=(),
    schema=f"(Tensor query, Tensor key, Tensor value, Tensor a, Tensor? gain, {_ROWS}, {_HOW}) -> (Tensor, Tensor)",
)
def _operator(
    query: Tensor, key: Tensor, value: Tensor, a: Tensor, gain: Tensor | None, start: Tensor, receiver: Tensor,
    sender: Tensor, out_start: Tensor, out_edge: Tensor, out_receiver: Tensor, act: Act, slope: float, engine: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """out [N, H, W] in the working type, and what the engine keeps."""
    graph = _graph_of(len(query), len(key), start, receiver, sender, out_start, out_edge, out_receiver)
    return _engine(engine).forward(Inputs(query, key, value, a), Rule(graph, act, slope, gain))


@_operator.register_fake
def _(
    query: Tensor, key: Tensor, value: Tensor, a: Tensor, gain: Tensor | None, start: Tensor, receiver: Tensor,
    sender: Tensor, out_start: Tensor, out_edge: Tensor, out_receiver: Tensor, act: Act, slope: float, engine: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    (N, H, _), working = query.shape, working_dtype(query, key, value, a)
    rows = N if engine == "fused" else sender.shape[0]
    return query.new_empty(N, H, value.shape[2], dtype=working), query.new_empty(rows, H, dtype=working)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, act, slope, engine = inputs
    ctx.how = act, slope, engine
    ctx.save_for_backward(*tensors, *output)


def _backward_of(ctx: Any, grad: Tensor, *unused: Tensor | None) -> Gradients:
    *tensors, out, kept = ctx.saved_tensors
    needed = tuple(ctx.needs_input_grad[:4])
    if torch.is_grad_enabled():
        inputs, gain, rows = Inputs(*tensors[:4]), tensors[4], tensors[5:]
        act, slope, _ = ctx.how
        rule = Rule(_graph_of(len(inputs.query), len(inputs.key), *rows), act, slope, gain)
        found = _differentiable(inputs, grad, needed, rule)
    else:
        whole = torch.ops.saccade.edge_attention_backward(grad, out, kept, *tensors, *ctx.how, needed)
        found = tuple(gradient if need else None for gradient, need in zip(whole, needed, strict=True))
    return *found, *([None] * 10)


_operator.register_autograd(_backward_of, setup_context=_remember)


@torch.library.custom_op(
    "saccade::edge_attention_backward",
    mutates_args=(),
    schema="(Tensor grad, Tensor out, Tensor kept, Tensor query, Tensor key, Tensor value, Tensor a, Tensor? gain, "
    f"{_ROWS}, {_HOW}, bool[] needed) -> (Tensor, Tensor, Tensor, Tensor)",
)
def _backward_operator(
    grad: Tensor, out: Tensor, kept: Tensor, query: Tensor, key: Tensor, value: Tensor, a: Tensor, gain: Tensor | None,
    start: Tensor, receiver: Tensor, sender: Tensor, out_start: Tensor, out_edge: Tensor, out_receiver: Tensor,
    act: Act, slope: float, engine: str, needed: list[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of the four inputs, empty where none is needed."""
    graph = _graph_of(len(query), len(key), start, receiver, sender, out_start, out_edge, out_receiver)
    inputs, rule = Inputs(query, key, value, a), Rule(graph, act, slope, gain)
    found = _engine(engine).backward(inputs, out, kept, grad, tuple(needed), rule)
    one, two, three, four = (query.new_empty(0) if gradient is None else gradient for gradient in found)
    return one, two, three, four


@_backward_operator.register_fake
def _(
    grad: Tensor, out: Tensor, kept: Tensor, query: Tensor, key: Tensor, value: Tensor, a: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    one, two, three, four = (
        tensor.new_empty(tensor.shape) if need else query.new_empty(0)
        for tensor, need in zip((query, key, value, a), rest[-1], strict=True)
    )
    return one, two, three, four


@torch.library.custom_op(
    "saccade::edge_weights",
    mutates_args=(),
    schema=f"(Tensor query, Tensor key, Tensor a, Tensor start, Tensor receiver, Tensor sender, {_HOW}) -> Tensor",
)
def _weights_operator(
    query: Tensor, key: Tensor, a: Tensor, start: Tensor, receiver: Tensor, sender: Tensor, act: Act, slope: float,
    engine: str,
) -> Tensor:  # fmt: skip
    """α [E, H]. The rows by sender are of no account."""
    graph = _graph_of(len(query), len(key), start, receiver, sender, start, sender, sender)
    return _engine(engine).weights(query, key, a, Rule(graph, act, slope))


@_weights_operator.register_fake
def _(
    query: Tensor, key: Tensor, a: Tensor, start: Tensor, receiver: Tensor, sender: Tensor, act: Act, slope: float,
    engine: str,
) -> Tensor:  # fmt: skip
    return query.new_empty(sender.shape[0], query.shape[1], dtype=promoted(query, key, a))


def _tensors_of(graph: Graph) -> tuple[Tensor, ...]:
    return graph.start, graph.receiver, graph.sender, graph.out_start, graph.out_edge, graph.out_receiver


def _graph_of(
    receivers: int, senders: int, start: Tensor, receiver: Tensor, sender: Tensor, out_start: Tensor, out_edge: Tensor,
    out_receiver: Tensor,
) -> Graph:  # fmt: skip
    """The graph again. Where its edges stood in a list, kernels never ask."""
    return Graph(receivers, senders, start, receiver, sender, out_start, out_edge, out_receiver, place=sender)


def _engine(name: str) -> Engine:
    if name == "fused":
        from saccade.kernels.edges import fused

        return fused.ENGINE
    from saccade.kernels.edges import blocked

    return blocked.ENGINE
