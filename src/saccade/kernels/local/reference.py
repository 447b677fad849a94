"""Local attention as its formula reads (Luong et al. 2015, section 3.2), over all T × S pairs: the specification.

    middle   c_t = ⌊p_t⌋            local-p: p_t comes from the network        local-m: p_t = t + shift
    visible  s ∈ [c_t − before, c_t + after] ∩ [0, length)
    weights  a_t(s) = softmax over the visible s of score(q_t, k_s) · exp(−(s − p_t)² / 2σ²)      not renormalised
    context  c_t    = Σ_s a_t(s) value_s
    score    scale · qᵀk     or, with v,     vᵀ tanh(q + k)

A query's window is the W = min(before + after + 1, S) keys from ``first_t`` on. At the ends of a sequence it is shifted
inwards, so that it lies within [0, S) and is one piece of memory; a mask says which of its keys are visible.

Legend: N batch with heads, T queries, S keys, D width of queries and keys, E width of values, W keys in a window.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.additive.reference import additive_scores
from saccade.kernels.dot.reference import dot_scores
from saccade.kernels.dtypes import result_dtype, working_dtype, working_dtype_of
from saccade.kernels.second_order import gradients_through


class Inputs(NamedTuple):
    """The tensors that local attention has gradients for. Without ``v`` the score is a dot product, with it additive."""

    query: Float[Tensor, "N T D"]
    key: Float[Tensor, "N S D"]
    value: Float[Tensor, "N S E"]
    centre: Float[Tensor, "N T"] | None
    v: Float[Tensor, "#N D"] | None

    @property
    def working_dtype(self) -> torch.dtype:
        return working_dtype_of(self.query, self.key, self.value, self.v)

    @property
    def result_dtype(self) -> torch.dtype:
        return result_dtype(self.query, self.key, self.value, self.v)


@dataclass(frozen=True, eq=False)
class Reach:
    """How far T queries see over S keys. All that it returns for a local-m window has 1 in place of N."""

    T: int
    S: int
    before: int
    after: int
    shift: int = 0
    lengths: Int[Tensor, " N"] | None = None
    sigma: float | None = None

    @property
    def width(self) -> int:
        """W, the keys in a window."""
        return min(self.before + self.after + 1, self.S)

    def positions(self, centre: Tensor | None, device: torch.device) -> Tensor:
        """p [N, T], a real number; for local-m the query's own position [1, T]."""
        if centre is not None:
            return centre
        return torch.arange(self.shift, self.shift + self.T, device=device).unsqueeze(0)

    def middles(self, positions: Tensor) -> Int[Tensor, "#N T"]:
        """⌊p⌋. NaN, and positions too far out to see any key, are clamped to integers that see none."""
        nowhere = -self.after - 1
        if not positions.is_floating_point():
            return positions.clamp(nowhere, self.S + self.before)
        return positions.detach().floor().clamp(nowhere, self.S + self.before).nan_to_num(nan=nowhere).long()

    def first(self, middles: Int[Tensor, "#N T"]) -> Int[Tensor, "#N T"]:
        """The window's first key."""
        return (middles - self.before).clamp(0, self.S - self.width)

    def visible(
        self, keys: Int[Tensor, "... K"], middles: Int[Tensor, "#n t"], items: slice = slice(None)
    ) -> Bool[Tensor, "#n t K"]:
        """Whether each query sees each of the keys at these positions [K] or [n, t, K]."""
        middles = middles.unsqueeze(-1)
        visible = (keys >= middles - self.before) & (keys <= middles + self.after)
        if self.lengths is not None:
            visible = visible & (keys < self.lengths[items, None, None].to(keys.device))
        return visible

    def gain(self, distance: Float[Tensor, "#n t K"]) -> Float[Tensor, "#n t K"]:
        """exp(−(s − p)² / 2σ²) of the distances s − p."""
        if self.sigma is None:
            raise SaccadeError("local attention: a window without sigma has no gain")
        return torch.exp(-(distance**2) / (2 * self.sigma**2))


