"""Local attention over the keys that are seen, on any device: time and memory do not grow with S.

Queries are taken in chunks whose windows [n, t, W, D] stay within a budget. For local-m the windows of neighbouring queries
slide by one key, so they are strided views of the keys; for local-p they are gathered. With a the softmax inside a window, g
its gain and c̄ the gradient of the context,

    ∂value_s += a_ts g_ts c̄_t          ∂a_ts = g_ts · c̄_tᵀ value_s         ∂p_t = Σ_s a_ts ∂a_ts (s − p_t) / σ²
    e_ts = a_ts (∂a_ts − Σ_r a_tr ∂a_tr)                                    the gradient of the scores
    dot       ∂q_t = scale Σ_s e_ts k_s                   ∂k_s += scale e_ts q_t
    additive  ∂q_t = v ∘ Σ_s e_ts (1 − tanh²(q_t + k_s))  ∂k_s += v ∘ e_ts (1 − tanh²(q_t + k_s))
              ∂v   = Σ_ts e_ts tanh(q_t + k_s)

Only the gradients of keys and values have S rows; all but those that a query sees are zeros, written once.
float16 and bfloat16 are computed in float32 and rounded once, at the end.

Legend: N batch with heads, T queries, S keys, D width of queries and keys, E width of values, W keys in a window.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.kernels.local import differentiable
from saccade.kernels.local.chunks import Chunk, chunks_of, working_dtype
from saccade.kernels.local.differentiable import Gradients
from saccade.kernels.local.memory import Memory, Sums
from saccade.kernels.local.reach import Inputs, LocalWeights, Reach, checked, reach_of


def local_attention(
    query: Float[Tensor, "N T D"],
    key: Float[Tensor, "N S D"],
    value: Float[Tensor, "N S E"],
    *,
    radius: int,
    ahead: int | None = None,
    centre: Float[Tensor, "N T"] | None = None,
    shift: int = 0,
    lengths: Int[Tensor, " N"] | None = None,
    scale: float = 1.0,
    v: Float[Tensor, "*N D"] | None = None,
    sigma: float | None = None,
    memory: Memory | None = None,
) -> Float[Tensor, "N T E"]:
    """What each query finds among the keys around its centre; arguments as in `reference.local_attention`.

    ``memory``, of `memory.remember(key, value)`, spares a decoder's steps a gradient over all S keys each.
    """
    inputs = checked(query, key, value, centre, v)
    reach = reach_of(query, key, radius=radius, ahead=ahead, shift=shift, centre=centre, lengths=lengths, sigma=sigma)
    return differentiable.attention(ENGINE, inputs, reach, scale, memory)


def local_weights(
    query: Float[Tensor, "N T D"],
    key: Float[Tensor, "N S D"],
    *,
    radius: int,
    ahead: int | None = None,
    centre: Float[Tensor, "N T"] | None = None,
    shift: int = 0,
    lengths: Int[Tensor, " N"] | None = None,
    scale: float = 1.0,
    v: Float[Tensor, "*N D"] | None = None,
    sigma: float | None = None,
) -> LocalWeights:
    """The weights inside each query's window, the gain in them, to be looked at: they carry no gradient."""
    inputs = checked(query, key, key, centre, v)
    reach = reach_of(query, key, radius=radius, ahead=ahead, shift=shift, centre=centre, lengths=lengths, sigma=sigma)
    with torch.no_grad():
        weights = query.new_zeros(query.shape[0], reach.T, reach.width)
        for chunk in chunks_of(inputs, reach):
            softmax, gain = _weigh(chunk, inputs, scale)
            weights[chunk.items, chunk.queries] = (softmax if gain is None else softmax * gain).to(weights.dtype)
        first = reach.first(reach.middles(reach.positions(centre, query.device)))
        return LocalWeights(weights, first.expand(query.shape[0], -1))


