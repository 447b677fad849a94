"""Captures a decoder's step as a CUDA graph; replaying it removes kernel-launch overhead.

A step of a small network is some fifty operations of a few microseconds each, and launching each of them takes as long. A
captured step is one launch. It reads and writes tensors at fixed addresses, so it must do the same at every step: its state
keeps its shapes, nothing is copied to the host, and it does not depend on its position in the output (:class:`UnknownStep`).
A network for which this does not hold runs eagerly, with the same results.

All calls that need a GPU are in :class:`Gpu`; :class:`EagerDevice` replaces it where there is none.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, runtime_checkable

import numpy.typing as npt
import torch
from torch import Tensor

SPOILT: list[torch.cuda.CUDAGraph] = []
"""Graphs whose capture failed: the allocator still refers to them, so they must be kept alive."""


class Unrecordable(Exception):
    """The step cannot be captured, and why."""


class UnknownStep:
    """Stands for the position of a captured step: any use of it raises, since the result could not be replayed."""

    def _used(self, *_: object) -> Any:
        raise Unrecordable("it depends on its position in the output")

    __bool__ = __int__ = __index__ = __float__ = __lt__ = __le__ = __gt__ = __ge__ = __neg__ = _used
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _used
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __pow__ = __rpow__ = _used
    __eq__ = __ne__ = __hash__ = _used


Fetched = Callable[[], list[npt.NDArray[Any]]]


@runtime_checkable
class Machine(Protocol):
    """The operations of a device that capturing a step needs."""

    def warm(self, step: Callable[[], None]) -> None:
        """Run a step as it will be captured; raises if it synchronises with the host."""

    def record(self, step: Callable[[], None]) -> Callable[[], None]:
        """Capture the step without running it; returns a function that replays it."""

    def fetch(self, *tensors: Tensor) -> Fetched:
        """Start copying tensors to the host; the returned function waits for them. Steps may run meanwhile."""

    def send(self, numbers: npt.NDArray[Any], device: torch.device) -> Tensor:
        """Copy the numbers to the device without waiting for running steps."""


class EagerDevice:
    """Captures nothing: replaying a step calls it."""

    def warm(self, step: Callable[[], None]) -> None:
        step()

    def record(self, step: Callable[[], None]) -> Callable[[], None]:
        return step

    def fetch(self, *tensors: Tensor) -> Fetched:
        return lambda: [tensor.cpu().numpy() for tensor in tensors]

    def send(self, numbers: npt.NDArray[Any], device: torch.device) -> Tensor:
        return torch.tensor(numbers, device=device)


class Gpu:
    """Captures CUDA graphs. They share one memory pool: they run one after the other, and leave nothing in it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.side = torch.cuda.Stream(device)  # the default stream cannot be captured
        self.pool = torch.cuda.graph_pool_handle()

    def warm(self, step: Callable[[], None]) -> None:
        with self._aside(), refusing_waits():
            step()

    def record(self, step: Callable[[], None]) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        with recovering(graph, self.side.device), self._aside(), captured_by(graph, self.pool):
            step()
        return graph.replay

    def fetch(self, *tensors: Tensor) -> Fetched:
        copies = [tensor.to("cpu", non_blocking=True) for tensor in tensors]
        there = torch.cuda.Event()
        there.record(torch.cuda.current_stream(self.device))

        def wait() -> list[npt.NDArray[Any]]:
            there.synchronize()
            return [copy.numpy() for copy in copies]

        return wait

    def send(self, numbers: npt.NDArray[Any], device: torch.device) -> Tensor:
        return torch.from_numpy(numbers).pin_memory().to(device, non_blocking=True)

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """Run on the side stream, after earlier work; later work waits for it."""
        with torch.cuda.device(self.device):
            main = torch.cuda.current_stream()
            self.side.wait_stream(main)
            try:
                with torch.cuda.stream(self.side):
                    yield
            finally:
                main.wait_stream(self.side)


@contextmanager
def captured_by(graph: torch.cuda.CUDAGraph, pool: Any) -> Iterator[None]:
    """Capture launches into the graph. Unlike torch.cuda.graph() it neither collects garbage nor releases cached memory.
    Other threads may continue meanwhile."""
    graph.capture_begin(pool=pool, capture_error_mode="thread_local")
    try:
        yield
    finally:
        graph.capture_end()


@contextmanager
def recovering(graph: torch.cuda.CUDAGraph, device: torch.device) -> Iterator[None]:
    """Leave the device usable if a capture fails."""
    # Garbage collection during a capture might free memory or graphs of others, which is not allowed.
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    except BaseException:
        SPOILT.append(graph)
        # The generator is still in capture mode and would refuse to draw; its copy is not.
        with suppress(AttributeError, RuntimeError):
            generator = torch.cuda.default_generators[device.index]
            generator.graphsafe_set_state(generator.clone_state())
        raise
    finally:
        if collecting:
            gc.enable()


@contextmanager
def refusing_waits() -> Iterator[None]:
    """Make synchronising with the device an error, so that it is found before a capture."""
    before = torch.cuda.get_sync_debug_mode()
    _set_waiting("error")
    try:
        yield
    finally:
        _set_waiting(before)


def _set_waiting(mode: int | str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns that it misses some synchronisations; the capture finds those
        torch.cuda.set_sync_debug_mode(mode)


def leaves(part: Any) -> Iterator[Any]:
    """The leaves of a memory or state: tensors and other values."""
    if isinstance(part, tuple):
        for item in part:
            yield from leaves(item)
    else:
        yield part


def like(part: tuple[Any, ...], parts: list[Any]) -> Any:
    """A tuple of the same type, named or not, with other parts."""
    return type(part)(*parts) if hasattr(part, "_fields") else tuple(parts)


def shape_of(part: Any) -> tuple[Any, ...]:
    """What must match to reuse a captured graph: the tensors' shapes and dtypes, and all other values."""
    if isinstance(part, tuple):
        return (type(part), *(shape_of(item) for item in part))
    if isinstance(part, Tensor):
        return (tuple(part.shape), part.dtype, part.device)
    if not isinstance(part, Hashable):
        raise Unrecordable(f"its state has a {type(part).__name__}, which may change")
    return (type(part), part)


def owned(part: Any) -> Any:
    """A copy of a memory or state without views or duplicates."""
    if isinstance(part, Tensor):
        return part.clone(memory_format=torch.contiguous_format)
    if isinstance(part, tuple):
        return like(part, [owned(item) for item in part])
    return part


def write_over(part: Any, new: Any) -> None:
    """Copy new values into the tensors of a state."""
    if shape_of(part) != shape_of(new):
        raise Unrecordable("its state does not keep its shape")
    for old, value in zip(leaves(part), leaves(new), strict=True):
        if isinstance(old, Tensor) and old is not value:
            old.copy_(value)