def checked(
    query: Tensor, key: Tensor, value: Tensor, *, radius: int, ahead: int | None = None, centre: Tensor | None = None,
    shift: int = 0, lengths: Tensor | None = None, v: Tensor | None = None, sigma: float | None = None,
) -> tuple[Inputs, Reach]:  # fmt: skip
    """The arguments of :func:`local_attention` as inputs, with ``v`` as [1, D] or [N, D], and the reach they describe."""
    shapes = [list(tensor.shape) for tensor in (query, key, value)]
    N, after = query.shape[0], radius if ahead is None else ahead
    if any(len(shape) != 3 for shape in shapes) or key.shape[0] != N or value.shape[:2] != key.shape[:2]:
        raise SaccadeError(
            f"local attention: expected query [N, T, D], key [N, S, D] and value [N, S, E], found {', '.join(map(str, shapes))}"
        )
    if query.shape[2] != key.shape[2] or (v is not None and v.shape[-1] != query.shape[2]):
        widths = [tensor.shape[-1] for tensor in (query, key, v) if tensor is not None]
        raise SaccadeError(
            f"local attention: expected query, key and v of one width, found {', '.join(map(str, widths))}"
        )
    if v is not None and v.shape[:-1] not in ((), (1,), (N,)):
        raise SaccadeError(f"local attention: expected v [D] or [N, D] with N = {N}, found {list(v.shape)}")
    T, S = query.shape[1], key.shape[1]
    if radius < 0 or after < 0:
        raise SaccadeError(f"local attention: radius and ahead must not be negative: got {radius} and {after}")
    if sigma is not None and not sigma > 0:
        raise SaccadeError(f"local attention: sigma must be positive: got {sigma}")
    if centre is not None and centre.shape != (N, T):
        raise SaccadeError(f"local attention: expected centre [N, T] = {[N, T]}, found {list(centre.shape)}")
    if lengths is not None and lengths.shape != (N,):
        raise SaccadeError(f"local attention: expected lengths [N] = {[N]}, found {list(lengths.shape)}")
    if centre is not None:  # half precision has no odd positions from 256 (bfloat16) or 2048 (float16) on
        centre = centre.to(working_dtype(centre.dtype))
    inputs = Inputs(query, key, value, centre, None if v is None else v.reshape(-1, v.shape[-1]))
    return inputs, Reach(T, S, radius, after, shift, lengths, sigma)


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
    """The context of each query, from the keys around its centre.

    Args:
        query: [N, T, D], projected as the score requires; heads are part of N.
        key: [N, S, D], prepared: general's W k, cosine's directions, additive's U k.
        value: [N, S, E].
        radius: a query sees the keys from ``radius`` before ⌊centre⌋ to ``radius`` after it.
        ahead: how far after it instead; 0 with a band is the causal band.
        centre: [N, T], real (local-p): the gain's gradient flows to it. None: the query's own position (local-m).
        shift: the first query's position; ignored with a centre.
        lengths: [N], the number of real keys per item.
        scale: factor of a dot score.
        v: [D] or [N, D] makes the score additive.
        sigma: the width of the gain, Luong's radius / 2. None: no gain.
    """
    inputs, reach = checked(
        query, key, value, radius=radius, ahead=ahead, centre=centre, shift=shift, lengths=lengths, v=v, sigma=sigma
    )
    return (local_weights(inputs, reach, scale) @ value.to(inputs.working_dtype)).to(inputs.result_dtype)


def local_weights(inputs: Inputs, reach: Reach, scale: float) -> Float[Tensor, "N T S"]:
    """The weights over all keys, times the gain, in float32 at least; zero outside the windows."""
    centre, working = inputs.centre, inputs.working_dtype
    query, key = inputs.query.to(working), inputs.key.to(working)
    v = None if inputs.v is None else inputs.v.to(working)
    scores = dot_scores(query, key, scale) if v is None else additive_scores(query, key, v)
    keys = torch.arange(reach.S, device=query.device)
    positions = reach.positions(centre, query.device)
    visible = reach.visible(keys, reach.middles(positions))  # [N or 1, T, S]
    blind = ~visible.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~visible, -math.inf).masked_fill(blind, 0.0)
    weights = torch.softmax(scores, dim=-1).masked_fill(blind, 0.0)
    if reach.sigma is None:
        return weights
    distance = keys - positions.unsqueeze(-1).to(working)
    return weights * reach.gain(distance)


def differentiable_gradients(
    inputs: Inputs, reach: Reach, scale: float, grad_context: Float[Tensor, "N T E"], needed: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    """Gradients that can be differentiated again, of those inputs that need one, given that of the context."""

    def formula(*tensors: Tensor) -> Tensor:
        again = Inputs(*tensors)
        return local_weights(again, reach, scale) @ again.value.to(again.working_dtype)

    return gradients_through(formula, inputs, (grad_context,), needed)
