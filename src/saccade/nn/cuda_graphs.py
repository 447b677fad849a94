"""A decoder's step recorded once and replayed: what a device does is then no longer bound by how fast it is told to.

A step of a small network is some fifty operations of a few microseconds each, and a GPU must be told to start every one of
them. A recorded step (a CUDA graph) is told as one. It reads and writes tensors that stay where they are, so it must do the
same at every step: its state keeps its shapes, nothing is read back on the way, and it does not depend on where in the
output it stands (:class:`Anywhere`). A network of which this is not true is stepped as it is, with the same results.

All calls that need a GPU are in :class:`Gpu`; :class:`Plainly` stands in for it where there is none.
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
"""Recordings that failed: the allocator goes on asking them whether an allocation is theirs, so they must not vanish."""


class Unrecordable(Exception):
    """This must be done as it is, and why."""


class UnknownStep:
    """The place of a recorded step in the output, which may not be asked for: what depends on it cannot be replayed."""

    def _asked(self, *_: object) -> Any:
        raise Unrecordable("it depends on its place in the output")

    __bool__ = __int__ = __index__ = __float__ = __lt__ = __le__ = __gt__ = __ge__ = __neg__ = _asked
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _asked
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __pow__ = __rpow__ = _asked
    __eq__ = __ne__ = __hash__ = _asked


Fetched = Callable[[], list[npt.NDArray[Any]]]


@runtime_checkable
class Machine(Protocol):
    """What recording a step needs of a device."""

    def warm(self, step: Callable[[], None]) -> None:
        """Run a step as it will be recorded; an error where it reads anything back."""

    def record(self, step: Callable[[], None]) -> Callable[[], None]:
        """What replays the step. It is recorded without being run."""

    def fetch(self, *tensors: Tensor) -> Fetched:
        """Have tensors brought over; the result waits for them. Steps may be taken meanwhile."""

    def send(self, numbers: npt.NDArray[Any], device: torch.device) -> Tensor:
        """The numbers on the device; steps that were begun are not waited for."""


class EagerDevice:
    """Records nothing: to replay a step is to call it."""

    def warm(self, step: Callable[[], None]) -> None:
        step()

    def record(self, step: Callable[[], None]) -> Callable[[], None]:
        return step

    def fetch(self, *tensors: Tensor) -> Fetched:
        return lambda: [tensor.cpu().numpy() for tensor in tensors]

    def send(self, numbers: npt.NDArray[Any], device: torch.device) -> Tensor:
        return torch.tensor(numbers, device=device)


class Gpu:
    """Records CUDA graphs. They share their working memory: they run one after the other, and keep nothing in it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.side = torch.cuda.Stream(device)  # the stream in use by default cannot be recorded
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
        """On the side stream, after what was begun before; what is begun later waits for it."""
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
    """What is launched inside goes into the graph. Not torch.cuda.graph(), which each time collects garbage and gives back all
    cached memory. Other threads may go on meanwhile."""
    graph.capture_begin(pool=pool, capture_error_mode="thread_local")
    try:
        yield
    finally:
        graph.capture_end()


@contextmanager
def recovering(graph: torch.cuda.CUDAGraph, device: torch.device) -> Iterator[None]:
    """Around a recording: where it fails, it leaves a device on which live work goes on."""
    # Collecting garbage in mid-recording may free memory or graphs of someone else, which a recording forbids.
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    except BaseException:
        SPOILT.append(graph)
        # The generator still believes that it is being recorded and would refuse to draw; its copy does not.
        with suppress(AttributeError, RuntimeError):
            generator = torch.cuda.default_generators[device.index]
            generator.graphsafe_set_state(generator.clone_state())
        raise
    finally:
        if collecting:
            gc.enable()


@contextmanager
def refusing_waits() -> Iterator[None]:
    """To wait for the device is an error while it lasts: found here, it need not break a recording."""
    before = torch.cuda.get_sync_debug_mode()
    _set_waiting("error")
    try:
        yield
    finally:
        _set_waiting(before)


def _set_waiting(mode: int | str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that it does not find everything; what it misses, recording finds
        torch.cuda.set_sync_debug_mode(mode)


def leaves(part: Any) -> Iterator[Any]:
    """The tensors, and whatever else there is, in a memory or state."""
    if isinstance(part, tuple):
        for item in part:
            yield from leaves(item)
    else:
        yield part


def like(part: tuple[Any, ...], parts: list[Any]) -> Any:
    """Other parts in the form of a memory's or state's tuple, named or not."""
    return type(part)(*parts) if hasattr(part, "_fields") else tuple(parts)


def shape_of(part: Any) -> tuple[Any, ...]:
    """What must be the same for one recording to serve: the tensors' shapes and types, and all that is no tensor."""
    if isinstance(part, tuple):
        return (type(part), *(shape_of(item) for item in part))
    if isinstance(part, Tensor):
        return (tuple(part.shape), part.dtype, part.device)
    if not isinstance(part, Hashable):
        raise Unrecordable(f"it keeps a {type(part).__name__}, which may change")
    return (type(part), part)


def owned(part: Any) -> Any:
    """A memory or state in tensors of its own, none of which is a view or stands there twice."""
    if isinstance(part, Tensor):
        return part.clone(memory_format=torch.contiguous_format)
    if isinstance(part, tuple):
        return like(part, [owned(item) for item in part])
    return part


def write_over(part: Any, new: Any) -> None:
    """The new values, in the tensors of the old."""
    if shape_of(part) != shape_of(new):
        raise Unrecordable("its state does not keep its shape")
    for old, value in zip(leaves(part), leaves(new), strict=True):
        if isinstance(old, Tensor) and old is not value:
            old.copy_(value)
