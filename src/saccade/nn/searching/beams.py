"""The plain beam's choice: the likeliest W continuations of each lane, and those among them that end.

A *lane* is a beam of its own: one an item, one a group of a diverse beam, or one a sample.

Legend: L lanes, W places a lane, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Chosen(NamedTuple):
    """The live hypotheses after a step: place j of a lane went on from ``places[lane, j]`` by writing ``tokens[lane, j]``.
    ``over[lane]`` lists the (place, log-probability) of those that ended."""

    totals: Float[Tensor, "L W"]
    places: Int[Tensor, "L W"]
    tokens: Int[Tensor, "L W"]
    over: list[list[tuple[int, float]]]


# One step's choice: the log-probabilities so far [L, W] and of the next token [L, W, V] → the new hypotheses.
Choose = Callable[[Tensor, Tensor], Chosen]


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
    sums = (totals.unsqueeze(-1) + log_probs).flatten(1)  # [L, W · V]
    count = min(2 * W, W * V)  # W of them may end: as many go on
    if handicap is None:
        best, index = sums.topk(count, dim=-1)
    else:
        index = (sums - handicap.repeat(1, W)).topk(count, dim=-1).indices
        best = sums.gather(1, index)
    places, tokens = index // V, index % V
    ends = tokens == eos
    over: list[list[tuple[int, float]]] = []
    for row_ends, row_places, row_best in zip(
        ends[:, :W].tolist(), places[:, :W].tolist(), best[:, :W].tolist(), strict=True
    ):
        candidates = zip(row_ends, row_places, row_best, strict=True)
        over.append([(place, total) for end, place, total in candidates if end and total > -math.inf])
    going = torch.argsort(ends.to(torch.int8), dim=-1, stable=True)[:, :W]  # those that go on first, in their order
    totals = best.gather(1, going).masked_fill(ends.gather(1, going), -math.inf)
    return Chosen(totals, places.gather(1, going), tokens.gather(1, going), over)
