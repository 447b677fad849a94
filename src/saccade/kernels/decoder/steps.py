"""Decoder steps over one memory; the gradients of keys and values are computed once for all steps.

    scores[s]  =  Σ_d v_d tanh(query_d + key_sd)   additive (Bahdanau et al. 2015), or
                  scale · Σ_d query_d key_sd       dot (Luong et al. 2015)
    weights    =  softmaxₛ scores, over the visible keys
    context    =  Σₛ weights[s] value[s]

A step alone would return a gradient of every key and value, N · S · (D + E) numbers, and autograd would add those of all
steps. Here a step returns only its query's gradient and one row of N · (D + 2 S + E) numbers; when all steps have returned
theirs, the gradients of the whole memory are computed from the rows together (blocked.py has the equations): those of the
values, and of the keys of a dot score, are one matrix product per item.

In autograd: before the first step a node is put on top of key, value and v. Its outputs are placeholders that nobody reads;
each step takes one as an input and returns its row as that input's gradient. Autograd waits for every step, collects the
rows, leaves out steps that no loss depends on, and keeps nothing from one backward pass to the next.

Arithmetic and weights are in float32 or better; the context has the dtype of the inputs.

Legend: N items (batch with heads), S keys, D width of queries and keys, E width of values.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.decoder import blocked
from saccade.kernels.dtypes import result_dtype, without_autocast, working_dtype_of
from saccade.kernels.launching import has_fused
from saccade.kernels.second_order import gradients_through


class Memory:
    """Keys and values that a decoder attends to repeatedly, one query at a time.

    >>> import torch
    >>> memory = Memory.of(torch.randn(3, 5, 7), torch.randn(3, 5, 11), v=torch.randn(7))
    >>> context, weights = memory.step(torch.randn(3, 7))
    >>> context.shape, weights.shape
    (torch.Size([3, 11]), torch.Size([3, 5]))
    """

    def __init__(
        self,
        key: Tensor,
        value: Tensor,
        v: Tensor | None,
        scale: float,
        real: Tensor | None,
        arithmetic: ModuleType,
        steps: int,
    ) -> None:
        self.key, self.value, self.v, self.scale, self.real = key, value, v, scale, real
        self._arithmetic, self._steps = arithmetic, max(1, steps)
        self._places: list[Tensor] = []
        self._prepared: tuple[object, Any] | None = None

    @classmethod
    def of(
        cls,
        key: Float[Tensor, "N S D"],
        value: Float[Tensor, "N S E"],
        *,
        v: Float[Tensor, " D"] | None = None,
        scale: float | None = None,
        real: Bool[Tensor, "N S"] | None = None,
        lengths: Int[Tensor, " N"] | None = None,
        steps: int = 32,
        arithmetic: ModuleType | None = None,
    ) -> Memory:
        """A memory; the arguments are those of :func:`step_attention`.

        ``steps`` is the expected number of steps: more work too, with one more gathering of gradients per ``steps`` of
        them. ``arithmetic`` is the module that computes, blocked or fused; by default the faster one that serves.
        """
        check_memory(key, value, v, scale, real, lengths)
        serving = arithmetic or _arithmetic(key, value)
        visible = visible_keys(real, lengths, key)
        return cls(key, value, v, 1.0 if scale is None else scale, visible, serving, steps)

    def step(self, query: Float[Tensor, "N D"]) -> tuple[Float[Tensor, "N E"], Float[Tensor, "N S"]]:
        """The context of each query, and its weights (float32 or better); zeros where it sees nothing."""
        check_query(query, self.key)
        if torch.compiler.is_compiling():  # plain operations, which the compiler can fuse
            scale = self.scale if self.v is None else None
            return step_attention(query, self.key, self.value, v=self.v, scale=scale, real=self.real)
        inputs = query, self.key, self.value, self.v
        if not torch.is_grad_enabled() or not any(x is not None and x.requires_grad for x in inputs):
            dtype = result_dtype(query, self.key, self.value)
            result: tuple[Tensor, Tensor] = self._arithmetic.look(
                self._ready(), query, self.v, self.scale, self.real, dtype
            )
            return result
        result = _Step.apply(*inputs, self._place(), self.real, self.scale, self._arithmetic, self._ready())
        return result

    def _ready(self) -> Any:
        """The keys and values as the arithmetic needs them, recomputed when they have been changed in place."""
        version = tuple(None if x.is_inference() else x._version for x in (self.key, self.value))
        if self._prepared is None or self._prepared[0] != version:
            self._prepared = version, self._arithmetic.prepare(self.key, self.value)
        return self._prepared[1]

    def _place(self) -> Tensor | None:
        if not any(x is not None and x.requires_grad for x in (self.key, self.value, self.v)):
            return None
        if not self._places:
            self._places = list(
                _Memory.apply(self.key, self.value, self.v, self.scale, self._arithmetic, self._ready(), self._steps)
            )
        return self._places.pop()


def _arithmetic(key: Tensor, value: Tensor) -> ModuleType:
    if has_fused(key) and working_dtype_of(key, value) is torch.float32:
        from saccade.kernels.decoder import fused

        return fused
    return blocked


class _Memory(torch.autograd.Function):
    """key, value, v → placeholders for the rows of some steps. Backward: their rows → the gradients of key, value and v."""

    @staticmethod
    def forward(
        ctx: Any,
        key: Tensor,
        value: Tensor,
        v: Tensor | None,
        scale: float,
        arithmetic: ModuleType,
        ready: Any,
        steps: int,
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(key, v)
        ctx.scale, ctx.arithmetic, ctx.ready, ctx.dtypes = scale, arithmetic, ready, (key.dtype, value.dtype)
        ctx.set_materialize_grads(False)
        (N, S, D), E = key.shape, value.shape[-1]
        number = key.new_empty((), dtype=working_dtype_of(key, value))
        return tuple(number.expand(N, D + 2 * S + E) for _ in range(steps))

    @staticmethod
    def backward(ctx: Any, *rows: Tensor | None) -> tuple[Tensor | None, ...]:
        given = [row for row in reversed(rows) if row is not None]  # the last placeholder is taken first
        if not given:
            return (None,) * 7
        _, v = ctx.saved_tensors  # autograd refuses keys that were changed since
        grad_key, grad_value, grad_v = ctx.arithmetic.gather(ctx.ready, v, ctx.scale, torch.stack(given))
        key_type, value_type = ctx.dtypes
        return (
            grad_key.to(key_type),
            grad_value.to(value_type),
            None if v is None else grad_v.to(v.dtype),
            None,
            None,
            None,
            None,
        )


class _Step(torch.autograd.Function):
    """One step. key, value and v get their gradients through ``place``, except those that are differentiated again."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        v: Tensor | None,
        place: Tensor | None,
        real: Tensor | None,
        scale: float,
        arithmetic: ModuleType,
        ready: Any,
    ) -> tuple[Tensor, Tensor]:
        dtype = result_dtype(query, key, value)
        context, weights = arithmetic.look(ready, query, v, scale, real, dtype)
        ctx.save_for_backward(query, key, value, v, real, weights)
        ctx.scale, ctx.arithmetic, ctx.ready = scale, arithmetic, ready
        ctx.set_materialize_grads(False)
        return context, weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        query, key, value, v, real, weights = ctx.saved_tensors
        if torch.is_grad_enabled():
            found = differentiable_gradients(
                (query, key, value, v), grads, ctx.needs_input_grad[:4], scale=ctx.scale, real=real, lengths=None
            )
            return *found, None, None, None, None, None
        grad_context, grad_weights = grads
        if grad_context is None and grad_weights is None:
            return (None,) * 9
        if grad_context is None:
            grad_context = weights.new_zeros(len(query), value.shape[-1])
        grad_query, row = ctx.arithmetic.look_back(ctx.ready, query, v, ctx.scale, weights, grad_context, grad_weights)
        row = row if ctx.needs_input_grad[4] else None
        return grad_query, None, None, None, row, None, None, None, None


