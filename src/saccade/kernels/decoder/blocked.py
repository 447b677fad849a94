"""A decoder's step and its gradients in plain PyTorch, without storing tanh(q + k), on any device.

With g the gradient of a step's scores and ∂c that of its context,

    g_s      =  weights_s (∂w_s − Σ_j weights_j ∂w_j)          ∂w_s = value_s · ∂c  (+ the gradient of the weights)
    ∂q       =  v ∘ Σ_s g_s (1 − tanh²(q + k_s))               additive;   scale · Σ_s g_s k_s        dot

and for the memory, over the steps t of a loop at once,

    ∂k_s     =  v ∘ Σ_t g_ts (1 − tanh²(q_t + k_s))            additive;   scale · Σ_t g_ts q_t       dot
    ∂v       =  Σ_ts g_ts tanh(q_t + k_s)
    ∂value_s =  Σ_t weights_ts ∂c_t

A step passes what the second group needs as a row, `[query | g | weights | ∂c]`.

tanh is by far the most expensive step on a CPU, and the keys are the same at every step of a loop: their part is computed
once (`Ready`), by the identities of additive/tanh_tiles.py, and each pair then costs a product and a quotient.

Legend: N items, T steps, S keys, D width of queries and keys, E width of values, P = D + 2 S + E.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saccade.kernels.additive.tanh_tiles import SMALL, largest_factor
from saccade.kernels.dtypes import without_autocast, working_dtype_of

TILE_ELEMENTS = 1 << 18
"""Numbers in one tile of q + k: a few float32 tiles stay in the processor's cache."""


Fill = Callable[[Tensor, Tensor, Tensor], Tensor]


class Ready:
    """A memory's keys and values in the working dtype, and the keys' part of tanh(q + k)."""

    def __init__(self, key: Float[Tensor, "N S D"], value: Float[Tensor, "N S E"]) -> None:
        working = working_dtype_of(key, value)
        self.key, self.value = key.detach().to(working), value.detach().to(working)
        self._rows: dict[str, Tensor] = {}
        self._tile: Tensor | None = None
        # On other devices reading the largest value would synchronise, which a captured CUDA graph cannot.
        self._largest = largest(self.key) if key.device.type == "cpu" else math.inf

    def tiles(self, query: Float[Tensor, "N D"]) -> Iterator[tuple[slice, Tensor]]:
        """Slices of the items, with tanh(q + k) [n, S, D] of each, in one reused buffer."""
        queries, keys, fill = self.sums(query)
        if self._tile is None:  # reused: allocating costs more than the computation
            self._tile = keys.new_empty(items_in_a_tile(keys), *keys.shape[1:])
        for items in pieces(keys):
            rows = keys[items]
            yield items, fill(queries[items, None], rows, self._tile[: len(rows)])

    def sums(self, query: Float[Tensor, "... D"]) -> tuple[Tensor, Tensor, Fill]:
        """Prepared rows of queries and of keys, and the function that fills a tile with tanh(q + k) from them."""
        if self._largest == math.inf:
            return query, self.key, _by_sum
        most = max(self._largest, largest(query))
        if most <= SMALL:
            return query.tanh(), self._once("small", torch.tanh), _by_addition_theorem
        if most <= largest_factor(self.key.dtype):
            return torch.exp(2 * query), self._once("moderate", lambda key: torch.exp(2 * key)), _by_product
        return query, self.key, _by_sum

    def _once(self, name: str, function: Callable[[Tensor], Tensor]) -> Tensor:
        if name not in self._rows:
            self._rows[name] = function(self.key)
        return self._rows[name]


prepare = Ready


def largest(tensor: Tensor) -> float:
    """The largest absolute value; infinite where a NaN is among them."""
    if tensor.numel() == 0:
        return 0.0
    low, high = (extreme.item() for extreme in torch.aminmax(tensor))
    return math.inf if math.isnan(low) else max(-low, high)


def _by_addition_theorem(query: Tensor, key: Tensor, tile: Tensor) -> Tensor:
    below = torch.addcmul(tile.new_ones(()), query, key)
    return torch.add(query, key, out=tile).div_(below)


def _by_product(query: Tensor, key: Tensor, tile: Tensor) -> Tensor:
    one = tile.new_ones(())
    return torch.add(one, torch.addcmul(one, query, key, out=tile).reciprocal_(), alpha=-2, out=tile)


def _by_sum(query: Tensor, key: Tensor, tile: Tensor) -> Tensor:
    return torch.add(query, key, out=tile).tanh_()


class Parts(NamedTuple):
    """Views of the parts of rows [..., P]."""

    query: Float[Tensor, "... D"]
    grad_scores: Float[Tensor, "... S"]
    weights: Float[Tensor, "... S"]
    grad_context: Float[Tensor, "... E"]

    @classmethod
    def of(cls, rows: Tensor, S: int, D: int) -> Parts:
        return cls(rows[..., :D], rows[..., D : D + S], rows[..., D + S : D + 2 * S], rows[..., D + 2 * S :])


