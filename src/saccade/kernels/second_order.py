"""Gradients that will be differentiated again.

A kernel's own backward pass is a constant to autograd. Asked for with ``create_graph=True``, its gradients come from the
plain operations that say the same, right to any order at their cost in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def gradients_through(
    function: Callable[..., Tensor | tuple[Tensor, ...]],
    inputs: Sequence[Tensor | None],
    grads: Sequence[Tensor | None],
    needed: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """The gradients of those inputs of ``function(*inputs)`` that need one, given those of its outputs."""
    # Views, because an input may be another one, or come of it: values that are the keys, a query that read the keys at
    # the step before. The path between them is not this function's, and autograd would follow it.
    apart = [None if each is None else each.view_as(each) for each in inputs]
    found = function(*apart)
    outputs = found if isinstance(found, tuple) else (found,)
    given = [(output, grad) for output, grad in zip(outputs, grads, strict=True) if grad is not None]
    wanted = {
        number: each for number, (each, need) in enumerate(zip(apart, needed, strict=True)) if need and each is not None
    }
    if not given or not wanted:
        return (None,) * len(apart)
    gradients = torch.autograd.grad(
        [output for output, _ in given],
        list(wanted.values()),
        [grad.to(output.dtype) for output, grad in given],
        create_graph=True,
        allow_unused=True,  # an output need not depend on every input: weights do not on the values
    )
    of = dict(zip(wanted, gradients, strict=True))
    return tuple(of.get(number) for number in range(len(apart)))
