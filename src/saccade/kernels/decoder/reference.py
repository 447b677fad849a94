"""A decoder's step: one query an item looks at its keys and reads its values.

    scores[s]  =  Σ_d v_d tanh(query_d + key_sd)   additive (Bahdanau et al. 2015), or
                  scale · Σ_d query_d key_sd       dot (Luong et al. 2015)
    weights    =  softmaxₛ scores, over the keys that are seen
    context    =  Σₛ weights[s] value[s]

Arithmetic is in float32 or better, and so are the weights; the context comes in the type of the inputs.
Legend: N items (batch with heads), S keys, D width of queries and keys, E width of values.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.dtypes import promoted, result_dtype
from saccade.kernels.second_order import gradients_through


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
    """What each query reads, and its weights.

    With ``v`` the score is additive, without it the dot product times ``scale`` (1 unless given). Keys are seen where
    ``real`` is true and before ``lengths``; a query that sees none gets zeros.
    """
    check_memory(key, value, v, scale, real, lengths)
    check_query(query, key)
    context_dtype, working = result_dtype(query, key, value), working_type(query, key, value)
    with torch.autocast(query.device.type, enabled=False):
        q, k, x = query.to(working), key.to(working), value.to(working)
        if v is None:
            scores = (k @ q.unsqueeze(-1)).squeeze(-1) * (1.0 if scale is None else scale)  # [N, S]
        else:
            scores = torch.tanh(q.unsqueeze(1) + k) @ v.to(working)
        weights = _softmax(scores, seen(real, lengths, key))
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

    def plainly(query: Tensor, key: Tensor, value: Tensor, v: Tensor | None) -> tuple[Tensor, Tensor]:
        scale_of_dot = scale if v is None else None
        return step_attention(query, key, value, v=v, scale=scale_of_dot, real=real, lengths=lengths)

    return gradients_through(plainly, inputs, grads, needed)


def seen(
    real: Bool[Tensor, "N S"] | None, lengths: Int[Tensor, " N"] | None, key: Float[Tensor, "N S D"]
) -> Bool[Tensor, "N S"] | None:
    """Both ways to say which keys are seen, as one."""
    if lengths is None:
        return real
    within = torch.arange(key.shape[1], device=key.device) < lengths.to(key.device).unsqueeze(-1)
    return within if real is None else real & within


def working_type(*tensors: Tensor) -> torch.dtype:
    """What the arithmetic is done in: the inputs' type, and float32 for halves."""
    return torch.promote_types(promoted(*tensors), torch.float32)


def check_query(query: Tensor, key: Tensor) -> None:
    """A width or batch of 1 would broadcast in silence."""
    N, _, D = key.shape
    if query.shape != (N, D):
        raise SaccadeError(f"query: expected [N, D] = [{N}, {D}] beside the keys, found {list(query.shape)}")


def check_memory(
    key: Tensor, value: Tensor, v: Tensor | None, scale: float | None, real: Tensor | None, lengths: Tensor | None
) -> None:
    """Shapes that would broadcast in silence, and two scores at once, are refused by name."""
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
    # A row that sees nothing keeps its scores until the softmax is done: −inf alone would make NaN, and NaN gradients.
    blind = ~real.any(-1, keepdim=True)
    return scores.masked_fill(~(real | blind), -math.inf).softmax(-1).masked_fill(~real, 0.0)
