"""Diverse beams (Vijayakumar et al. 2016): a beam in groups, each kept from writing what the groups before it write.

    group g takes the best of   log p(y) − λ · (how many hypotheses of the groups before it write this token at this step)

That is Hamming diversity. The handicap λ decides a step's choice and is not part of a hypothesis's log-probability; an end
is no word and has no handicap.

Legend: B items, G groups, L = B · G lanes, W places a lane, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.nn.searching.beams import Chosen, likeliest


@dataclass(frozen=True)
class Diverse:
    """``groups`` share the beam evenly; ``strength`` is λ."""

    groups: int = 2
    strength: float = 0.5

    def __post_init__(self) -> None:
        if self.groups < 2:
            raise ValueError(f"groups must be at least 2: got {self.groups}")
        if not 0 <= self.strength < math.inf:
            raise ValueError(f"strength must not be negative: got {self.strength}")


class Groups:
    """Each group's choice, one group after the other."""

    def __init__(self, how: Diverse, eos: int) -> None:
        self.how, self.eos = how, eos

    def __call__(self, totals: Float[Tensor, "L W"], log_probs: Float[Tensor, "L W V"]) -> Chosen:
        G, (_, W, V) = self.how.groups, log_probs.shape
        totals, log_probs = totals.view(-1, G, W), log_probs.view(-1, G, W, V)
        written = log_probs.new_zeros(len(totals), V)  # how often each token was written at this step
        groups = []
        for group in range(G):
            chosen = likeliest(totals[:, group], log_probs[:, group], self.eos, self.how.strength * written)
            written.scatter_add_(1, chosen.tokens, (chosen.totals > -math.inf).to(written.dtype))
            groups.append(chosen)
        together = [
            torch.stack(parts, dim=1).flatten(0, 1) for parts in zip(*(each[:3] for each in groups), strict=True)
        ]
        over = [ends for lanes in zip(*(each.over for each in groups), strict=True) for ends in lanes]
        return Chosen(together[0], together[1], together[2], over)
