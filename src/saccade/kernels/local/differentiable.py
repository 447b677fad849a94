"""Local attention with gradients, over an engine that computes it and its gradients: blocked.py or fused.py.

Kept for the backward pass: the inputs and the weights inside the windows, N × T × W numbers. Nothing made here grows with S but
the gradients of keys and values themselves.

Under torch.compile it is the operator ``saccade::local_attention``, which passes through whole; elsewhere it is a function of
autograd, which costs the host less and knows a decoder's memory.

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
from saccade.kernels.local import reference
from saccade.kernels.local.chunks import working_dtype
from saccade.kernels.local.memory import Ledger, Memory, Sums, check_memory
from saccade.kernels.local.reach import Inputs, Reach

Gradients = tuple[Tensor | None, ...]
"""One for each of the inputs, None where none was asked for."""


@dataclass(frozen=True)
class Engine:
    """What computes local attention.

    ``forward(inputs, reach, scale, dtype)`` gives the context [N, T, E] in this dtype, and the softmax inside the windows
    [N, T, W], before the gain. ``backward(inputs, reach, scale, weights, grad_context, needed, sums)`` gives the gradients
    of the inputs, in their own dtypes; those of keys and values it adds to the sums instead, where there are some.
    """

    name: str
    forward: Callable[[Inputs, Reach, float, torch.dtype], tuple[Tensor, Tensor]]
    backward: Callable[[Inputs, Reach, float, Tensor, Tensor, tuple[bool, ...], Sums | None], Gradients]


def attention(
    engine: Engine, inputs: Inputs, reach: Reach, scale: float, memory: Memory | None
) -> Float[Tensor, "N T E"]:
    """The context by this engine, differentiable."""
    check_memory(memory, inputs.key, inputs.value)
    dtype = result_dtype(inputs)
    if torch.compiler.is_compiling():  # a memory's sums would be a side effect: each step gives gradients of its own
        numbers = (reach.before, reach.after, reach.shift, reach.sigma, scale)
        recorded: Tensor = torch.ops.saccade.local_attention(*inputs, reach.lengths, *numbers, dtype, engine.name)[0]
        return recorded
    if memory is not None:
        inputs = inputs._replace(key=inputs.key.detach(), value=inputs.value.detach())
    ledger, token = (None, None) if memory is None else (memory.ledger, memory.token)
    context: Tensor = _LocalAttention.apply(engine, reach, scale, dtype, ledger, token, *inputs)
    return context


def result_dtype(inputs: Inputs) -> torch.dtype:
    """What the reference's product with the values gives: the promoted type, or autocast's, which leaves float64 alone."""
    dtype = inputs.query.dtype
    for tensor in (inputs.key, inputs.value, inputs.v):
        dtype = dtype if tensor is None else torch.promote_types(dtype, tensor.dtype)
    device = inputs.query.device.type
    if dtype is not torch.float64 and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return dtype


def _exactly(inputs: Inputs) -> torch.autocast:
    """Without autocast, which would round what is float32 on purpose: the dtypes were settled before."""
    return torch.autocast(inputs.query.device.type, enabled=False)


class _LocalAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        engine: Engine,
        reach: Reach,
        scale: float,
        dtype: torch.dtype,
        ledger: Ledger | None,
        token: Tensor | None,
        *tensors: Any,
    ) -> Tensor:
        inputs = Inputs(*tensors)
        with _exactly(inputs):
            context, weights = engine.forward(inputs, reach, scale, dtype)
        ctx.engine, ctx.reach, ctx.scale, ctx.ledger = engine, reach, scale, ledger
        ctx.save_for_backward(*inputs, weights)
        return context

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Gradients:
        *tensors, weights = ctx.saved_tensors
        inputs, needed, sums = Inputs(*tensors), ctx.needs_input_grad[6:], None
        if ctx.ledger is not None and ctx.needs_input_grad[5]:
            sums = ctx.ledger.sums()
            needed = (needed[0], *(total is not None for total in sums), *needed[3:])
        if not torch.is_grad_enabled():
            with _exactly(inputs):
                found = ctx.engine.backward(inputs, ctx.reach, ctx.scale, weights, grads[0], needed, sums)
        elif sums is None:
            found = reference.differentiable_gradients(inputs, ctx.reach, ctx.scale, grads[0], needed)
        else:
            raise SaccadeError(
                "local attention: second derivatives do not go through remembered keys; pass no memory where "
                "create_graph=True"
            )
        token = None if sums is None else torch.zeros((), device=grads[0].device)
        return None, None, None, None, None, token, *found


# ---- The operator -----------------------------------------------------------------------------------------------------

_SEES = "Tensor? lengths, SymInt before, SymInt after, SymInt shift, float? sigma, float scale"


@torch.library.custom_op(
    "saccade::local_attention",
    mutates_args=(),
    schema=f"(Tensor query, Tensor key, Tensor value, Tensor? centre, Tensor? v, {_SEES}, ScalarType dtype, str engine)"
    " -> (Tensor, Tensor)",
)
def _operator(
    query: Tensor, key: Tensor, value: Tensor, centre: Tensor | None, v: Tensor | None, lengths: Tensor | None,
    before: int, after: int, shift: int, sigma: float | None, scale: float, dtype: torch.dtype, engine: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The context [N, T, E], and the softmax inside the windows [N, T, W]."""
    inputs = Inputs(query, key, value, centre, v)
    with _exactly(inputs):
        return _engine(engine).forward(inputs, _reach(inputs, lengths, before, after, shift, sigma), scale, dtype)


