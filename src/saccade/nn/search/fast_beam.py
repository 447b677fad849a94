"""A plain beam, batched: nothing is read from the device to go on, so a GPU is never waited for between two steps.

Each step chooses the likeliest continuations and moves the state there, all on the device. The candidates are brought over a
few steps at a time; the books (:mod:`saccade.nn.search.bookkeeping`) say from them which items are done. Their rows are left
out from time to time: each time costs a copy. On a GPU the step is recorded and replayed (:mod:`saccade.nn.cuda_graphs`).

Legend: B items, L lanes (one an item, then empty room), W places a lane, R = L · W rows, C candidates a lane, V vocabulary.
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
from jaxtyping import Float, Int
from torch import Tensor

from saccade.nn.cuda_graphs import EagerDevice, Gpu, Machine, UnknownStep, Unrecordable, owned, shape_of, write_over
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.search.bookkeeping import BeamBookkeeping, Goal, Steps
from saccade.nn.search.history import Ended
from saccade.nn.search.topk import candidates, follow, going_on, select

RECORDINGS_KEPT = 24  # each holds a batch's memory


@dataclass(frozen=True)
class SyncPolicy:
    """How a device and the books keep pace.

    ``together`` steps are brought over at a time, and ``ahead`` times as many are begun before they are looked at.
    ``room(live, now)``: how many lanes to go on with when so many are live, of those there are now.
    """

    together: int
    ahead: int
    room: Callable[[int, int], int]


def exact_room(live: int, now: int) -> int:
    """The live lanes alone, as soon as a quarter is done."""
    return live if live <= 0.75 * now else now


def halved_room(live: int, now: int) -> int:
    """Powers of two, so that few sizes are recorded; small ones are as quick as smaller ones."""
    needed = 1 << max(live - 1, 0).bit_length()
    return min(max(needed, 16), 1 << (now - 1).bit_length())


IN_STEP = SyncPolicy(together=1, ahead=0, room=exact_room)  # a CPU answers at once
AHEAD = SyncPolicy(together=4, ahead=1, room=halved_room)


class Beams(NamedTuple):
    """The live hypotheses: what each wrote last, its log-probability, its state, and its item's memory, which the hypotheses
    of a lane share where the network can."""

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
    """Takes the steps of one network, which writes ``eos`` at an end and never a token of ``forbidden``."""

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
        """The step at place ``offset`` of the outputs."""
        if self.recorder is None:
            return self.advance(beams, offset)
        roomy = self.network.make_room(beams.state, offset)
        if roomy is not beams.state:
            beams = beams._replace(state=roomy)
        if self.recorder.refused:
            return self.advance(beams, offset)
        return self.recorder.take(self, beams, offset)

    def alone(self) -> Stepping:
        """The same without a recorder: a recording keeps this one, so that it does not keep its own recorder alive."""
        alone = copy.copy(self)
        alone.recorder = None
        return alone

    def advance(self, beams: Beams, offset: Any) -> tuple[Beams, StepCandidates]:
        """The same, as it is."""
        L, W = beams.totals.shape
        logits, state = self.network.step(beams.token, beams.state, beams.memory, offset=offset)
        log_probs = torch.log_softmax(logits.float(), dim=-1)
        if self.forbidden is not None:
            log_probs.index_fill_(1, self.forbidden, -math.inf)
        V = log_probs.shape[-1]
        best, index = candidates(beams.totals, log_probs.view(L, W, V))
        totals, places, tokens = going_on(best, index, W, V, self.eos)
        if W > 1:  # a lane of one place goes on from there
            base = torch.arange(0, L * W, W, device=places.device).unsqueeze(1)  # [L, 1]
            state = follow(state, (base + places).flatten())
        return Beams(tokens.flatten(), totals, state, beams.memory), StepCandidates(best, index, V)


@dataclass(frozen=True)
class Recording:
    """A step over the tensors of ``beams``; it leaves its candidates in ``found``. ``step`` keeps alive what it reads."""

    beams: Beams
    found: StepCandidates
    replay: Callable[[], None]
    step: Callable[[], None]


class Recorder:
    """Takes steps recorded once for each size, and those that cannot be recorded as they are.

    What is recorded reads the network's tensors where they lay then, so a recorder lives no longer than they do. Its
    recordings hold much of a device's memory: nothing here may form a circle, which would keep it until garbage is collected.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine, self.refused = machine, ""  # and why
        self.recordings: dict[tuple[Any, ...], Recording] = {}
        self.last: Recording | None = None

    def take(self, stepping: Stepping, beams: Beams, offset: int) -> tuple[Beams, StepCandidates]:
        """The step at place ``offset``, by its recording where there is one."""
        if self.last is None or self.last.beams is not beams:
            try:
                key = (*stepping.key, shape_of(beams))
                if key not in self.recordings:
                    return self._record(stepping, beams, key)
            except Unrecordable as why:
                self._refuse(str(why))
                return stepping.advance(beams, offset)
            self.last = self.recordings[key] = self.recordings.pop(key)  # the one used last stands last
            write_over(self.last.beams, beams)
        self.last.replay()
        return self.last.beams, _copy(self.last.found)

    def _record(self, stepping: Stepping, beams: Beams, key: tuple[Any, ...]) -> tuple[Beams, StepCandidates]:
        """The first step of a size is taken as it is, and then recorded for those that come."""
        fixed = Beams(owned(beams.token), owned(beams.totals), owned(beams.state), beams.memory)
        founds: list[StepCandidates] = []
        alone = stepping.alone()

        def step() -> None:
            moved, found = alone.advance(fixed, UnknownStep())
            write_over(fixed[:3], moved[:3])
            if founds:
                write_over(founds[0], found)
            else:
                founds.append(found)

        try:
            self.machine.warm(step)
        except Exception as error:  # one of the network's own comes again when it is stepped as it is
            # It read something back, or found no room. All else comes of asking for its place, which is no fault.
            if isinstance(error, RuntimeError):
                self._say(stepping, error)
            raise Unrecordable(_told(error)) from None
        found = _copy(founds[0])
        try:
            replay = self.machine.record(step)
        except Exception as error:
            self._say(stepping, error)
            self._refuse(_told(error))
            return fixed, found  # the step was taken
        if len(self.recordings) == RECORDINGS_KEPT:
            del self.recordings[next(iter(self.recordings))]
        self.last = self.recordings[key] = Recording(fixed, founds[0], replay, step)
        return fixed, found

    def _refuse(self, why: str) -> None:
        self.refused, self.last = why, None
        self.recordings.clear()  # their memory may be what is lacking

    def _say(self, stepping: Stepping, error: Exception) -> None:
        name = type(stepping.network).__name__
        warnings.warn(f"{name} writes step by step, slower than a recorded step would: {_told(error)}", stacklevel=2)


