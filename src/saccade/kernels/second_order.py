"""Computes gradients that can be differentiated again.

A kernel's own backward pass is a constant to autograd. With ``create_graph=True`` its gradients come from the equivalent
plain operations instead, which are differentiable to any order and need more memory. Half precision is computed in float32,
as in the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from saccade.kernels.dtypes import working_dtype


def gradients_through(
    function: Callable[..., Tensor | tuple[Tensor, ...]],
    inputs: Sequence[Tensor | None],
    grads: Sequence[Tensor | None],
    needed: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """The gradients of those inputs of ``function(*inputs)`` that need one, given those of its outputs."""
    # Views, because one input may be another one or depend on it (values that are the keys, a query that read the keys at
    # the step before), and autograd would follow that path, which is not part of this function.
    apart = [None if tensor is None else tensor.view_as(tensor).to(working_dtype(tensor.dtype)) for tensor in inputs]
    result = function(*apart)
    outputs = result if isinstance(result, tuple) else (result,)
    given = [(output, grad) for output, grad in zip(outputs, grads, strict=True) if grad is not None]
    wanted = {
        number: tensor
        for number, (tensor, need) in enumerate(zip(apart, needed, strict=True))
        if need and tensor is not None
    }
    if not given or not wanted:
        return (None,) * len(apart)
    gradients = torch.autograd.grad(
        [output for output, _ in given],
        list(wanted.values()),
        [grad.to(output.dtype) for output, grad in given],
        create_graph=True,
        allow_unused=True,  # weights, for example, do not depend on the values
    )
    found: list[Tensor | None] = [None] * len(apart)
    for number, gradient in zip(wanted, gradients, strict=True):
        tensor = inputs[number]
        found[number] = gradient if gradient is None or tensor is None else gradient.to(tensor.dtype)
    return tuple(found)
