"""Local attention as its formula reads (Luong et al. 2015, eq. 7 to 10), over all T × S pairs: the specification.

    weights  a_t(s) = softmax over the seen s of score(q_t, k_s) · exp(−(s − p_t)² / 2σ²)      not renormalised
    context  c_t    = Σ_s a_t(s) value_s

    score    scale · qᵀk     or, with v,     vᵀ tanh(q + k)

Legend: N batch with heads, T queries, S keys, D width of queries and keys, E width of values, W keys in a window.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.kernels.additive.reference import additive_scores
from saccade.kernels.dot.reference import dot_scores
from saccade.kernels.local.reach import Inputs, LocalWeights, Reach, checked, reach_of
from saccade.kernels.second_order import gradients_through


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
) -> Float[Tensor, "N T E"]:
    """What each query finds among the keys around its centre.

    Args:
        query: [N, T, D], projected as the score asks; heads are part of N.
        key: [N, S, D], prepared: general's W k, cosine's directions, additive's U k.
        value: [N, S, E].
        radius: a query sees the keys from ``radius`` before ⌊centre⌋ to ``radius`` after it.
        ahead: how far after it instead; 0 with a band is the causal band.
        centre: [N, T], real (local-p): the gain's gradient flows to it. None: the query's own position (local-m).
        shift: the first query's position; of no account beside a centre.
        lengths: [N], the real keys of each item.
        scale: what a dot score is multiplied by.
        v: [D] or [N, D] makes the score additive.
        sigma: the width of the gain, Luong's radius / 2. None: no gain.
    """
    inputs = checked(query, key, value, centre, v)
    reach = reach_of(query, key, radius=radius, ahead=ahead, shift=shift, centre=centre, lengths=lengths, sigma=sigma)
    return _weights(query, key, centre, inputs.v, reach, scale) @ value


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
        first = reach.first(reach.middles(reach.positions(centre, query.device))).expand(query.shape[0], -1)
        places = first.unsqueeze(-1) + torch.arange(reach.width, device=query.device)  # [N, T, W]
        return LocalWeights(_weights(query, key, centre, inputs.v, reach, scale).gather(-1, places), first)


def differentiable_gradients(
    inputs: Inputs, reach: Reach, scale: float, grad_context: Float[Tensor, "N T E"], needed: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    """Gradients of those inputs that need one, given that of the context: they can be differentiated again."""

    def plainly(query: Tensor, key: Tensor, value: Tensor, centre: Tensor | None, v: Tensor | None) -> Tensor:
        return _weights(query, key, centre, v, reach, scale) @ value

    return gradients_through(plainly, inputs, (grad_context,), needed)


def _weights(
    query: Tensor, key: Tensor, centre: Tensor | None, v: Tensor | None, reach: Reach, scale: float
) -> Float[Tensor, "N T S"]:
    scores = dot_scores(query, key, scale) if v is None else additive_scores(query, key, v)
    keys = torch.arange(reach.S, device=query.device)
    positions = reach.positions(centre, query.device)
    seen = reach.seen(keys, reach.middles(positions))  # [N or 1, T, S]
    blind = ~seen.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~seen, -math.inf).masked_fill(blind, 0.0)
    weights = torch.softmax(scores, dim=-1).masked_fill(blind, 0.0)
    if reach.sigma is None:
        return weights
    distance = keys - positions.unsqueeze(-1).to(torch.promote_types(scores.dtype, torch.float32))
    return weights * reach.gain(distance).to(scores.dtype)