def _told(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _copy(found: StepCandidates) -> StepCandidates:
    return StepCandidates(found.best.clone(), found.which.clone(), found.size)


class FastBeamLoop:
    """A search under way."""

    def __init__(
        self,
        stepping: Stepping,
        memory: Any,
        limits: Sequence[int],
        goal: Goal,
        bos: int,
        pace: SyncPolicy,
        machine: Machine,
    ) -> None:
        self.stepping, self.goal, self.pace, self.machine = stepping, goal, pace, machine
        B, W, self.tally, self.taken = len(limits), goal.width, BeamBookkeeping(limits, goal), 0
        device = device_of(memory)
        self.lanes = _padded(np.arange(B), pace.room(B, B))
        L = len(self.lanes)
        memory = select(memory, machine.send(self.lanes.clip(min=0), device))
        totals = torch.full((L, W), -math.inf, device=device)
        totals[:, 0] = 0.0  # all rows of a lane start alike: one of them counts
        token, state, memory = stepping.network.begin(memory, L, bos)
        if W > 1:
            rows = torch.arange(L, device=device).repeat_interleave(W)
            token, state = token[rows], select(state, rows)
            memory = memory if stepping.network.shares_memory else select(memory, rows)
        self.beams = Beams(token, totals, state, memory)

    def run(self) -> list[list[tuple[Ended, tuple[int, ...]]]]:
        """The wanted best of each item, best first, each with its tokens, its end mark among them."""
        tally, under_way = self.tally, deque[Callable[[], Steps]]()
        while tally.live.any():
            count = min(self.pace.together, int(tally.limits[tally.live].max()) - self.taken)
            if count > 0:
                under_way.append(self._begin(count))
            if len(under_way) > self.pace.ahead or count <= 0:
                tally.add(under_way.popleft()())
                self._leave_out_the_done()
        return tally.outputs()

    def _begin(self, count: int) -> Callable[[], Steps]:
        """Take some steps; the result waits until they are done."""
        founds: list[StepCandidates] = []
        for _ in range(count):
            self.beams, found = self.stepping.take(self.beams, self.taken)
            self.taken += 1
            founds.append(found)
        best, which = _side_by_side([each.best for each in founds]), _side_by_side([each.which for each in founds])
        fetched, lanes, size = self.machine.fetch(best, which), self.lanes, founds[0].size

        def wait() -> Steps:
            there, where = fetched()
            return Steps(lanes, there, where, size)

        return wait

    def _leave_out_the_done(self) -> None:
        """Go on with the live lanes alone, where the pace says that it pays."""
        count = int(self.tally.live.sum())
        room = self.pace.room(count, len(self.lanes))
        if not count or room >= len(self.lanes):
            return
        live = np.flatnonzero(self.tally.live[self.lanes])
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


def pace_of(device: torch.device) -> SyncPolicy:
    return IN_STEP if device.type == "cpu" else AHEAD


def device_of(part: Any) -> torch.device:
    """The device that a memory lies on."""
    if isinstance(part, Tensor):
        return part.device
    return next(device_of(item) for item in part if isinstance(item, Tensor | tuple))


def _padded(numbers: Int[np.ndarray, " n"], room: int) -> Int[np.ndarray, " L"]:
    """The numbers, and −1 in the room that is left."""
    return np.pad(numbers, (0, max(room - len(numbers), 0)), constant_values=-1)
