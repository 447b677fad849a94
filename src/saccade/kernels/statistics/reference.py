"""Statistics of attention weights that take less memory than the weights, computed from all of them.

With weights p_ts = exp(score_ts − lse_t) over the keys s that query t sees,

    lse_t = log Σ_s exp(score_ts)                          entropy_t = −Σ_s p_ts log p_ts, in nats
    maximum_t = max_s p_ts, at argmax_t                    received_s = Σ_t p_ts
    top_t = the k greatest p_ts and where they are         residual_t = Σ_s p_ts without them

The greatest are in falling order, ties by the lower key (of ties at the cut, any may be kept). A weight of 0 among them has
key 0: it is padding. A query that sees nothing has lse −inf, and 0 in all the rest.

Legend: N items (batch × heads), B batch, H heads, T queries, S keys, D width, k kept per row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from saccade.errors import SaccadeError
from saccade.kernels.visibility import Visibility


@dataclass(frozen=True)
class Wanted:
    """Which statistics to compute, besides log-sum-exp; ``top`` is the number of weights to keep per row."""

    top: int = 0
    entropy: bool = False
    maximum: bool = False
    received: bool = False

    def __post_init__(self) -> None:
        if self.top < 0:
            raise SaccadeError(f"top must not be negative: got {self.top}")


@dataclass(frozen=True, eq=False)
class Statistics:
    """Computed statistics; None where not requested. Dtypes: float32 (float64 for float64 scores), indices int64."""

    lse: Float[Tensor, "*batch T"]
    maximum: Float[Tensor, "*batch T"] | None = None
    argmax: Int[Tensor, "*batch T"] | None = None
    entropy: Float[Tensor, "*batch T"] | None = None
    received: Float[Tensor, "*batch S"] | None = None
    top_index: Int[Tensor, "*batch T k"] | None = None
    top_weights: Float[Tensor, "*batch T k"] | None = None
    residual: Float[Tensor, "*batch T"] | None = None

    def per_head(self, heads: int) -> Statistics:
        """The same with the axis of items [N, …] split into [B, H, …]."""
        return replace(self, **{name: tensor.unflatten(0, (-1, heads)) for name, tensor in self.tensors().items()})

    def tensors(self) -> dict[str, Tensor]:
        """The computed ones, by name."""
        tensors = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def statistics(
    query: Float[Tensor, "N T D"],
    key: Float[Tensor, "N S D"],
    visibility: Visibility,
    *,
    score: Callable[[Tensor, Tensor], Tensor],
    wanted: Wanted,
    heads: int = 1,
) -> Statistics:
    """Statistics of the softmax of ``score(query, key)`` [N, T, S]. Item n has the lengths of n // ``heads``."""
    with torch.no_grad():
        return of_scores(visibility.hide(score(query, key), heads), wanted)


def of_scores(scores: Float[Tensor, "N T S"], wanted: Wanted) -> Statistics:
    """Statistics of the softmax of these scores, −inf where a key is not visible. Half precision is computed in float32."""
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    lse = torch.logsumexp(scores, -1)
    blind = (lse == -math.inf).unsqueeze(-1)
    weights = torch.softmax(scores.masked_fill(blind, 0.0), -1).masked_fill_(blind, 0.0)
    found: dict[str, Tensor] = {}
    if wanted.top:
        found |= _top(weights, wanted.top)
    if wanted.entropy:
        found["entropy"] = torch.special.entr(weights).sum(-1) + 0.0  # -0 becomes 0
    if wanted.maximum:
        # A row without keys has no maximum; pad it with one empty key.
        found["maximum"], argmax = (weights if weights.shape[-1] else functional.pad(weights, (0, 1))).max(-1)
        found["argmax"] = argmax.masked_fill(blind.squeeze(-1), 0)
    if wanted.received:
        found["received"] = weights.sum(-2)
    return Statistics(lse, **found)


def _top(weights: Tensor, k: int) -> dict[str, Tensor]:
    index = weights.topk(min(k, weights.shape[-1]), sorted=False).indices.sort(-1).values
    kept, order = weights.gather(-1, index).sort(dim=-1, descending=True, stable=True)
    index = index.gather(-1, order)
    # A sum of the rest, not a difference of sums: exactly 0 when nothing is left, and never negative.
    residual = weights.scatter(-1, index, 0.0).sum(-1)
    return {"top_index": index.masked_fill(kept == 0, 0), "top_weights": kept, "residual": residual}
