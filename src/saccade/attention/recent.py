"""A window around the median of the previous query's weights (Chorowski et al. 2015, section 2.4).

    visible(s)  =  |s − p| ≤ radius,    p = median of the previous query's weights: the first key up to which they sum to half

Long inputs cost no more than short ones, and similar keys far away are not confused with the right one.

Legend: B batch, H heads, T queries, S keys.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from saccade.attention.checks import check_radius, check_states
from saccade.attention.windows import Extent, Window
from saccade.errors import SaccadeError


@dataclass(frozen=True, eq=False, repr=False)
class Around(Window):
    """Keys at most ``radius`` away from the median of the previous query's weights. The median has no gradient."""

    weights: Float[Tensor, "*batch T S"]
    radius: int

    def visible(self, extent: Extent) -> Tensor:
        T, S = self.weights.shape[-2:]
        if extent.keys != S or T not in (1, extent.queries):
            raise SaccadeError(
                f"around: expected the last weights of {extent.queries} queries over {extent.keys} keys, "
                f"found {T} over {S}: pass what weigh() returned for the query before"
            )
        distance = extent.key_positions - median(self.weights).unsqueeze(-1)
        return distance.abs() <= self.radius  # [B, (H,) T, S]

    def __repr__(self) -> str:
        return f"around(weights={list(self.weights.shape)}, radius={self.radius})"


def around(weights: Float[Tensor, "*batch T S"], radius: int) -> Around:
    """Attend within ``radius`` keys of the median of ``weights`` [B, (H,) T, S], those of the previous query.

    >>> import torch
    >>> from saccade.attention.core import weigh
    >>> from saccade.attention.scores import dot
    >>> weights = torch.tensor([[[0.0, 0.2, 0.5, 0.3, 0.0]]])
    >>> (weigh(torch.ones(1, 1, 3), torch.ones(1, 5, 3), score=dot, window=around(weights, 1)) * 3).round().tolist()
    [[[0.0, 1.0, 1.0, 1.0, 0.0]]]
    """
    check_states(weights=weights)
    check_radius(radius, 0)
    return Around(weights, radius)


def median(weights: Float[Tensor, "*batch S"]) -> Int[Tensor, "*batch"]:
    """The first key up to which the weights sum to half; 0 where there are none."""
    reached = weights.detach().float().cumsum(-1)
    half = reached[..., -1:] / 2
    return (reached < half).sum(-1)
