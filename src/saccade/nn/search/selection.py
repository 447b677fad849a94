"""Selects the continuations of a step: the likeliest ones, those of diverse groups, or samples.

A *lane* is an independent beam: one per item, per group of a diverse beam, or per sample.

Diverse beams (Vijayakumar et al. 2016) split a beam into groups, each kept from writing what the groups before it write:
group g takes the best of log p(y) − λ · (number of hypotheses of earlier groups that write this token at this step). That is
Hamming diversity. The handicap λ affects the selection and is not part of a hypothesis's log-probability; EOS has none.

Sampling by temperature, the k likeliest (Fan et al. 2018) or the nucleus (Holtzman et al. 2020):

    q(y) ∝ p(y | …)^(1/T)   over the k likeliest tokens, and of these over the fewest with a total share ``top_p`` of q

Each draw inverts the cumulative q at one number, uniform in [0, 1). The numbers come from one generator per item, so an
item's samples do not depend on the other items.

Legend: L lanes, W places per lane, V vocabulary, C candidates per lane, B items, G groups, T temperature; a candidate's index
is place · V + token.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.nn.cache import Room
from saccade.nn.config import check
from saccade.nn.cuda_graphs import like

CUT = 64  # numbers per piece when the largest are searched piece by piece
PIECES_PAY_FROM = 1 << 12  # numbers per lane from which that is faster on a GPU


class Chosen(NamedTuple):
    """The live hypotheses after a step: place j of a lane continues ``places[lane, j]`` with ``tokens[lane, j]``.
    ``over[lane]`` lists the (place, log-probability) of those that ended."""

    totals: Float[Tensor, "L W"]
    places: Int[Tensor, "L W"]
    tokens: Int[Tensor, "L W"]
    over: list[list[tuple[int, float]]]


# One step's selection: the log-probabilities so far [L, W] and of the next token [L, W, V] → the new hypotheses.
Choose = Callable[[Tensor, Tensor], Chosen]


def select(part: Any, rows: Int[Tensor, " N"]) -> Any:
    """These rows of a memory or state: tensors by their first axis, tuples part by part."""
    if isinstance(part, Tensor):
        return part.index_select(0, rows)
    if isinstance(part, tuple):
        return like(part, [select(item, rows) for item in part])
    return part


def follow(state: Any, rows: Int[Tensor, " N"]) -> Any:
    """The state of hypotheses that continue these rows; caches with a line of descent (:class:`saccade.nn.cache.Room`) are
    not copied."""
    if isinstance(state, Room):
        return state.followed(rows)
    if isinstance(state, tuple):
        return like(state, [follow(item, rows) for item in state])
    return select(state, rows)


def likeliest(
    totals: Float[Tensor, "L W"],
    log_probs: Float[Tensor, "L W V"],
    eos: int,
    handicap: Float[Tensor, "L V"] | None = None,
) -> Chosen:
    """The W likeliest hypotheses that continue; those that end among the W likeliest of all are over.

    ``handicap`` is subtracted when candidates are compared, not from their log-probabilities.
    """
    _, W, V = log_probs.shape
    best, index = candidates(totals, log_probs, handicap)
    ends, places = (index % V == eos)[:, :W], (index // V)[:, :W]
    over: list[list[tuple[int, float]]] = []
    for row_ends, row_places, row_best in zip(ends.tolist(), places.tolist(), best[:, :W].tolist(), strict=True):
        found = zip(row_ends, row_places, row_best, strict=True)
        over.append([(place, total) for end, place, total in found if end and total > -math.inf])
    return Chosen(*going_on(best, index, W, V, eos), over)


def candidates(
    totals: Float[Tensor, "L W"], log_probs: Float[Tensor, "L W V"], handicap: Float[Tensor, "L V"] | None = None
) -> tuple[Float[Tensor, "L C"], Int[Tensor, "L C"]]:
    """The log-probabilities of the likeliest C = 2 W continuations of each lane, and their indices: W of them may end."""
    _, W, V = log_probs.shape
    sums = (totals.unsqueeze(-1) + log_probs).flatten(1)  # [L, W · V]
    count = min(2 * W, W * V)
    if handicap is not None:
        index = (sums - handicap.repeat(1, W)).topk(count, dim=-1).indices
        return sums.gather(1, index), index
    if sums.is_cuda and sums.shape[1] >= PIECES_PAY_FROM:
        return largest(sums, count)
    best, index = sums.topk(count, dim=-1)
    return best, index


def largest(sums: Float[Tensor, "L N"], count: int) -> tuple[Float[Tensor, "L C"], Int[Tensor, "L C"]]:
    """``sums.topk(count)`` with one pass over the numbers instead of many: each lane is cut into pieces, and the largest
    ``count`` numbers lie in the ``count`` pieces with the largest maxima."""
    N = sums.shape[1]
    pieces = torch.nn.functional.pad(sums, (0, -N % CUT), value=-math.inf).unflatten(1, (-1, CUT))  # [L, N / CUT, CUT]
    kept = min(count, pieces.shape[1])
    where = pieces.amax(dim=-1).topk(kept, dim=-1).indices  # [L, kept]
    found = pieces.gather(1, where.unsqueeze(-1).expand(-1, -1, CUT)).flatten(1)  # [L, kept · CUT]
    best, at = found.topk(count, dim=-1)
    index = where.gather(1, at // CUT) * CUT + at % CUT
    return best, index.clamp_max(N - 1)  # padding beyond the last number is −inf, never a real candidate


def going_on(
    best: Float[Tensor, "L C"], index: Int[Tensor, "L C"], W: int, V: int, eos: int
) -> tuple[Float[Tensor, "L W"], Int[Tensor, "L W"], Int[Tensor, "L W"]]:
    """The W best candidates that do not end: their log-probabilities, source places and tokens."""
    if W == 1 and index.shape[1] == 2:  # only one of the two ends
        going = (index[:, :1] == eos).long()
        return best.gather(1, going), torch.zeros_like(going), index.gather(1, going)
    places, tokens = index // V, index % V
    ends = tokens == eos
    going = torch.argsort(ends.to(torch.int8), dim=-1, stable=True)[:, :W]  # continuing ones first, in order
    totals = best.gather(1, going).masked_fill(ends.gather(1, going), -math.inf)
    return totals, places.gather(1, going), tokens.gather(1, going)


# ---- Diverse beams ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Diverse:
    """``groups`` share the beam evenly; ``strength`` is λ."""

    groups: int = 2
    strength: float = 0.5

    def __post_init__(self) -> None:
        check(self)
        if self.groups < 2:
            raise ValueError(f"groups must be at least 2: got {self.groups}")
        if not 0 <= self.strength < math.inf:
            raise ValueError(f"strength must not be negative: got {self.strength}")


class Groups:
    """Selects for each group, one group after the other."""

    def __init__(self, how: Diverse, eos: int) -> None:
        self.how, self.eos = how, eos

    def __call__(self, totals: Float[Tensor, "L W"], log_probs: Float[Tensor, "L W V"]) -> Chosen:
        G, (_, W, V) = self.how.groups, log_probs.shape
        totals, log_probs = totals.view(-1, G, W), log_probs.view(-1, G, W, V)
        written = log_probs.new_zeros(len(totals), V)  # count of each token at this step
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


# ---- Sampling ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sampling:
    """Settings of sampling: a ``temperature`` below 1 favours likely tokens, above 1 unlikely ones; ``top_k`` and ``top_p`` cut
    off the tail. The same ``seed`` gives the same samples."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        check(self)
        if not self.temperature > 0 or math.isinf(self.temperature):
            raise ValueError(f"temperature must be above 0: got {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k must be at least 1: got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1: got {self.top_p}")
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"seed must be between 0 and {2**31 - 1}: got {self.seed}")


