"""Keeps captured steps between predictions, so that a loaded model need not capture them again.

A recording reads the network's tensors at their addresses, so it is valid as long as they are unchanged, and as long as the
network's modules, their fields and their hooks are the same. The states and memories of all cached recordings take a limited
share of the device's memory, plus their working memory. One prediction at a time uses the cache: a concurrent one captures
its own steps, and so does one under autocast, whose casts of weights end with it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn

from saccade.nn.cuda_graphs import Machine, leaves
from saccade.nn.search.fast_beam import Recorder

PART = 16  # 1 / PART of a device's memory may be held between predictions
PLAIN = (int, float, str, bool, type(None))  # fields that are compared by their value


class GraphCache:
    """The recordings of one network. ``most``: bytes for all caches together; by default a share of the device's memory."""

    def __init__(self, most: int | None = None) -> None:
        self.most, self._lock = most, threading.Lock()
        self.recorder: Recorder | None = None
        self._laid: tuple[Any, ...] = ()
        _ALL.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy is empty: recordings belong to this network in this process."""
        return GraphCache, (self.most,)

    @contextmanager
    def lent(self, network: nn.Module) -> Iterator[None]:
        """In this context :func:`held_recorder` returns the cached recorder to this thread's searches with the network."""
        free = not torch.is_autocast_enabled("cuda") and self._lock.acquire(blocking=False)
        if free and self.recorder is not None and self._laid != _laid(network):
            self.recorder = None
        token = _LENT.set((network, self) if free else None)
        try:
            yield
        finally:
            _LENT.reset(token)
            if free:
                try:
                    self._trim()
                finally:
                    self._lock.release()

    def serving(self, network: nn.Module, machine: Machine) -> Recorder:
        """The recorder of the network, which :meth:`lent` has checked."""
        if self.recorder is None:
            self.recorder, self._laid = Recorder(machine), _laid(network)
        return self.recorder

    @property
    def size(self) -> int:
        """Bytes held."""
        return sum(_sizes(self.recorder).values())

    def _trim(self) -> None:
        """Drop the least recently used recordings beyond the limit of all caches; also a refusal, which may have been due to a
        temporary lack of memory."""
        if self.recorder is None:
            return
        self.recorder.last = None
        sizes = _sizes(self.recorder)
        most = _share(self.recorder) if self.most is None else self.most
        over = sum(each.size for each in list(_ALL)) - most
        for key, size in sizes.items():
            if over <= 0:
                break
            del self.recorder.recordings[key]
            over -= size
        if self.recorder.refused or not self.recorder.recordings:
            self.recorder = None  # the memory pool of dropped recordings cannot be reused


_ALL: WeakSet[GraphCache] = WeakSet()
_LENT: ContextVar[tuple[nn.Module, GraphCache] | None] = ContextVar("lent", default=None)


@contextmanager
def keep_recordings(network: nn.Module) -> Iterator[None]:
    """While the block runs, searches by this network share their recordings, whether or not a cache was lent."""
    lent = _LENT.get()
    if lent is not None and lent[0] is network:
        yield
        return
    with GraphCache().lent(network):
        yield


def held_recorder(network: nn.Module, machine: Machine) -> Recorder:
    """The cached recorder for searches with this network, if one is lent; else a new one."""
    lent = _LENT.get()
    return lent[1].serving(network, machine) if lent is not None and lent[0] is network else Recorder(machine)


def _laid(network: nn.Module) -> tuple[Any, ...]:
    """Addresses and versions of the network's tensors, its modules, and the device's numeric settings."""
    tensors = [*network.parameters(), *network.buffers()]
    lying = tuple((each.data_ptr(), 0 if each.is_inference() else each._version) for each in tensors)
    modules = tuple(_module(each) for each in network.modules())
    device = next((each.device for each in tensors if each.is_cuda), None)
    stream = None if device is None else torch.cuda.current_stream(device).cuda_stream
    rounding = (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32)
    return (rounding, torch.is_inference_mode_enabled(), stream, lying, modules)


def _module(module: nn.Module) -> tuple[Any, ...]:
    fields = [(name, each) for name, each in vars(module).items() if not name.startswith("_") and name != "training"]
    known = tuple((name, each if isinstance(each, PLAIN) else id(each)) for name, each in fields)
    return (id(module), *map(tuple, (module._forward_pre_hooks, module._forward_hooks)), known)


def _sizes(recorder: Recorder | None) -> dict[Any, int]:
    if recorder is None:
        return {}
    return {
        key: sum(part.nbytes for part in leaves(each.beams) if isinstance(part, Tensor))
        for key, each in recorder.recordings.items()
    }


def _share(recorder: Recorder) -> int:
    devices = {each.beams.token.device for each in recorder.recordings.values() if each.beams.token.is_cuda}
    return sum(torch.cuda.get_device_properties(device).total_memory // PART for device in devices)