@_operator.register_fake
def _(
    query: Tensor, key: Tensor, value: Tensor, centre: Tensor | None, v: Tensor | None, lengths: Tensor | None,
    before: int, after: int, shift: int, sigma: float | None, scale: float, dtype: torch.dtype, engine: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    N, T, _ = query.shape
    W, working = torch.sym_min(before + after + 1, key.shape[1]), working_dtype(Inputs(query, key, value, centre, v))
    return query.new_empty(N, T, value.shape[2], dtype=dtype), query.new_empty(N, T, W, dtype=working)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, before, after, shift, sigma, scale, _, engine = inputs
    ctx.numbers, ctx.engine = (before, after, shift, sigma, scale), engine
    ctx.save_for_backward(*tensors, output[1])


def _backward_of(ctx: Any, grad: Tensor, *unused: Tensor | None) -> Gradients:
    *tensors, lengths, weights = ctx.saved_tensors
    needed = tuple(ctx.needs_input_grad[:5])
    if torch.is_grad_enabled():
        *sees, scale = ctx.numbers
        inputs = Inputs(*tensors)
        found = reference.differentiable_gradients(inputs, _reach(inputs, lengths, *sees), scale, grad, needed)
    else:
        whole = torch.ops.saccade.local_attention_backward(
            grad, weights, *tensors, lengths, *ctx.numbers, needed, ctx.engine
        )
        found = tuple(gradient if need else None for gradient, need in zip(whole, needed, strict=True))
    return *found, *([None] * 8)


_operator.register_autograd(_backward_of, setup_context=_remember)


@torch.library.custom_op(
    "saccade::local_attention_backward",
    mutates_args=(),
    schema="(Tensor grad, Tensor weights, Tensor query, Tensor key, Tensor value, Tensor? centre, Tensor? v, "
    f"{_SEES}, bool[] needed, str engine) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def _backward_operator(
    grad: Tensor, weights: Tensor, query: Tensor, key: Tensor, value: Tensor, centre: Tensor | None, v: Tensor | None,
    lengths: Tensor | None, before: int, after: int, shift: int, sigma: float | None, scale: float,
    needed: list[bool], engine: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of the five inputs, empty where none is needed."""
    inputs = Inputs(query, key, value, centre, v)
    reach = _reach(inputs, lengths, before, after, shift, sigma)
    with _exactly(inputs):
        found = _engine(engine).backward(inputs, reach, scale, weights, grad, tuple(needed), None)
    one, two, three, four, five = (query.new_empty(0) if gradient is None else gradient for gradient in found)
    return one, two, three, four, five


@_backward_operator.register_fake
def _(
    grad: Tensor, weights: Tensor, query: Tensor, key: Tensor, value: Tensor, centre: Tensor | None, v: Tensor | None,
    lengths: Tensor | None, before: int, after: int, shift: int, sigma: float | None, scale: float,
    needed: list[bool], engine: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    one, two, three, four, five = (
        query.new_empty(0) if tensor is None or not need else tensor.new_empty(tensor.shape)
        for tensor, need in zip((query, key, value, centre, v), needed, strict=True)
    )
    return one, two, three, four, five


def _reach(inputs: Inputs, lengths: Tensor | None, before: int, after: int, shift: int, sigma: float | None) -> Reach:
    return Reach(inputs.query.shape[1], inputs.key.shape[1], before, after, shift, lengths, sigma)


def _engine(name: str) -> Engine:
    if name == "fused":
        from saccade.kernels.local import fused

        return fused.ENGINE
    from saccade.kernels.local import blocked

    return blocked.ENGINE
