"""A window around the median of the previous query's weights (Chorowski et al. 2015, section 2.4), or around their mean.

    visible(s)  =  |s − p| ≤ radius,    p = median of the previous query's weights: the first key up to which they sum to half
                                        p = their mean position, rounded, with ``centre="mean"``

Long inputs cost no more than short ones, and similar keys far away are not confused with the right one.

Legend: B batch, H heads, T queries, S keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.attention.checks import check_one_of, check_radius, check_states
from saccade.attention.windows import Extent, Window
from saccade.errors import SaccadeError

Centre = Literal["median", "mean"]


@dataclass(frozen=True, eq=False, repr=False)
class Around(Window):
    """Keys at most ``radius`` away from the centre of the previous query's weights. The centre has no gradient."""

    weights: Float[Tensor, "*batch T S"]
    radius: int
    centre: Centre = "median"

    def visible(self, extent: Extent) -> Tensor:
        T, S = self.weights.shape[-2:]
        if extent.keys != S or T not in (1, extent.queries):
            raise SaccadeError(
                f"around: expected the last weights of {extent.queries} queries over {extent.keys} keys, "
                f"found {T} over {S}: pass what weigh() returned for the query before"
            )
        centre = median(self.weights) if self.centre == "median" else mean_position(self.weights)
        distance = extent.key_positions - centre.unsqueeze(-1)
        return distance.abs() <= self.radius  # [B, (H,) T, S]

    def __repr__(self) -> str:
        about = "" if self.centre == "median" else f", centre={self.centre}"
        return f"around(weights={list(self.weights.shape)}, radius={self.radius}{about})"


def around(weights: Float[Tensor, "*batch T S"], radius: int, centre: Centre = "median") -> Around:
    """Attend within ``radius`` keys of the median of ``weights`` [B, (H,) T, S], those of the previous query, or of their mean
    position.

    >>> import torch
    >>> from saccade.attention.core import weigh
    >>> from saccade.attention.scores import dot
    >>> weights = torch.tensor([[[0.0, 0.2, 0.5, 0.3, 0.0]]])
    >>> (weigh(torch.ones(1, 1, 3), torch.ones(1, 5, 3), score=dot, window=around(weights, 1)) * 3).round().tolist()
    [[[0.0, 1.0, 1.0, 1.0, 0.0]]]
    """
    check_states(weights=weights)
    check_radius(radius, 0)
    check_one_of(get_args(Centre), centre=centre)
    return Around(weights, radius, centre)


def median(weights: Float[Tensor, "*batch S"]) -> Int[Tensor, "*batch"]:
    """The first key up to which the weights sum to half; 0 where there are none."""
    reached = weights.detach().float().cumsum(-1)
    half = reached[..., -1:] / 2
    return (reached < half).sum(-1)


def mean_position(weights: Float[Tensor, "*batch S"]) -> Int[Tensor, "*batch"]:
    """The mean of the positions under the weights, rounded; 0 where there are none."""
    shares = weights.detach().float()
    positions = torch.arange(shares.shape[-1], dtype=shares.dtype, device=shares.device)
    total = shares.sum(-1)
    mean = (shares * positions).sum(-1) / total.masked_fill(total == 0, 1.0)
    return mean.round().long()
