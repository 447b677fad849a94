"""Attention over edges with gradients, over an engine that computes both: blocked.py or fused.py.

Saved for the backward pass: the inputs, the output in the working dtype, and what the engine needs again: α of every edge
[E, H] in blocked.py, log Σ exp e of every receiver [N, H] in fused.py.

Under torch.compile it is the operator ``saccade::edge_attention``, which is traced as one node; elsewhere it is an autograd
function, which has less host overhead.

Legend: N receivers, M senders, E edges, H heads, D width, W width of values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.dtypes import promoted, working_dtype_of
from saccade.kernels.edges import reference
from saccade.kernels.edges.graph import Graph
from saccade.kernels.edges.reference import Act, Rule
from saccade.kernels.second_order import gradients_through

Gradients = tuple[Tensor | None, ...]
"""One per input, None where it is not needed."""


class Inputs(NamedTuple):
    """The tensors that attention over edges has gradients for."""

    query: Float[Tensor, "N H D"]
    key: Float[Tensor, "M H D"]
    value: Float[Tensor, "M H W"]
    a: Float[Tensor, "H D"]


@dataclass(frozen=True)
class Engine:
    """Computes attention over edges.

    ``forward(inputs, rule)`` returns out [N, H, W] in the working dtype and what it saves. ``backward(inputs, out, saved,
    grad_out, needed, rule)`` returns the gradients of the inputs, in their own dtypes. ``weights(query, key, a, rule)``
    returns α [E, H]. ``refusal(dtype, width)`` says why inputs of this dtype and head width are not served, or None.
    """

    name: str
    forward: Callable[[Inputs, Rule], tuple[Tensor, Tensor]]
    backward: Callable[[Inputs, Tensor, Tensor, Tensor, tuple[bool, ...], Rule], Gradients]
    weights: Callable[[Tensor, Tensor, Tensor, Rule], Tensor]
    refusal: Callable[[torch.dtype, int], str | None] = lambda dtype, width: None

    def edge_attention(
        self,
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
        """What each receiver reads from its senders: as `reference.edge_attention`."""
        reference.check_shapes(query, key, a, graph, act, value, gain)
        inputs = Inputs(query, key, value, a)
        self._check(promoted(*inputs), max(query.shape[-1], value.shape[-1]))
        rule = Rule(graph, act, float(slope), None if gain is None else gain.detach().contiguous())
        out: Tensor
        if torch.compiler.is_compiling():
            options = (*_tensors_of(graph), act, rule.slope, self.name)
            out = torch.ops.saccade.edge_attention(*inputs, rule.gain, *options)[0]
        else:
            out = _EdgeAttention.apply(self, rule, *inputs)
        return out.to(promoted(*inputs))

    def edge_weights(
        self,
        query: Float[Tensor, "N H D"],
        key: Float[Tensor, "M H D"],
        a: Float[Tensor, "H D"],
        graph: Graph,
        *,
        act: Act = "leaky_relu",
        slope: float = 0.2,
    ) -> Float[Tensor, "E H"]:
        """α of every edge, in the graph's order, without a gradient, in the inputs' promoted dtype."""
        reference.check_shapes(query, key, a, graph, act)
        self._check(promoted(query, key, a), query.shape[-1])
        with torch.no_grad():
            if not torch.compiler.is_compiling():
                return self.weights(query, key, a, Rule(graph, act, float(slope)))
            options = (graph.start, graph.receiver, graph.sender, act, float(slope), self.name)
            weights: Tensor = torch.ops.saccade.edge_weights(query, key, a, *options)
            return weights

    def _check(self, dtype: torch.dtype, width: int) -> None:
        reason = self.refusal(dtype, width)
        if reason is not None:
            raise SaccadeError(f"edges.{self.name} does not serve this: {reason}; edges.blocked does")


class _EdgeAttention(torch.autograd.Function):
    """query [N, H, D], key [M, H, D], value [M, H, W], a [H, D] → [N, H, W] in the working dtype."""

    @staticmethod
    def forward(ctx: Any, engine: Engine, rule: Rule, *tensors: Tensor) -> Tensor:
        out, saved = engine.forward(Inputs(*tensors), rule)
        ctx.save_for_backward(*tensors, out, saved)
        ctx.engine, ctx.rule = engine, rule
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Gradients:
        *tensors, out, saved = ctx.saved_tensors
        inputs, needed = Inputs(*tensors), ctx.needs_input_grad[2:]
        if torch.is_grad_enabled():
            return None, None, *_differentiable(inputs, grads[0], needed, ctx.rule)
        return None, None, *ctx.engine.backward(inputs, out, saved, grads[0], needed, ctx.rule)


def _differentiable(inputs: Inputs, grad_out: Tensor, needed: tuple[bool, ...], rule: Rule) -> Gradients:
    """Gradients that can be differentiated again: the reference's."""
    options: dict[str, Any] = {"act": rule.act, "slope": rule.slope, "gain": rule.gain}

    def formula(query: Tensor, key: Tensor, value: Tensor, a: Tensor) -> Tensor:
        return reference.edge_attention(query, key, value, a, rule.graph, **options)

    return gradients_through(formula, inputs, (grad_out,), needed)


