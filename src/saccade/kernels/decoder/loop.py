"""A loop of decoder steps over one memory: the gradients of keys and values are made once, not at every step.

A step by itself must give its own gradient of every key and value, N · S · (D + E) numbers, and autograd adds those of
all steps. Here a step gives autograd only its query's gradient and one row of N · (D + 2 S + E) numbers; when all steps
that count have given theirs, the gradients of the whole memory are made from the rows together (blocked.py has the
equations): those of the values, and of the keys of a dot score, are one product of matrices an item.

How it fits autograd: before the first step a node is put over key, value and v. Its outputs are places for rows, numbers
that nobody reads; each step takes one as an input and returns its row as that input's gradient. Autograd then does the
rest: it waits for every step it needs, brings the rows together, leaves out steps that no loss depends on, and keeps
nothing from one backward pass to the next.

Legend: N items (batch with heads), S keys, D width of queries and keys, E width of values.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.kernels.decoder import blocked, reference
from saccade.kernels.dtypes import result_dtype
from saccade.kernels.launching import has_fused


class Memory:
    """Keys and values that a decoder looks at again and again, one query at a time.

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
        """A memory; the arguments are those of ``reference.step_attention``.

        ``steps`` is how many are expected: more are right too, at the cost of one more gathering of gradients for each
        ``steps`` of them. ``arithmetic`` is the module that computes, blocked or fused; unless given, the faster that
        serves.
        """
        reference.check_memory(key, value, v, scale, real, lengths)
        serving = arithmetic or _arithmetic(key, value)
        seen = reference.seen(real, lengths, key)
        return cls(key, value, v, 1.0 if scale is None else scale, seen, serving, steps)

    def step(self, query: Float[Tensor, "N D"]) -> tuple[Float[Tensor, "N E"], Float[Tensor, "N S"]]:
        """What each query reads, and its weights (float32 or better); zeros where it sees nothing."""
        reference.check_query(query, self.key)
        if torch.compiler.is_compiling():  # plain operations, which a recorded graph can fuse
            scale = self.scale if self.v is None else None
            return reference.step_attention(query, self.key, self.value, v=self.v, scale=scale, real=self.real)
        inputs = query, self.key, self.value, self.v
        if not torch.is_grad_enabled() or not any(x is not None and x.requires_grad for x in inputs):
            dtype = result_dtype(query, self.key, self.value)
            found: tuple[Tensor, Tensor] = self._arithmetic.look(
                self._ready(), query, self.v, self.scale, self.real, dtype
            )
            return found
        found = _Step.apply(*inputs, self._place(), self.real, self.scale, self._arithmetic, self._ready())
        return found

    def _ready(self) -> Any:
        """What the arithmetic needs of keys and values, made anew when they have been changed in place."""
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
    if has_fused(key) and reference.working_type(key, value) is torch.float32:
        from saccade.kernels.decoder import fused

        return fused
    return blocked


class _Memory(torch.autograd.Function):
    """key, value, v → places for the rows of some steps. Backward: their rows → the gradients of key, value and v."""

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
        number = key.new_empty((), dtype=reference.working_type(key, value))
        return tuple(number.expand(N, D + 2 * S + E) for _ in range(steps))

    @staticmethod
    def backward(ctx: Any, *rows: Tensor | None) -> tuple[Tensor | None, ...]:
        given = [row for row in reversed(rows) if row is not None]  # the last place is taken first
        if not given:
            return (None,) * 7
        _, v = ctx.saved_tensors  # keys changed since are refused here
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
    """One step. key, value and v get their gradients through ``place``, but for those that are differentiated again."""

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
            found = reference.differentiable_gradients(
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