# ---- The formula -------------------------------------------------------------------------------------------------------


def step_attention(
    query: Float[Tensor, "N D"],
    key: Float[Tensor, "N S D"],
    value: Float[Tensor, "N S E"],
    *,
    v: Float[Tensor, " D"] | None = None,
    scale: float | None = None,
    real: Bool[Tensor, "N S"] | None = None,
    lengths: Int[Tensor, " N"] | None = None,
) -> tuple[Float[Tensor, "N E"], Float[Tensor, "N S"]]:
    """The context of each query, and its weights.

    With ``v`` the score is additive, without it the dot product times ``scale`` (1 by default). Keys are visible where
    ``real`` is true and before ``lengths``; a query that sees none gets zeros.
    """
    check_memory(key, value, v, scale, real, lengths)
    check_query(query, key)
    context_dtype, working = result_dtype(query, key, value), working_dtype_of(query, key, value)
    with without_autocast(query):
        q, k, x = query.to(working), key.to(working), value.to(working)
        if v is None:
            scores = (k @ q.unsqueeze(-1)).squeeze(-1) * (1.0 if scale is None else scale)  # [N, S]
        else:
            scores = torch.tanh(q.unsqueeze(1) + k) @ v.to(working)
        weights = _softmax(scores, visible_keys(real, lengths, key))
        context = (weights.unsqueeze(1) @ x).squeeze(1)  # [N, E]
    return context.to(context_dtype), weights


