"""Keys and values that a decoder reads step by step: the gradients of all steps are summed in one place.

The gradient of keys has S rows, of which a step of local attention fills W. By itself each step would write all the others as
zeros, and autograd would add them up: T steps cost T · S. Here a step adds its W rows to sums that are made once a backward
pass, and autograd gets the whole when the last step has added to it.

Legend: N batch with heads, S keys, D width of keys, E width of values.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.errors import SaccadeError

Sums = tuple[Tensor | None, Tensor | None]
"""Of the gradients of keys and of values; None where none is asked for."""


class Ledger:
    """The sums of one pair of keys and values. It knows no token, which knows it: what they keep alive must end with them."""

    def __init__(self, key: Tensor, value: Tensor) -> None:
        self._pair = key.detach(), value.detach()
        self._wanted = key.requires_grad, value.requires_grad
        self._sums: Sums | None = None
        self._backward_pass: int | None = None

    def sums(self) -> Sums:
        """Where a step of the backward pass under way adds its gradients: [N, S, D] and [N, S, E]."""
        this_pass = torch._C._current_graph_task_id()
        if self._sums is None or self._backward_pass != this_pass:  # what a pass left that asked for less is dropped
            key, value = (
                torch.zeros(tensor.shape, dtype=_sum_dtype(tensor), device=tensor.device) if wanted else None
                for tensor, wanted in zip(self._pair, self._wanted, strict=True)
            )
            self._sums, self._backward_pass = (key, value), this_pass
        return self._sums

    def take(self) -> Sums:
        """The sums of this backward pass in the dtypes of keys and values; they are forgotten here."""
        key, value = (
            None if total is None else total.to(tensor.dtype)
            for total, tensor in zip(self.sums(), self._pair, strict=True)
        )
        self._sums = None
        return key, value


class Memory(NamedTuple):
    """Keys and values whose gradients are summed in one place. Every step takes the token, so the sums are asked for last."""

    key: Float[Tensor, "N S D"]
    value: Float[Tensor, "N S E"]
    ledger: Ledger
    token: Tensor


def remember(key: Float[Tensor, "N S D"], value: Float[Tensor, "N S E"]) -> Memory:
    """Say that many steps will read these keys and values: pass the result to each as ``memory=``.

    Their second derivatives are not offered; without a memory they are.
    """
    ledger = Ledger(key, value)
    if (
        torch.compiler.is_compiling()
    ):  # sums would be a side effect, which a recorded graph has none of: see differentiable.py
        return Memory(key, value, ledger, key.new_zeros(()))
    return Memory(key, value, ledger, _Token.apply(ledger, key, value))


def check_memory(memory: Memory | None, key: Tensor, value: Tensor) -> None:
    if memory is not None and not (memory.key is key and memory.value is value):
        raise SaccadeError(
            "local attention: memory was made of other keys or values; pass remember(key, value) of these"
        )


class _Token(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ledger: Ledger, key: Tensor, value: Tensor) -> Tensor:
        ctx.ledger = ledger
        return torch.zeros((), device=key.device)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.ledger.take()


def _sum_dtype(tensor: Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)