class Draws:
    """Draws one token per lane and step; lanes have one place."""

    def __init__(
        self, how: Sampling, limits: Sequence[int], seeds: Sequence[int], samples: int, eos: int, device: torch.device
    ) -> None:
        self.how, self.eos, self.step = how, eos, 0
        most, rows = max(limits, default=0), []
        for limit, seed in zip(limits, seeds, strict=True):
            # A generator uses only the last 32 bits of its seed: both seeds must be in them.
            generator = torch.Generator().manual_seed(zlib.crc32(f"{how.seed} {seed}".encode()))
            drawn = torch.rand(samples, limit, generator=generator, dtype=torch.float64)
            rows.append(torch.nn.functional.pad(drawn, (0, most - limit)))
        uniform = torch.cat(rows) if rows else torch.zeros(0, 0)  # [L, most]
        # mps has no float64
        self.uniform = uniform.to(device, torch.float32 if device.type == "mps" else torch.float64)

    def __call__(self, totals: Float[Tensor, "L W"], log_probs: Float[Tensor, "L W V"]) -> Chosen:
        tokens = draw(log_probs.squeeze(1), self.how, self.uniform[:, self.step]).unsqueeze(1)  # [L, 1]
        self.step += 1
        totals = totals + log_probs.squeeze(1).gather(1, tokens)
        ends = tokens == self.eos
        finished = zip(ends.flatten().tolist(), totals.flatten().tolist(), strict=True)
        over = [[(0, total)] if end and total > -math.inf else [] for end, total in finished]
        return Chosen(totals.masked_fill(ends, -math.inf), torch.zeros_like(tokens), tokens, over)


def draw(log_probs: Float[Tensor, "L V"], how: Sampling, uniform: Float[Tensor, " L"]) -> Int[Tensor, " L"]:
    """The token at which the cumulative q passes ``uniform``, likely tokens first."""
    V = log_probs.shape[-1]
    # Relative to the likeliest, which stays at 0 however low the temperature, while the others go to −inf.
    below = log_probs.to(uniform.dtype) - log_probs.amax(dim=-1, keepdim=True)
    kept, index = (below / how.temperature).topk(min(how.top_k or V, V), dim=-1)
    q = torch.softmax(kept, dim=-1)
    if how.top_p < 1:
        before = q.cumsum(-1) - q
        q = q.masked_fill(before >= how.top_p, 0.0)
    reached = q.cumsum(-1)
    # The first one that passes the mark has q > 0.
    place = torch.searchsorted(reached, uniform.unsqueeze(1) * reached[:, -1:], right=True)
    return index.gather(1, place.clamp_max(index.shape[1] - 1)).squeeze(1)
