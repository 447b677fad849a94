"""The plain beam's choice: the likeliest W continuations of each lane, and those among them that end.

A *lane* is a beam of its own: one an item, one a group of a diverse beam, or one a sample.

Legend: L lanes, W places a lane, V vocabulary, C candidates a lane; a candidate's index is place · V + token.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.nn.cache import Room
from saccade.nn.cuda_graphs import like

CUT = 64  # numbers a piece when the largest of many are looked for piece by piece
PIECES_PAY_FROM = 1 << 12  # numbers a lane from which that is the faster, on a GPU


class Chosen(NamedTuple):
    """The live hypotheses after a step: place j of a lane went on from ``places[lane, j]`` by writing ``tokens[lane, j]``.
    ``over[lane]`` lists the (place, log-probability) of those that ended."""

    totals: Float[Tensor, "L W"]
    places: Int[Tensor, "L W"]
    tokens: Int[Tensor, "L W"]
    over: list[list[tuple[int, float]]]


# One step's choice: the log-probabilities so far [L, W] and of the next token [L, W, V] → the new hypotheses.
Choose = Callable[[Tensor, Tensor], Chosen]


def select(part: Any, rows: Int[Tensor, " N"]) -> Any:
    """These rows of a memory or state: tensors by their first axis, tuples part by part."""
    if isinstance(part, Tensor):
        return part.index_select(0, rows)
    if isinstance(part, tuple):
        return like(part, [select(item, rows) for item in part])
    return part


def follow(state: Any, rows: Int[Tensor, " N"]) -> Any:
    """The state of as many hypotheses, each of which goes on from one of these rows; parts that keep a line of descent
    (:class:`saccade.nn.cache.Room`) stay where they are."""
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
    """The W likeliest hypotheses that go on; among the W likeliest of all, those that end are over.

    ``handicap`` is taken off when candidates are compared, not off their log-probabilities.
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
    return best, index.clamp_max(N - 1)  # what stands beyond the last number is −inf, a candidate in name only


def going_on(
    best: Float[Tensor, "L C"], index: Int[Tensor, "L C"], W: int, V: int, eos: int
) -> tuple[Float[Tensor, "L W"], Int[Tensor, "L W"], Int[Tensor, "L W"]]:
    """Of the candidates, best first, those W that do not end: their log-probabilities, where from, and what they write."""
    places, tokens = index // V, index % V
    ends = tokens == eos
    going = torch.argsort(ends.to(torch.int8), dim=-1, stable=True)[:, :W]  # those that go on first, in their order
    totals = best.gather(1, going).masked_fill(ends.gather(1, going), -math.inf)
    return totals, places.gather(1, going), tokens.gather(1, going)
