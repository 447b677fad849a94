"""Which keys a query sees in local attention, and where they begin (Luong et al. 2015, section 3.2).

    middle   c_t = ⌊p_t⌋            local-p: p_t comes from the network        local-m: p_t = t + shift
    seen     s ∈ [c_t − before, c_t + after] ∩ [0, length)
    gain     exp(−(s − p_t)² / 2σ²)

A query's window is the W = min(before + after + 1, S) keys from ``first_t`` on. At the ends of a sequence it is pushed inwards,
so that it lies within [0, S) and is one piece of memory; which of its keys are seen is said beside it.

Legend: N batch with heads, T queries, S keys, D width of queries and keys, E width of values, W keys in a window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.errors import SaccadeError


class Inputs(NamedTuple):
    """The tensors that local attention has gradients for. Without ``v`` the score is a dot, with it additive."""

    query: Float[Tensor, "N T D"]
    key: Float[Tensor, "N S D"]
    value: Float[Tensor, "N S E"]
    centre: Float[Tensor, "N T"] | None
    v: Float[Tensor, "#N D"] | None


class LocalWeights(NamedTuple):
    """Weights inside the windows: ``weights[n, t, w]`` is what query t gives to key ``first[n, t] + w``."""

    weights: Float[Tensor, "N T W"]
    first: Int[Tensor, "N T"]

    def over(self, S: int) -> Float[Tensor, "N T S"]:
        """The same over all S keys, zero outside the windows."""
        places = self.first.unsqueeze(-1) + torch.arange(self.weights.shape[-1], device=self.first.device)
        return self.weights.new_zeros(*self.first.shape, S).scatter_(-1, places, self.weights)


@dataclass(frozen=True, eq=False)
class Reach:
    """How far T queries see over S keys. Everything it returns for a local-m window has 1 where N stands."""

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
        """⌊p⌋. What is so far out that it sees nothing is brought near, where an integer can hold it; so is NaN."""
        nowhere = -self.after - 1
        if not positions.is_floating_point():
            return positions.clamp(nowhere, self.S + self.before)
        return positions.detach().floor().clamp(nowhere, self.S + self.before).nan_to_num(nan=nowhere).long()

    def first(self, middles: Int[Tensor, "#N T"]) -> Int[Tensor, "#N T"]:
        """The window's first key."""
        return (middles - self.before).clamp(0, self.S - self.width)

    def seen(
        self, keys: Int[Tensor, "... K"], middles: Int[Tensor, "#n t"], items: slice = slice(None)
    ) -> Bool[Tensor, "#n t K"]:
        """Whether each query sees each of the keys at these places [K] or [n, t, K]."""
        middles = middles.unsqueeze(-1)
        seen = (keys >= middles - self.before) & (keys <= middles + self.after)
        if self.lengths is not None:
            seen = seen & (keys < self.lengths[items, None, None].to(keys.device))
        return seen

    def gain(self, distance: Float[Tensor, "#n t K"]) -> Float[Tensor, "#n t K"]:
        """exp(−(s − p)² / 2σ²) of the distances s − p."""
        if self.sigma is None:
            raise SaccadeError("local attention: a window without sigma has no gain")
        return torch.exp(-(distance**2) / (2 * self.sigma**2))


def reach_of(
    query: Tensor,
    key: Tensor,
    *,
    radius: int,
    ahead: int | None,
    shift: int,
    centre: Tensor | None,
    lengths: Tensor | None,
    sigma: float | None,
) -> Reach:
    """The reach these arguments mean; arguments that mean nothing are named."""
    N, T, _ = query.shape
    after = radius if ahead is None else ahead
    if radius < 0 or after < 0:
        raise SaccadeError(f"local attention: radius and ahead must not be negative: got {radius} and {after}")
    if sigma is not None and not sigma > 0:
        raise SaccadeError(f"local attention: sigma must be positive: got {sigma}")
    if centre is not None and centre.shape != (N, T):
        raise SaccadeError(f"local attention: expected centre [N, T] = {[N, T]}, found {list(centre.shape)}")
    if lengths is not None and lengths.shape != (N,):
        raise SaccadeError(f"local attention: expected lengths [N] = {[N]}, found {list(lengths.shape)}")
    return Reach(T, key.shape[1], radius, after, shift, lengths, sigma)


def checked(query: Tensor, key: Tensor, value: Tensor, centre: Tensor | None, v: Tensor | None) -> Inputs:
    """The inputs, ``v`` as [1, D] or [N, D]; what does not fit together is named."""
    shapes = [list(tensor.shape) for tensor in (query, key, value)]
    N = query.shape[0]
    if any(len(shape) != 3 for shape in shapes) or key.shape[0] != N or value.shape[:2] != key.shape[:2]:
        raise SaccadeError(
            f"local attention: expected query [N, T, D], key [N, S, D] and value [N, S, E], found {', '.join(map(str, shapes))}"
        )
    if query.shape[2] != key.shape[2] or (v is not None and v.shape[-1] != query.shape[2]):
        found = [tensor.shape[-1] for tensor in (query, key, v) if tensor is not None]
        raise SaccadeError(
            f"local attention: expected query, key and v of one width, found {', '.join(map(str, found))}"
        )
    if v is not None and v.shape[:-1] not in ((), (1,), (N,)):
        raise SaccadeError(f"local attention: expected v [D] or [N, D] with N = {N}, found {list(v.shape)}")
    return Inputs(query, key, value, centre, None if v is None else v.reshape(-1, v.shape[-1]))