# ---- The operators ----------------------------------------------------------------------------------------------------

_ROWS = "Tensor start, Tensor receiver, Tensor sender, Tensor out_start, Tensor out_edge, Tensor out_receiver"
_HOW = "str act, float slope, str engine"


@torch.library.custom_op(
    "saccade::edge_attention",
    mutates_args=(),
    schema=f"(Tensor query, Tensor key, Tensor value, Tensor a, Tensor? gain, {_ROWS}, {_HOW}) -> (Tensor, Tensor)",
)
def _operator(*given: Any) -> tuple[Tensor, Tensor]:
    """out [N, H, W] in the working dtype, and what the engine saves."""
    *tensors, act, slope, engine = given
    inputs, rule = _inputs_and_rule(tensors, act, slope)
    return _engine(engine).forward(inputs, rule)


@_operator.register_fake
def _(*given: Any) -> tuple[Tensor, Tensor]:
    *tensors, _, _, engine = given
    (query, _, value, _), sender = Inputs(*tensors[:4]), tensors[7]
    (N, H, _), working = query.shape, working_dtype_of(*tensors[:4])
    rows = N if engine == "fused" else sender.shape[0]
    return query.new_empty(N, H, value.shape[2], dtype=working), query.new_empty(rows, H, dtype=working)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, act, slope, engine = inputs
    ctx.how = act, slope, engine
    ctx.save_for_backward(*tensors, *output)


def _backward(ctx: Any, grad: Tensor, *unused: Tensor | None) -> Gradients:
    *tensors, out, saved = ctx.saved_tensors
    needed = tuple(ctx.needs_input_grad[:4])
    if torch.is_grad_enabled():
        inputs, rule = _inputs_and_rule(tensors, *ctx.how[:2])
        gradients = _differentiable(inputs, grad, needed, rule)
    else:
        whole = torch.ops.saccade.edge_attention_backward(grad, out, saved, *tensors, *ctx.how, needed)
        gradients = tuple(gradient if need else None for gradient, need in zip(whole, needed, strict=True))
    return *gradients, *([None] * 10)


_operator.register_autograd(_backward, setup_context=_setup)


@torch.library.custom_op(
    "saccade::edge_attention_backward",
    mutates_args=(),
    schema="(Tensor grad, Tensor out, Tensor saved, Tensor query, Tensor key, Tensor value, Tensor a, Tensor? gain, "
    f"{_ROWS}, {_HOW}, bool[] needed) -> (Tensor, Tensor, Tensor, Tensor)",
)
def _backward_operator(grad: Tensor, out: Tensor, saved: Tensor, *given: Any) -> tuple[Tensor, ...]:
    """Gradients of the four inputs, empty where none is needed."""
    *tensors, act, slope, engine, needed = given
    inputs, rule = _inputs_and_rule(tensors, act, slope)
    gradients = _engine(engine).backward(inputs, out, saved, grad, tuple(needed), rule)
    return tuple(grad.new_empty(0) if gradient is None else gradient for gradient in gradients)


@_backward_operator.register_fake
def _(grad: Tensor, out: Tensor, saved: Tensor, *given: Any) -> tuple[Tensor, ...]:
    return tuple(
        tensor.new_empty(tensor.shape) if need else grad.new_empty(0)
        for tensor, need in zip(given[:4], given[-1], strict=True)
    )


@torch.library.custom_op(
    "saccade::edge_weights",
    mutates_args=(),
    schema=f"(Tensor query, Tensor key, Tensor a, Tensor start, Tensor receiver, Tensor sender, {_HOW}) -> Tensor",
)
def _weights_operator(
    query: Tensor, key: Tensor, a: Tensor, start: Tensor, receiver: Tensor, sender: Tensor, act: Act, slope: float,
    engine: str,
) -> Tensor:  # fmt: skip
    """α [E, H]. The rows by sender are not used."""
    graph = Graph(len(query), len(key), start, receiver, sender, start, sender, sender, place=sender)
    return _engine(engine).weights(query, key, a, Rule(graph, act, slope))


@_weights_operator.register_fake
def _(query: Tensor, key: Tensor, a: Tensor, start: Tensor, receiver: Tensor, sender: Tensor, *how: Any) -> Tensor:
    return query.new_empty(sender.shape[0], query.shape[1], dtype=promoted(query, key, a))


def _tensors_of(graph: Graph) -> tuple[Tensor, ...]:
    return graph.start, graph.receiver, graph.sender, graph.out_start, graph.out_edge, graph.out_receiver


def _inputs_and_rule(tensors: list[Any], act: Act, slope: float) -> tuple[Inputs, Rule]:
    """The inputs, and the rule with its graph rebuilt; kernels never need an edge's position in the original list."""
    inputs, gain, rows = Inputs(*tensors[:4]), tensors[4], tensors[5:]
    graph = Graph(len(inputs.query), len(inputs.key), *[*rows, rows[2]])
    return inputs, Rule(graph, act, slope, gain)


def _engine(name: str) -> Engine:
    if name == "fused":
        from saccade.kernels.edges import fused

        return fused.ENGINE
    from saccade.kernels.edges import blocked

    return blocked.ENGINE