def look(
    ready: Ready,
    query: Float[Tensor, "N D"],
    v: Float[Tensor, " D"] | None,
    scale: float,
    real: Bool[Tensor, "N S"] | None,
    dtype: torch.dtype,
) -> tuple[Float[Tensor, "N E"], Float[Tensor, "N S"]]:
    """Context in ``dtype``, and weights."""
    key, value = ready.key, ready.value
    query = query.detach().to(key.dtype)
    with without_autocast(key):
        if v is None:
            scores = _of_rows(query * scale, key)
        else:
            v, scores = v.detach().to(key.dtype), key.new_empty(key.shape[:2])
            for items, hidden in ready.tiles(query):
                torch.matmul(hidden, v, out=scores[items])
        if real is None:
            weights = scores.softmax(-1)
        else:
            unseen = real.logical_not()
            # A row that sees nothing is NaN here, and set to 0 next.
            weights = scores.masked_fill_(unseen, -math.inf).softmax(-1).masked_fill_(unseen, 0.0)
        context = (weights.unsqueeze(1) @ value).squeeze(1)
    return context.to(dtype), weights


def look_back(
    ready: Ready,
    query: Float[Tensor, "N D"],
    v: Float[Tensor, " D"] | None,
    scale: float,
    weights: Float[Tensor, "N S"],
    grad_context: Float[Tensor, "N E"],
    grad_weights: Float[Tensor, "N S"] | None,
) -> tuple[Float[Tensor, "N D"], Float[Tensor, "N P"]]:
    """The gradient of the query, and the row that the memory's gradients need of this step."""
    key, value = ready.key, ready.value
    q, grad_context = query.to(key.dtype), grad_context.to(key.dtype)
    with without_autocast(key):
        towards = _of_rows(grad_context, value)  # [N, S]
        if grad_weights is not None:
            towards = towards + grad_weights
        grad_scores = weights * (towards - (weights * towards).sum(-1, keepdim=True))
        if v is None:
            grad_query = (grad_scores.unsqueeze(1) @ key).squeeze(1) * scale
        else:
            bent = torch.empty_like(q)
            for items, hidden in ready.tiles(q):
                bent[items] = (grad_scores[items, None] @ hidden.square_()).squeeze(1)
            grad_query = v.to(key.dtype) * (grad_scores.sum(-1, keepdim=True) - bent)
        row = torch.cat([q, grad_scores, weights, grad_context], dim=-1)
    return grad_query.to(query.dtype), row


def gather(
    ready: Ready, v: Float[Tensor, " D"] | None, scale: float, rows: Float[Tensor, "T N P"]
) -> tuple[Float[Tensor, "N S D"], Float[Tensor, "N S E"], Float[Tensor, " D"] | None]:
    """The gradients of key, value and v from the rows of all steps, in the rows' dtype."""
    query, grad_scores, weights, grad_context = Parts.of(rows, *ready.key.shape[1:])
    with without_autocast(rows):
        grad_value = over_steps(weights, grad_context)
        if v is None:
            return over_steps(grad_scores, query) * scale, grad_value, None
        grad_key, grad_v = _gather_additive(ready, query, v.to(rows.dtype), grad_scores)
    return grad_key, grad_value, grad_v


def over_steps(at_keys: Float[Tensor, "T N S"], rows: Float[Tensor, "T N W"]) -> Float[Tensor, "N S W"]:
    """Σ_t at_keys[t, n, s] · rows[t, n], one product of matrices an item."""
    return at_keys.permute(1, 2, 0) @ rows.transpose(0, 1)


def _gather_additive(ready: Ready, query: Tensor, v: Tensor, grad_scores: Tensor) -> tuple[Tensor, Tensor]:
    grad_key, grad_v = torch.empty_like(ready.key), torch.zeros_like(v)
    queries, keys, fill = ready.sums(query)
    room = keys.new_empty(4, items_in_a_tile(keys), *keys.shape[1:])
    for items in pieces(keys):
        rows = keys[items]
        tile, weighted, turned, bent = room[:, : len(rows)]
        turned.zero_()  # Σ_t g tanh
        bent.zero_()  # Σ_t g tanh²
        for q, g in zip(queries[:, items, None], grad_scores[:, items, :, None], strict=True):  # [n, 1, D], [n, S, 1]
            hidden = fill(q, rows, tile)
            turned += torch.mul(hidden, g, out=weighted)
            bent.addcmul_(weighted, hidden)
        grad_key[items] = v * (grad_scores[:, items].sum(0).unsqueeze(-1) - bent)
        grad_v += turned.sum((0, 1))
    return grad_key, grad_v


def _of_rows(one: Float[Tensor, "N W"], rows: Float[Tensor, "N S W"]) -> Float[Tensor, "N S"]:
    """one · rows[s]; in this order the product is several times faster than rows times a column."""
    return (one.unsqueeze(1) @ rows.mT).squeeze(1)


def pieces(key: Float[Tensor, "N S D"]) -> Iterator[slice]:
    """Slices of the items whose q + k is a tile."""
    most = items_in_a_tile(key)
    return (slice(start, start + most) for start in range(0, len(key), most))


def items_in_a_tile(key: Float[Tensor, "N S D"]) -> int:
    N, S, D = key.shape
    return max(1, min(N, TILE_ELEMENTS // max(1, S * D)))
