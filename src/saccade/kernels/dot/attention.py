"""Dot attention from queries to contexts by PyTorch's own operator: flash or memory-efficient attention where they serve.

    context_t = Σ_s softmax_s(scale · q_tᵀk_s) value_s

The gradients of PyTorch's fast kernels cannot be differentiated again. Two autograd nodes around the operator fix that: the
one after it notes the gradient G of the contexts; the one before it passes on the operator's gradients, or, where they will
be differentiated again, those of the formula at G.

Legend: B batch, H heads (optional), T queries, S keys, D width of queries and keys, E width of values.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from saccade.kernels.dtypes import without_autocast
from saccade.kernels.second_order import gradients_through


def dot_attention(
    query: Float[Tensor, "*batch T D"],
    key: Float[Tensor, "*batch S D"],
    value: Float[Tensor, "*batch S E"],
    *,
    scale: float = 1.0,
    mask: Bool[Tensor, "... S"] | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Float[Tensor, "*batch T E"]:
    """Context [B, (H,) T, E]; a query that sees nothing gets zeros.

    ``mask`` is [T, S], [B, T, S] or [B, H, T, S], True where a query may look; ``causal``, without a mask, shows query t the
    keys up to t.
    """
    headless = query.dim() == 3
    if headless:  # without a head axis PyTorch holds all T × S weights
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
    if mask is not None and mask.dim() == 3:
        mask = mask.unsqueeze(1)
    inputs = query, key, value
    again = torch.is_grad_enabled() and not dropout and not torch.compiler.is_compiling()
    again = again and any(tensor.requires_grad for tensor in inputs)
    noted = _Noted()
    if again:
        inputs = _Before.apply(*inputs, mask, causal, scale, noted)
    with _without_cudnn() if mask is not None and query.is_cuda else contextlib.nullcontext():
        context = functional.scaled_dot_product_attention(
            *inputs, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale
        )
    if again:
        context = _After.apply(context, noted)
    return context.squeeze(1) if headless else context


class _Noted:
    """Carries the gradient of the contexts from one node to the other."""

    grad: Tensor | None = None


class _After(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, context: Tensor, noted: _Noted) -> Tensor:
        ctx.noted = noted
        return context.view_as(context)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        ctx.noted.grad = grads[0] if torch.is_grad_enabled() else None
        return grads[0], None


class _Before(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        causal: bool,
        scale: float,
        noted: _Noted,
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(query, key, value, mask)
        ctx.causal, ctx.scale, ctx.noted = causal, scale, noted
        ctx.set_materialize_grads(False)
        outputs = tuple(tensor.view_as(tensor) for tensor in (query, key, value))
        constant = [output for output, need in zip(outputs, ctx.needs_input_grad[:3], strict=True) if not need]
        ctx.mark_non_differentiable(*constant)
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        grad, ctx.noted.grad = ctx.noted.grad, None
        if grad is None:
            return *grads, None, None, None, None
        query, key, value, mask = ctx.saved_tensors

        def formula(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            return _formula(query, key, value, mask, ctx.causal, ctx.scale)

        gradients = gradients_through(formula, (query, key, value), (grad,), ctx.needs_input_grad[:3])
        return *gradients, None, None, None, None


def _formula(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    with without_autocast(query):
        scores = query @ key.mT * scale
        if causal:
            mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        if mask is None:
            return torch.softmax(scores, dim=-1) @ value
        blind = ~mask.any(dim=-1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(~(mask | blind), -math.inf), dim=-1).masked_fill(blind, 0.0)
        return weights @ value


def _without_cudnn() -> contextlib.AbstractContextManager[Any]:
    """The enabled backends except cuDNN: with a mask its gradient of the query is NaN for some lengths where all scores of a
    row are very low (pytorch/pytorch#196678)."""
    every = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    if torch.compiler.is_compiling():  # it cannot trace what is enabled
        return sdpa_kernel(every)
    on = torch.backends.cuda
    switched = [on.flash_sdp_enabled(), on.mem_efficient_sdp_enabled(), on.math_sdp_enabled()]
    allowed = [backend for backend, enabled in zip(every, switched, strict=True) if enabled]
    return sdpa_kernel(allowed) if allowed else contextlib.nullcontext()