def _forward(inputs: Inputs, reach: Reach, scale: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    N, T, _ = inputs.query.shape
    working = working_dtype(inputs)
    context = inputs.query.new_zeros(N, T, inputs.value.shape[2], dtype=dtype)
    weights = inputs.query.new_zeros(N, T, reach.width, dtype=working)
    for chunk in chunks_of(inputs, reach):
        softmax, gain = _weigh(chunk, inputs, scale)
        mixed = softmax if gain is None else softmax * gain
        found = mixed.unsqueeze(-2) @ chunk.windows(inputs.value).to(working)  # [n, t, 1, E]
        context[chunk.items, chunk.queries] = found.squeeze(-2).to(dtype)
        weights[chunk.items, chunk.queries] = softmax
    return context, weights


def _weigh(chunk: Chunk, inputs: Inputs, scale: float) -> tuple[Tensor, Tensor | None]:
    """The softmax inside the chunk's windows [n, t, W], and the gain beside it."""
    working = working_dtype(inputs)
    query = inputs.query[chunk.items, chunk.queries].to(working)
    keys = chunk.windows(inputs.key).to(working)  # [n, t, W, D]
    if inputs.v is None:
        scores = (keys @ (query * scale).unsqueeze(-1)).squeeze(-1)
    else:
        v = chunk.of_items(inputs.v).to(working)
        scores = ((query.unsqueeze(-2) + keys).tanh_() @ v[:, None, :, None]).squeeze(-1)
    hidden = ~chunk.seen()
    blind = hidden.all(dim=-1, keepdim=True)
    softmax = scores.masked_fill_(hidden, -math.inf).masked_fill_(blind, 0.0).softmax(-1).masked_fill_(blind, 0.0)
    return softmax, chunk.gain(working)


def _backward(
    inputs: Inputs,
    reach: Reach,
    scale: float,
    weights: Tensor,
    grad_context: Tensor,
    needed: tuple[bool, ...],
    sums: Sums | None = None,
) -> Gradients:
    gradients: list[Tensor | None] = [
        torch.zeros(tensor.shape, dtype=weights.dtype, device=tensor.device) if tensor is not None and need else None
        for tensor, need in zip(inputs, needed if sums is None else (needed[0], False, False, *needed[3:]), strict=True)
    ]
    if sums is not None:
        gradients[1:3] = sums
    for chunk in chunks_of(inputs, reach):
        _add_gradients(chunk, inputs, scale, weights, grad_context, gradients)
    if sums is not None:
        gradients[1:3] = None, None
    return tuple(
        None if gradient is None or tensor is None else gradient.to(tensor.dtype)
        for gradient, tensor in zip(gradients, inputs, strict=True)
    )


def _add_gradients(
    chunk: Chunk,
    inputs: Inputs,
    scale: float,
    weights: Tensor,
    grad_context: Tensor,
    gradients: list[Tensor | None],
) -> None:
    working, here = weights.dtype, (chunk.items, chunk.queries)
    grad_query, grad_key, grad_value, grad_centre, grad_v = gradients
    softmax, gain, grad = weights[here], chunk.gain(working), grad_context[here].to(working)
    if grad_value is not None:
        mixed = softmax if gain is None else softmax * gain
        chunk.add(mixed.unsqueeze(-1), grad.unsqueeze(-2), grad_value)
    if all(gradient is None for gradient in (grad_query, grad_key, grad_centre, grad_v)):
        return
    grad_softmax = (chunk.windows(inputs.value).to(working) @ grad.unsqueeze(-1)).squeeze(-1)  # [n, t, W]
    if gain is not None:
        grad_softmax *= gain
    product = softmax * grad_softmax
    if grad_centre is not None and gain is not None and chunk.reach.sigma is not None:
        distance = chunk.distance(working)
        grad_centre[here] = (product * distance).sum(-1) / chunk.reach.sigma**2
    grad_scores = product - softmax * product.sum(-1, keepdim=True)  # [n, t, W]
    query, keys = inputs.query[here].to(working), chunk.windows(inputs.key).to(working)
    if inputs.v is None:
        if grad_query is not None:
            grad_query[here] = (grad_scores.unsqueeze(-2) @ keys).squeeze(-2) * scale
        if grad_key is not None:
            chunk.add(grad_scores.unsqueeze(-1), (query * scale).unsqueeze(-2), grad_key)
        return
    tanh = (query.unsqueeze(-2) + keys).tanh_()  # [n, t, W, D]
    if grad_v is not None:
        # One sum an item; a v shared by the items takes them all.
        sums = (grad_scores.flatten(1).unsqueeze(-2) @ tanh.flatten(1, 2)).squeeze(-2)  # [n, D]
        chunk.of_items(grad_v).add_(sums if grad_v.shape[0] == len(inputs.query) else sums.sum(0, keepdim=True))
    if grad_query is None and grad_key is None:
        return
    v = chunk.of_items(inputs.v).to(working)
    slope = tanh.square_().neg_().add_(1).mul_(grad_scores.unsqueeze(-1)).mul_(v[:, None, None, :])
    if grad_query is not None:
        grad_query[here] = slope.sum(2)
    if grad_key is not None:
        chunk.add(slope, None, grad_key)


ENGINE = differentiable.Engine("blocked", _forward, _backward)