def differentiable_gradients(
    inputs: tuple[Tensor, Tensor, Tensor, Tensor | None],
    grads: tuple[Tensor | None, ...],
    needed: tuple[bool, ...],
    *,
    scale: float,
    real: Tensor | None,
    lengths: Tensor | None,
) -> tuple[Tensor | None, ...]:
    """Gradients of (query, key, value, v) that can be differentiated again, given those of context and weights."""

    def formula(query: Tensor, key: Tensor, value: Tensor, v: Tensor | None) -> tuple[Tensor, Tensor]:
        scale_of_dot = scale if v is None else None
        return step_attention(query, key, value, v=v, scale=scale_of_dot, real=real, lengths=lengths)

    return gradients_through(formula, inputs, grads, needed)


def visible_keys(
    real: Bool[Tensor, "N S"] | None, lengths: Int[Tensor, " N"] | None, key: Float[Tensor, "N S D"]
) -> Bool[Tensor, "N S"] | None:
    """Mask and lengths combined into one mask; None where all keys are visible."""
    if lengths is None:
        return real
    within = torch.arange(key.shape[1], device=key.device) < lengths.to(key.device).unsqueeze(-1)
    return within if real is None else real & within


def check_query(query: Tensor, key: Tensor) -> None:
    """Raise unless the query fits the keys: a width or batch of 1 would broadcast silently."""
    N, _, D = key.shape
    if query.shape != (N, D):
        raise SaccadeError(f"query: expected [N, D] = [{N}, {D}] beside the keys, found {list(query.shape)}")


def check_memory(
    key: Tensor, value: Tensor, v: Tensor | None, scale: float | None, real: Tensor | None, lengths: Tensor | None
) -> None:
    """Raise for shapes that would broadcast silently, and for two scores at once."""
    if key.dim() != 3:
        raise SaccadeError(f"key: expected [N, S, D], found {list(key.shape)}")
    N, S, D = key.shape
    if value.dim() != 3 or value.shape[:2] != (N, S):
        raise SaccadeError(f"value: expected [N, S, E] = [{N}, {S}, E] beside the keys, found {list(value.shape)}")
    if v is not None and v.shape != (D,):
        raise SaccadeError(f"v: expected [D] = [{D}] beside the keys, found {list(v.shape)}")
    if v is not None and scale is not None:
        raise SaccadeError("v and scale: expected one of them, found both; scale belongs to the dot score")
    if real is not None and (real.shape != (N, S) or real.dtype is not torch.bool):
        raise SaccadeError(f"real: expected bool [N, S] = [{N}, {S}], found {real.dtype} {list(real.shape)}")
    if lengths is not None and lengths.shape != (N,):
        raise SaccadeError(f"lengths: expected [N] = [{N}], found {list(lengths.shape)}")


def _softmax(scores: Tensor, real: Tensor | None) -> Tensor:
    if real is None:
        return scores.softmax(-1)
    # A row that sees nothing keeps its scores until after the softmax: a row of −inf would give NaN, also as gradient.
    blind = ~real.any(-1, keepdim=True)
    return scores.masked_fill(~(real | blind), -math.inf).softmax(-1).masked_fill(~real, 0.0)
