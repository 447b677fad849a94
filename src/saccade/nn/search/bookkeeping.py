"""The books of a plain beam, kept beside the device: what ended, which items are done, and how each output came about.

A device only needs to know which hypotheses go on. All else follows from the candidates of each step, so it can be worked
out later, for several steps and all items at once. What an item's beam does after the item is done is not looked at: steps
that were taken before anybody asked change nothing.

Legend: n steps, L lanes of the network's rows (one an item; lane −1 is empty room), W places a lane, C candidates a lane,
N outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from saccade.nn.search.history import Ended

Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Goal:
    """When an item is done, and how what ended is ranked.

    ``wanted`` outputs an item, the best by log p / ``penalty(length)``. ``enough``: done when so many have ended; None: when
    nothing live could come among the wanted.
    """

    width: int
    wanted: int
    enough: int | None
    penalty: Callable[[int], float]
    eos: int


@dataclass(frozen=True)
class Steps:
    """Candidates of n steps: their log-probabilities, best first, and their indices place · ``size`` + token.

    ``lanes`` says which item each row of candidates is of.
    """

    lanes: Int[np.ndarray, " L"]
    best: Float[np.ndarray, "n L C"]
    index: Int[np.ndarray, "n L C"]
    size: int


class BeamBookkeeping:
    """What has come of each item so far."""

    def __init__(self, limits: Sequence[int], goal: Goal) -> None:
        B, self.goal, self.step = len(limits), goal, 0
        # One more than there are items: lane −1, which was never live.
        self.limits = np.array([*limits, 0])
        self.live = np.array([True] * B + [False])
        penalties = {limit: goal.penalty(limit) for limit in set(limits)}
        self.longest = np.array([*(penalties[limit] for limit in limits), 1.0])  # the penalty of the longest output
        self.count = np.zeros(B + 1, dtype=np.int64)
        self.top = np.full((B + 1, goal.wanted), -math.inf)  # the scores of the wanted best, worst first
        self.trails: list[tuple[Numbers, Numbers, Numbers]] = []  # lanes, their parents and their tokens [n, L, W]
        self.ended: list[tuple[Numbers, ...]] = []  # lane, step, place, token, log_prob, score, cut off

    def add(self, steps: Steps) -> None:
        """Count these steps in, as many of them as any item was live for."""
        W, V, eos, lanes, index = self.goal.width, steps.size, self.goal.eos, steps.lanes, steps.index
        n, L, _ = index.shape
        best = steps.best.astype(np.float64)
        places, tokens = np.divmod(index, V)
        ends = tokens == eos
        going = np.argsort(ends, axis=-1, kind="stable")[..., :W]  # as the device chose
        chosen = (np.arange(n)[:, None, None], np.arange(L)[None, :, None], going)
        totals = np.where(ends, -math.inf, best)[chosen]  # [n, L, W]
        penalties = np.array([self.goal.penalty(self.step + number + 1) for number in range(n)])[:, None, None]
        scores = best[..., :W] / penalties
        over = ends[..., :W] & (best[..., :W] > -math.inf)
        counted, cut = self._count(lanes, over, scores, totals.max(axis=-1))
        self.trails.append((lanes, places[chosen][:counted], tokens[chosen][:counted]))
        # A candidate's place is the one it went on from: where its hypothesis stood.
        self._keep(lanes, over[:counted], places, tokens, best, scores, cut=False)
        if cut is not None:
            stand = cut[:, :, None] & (totals > -math.inf)
            self._keep(lanes, stand, places[chosen], tokens[chosen], totals, totals / penalties, cut=True)
        self.step += counted

    def _count(
        self,
        lanes: Int[np.ndarray, " L"],
        over: Bool[np.ndarray, "n L W"],
        scores: Float[np.ndarray, "n L W"],
        best: Float[np.ndarray, "n L"],
    ) -> tuple[int, Bool[np.ndarray, "n L"] | None]:
        """Which lanes are done after each step. Ends of those that were done before are struck out of ``over``.

        Returns how many steps anything was live for, and which lanes reached their limit when nothing of theirs had ended,
        if any did: there the live hypotheses stand as they are.
        """
        live, count, top = self.live[lanes], self.count[lanes], self.top[lanes]
        last = self.limits[lanes] == np.arange(self.step + 1, self.step + 1 + len(best))[:, None]  # [n, L]
        stuck = last | (best == -math.inf)
        bound = best / self.longest[lanes]  # log p only falls: no live hypothesis can come to more
        cut, number = np.zeros_like(last) if last.any() else None, 0
        while number < len(best) and live.any():
            ends = over[number]
            ends &= live[:, None]
            if ends.any():
                count += ends.sum(axis=-1)
                both = np.concatenate([top, np.where(ends, scores[number], -math.inf)], axis=-1)
                top = np.sort(both, axis=-1)[:, -self.goal.wanted :]
            if cut is not None:
                cut[number] = live & last[number] & (count == 0)
            enough = top[:, 0] >= bound[number] if self.goal.enough is None else count >= self.goal.enough
            live &= ~(stuck[number] | enough)
            number += 1
        self.live[lanes], self.count[lanes], self.top[lanes] = live, count, top
        return number, cut

    def _keep(
        self,
        lanes: Int[np.ndarray, " L"],
        which: Bool[np.ndarray, "m L W"],
        places: Int[np.ndarray, "n L C"],
        tokens: Int[np.ndarray, "n L C"],
        totals: Float[np.ndarray, "n L C"],
        scores: Float[np.ndarray, "n L W"],
        *,
        cut: bool,
    ) -> None:
        found = np.nonzero(which)
        number, row, _ = found
        if len(number):
            parts = (places[found], tokens[found], totals[found], scores[found], np.full(len(number), cut))
            self.ended.append((lanes[row], number + self.step, *parts))

    def outputs(self) -> list[list[tuple[Ended, tuple[int, ...]]]]:
        """The wanted best of each item, best first, each with its tokens, its end mark among them."""
        items: list[list[tuple[Ended, tuple[int, ...]]]] = [[] for _ in self.limits[:-1]]
        if not self.ended:
            return items
        lane, step, place, token, log_prob, score, cut = (
            np.concatenate(part) for part in zip(*self.ended, strict=True)
        )
        order = np.lexsort((-score, cut, lane))  # of equals the one that ended first
        starts = np.flatnonzero(np.diff(lane[order], prepend=-1))
        rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
        chosen = order[rank < self.goal.wanted]
        trails = self._trails(lane[chosen], step[chosen], place[chosen], token[chosen])
        rows = zip(*(part[chosen].tolist() for part in (lane, step, place, token, log_prob, score, cut)), strict=True)
        for (number, at, where, written, total, ranked, short), trail in zip(rows, trails, strict=True):
            end = Ended(at, where, written, total, "length" if short else "eos", ranked)
            items[number].append((end, tuple(trail[: at + 1])))
        return items

    def _trails(
        self,
        lane: Int[np.ndarray, " N"],
        step: Int[np.ndarray, " N"],
        place: Int[np.ndarray, " N"],
        token: Int[np.ndarray, " N"],
    ) -> list[list[int]]:
        """What each output wrote, from its end back along the parents."""
        written = np.zeros((len(lane), self.step), dtype=np.int64)
        written[np.arange(len(lane)), step] = token
        number, row = self.step, np.zeros(len(self.limits), dtype=np.int64)
        for lanes, parents, tokens in reversed(self.trails):
            row[lanes] = np.arange(len(lanes))
            here = row[lane]  # where those lanes stood then; of no matter for outputs that were over
            for now, before in zip(tokens[::-1], parents[::-1], strict=True):
                number -= 1
                on = np.flatnonzero(step > number)
                written[on, number] = now[here[on], place[on]]
                place[on] = before[here[on], place[on]]
        trails: list[list[int]] = written.tolist()
        return trails
