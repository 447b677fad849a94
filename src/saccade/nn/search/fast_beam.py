"""Fast batched beam search: no device-to-host synchronisation between steps.

Each step selects the likeliest continuations and reorders the state, all on the device. The candidates are copied to the
host a few steps at a time, where :class:`BeamBookkeeping` works out, for several steps and all items at once, what ended,
which items are done, and how each output came about. What an item's beam does after the item is done is ignored, so steps
that were taken in advance change nothing. Rows of finished items are dropped from time to time, since that costs a copy. On a
GPU the step is captured and replayed (:mod:`saccade.nn.cuda_graphs`).

Legend: B items, L lanes (one per item, then empty ones, −1), W places per lane, R = L · W rows, C candidates per lane, V
vocabulary, n steps, N outputs.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.nn.cuda_graphs import EagerDevice, Gpu, Machine, UnknownStep, Unrecordable, owned, shape_of, write_over
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.search.course import Course
from saccade.nn.search.history import Ended
from saccade.nn.search.selection import candidates, follow, going_on, select

RECORDINGS_KEPT = 24  # each holds the memory of a batch


@dataclass(frozen=True)
class SyncPolicy:
    """How often the host reads results from the device.

    ``together`` steps are copied at a time, and ``ahead`` times as many are queued before their results are read.
    ``room(live, now)``: the number of lanes to continue with, given the live ones and the current number.
    """

    together: int
    ahead: int
    room: Callable[[int, int], int]


def exact_room(live: int, now: int) -> int:
    """Only the live lanes, as soon as a quarter is done."""
    return live if live <= 0.75 * now else now


def halved_room(live: int, now: int) -> int:
    """A power of two, at least 16, so that few sizes are captured."""
    needed = 1 << max(live - 1, 0).bit_length()
    return min(max(needed, 16), 1 << (now - 1).bit_length())


IN_STEP = SyncPolicy(together=1, ahead=0, room=exact_room)  # a CPU has results at once
AHEAD = SyncPolicy(together=4, ahead=1, room=halved_room)


class Beams(NamedTuple):
    """The live hypotheses: last token, log-probability, state, and the item's memory, which the hypotheses of a lane share
    where the network supports it."""

    token: Int[Tensor, " R"]
    totals: Float[Tensor, "L W"]
    state: Any
    memory: Any


class StepCandidates(NamedTuple):
    """One step's candidates, and the size V of the vocabulary."""

    best: Float[Tensor, "L C"]
    which: Int[Tensor, "L C"]
    size: int


class Stepping:
    """Runs the steps of one network, which ends outputs with ``eos`` and never writes a token of ``forbidden``."""

    def __init__(
        self,
        network: EncoderDecoder,
        eos: int,
        forbidden: Sequence[int],
        device: torch.device,
        recorder: Recorder | None = None,
    ) -> None:
        self.network, self.eos, self.recorder = network, eos, recorder
        self.forbidden = torch.tensor(forbidden, dtype=torch.int64, device=device) if forbidden else None
        self.key = (id(network), eos, tuple(forbidden))

    def take(self, beams: Beams, offset: int) -> tuple[Beams, StepCandidates]:
        """The step at position ``offset`` of the outputs."""
        if self.recorder is None:
            return self.advance(beams, offset)
        roomy = self.network.make_room(beams.state, offset)
        if roomy is not beams.state:
            beams = beams._replace(state=roomy)
        if self.recorder.refused:
            return self.advance(beams, offset)
        return self.recorder.take(self, beams, offset)

    def alone(self) -> Stepping:
        """A copy without a recorder, for recordings to refer to, so that they do not keep their recorder alive."""
        alone = copy.copy(self)
        alone.recorder = None
        return alone

    def advance(self, beams: Beams, offset: Any) -> tuple[Beams, StepCandidates]:
        """The same step, eagerly."""
        L, W = beams.totals.shape
        logits, state = self.network.step(beams.token, beams.state, beams.memory, offset=offset)
        log_probs = self.network.log_probs(logits)
        if self.forbidden is not None:
            log_probs.index_fill_(1, self.forbidden, -math.inf)
        V = log_probs.shape[-1]
        best, index = candidates(beams.totals, log_probs.view(L, W, V))
        totals, places, tokens = going_on(best, index, W, V, self.eos)
        if W > 1:  # a lane of one place stays where it is
            base = torch.arange(0, L * W, W, device=places.device).unsqueeze(1)  # [L, 1]
            state = follow(state, (base + places).flatten())
        return Beams(tokens.flatten(), totals, state, beams.memory), StepCandidates(best, index, V)


