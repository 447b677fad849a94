"""Hard attention: each query reads one value, drawn from its weights or the likeliest (Xu et al. 2015).

    s̃ₜ ~ Categorical(αₜ)   or   s̃ₜ = argmaxₛ αₜₛ,        contextₜ = value[s̃ₜ]

``hard(weights)`` chooses, ``read(choice, value)`` reads. A choice has no gradient: REINFORCE uses ``log_prob``,

    ∇ E[R] = E[(R − b) ∇ log p(s̃)]        for any b that does not depend on s̃.

Legend: B batch, H heads (optional), T queries, S keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.attention.checks import check_states


@dataclass(frozen=True, eq=False)
class Choice:
    """One key per query.

    Attributes:
        weights: the distributions α that it was chosen from [*batch, T, S].
        index: the chosen keys [*batch, T]; −1 for a query that sees nothing.
        log_prob: log α of the chosen keys, with its gradient [*batch, T]; 0 for a query that sees nothing.
    """

    weights: Float[Tensor, "*batch T S"]
    index: Int[Tensor, "*batch T"]
    log_prob: Float[Tensor, "*batch T"]

    @property
    def entropy(self) -> Float[Tensor, "*batch T"]:
        """H[α] = −Σₛ α log α of each query."""
        entropy: Tensor = torch.special.entr(self.weights).sum(-1)
        return entropy


def hard(weights: Float[Tensor, "*batch T S"], *, sample: bool = False) -> Choice:
    """The likeliest key of each query, or, with ``sample``, one drawn from its weights by PyTorch's global generator.

    A row of weights need not sum to 1: a key is drawn in proportion to its weight.

    >>> choice = hard(torch.tensor([[[0.1, 0.9], [0.6, 0.4]]]))
    >>> choice.index.tolist(), [round(number, 4) for number in choice.log_prob[0].exp().tolist()]
    ([[1, 0]], [0.9, 0.6])
    """
    check_states(weights=weights)
    if not weights.shape[-1]:
        nothing = weights.sum(-1)
        return Choice(weights, torch.full_like(nothing, -1, dtype=torch.int64), nothing)
    shares = weights.detach()
    # w / e with e ~ Exponential(1) is largest at key s with probability wₛ / Σ w: no inverse of a cumulative sum, no
    # synchronisation with the device.
    ranks = shares / torch.empty_like(shares).exponential_() if sample else shares
    most, index = ranks.max(-1)
    seen = most > 0
    chosen = weights.gather(-1, index.unsqueeze(-1)).squeeze(-1)
    log_prob = torch.where(seen, chosen, 1.0).clamp_min(torch.finfo(weights.dtype).tiny).log()
    return Choice(weights, torch.where(seen, index, -1), log_prob)
