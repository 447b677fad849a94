"""Local attention with gradients, over an engine that computes it and its gradients: blocked.py or fused.py.

Kept for the backward pass: the inputs and the weights inside the windows, N × T × W numbers. Nothing made here grows with S but
the gradients of keys and values themselves.

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
from saccade.kernels.local.memory import Ledger, Memory, Sums, check_memory
from saccade.kernels.local.reach import Inputs, Reach
from saccade.kernels.second_order import gradients_through

Gradients = tuple[Tensor | None, ...]
"""One for each of the inputs, None where none was asked for."""


@dataclass(frozen=True)
class Engine:
    """What computes local attention.

    ``forward(inputs, reach, scale, dtype)`` gives the context [N, T, E] in this dtype, and the softmax inside the windows
    [N, T, W], before the gain. ``backward(inputs, reach, scale, weights, grad_context, needed, sums)`` gives the gradients
    of the inputs, in their own dtypes; those of keys and values it adds to the sums instead, where there are some.
    """

    forward: Callable[[Inputs, Reach, float, torch.dtype], tuple[Tensor, Tensor]]
    backward: Callable[[Inputs, Reach, float, Tensor, Tensor, tuple[bool, ...], Sums | None], Gradients]


def attention(
    engine: Engine, inputs: Inputs, reach: Reach, scale: float, memory: Memory | None
) -> Float[Tensor, "N T E"]:
    """The context by this engine, differentiable."""
    check_memory(memory, inputs.key, inputs.value)
    if memory is not None:
        inputs = inputs._replace(key=inputs.key.detach(), value=inputs.value.detach())
    ledger, token = (None, None) if memory is None else (memory.ledger, memory.token)
    context: Tensor = _LocalAttention.apply(engine, reach, scale, result_dtype(inputs), ledger, token, *inputs)
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
            found = ctx.engine.backward(inputs, ctx.reach, ctx.scale, weights, grads[0], needed, sums)
        elif sums is None:
            found = _by_reference(inputs, ctx.reach, ctx.scale, grads[0], needed)
        else:
            raise SaccadeError(
                "local attention: second derivatives do not go through remembered keys; pass no memory where "
                "create_graph=True"
            )
        token = None if sums is None else torch.zeros((), device=grads[0].device)
        return None, None, None, None, None, token, *found


def _by_reference(
    inputs: Inputs, reach: Reach, scale: float, grad_context: Tensor, needed: tuple[bool, ...]
) -> Gradients:
    def plainly(query: Tensor, key: Tensor, value: Tensor, centre: Tensor | None, v: Tensor | None) -> Tensor:
        return reference.local_attention(
            query,
            key,
            value,
            centre=centre,
            v=v,
            scale=scale,
            radius=reach.before,
            ahead=reach.after,
            shift=reach.shift,
            lengths=reach.lengths,
            sigma=reach.sigma,
        )

    return gradients_through(plainly, inputs, (grad_context,), needed)
