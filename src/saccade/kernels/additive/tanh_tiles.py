"""Computes tanh(q + k) for a tile of queries × keys without a tanh per pair.

tanh is by far the most expensive step of an additive score, and its argument is a sum, so the expensive part can be done
once per row of q and of k. Which identity is accurate depends on the magnitude of the rows:

    small     tanh(q + k) = (tanh q + tanh k) / (1 + tanh q · tanh k)   keeps the relative precision of tiny sums
    moderate  tanh(q + k) = 1 − 2 / (1 + e^2q · e^2k)                   until the product could overflow
    large     tanh(q + k) = 1 − 2 / (1 + e^(2q + 2k))                   any magnitude: 1/∞ is the 0 it should be

Each tanh is then accurate to a few roundings of 1. All three have the form `tanh = shift + gain · y`, where a tile
holds y itself (small) or 1/y (the others).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

SMALL = 0.5
"""Up to this magnitude the addition theorem amplifies the rounding of tanh q by at most 1 / (1 − tanh²(½)) = 1.3."""


@dataclass(frozen=True)
class TanhOfSums:
    """One way to compute tanh(q + k): rows prepared once, a `fill` per tile, and how to compute with what it wrote.

    tanh = shift + gain · y. `times(x, tile)` is x · y and `plus_times(x, z, tile, value=c)` is x + c · z · y: products
    where the tile holds y, quotients where it holds 1/y.
    """

    name: str
    query: Tensor  # [N, T, D]
    key: Tensor  # [N, S, D]
    fill: Callable[[Tensor, Tensor, Tensor, Tensor], None]  # (query rows, key rows, tile, scratch of the tile's shape)
    shift: int
    gain: int
    times: Callable[..., Tensor]
    plus_times: Callable[..., Tensor]

    def slope_times(self, weight: Tensor, weighted: Tensor, tile: Tensor) -> Tensor:
        """weight · (1 − tanh²) / gain², written over `weighted`, which holds weight · y.

        Where tanh = y that is weight − weighted · y; where tanh = 1 − 2y it is weighted − weighted · y.
        """
        start = weight if self.shift == 0 else weighted
        return self.plus_times(start, weighted, tile, value=-1, out=weighted)


def tanh_of_sums(query: Tensor, key: Tensor) -> TanhOfSums:
    """The fastest way that is accurate at these magnitudes; NaN and infinity take the way that propagates them."""
    largest = max(_magnitude(query), _magnitude(key))
    if largest <= SMALL:
        rows = query.tanh(), key.tanh()
        return TanhOfSums("small", *rows, _by_addition_theorem, 0, 1, torch.mul, torch.addcmul)
    if largest <= largest_factor(query.dtype):
        rows = torch.exp(2 * query), torch.exp(2 * key)
        return TanhOfSums("moderate", *rows, _by_product, 1, -2, torch.div, torch.addcdiv)
    return TanhOfSums("large", 2 * query, 2 * key, _by_sum, 1, -2, torch.div, torch.addcdiv)


def largest_factor(dtype: torch.dtype) -> int:
    """The largest |q|, |k| for which e^2q · e^2k is safely a normal number: 20 in float32, 175 in float64."""
    return math.floor(math.log(torch.finfo(dtype).max) / 4 - 2)


def _by_addition_theorem(query: Tensor, key: Tensor, tile: Tensor, scratch: Tensor) -> None:
    torch.add(query, key, out=tile)
    tile.div_(torch.addcmul(tile.new_ones(()), query, key, out=scratch))


def _by_product(query: Tensor, key: Tensor, tile: Tensor, scratch: Tensor) -> None:
    torch.addcmul(tile.new_ones(()), query, key, out=tile)


def _by_sum(query: Tensor, key: Tensor, tile: Tensor, scratch: Tensor) -> None:
    torch.add(query, key, out=tile).exp_().add_(1)


def _magnitude(rows: Tensor) -> float:
    """The largest absolute value; infinite where a NaN is among them."""
    if rows.numel() == 0:
        return 0.0
    low, high = (extreme.item() for extreme in torch.aminmax(rows))
    return math.inf if math.isnan(low) else max(-low, high)
