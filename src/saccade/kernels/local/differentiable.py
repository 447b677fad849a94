"""Local attention with gradients, over an engine that computes both: blocked.py or fused.py.

Saved for the backward pass: the inputs and the weights inside the windows, N × T × W numbers. Nothing allocated here grows
with S except the gradients of keys and values.

Under torch.compile it is the operator ``saccade::local_attention``, which is traced as one node; elsewhere it is an
autograd function, which has less host overhead.

Legend: N batch with heads, T queries, S keys, D width of queries and keys, E width of values, W keys in a window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.dtypes import without_autocast
from saccade.kernels.local import reference
from saccade.kernels.local.reference import Inputs, Reach, checked

Gradients = tuple[Tensor | None, ...]
"""One per input, None where it is not needed."""


@dataclass(frozen=True)
class Engine:
    """Computes local attention.

    ``forward(inputs, reach, scale, dtype)`` returns the context [N, T, E] in this dtype, and the softmax inside the windows
    [N, T, W], before the gain. ``backward(inputs, reach, scale, weights, grad_context, needed)`` returns the gradients of
    the inputs, in their own dtypes. ``refusal(inputs, reach)`` says why these inputs are not served, or None.
    """

    name: str
    forward: Callable[[Inputs, Reach, float, torch.dtype], tuple[Tensor, Tensor]]
    backward: Callable[[Inputs, Reach, float, Tensor, Tensor, tuple[bool, ...]], Gradients]
    refusal: Callable[[Inputs, Reach], str | None] = lambda inputs, reach: None

    def local_attention(
        self, query: Tensor, key: Tensor, value: Tensor, *, scale: float = 1.0, **window: Any
    ) -> Float[Tensor, "N T E"]:
        """The context of each query; arguments as in `reference.local_attention`."""
        inputs, reach = checked(query, key, value, **window)
        reason = self.refusal(inputs, reach)
        if reason is not None:
            raise SaccadeError(f"local.{self.name} does not serve this: {reason}; local.blocked does")
        if torch.compiler.is_compiling():
            numbers = (reach.before, reach.after, reach.shift, reach.sigma, scale)
            operator = torch.ops.saccade.local_attention
            recorded: Tensor = operator(*inputs, reach.lengths, *numbers, inputs.result_dtype, self.name)[0]
            return recorded
        context: Tensor = _LocalAttention.apply(self, reach, scale, *inputs)
        return context


class _LocalAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, engine: Engine, reach: Reach, scale: float, *tensors: Any) -> Tensor:
        inputs = Inputs(*tensors)
        dtype = inputs.result_dtype
        with without_autocast(inputs.query):
            context, weights = engine.forward(inputs, reach, scale, dtype)
        ctx.engine, ctx.reach, ctx.scale = engine, reach, scale
        ctx.save_for_backward(*inputs, weights)
        return context

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Gradients:
        *tensors, weights = ctx.saved_tensors
        inputs, needed = Inputs(*tensors), ctx.needs_input_grad[3:]
        if torch.is_grad_enabled():
            gradients = reference.differentiable_gradients(inputs, ctx.reach, ctx.scale, grads[0], needed)
        else:
            with without_autocast(inputs.query):
                gradients = ctx.engine.backward(inputs, ctx.reach, ctx.scale, weights, grads[0], needed)
        return None, None, None, *gradients


# ---- The operator -----------------------------------------------------------------------------------------------------

_WINDOW = "Tensor? lengths, SymInt before, SymInt after, SymInt shift, float? sigma, float scale"


@torch.library.custom_op(
    "saccade::local_attention",
    mutates_args=(),
    schema=f"(Tensor query, Tensor key, Tensor value, Tensor? centre, Tensor? v, {_WINDOW}, ScalarType dtype, str engine)"
    " -> (Tensor, Tensor)",
)
def _operator(*given: Any) -> tuple[Tensor, Tensor]:
    """The context [N, T, E], and the softmax inside the windows [N, T, W]."""
    inputs, (*window, scale, dtype, engine) = Inputs(*given[:5]), given[5:]
    with without_autocast(inputs.query):
        return _engine(engine).forward(inputs, _reach(inputs, *window), scale, dtype)


@_operator.register_fake
def _(*given: Any) -> tuple[Tensor, Tensor]:
    inputs, (_, before, after, *_, dtype, _) = Inputs(*given[:5]), given[5:]
    (N, T, _), E = inputs.query.shape, inputs.value.shape[2]
    W = torch.sym_min(before + after + 1, inputs.key.shape[1])
    return inputs.query.new_empty(N, T, E, dtype=dtype), inputs.query.new_empty(N, T, W, dtype=inputs.working_dtype)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, before, after, shift, sigma, scale, _, engine = inputs
    ctx.numbers, ctx.engine = (before, after, shift, sigma, scale), engine
    ctx.save_for_backward(*tensors, output[1])


def _backward(ctx: Any, grad: Tensor, *unused: Tensor | None) -> Gradients:
    *tensors, lengths, weights = ctx.saved_tensors
    needed = tuple(ctx.needs_input_grad[:5])
    if torch.is_grad_enabled():
        *window, scale = ctx.numbers
        inputs = Inputs(*tensors)
        gradients = reference.differentiable_gradients(inputs, _reach(inputs, lengths, *window), scale, grad, needed)
    else:
        operator = torch.ops.saccade.local_attention_backward
        whole = operator(grad, weights, *tensors, lengths, *ctx.numbers, needed, ctx.engine)
        gradients = tuple(gradient if need else None for gradient, need in zip(whole, needed, strict=True))
    return *gradients, *([None] * 8)


_operator.register_autograd(_backward, setup_context=_setup)


@torch.library.custom_op(
    "saccade::local_attention_backward",
    mutates_args=(),
    schema="(Tensor grad, Tensor weights, Tensor query, Tensor key, Tensor value, Tensor? centre, Tensor? v, "
    f"{_WINDOW}, bool[] needed, str engine) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def _backward_operator(grad: Tensor, weights: Tensor, *given: Any) -> tuple[Tensor, ...]:
    """Gradients of the five inputs, empty where none is needed."""
    inputs, (*window, scale, needed, engine) = Inputs(*given[:5]), given[5:]
    with without_autocast(inputs.query):
        reach = _reach(inputs, *window)
        gradients = _engine(engine).backward(inputs, reach, scale, weights, grad, tuple(needed))
    return tuple(grad.new_empty(0) if gradient is None else gradient for gradient in gradients)


@_backward_operator.register_fake
def _(grad: Tensor, weights: Tensor, *given: Any) -> tuple[Tensor, ...]:
    *_, needed, _ = given
    return tuple(
        grad.new_empty(0) if tensor is None or not need else tensor.new_empty(tensor.shape)
        for tensor, need in zip(given[:5], needed, strict=True)
    )


def _reach(inputs: Inputs, lengths: Tensor | None, before: int, after: int, shift: int, sigma: float | None) -> Reach:
    return Reach(inputs.query.shape[1], inputs.key.shape[1], before, after, shift, lengths, sigma)


def _engine(name: str) -> Engine:
    if name == "fused":
        from saccade.kernels.local import fused

        return fused.ENGINE
    from saccade.kernels.local import blocked

    return blocked.ENGINE
