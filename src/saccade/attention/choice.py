"""Hard attention: each query reads one value, drawn from its weights or the likeliest (Xu et al. 2015).

    s̃ₜ ~ Categorical(αₜ)   or   s̃ₜ = argmaxₛ αₜₛ,        contextₜ = value[s̃ₜ]

``hard(weights)`` chooses, ``read(choice, value)`` reads. A choice has no gradient: REINFORCE uses ``log_prob``,

    ∇ E[R] = E[(R − b) ∇ log p(s̃)]        for any b that does not depend on s̃, p = α / Σ α.

Legend: B batch, H heads (optional), T queries, S keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.attention.checks import check_flag, check_states
from saccade.kernels.dtypes import working_dtype


@dataclass(frozen=True, eq=False)
class Choice:
    """One key per query.

    Attributes:
        weights: the weights that it was chosen by [*batch, T, S].
        index: the chosen keys [*batch, T]; −1 for a query that sees nothing.
    """

    weights: Float[Tensor, "*batch T S"]
    index: Int[Tensor, "*batch T"]

    @cached_property  # prediction does not need it
    def log_prob(self) -> Float[Tensor, "*batch T"]:
        """log p of the chosen keys, p = α / Σ α, with its gradient; 0 for a query that sees nothing. In float32 at least."""
        weights = self.weights.to(working_dtype(self.weights.dtype))
        if not weights.shape[-1]:
            return weights.sum(-1)
        seen = self.index >= 0
        chosen = weights.gather(-1, self.index.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        return (torch.where(seen, chosen, 1.0) / torch.where(seen, weights.sum(-1), 1.0)).log()

    @property
    def entropy(self) -> Float[Tensor, "*batch T"]:
        """H[p] = −Σₛ p log p of each query, p = α / Σ α; 0 for a query that sees nothing."""
        weights = self.weights.to(working_dtype(self.weights.dtype))
        total = weights.sum(-1, keepdim=True)
        entropy: Tensor = torch.special.entr(weights / torch.where(total == 0, 1.0, total)).sum(-1)
        return entropy


def hard(weights: Float[Tensor, "*batch T S"], *, sample: bool = False) -> Choice:
    """The likeliest key of each query, or, with ``sample``, one drawn from its weights by PyTorch's global generator.

    A row of weights need not sum to 1, as under a window with a gain: a key is drawn in proportion to its weight, and
    ``log_prob`` and ``entropy`` are those of that distribution.

    >>> choice = hard(torch.tensor([[[0.1, 0.9], [0.6, 0.4]]]))
    >>> choice.index.tolist(), [round(number, 4) for number in choice.log_prob[0].exp().tolist()]
    ([[1, 0]], [0.9, 0.6])
    """
    check_states(weights=weights)
    check_flag(sample=sample)
    if not weights.shape[-1]:
        return Choice(weights, weights.new_full(weights.shape[:-1], -1, dtype=torch.int64))
    # half precision has too few numbers to draw with
    shares = weights.detach().to(working_dtype(weights.dtype))
    # w / e with e ~ Exponential(1) is largest at key s with probability wₛ / Σ w: no inverse of a cumulative sum, no
    # synchronisation with the device.
    tiny = torch.finfo(shares.dtype).tiny
    ranks = shares / torch.empty_like(shares).exponential_().clamp_min(tiny) if sample else shares
    most, index = ranks.max(-1)
    return Choice(weights, torch.where(most != 0, index, -1))  # a NaN is chosen: it shows in log_prob
