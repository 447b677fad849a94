"""Recorded steps that outlive a prediction: a model in hand that predicts again need not record them again.

A recording reads the network's tensors where they lay, so it serves as long as they lie there unchanged. What is held is a
part of the device's memory at most, and one prediction at a time has it: another beside it records for itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from saccade.nn.captured import Machine, leaves
from saccade.nn.searching.plain import Beams, Recorder, Recording

PART = 16  # one part in so many of a device's memory may be held between predictions


class Held:
    """The recordings of one network. ``most``: bytes that may be held; a part of its device's memory unless given."""

    def __init__(self, most: int | None = None) -> None:
        self.most, self._lock = most, threading.Lock()
        self.recorder: Recorder | None = None
        self._laid: tuple[Any, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy holds nothing: what was recorded is of this network, here."""
        return Held, (self.most,)

    @contextmanager
    def lent(self, network: nn.Module) -> Iterator[None]:
        """While it lasts, :func:`held_recorder` gives this thread's searches by the network what is held."""
        free = self._lock.acquire(blocking=False)
        token = _LENT.set((network, self) if free else None)
        try:
            yield
        finally:
            _LENT.reset(token)
            if free:
                self._trim()
                self._lock.release()

    def serving(self, network: nn.Module, machine: Machine) -> Recorder:
        """What was recorded of the network as it is now."""
        laid = _laid(network)
        if self.recorder is None or laid != self._laid:
            self.recorder, self._laid = Recorder(machine), laid
        return self.recorder

    def _trim(self) -> None:
        if self.recorder is None:
            return
        if self.recorder.refused:  # for want of memory, perhaps, which there may be again
            self.recorder = None
            return
        self.recorder.last = None
        recordings = self.recorder.recordings
        sizes = {key: _bytes(each.beams) for key, each in recordings.items()}
        most, total = self._part(recordings) if self.most is None else self.most, sum(sizes.values())
        for key, size in sizes.items():  # the oldest first
            if total <= most:
                break
            del recordings[key]
            total -= size

    @staticmethod
    def _part(recordings: Mapping[Any, Recording]) -> int:
        devices = {each.beams.token.device for each in recordings.values() if each.beams.token.is_cuda}
        return sum(torch.cuda.get_device_properties(device).total_memory // PART for device in devices)


_LENT: ContextVar[tuple[nn.Module, Held] | None] = ContextVar("lent", default=None)


def held_recorder(network: nn.Module, machine: Machine) -> Recorder:
    """The recorder that was lent for searches by this network; a new one unless there is one."""
    lent = _LENT.get()
    return lent[1].serving(network, machine) if lent is not None and lent[0] is network else Recorder(machine)


def _laid(network: nn.Module) -> tuple[Any, ...]:
    """Where the network's tensors lie, how often each was written, and how products are rounded."""
    tensors = [*network.parameters(), *network.buffers()]
    lying = tuple((each.data_ptr(), 0 if each.is_inference() else each._version) for each in tensors)
    return (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32, network.training, lying)


def _bytes(beams: Beams) -> int:
    return sum(part.nbytes for part in leaves(beams) if isinstance(part, Tensor))
