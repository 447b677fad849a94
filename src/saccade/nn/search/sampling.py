"""Outputs drawn by chance: temperature, the k likeliest (Fan et al. 2018), the nucleus (Holtzman et al. 2020).

    q(y) ∝ p(y | …)^(1/T)   over the k likeliest tokens, and of these over the fewest that hold a share ``top_p`` of q

Each draw inverts the cumulated q at one number, uniform in [0, 1). The numbers come from a generator an item, so what is
drawn for an item does not depend on the items beside it.

Legend: L lanes (one a sample), V vocabulary, T temperature.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.nn.search.topk import Chosen


@dataclass(frozen=True)
class Sampling:
    """How to draw: below 1 a ``temperature`` favours likely tokens, above 1 unlikely ones; ``top_k`` and ``top_p`` leave the
    tail out. The same ``seed`` draws the same."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        if not self.temperature > 0 or math.isinf(self.temperature):
            raise ValueError(f"temperature must be above 0: got {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k must be at least 1: got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1: got {self.top_p}")
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"seed must be between 0 and {2**31 - 1}: got {self.seed}")


class Draws:
    """One token a lane and step, drawn by chance; lanes are one place wide."""

    def __init__(
        self, how: Sampling, limits: Sequence[int], seeds: Sequence[int], samples: int, eos: int, device: torch.device
    ) -> None:
        self.how, self.eos, self.step = how, eos, 0
        most, rows = max(limits, default=0), []
        for limit, seed in zip(limits, seeds, strict=True):
            # A generator listens to the last 32 bits of its seed alone: both seeds must be in them.
            generator = torch.Generator().manual_seed(zlib.crc32(f"{how.seed} {seed}".encode()))
            drawn = torch.rand(samples, limit, generator=generator, dtype=torch.float64)
            rows.append(torch.nn.functional.pad(drawn, (0, most - limit)))
        uniform = torch.cat(rows) if rows else torch.zeros(0, 0)  # [L, most]
        self.uniform = uniform.to(
            device, torch.float32 if device.type == "mps" else torch.float64
        )  # mps has no doubles

    def __call__(self, totals: Float[Tensor, "L W"], log_probs: Float[Tensor, "L W V"]) -> Chosen:
        tokens = draw(log_probs.squeeze(1), self.how, self.uniform[:, self.step]).unsqueeze(1)  # [L, 1]
        self.step += 1
        totals = totals + log_probs.squeeze(1).gather(1, tokens)
        ends = tokens == self.eos
        finished = zip(ends.flatten().tolist(), totals.flatten().tolist(), strict=True)
        over = [[(0, total)] if end and total > -math.inf else [] for end, total in finished]
        return Chosen(totals.masked_fill(ends, -math.inf), torch.zeros_like(tokens), tokens, over)


def draw(log_probs: Float[Tensor, "L V"], how: Sampling, uniform: Float[Tensor, " L"]) -> Int[Tensor, " L"]:
    """The token at which the cumulated q passes ``uniform``, likely tokens first."""
    V = log_probs.shape[-1]
    # From the likeliest on: however low the temperature, that one stays at 0 when the others go to −inf.
    below = log_probs.to(uniform.dtype) - log_probs.amax(dim=-1, keepdim=True)
    kept, index = (below / how.temperature).topk(min(how.top_k or V, V), dim=-1)
    q = torch.softmax(kept, dim=-1)
    if how.top_p < 1:
        before = q.cumsum(-1) - q
        q = q.masked_fill(before >= how.top_p, 0.0)
    reached = q.cumsum(-1)
    # The first that passes the mark cannot be one of q = 0: there nothing is added.
    place = torch.searchsorted(reached, uniform.unsqueeze(1) * reached[:, -1:], right=True)
    return index.gather(1, place.clamp_max(index.shape[1] - 1)).squeeze(1)