@dataclass(frozen=True)
class Recording:
    """A captured step on the tensors of ``beams``; writes its candidates to ``found``. ``step`` keeps alive what it reads."""

    beams: Beams
    found: StepCandidates
    replay: Callable[[], None]
    step: Callable[[], None]


class Recorder:
    """Captures a step once per size and replays it; runs steps that cannot be captured eagerly.

    A recording reads the network's tensors at their addresses, so a recorder must not outlive them. Recordings hold much of a
    device's memory, so there must be no reference cycles, which would keep it until garbage is collected.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine, self.refused = machine, ""  # why steps cannot be captured
        self.recordings: dict[tuple[Any, ...], Recording] = {}
        self.last: Recording | None = None

    def take(self, stepping: Stepping, beams: Beams, offset: int) -> tuple[Beams, StepCandidates]:
        """The step at position ``offset``, replayed where a recording exists."""
        if self.last is None or self.last.beams is not beams:
            try:
                key = (*stepping.key, shape_of(beams))
                if key not in self.recordings:
                    return self._record(stepping, beams, key)
            except Unrecordable as why:
                self._refuse(str(why))
                return stepping.advance(beams, offset)
            self.last = self.recordings[key] = self.recordings.pop(key)  # moved to the end: most recently used
            write_over(self.last.beams, beams)
        self.last.replay()
        return self.last.beams, _copy(self.last.found)

    def _record(self, stepping: Stepping, beams: Beams, key: tuple[Any, ...]) -> tuple[Beams, StepCandidates]:
        """Run the first step of a size eagerly, then capture it for the following ones."""
        fixed = Beams(owned(beams.token), owned(beams.totals), owned(beams.state), beams.memory)
        steps_found: list[StepCandidates] = []
        alone = stepping.alone()

        def step() -> None:
            moved, found = alone.advance(fixed, UnknownStep())
            write_over(fixed[:3], moved[:3])
            if steps_found:
                write_over(steps_found[0], found)
            else:
                steps_found.append(found)

        try:
            self.machine.warm(step)
        except Exception as error:  # an error of the network itself comes again in the eager step
            # It synchronised, or ran out of memory. Other errors come from using its position, which is legitimate.
            if isinstance(error, RuntimeError):
                self._warn(stepping, error)
            raise Unrecordable(_message(error)) from None
        found = _copy(steps_found[0])
        try:
            replay = self.machine.record(step)
        except Exception as error:
            self._warn(stepping, error)
            self._refuse(_message(error))
            return fixed, found  # the step itself has run
        if len(self.recordings) == RECORDINGS_KEPT:
            del self.recordings[next(iter(self.recordings))]
        self.last = self.recordings[key] = Recording(fixed, steps_found[0], replay, step)
        return fixed, found

    def _refuse(self, why: str) -> None:
        self.refused, self.last = why, None
        self.recordings.clear()  # to free their memory

    def _warn(self, stepping: Stepping, error: Exception) -> None:
        name = type(stepping.network).__name__
        warnings.warn(
            f"{name}: steps cannot be captured in a CUDA graph and run slower: {_message(error)}", stacklevel=2
        )


def _message(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _copy(found: StepCandidates) -> StepCandidates:
    return StepCandidates(found.best.clone(), found.which.clone(), found.size)


class FastBeamLoop:
    """The state of a search."""

    def __init__(
        self,
        stepping: Stepping,
        memory: Any,
        limits: Sequence[int],
        goal: Goal,
        bos: int,
        policy: SyncPolicy,
        machine: Machine,
    ) -> None:
        self.stepping, self.goal, self.policy, self.machine = stepping, goal, policy, machine
        B, W, self.bookkeeping, self.taken = len(limits), goal.width, BeamBookkeeping(limits, goal), 0
        device = device_of(memory)
        self.lanes = _padded(np.arange(B), policy.room(B, B))
        L = len(self.lanes)
        memory = select(memory, machine.send(self.lanes.clip(min=0), device))
        totals = torch.full((L, W), -math.inf, device=device)
        totals[:, 0] = 0.0  # all rows of a lane are equal at first: only one counts
        token, state, memory = stepping.network.begin(memory, L, bos)
        if W > 1:
            rows = torch.arange(L, device=device).repeat_interleave(W)
            token, state = token[rows], select(state, rows)
            memory = memory if stepping.network.shares_memory else select(memory, rows)
        self.beams = Beams(token, totals, state, memory)

    def run(self, course: Course) -> list[list[tuple[Ended, tuple[int, ...]]]]:
        """The best outputs of each item, best first, each with its tokens, including EOS."""
        bookkeeping, queued = self.bookkeeping, deque[Callable[[], Steps]]()
        while bookkeeping.live.any():
            count = min(self.policy.together, int(bookkeeping.limits[bookkeeping.live].max()) - self.taken)
            if count > 0:
                queued.append(self._begin(count))
            if len(queued) > self.policy.ahead or count <= 0:
                bookkeeping.add(queued.popleft()())
                course.report(bookkeeping.step, self.beams.state)
                self._drop_finished()
        return bookkeeping.outputs()

    def _begin(self, count: int) -> Callable[[], Steps]:
        """Queue some steps; the returned function waits for their results."""
        steps_found: list[StepCandidates] = []
        for _ in range(count):
            self.beams, found = self.stepping.take(self.beams, self.taken)
            self.taken += 1
            steps_found.append(found)
        best, which = (
            _side_by_side([each.best for each in steps_found]),
            _side_by_side([each.which for each in steps_found]),
        )
        fetched, lanes, size = self.machine.fetch(best, which), self.lanes, steps_found[0].size

        def wait() -> Steps:
            there, where = fetched()
            return Steps(lanes, there, where, size)

        return wait

    def _drop_finished(self) -> None:
        """Drop finished lanes where the policy says that it pays."""
        count = int(self.bookkeeping.live.sum())
        room = self.policy.room(count, len(self.lanes))
        if not count or room >= len(self.lanes):
            return
        live = np.flatnonzero(self.bookkeeping.live[self.lanes])
        W, device, beams = self.goal.width, self.beams.token.device, self.beams
        kept = _padded(live, room)
        self.lanes = np.where(kept >= 0, self.lanes[kept], -1)
        places = self.machine.send(np.where(kept >= 0, kept, live[0]), device)
        rows = (places.unsqueeze(1) * W + torch.arange(W, device=device)).flatten()
        memory = select(beams.memory, places if self.stepping.network.shares_memory else rows)
        self.beams = Beams(beams.token[rows], beams.totals[places], select(beams.state, rows), memory)


def _side_by_side(parts: list[Tensor]) -> Tensor:
    return parts[0].unsqueeze(0) if len(parts) == 1 else torch.stack(parts)


def machine_of(device: torch.device) -> Machine:
    return Gpu(device) if device.type == "cuda" else EagerDevice()


def policy_of(device: torch.device) -> SyncPolicy:
    return IN_STEP if device.type == "cpu" else AHEAD


def device_of(part: Any) -> torch.device:
    """The device of a memory."""
    if isinstance(part, Tensor):
        return part.device
    return next(device_of(item) for item in part if isinstance(item, Tensor | tuple))


def _padded(numbers: Int[np.ndarray, " n"], room: int) -> Int[np.ndarray, " L"]:
    """The numbers, padded with −1."""
    return np.pad(numbers, (0, max(room - len(numbers), 0)), constant_values=-1)


# ---- Host-side bookkeeping ---------------------------------------------------------------------------------------------


Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Goal:
    """When an item is done, and how outputs are ranked.

    ``wanted`` outputs per item, the best by log p / ``penalty(length)``. ``enough``: done when so many have ended; None: when
    no live hypothesis could come among the wanted.
    """

    width: int
    wanted: int
    enough: int | None
    penalty: Callable[[int], float]
    eos: int


@dataclass(frozen=True)
class Steps:
    """Candidates of n steps: their log-probabilities, best first, and their indices place · ``size`` + token.

    ``lanes`` has the item of each row of candidates.
    """

    lanes: Int[np.ndarray, " L"]
    best: Float[np.ndarray, "n L C"]
    index: Int[np.ndarray, "n L C"]
    size: int


class BeamBookkeeping:
    """Host-side bookkeeping: the outputs of each item so far."""

    def __init__(self, limits: Sequence[int], goal: Goal) -> None:
        B, self.goal, self.step = len(limits), goal, 0
        # One more than there are items: lane −1, which is never live.
        self.limits = np.array([*limits, 0])
        self.live = np.array([True] * B + [False])
        penalties = {limit: goal.penalty(limit) for limit in set(limits)}
        self.longest = np.array([*(penalties[limit] for limit in limits), 1.0])  # the penalty of the longest output
        self.count = np.zeros(B + 1, dtype=np.int64)
        self.top = np.full((B + 1, goal.wanted), -math.inf)  # the scores of the wanted best, worst first
        self.trails: list[tuple[Numbers, Numbers, Numbers]] = []  # lanes, their parents and their tokens [n, L, W]
        self.ended: list[tuple[Numbers, ...]] = []  # lane, step, place, token, log_prob, score, cut off

    def add(self, steps: Steps) -> None:
        """Add these steps, up to the last one at which an item was live."""
        W, V, eos, lanes, index = self.goal.width, steps.size, self.goal.eos, steps.lanes, steps.index
        n, L, _ = index.shape
        best = steps.best.astype(np.float64)
        places, tokens = np.divmod(index, V)
        ends = tokens == eos
        chosen: Any = (..., slice(W))
        if ends[chosen].any():
            going = np.argsort(ends, axis=-1, kind="stable")[..., :W]  # as the device chose
            chosen = (np.arange(n)[:, None, None], np.arange(L)[None, :, None], going)
        totals = np.where(ends[chosen], -math.inf, best[chosen])  # [n, L, W]
        penalties = np.array([self.goal.penalty(self.step + number + 1) for number in range(n)])[:, None, None]
        scores = best[..., :W] / penalties
        over = ends[..., :W] & (best[..., :W] > -math.inf)
        counted, cut = self._count(lanes, over, scores, totals.max(axis=-1))
        self.trails.append((lanes, places[chosen][:counted], tokens[chosen][:counted]))
        # A candidate's place is that of the hypothesis it continues.
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
        """Find the lanes that are done after each step, and remove later ends from ``over``.

        Returns the number of steps with a live lane, and the lanes, if any, that reached their limit with no ended hypothesis:
        their live hypotheses become outputs.
        """
        live, count, top = self.live[lanes], self.count[lanes], self.top[lanes]
        last = self.limits[lanes] == np.arange(self.step + 1, self.step + 1 + len(best))[:, None]  # [n, L]
        stuck = last | (best == -math.inf)
        bound = best / self.longest[lanes]  # log p only falls: an upper bound of all live hypotheses
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
        if which.any():
            found = number, row, _ = np.nonzero(which)
            parts = (places[found], tokens[found], totals[found], scores[found], np.full(len(number), cut))
            self.ended.append((lanes[row], number + self.step, *parts))

    def outputs(self) -> list[list[tuple[Ended, tuple[int, ...]]]]:
        """The best outputs of each item, best first, each with its tokens, including EOS."""
        items: list[list[tuple[Ended, tuple[int, ...]]]] = [[] for _ in self.limits[:-1]]
        if not self.ended:
            return items
        lane, step, place, token, log_prob, score, cut = (
            np.concatenate(part) for part in zip(*self.ended, strict=True)
        )
        order = np.lexsort((-score, cut, lane))  # ties: the one that ended first
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
        """The tokens of each output, from its end back along the parents."""
        written = np.zeros((len(lane), self.step), dtype=np.int64)
        written[np.arange(len(lane)), step] = token
        number, row = self.step, np.zeros(len(self.limits), dtype=np.int64)
        for lanes, parents, tokens in reversed(self.trails):
            row[lanes] = np.arange(len(lanes))
            here = row[lane]  # the lanes' rows then; irrelevant for outputs that had ended
            for now, before in zip(tokens[::-1], parents[::-1], strict=True):
                number -= 1
                on = np.flatnonzero(step > number)
                written[on, number] = now[here[on], place[on]]
                place[on] = before[here[on], place[on]]
        trails: list[list[int]] = written.tolist()
        return trails
