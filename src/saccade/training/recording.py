"""CUDA graphs and deferred reads for training: record launches, replay them, read numbers without waiting.

A recurrent network's update is thousands of small kernels, and the host takes longer to launch them than the device to run
them. A CUDA graph is such a sequence of launches, recorded once and replayed with one call, always over the same memory: its
inputs and outputs live in buffers that stay where they are.

Recorded, replayed and eager work runs in order on one stream of its own: no buffer is overwritten before it was read.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import torch
from torch import Tensor

from saccade.nn.cuda_graphs import Unrecordable, captured_by, recovering, refusing_waits

Work = Callable[[], None]


class Recorder(Protocol):
    """What :class:`saccade.training.graphs.Graphs` and the stepper need of a device."""

    def entered(self) -> AbstractContextManager[None]:
        """Run the body on the recorder's own stream, ordered after earlier and before later work."""

    def refusing_waits(self) -> AbstractContextManager[None]:
        """Raise on work that cannot be recorded: it synchronises with the device, or draws random numbers on the host, which
        would be the same in every replay."""

    def record(self, work: Work) -> Work:
        """Record work without running it; returns what replays it. Raises where it cannot be recorded."""

    def fill(self, buffer: Tensor, content: Tensor) -> None:
        """Copy a tensor from the host into a device buffer without waiting."""

    def random_state(self) -> Tensor: ...

    def restore_random_state(self, state: Tensor) -> None: ...

    def read_later(self, *values: Tensor) -> Callable[[], list[float]]:
        """A function that waits for these scalars and returns them; nothing waits until it is called."""


class CudaRecorder:
    """A stream, a memory pool that all graphs share, and the random number generator of one CUDA device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)
        # Graphs run one after another and keep nothing in the pool between replays, so they can share its memory.
        self.pool = torch.cuda.graph_pool_handle()

    @contextmanager
    def entered(self) -> Iterator[None]:
        outside = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(outside)
        try:
            with torch.cuda.stream(self.stream):
                yield
        finally:
            outside.wait_stream(self.stream)

    @contextmanager
    def refusing_waits(self) -> Iterator[None]:
        with refusing_draws(), refusing_waits():
            yield

    def record(self, work: Work) -> Work:
        graph = torch.cuda.CUDAGraph()
        with recovering(graph, self.stream.device), torch.cuda.stream(self.stream), captured_by(graph, self.pool):
            work()
        return graph.replay

    def fill(self, buffer: Tensor, content: Tensor) -> None:
        # Only a copy from pinned memory is asynchronous; the allocator keeps that memory until the copy is done.
        buffer.copy_(content.pin_memory(), non_blocking=True)

    def random_state(self) -> Tensor:
        return torch.cuda.get_rng_state(self.device)

    def restore_random_state(self, state: Tensor) -> None:
        torch.cuda.set_rng_state(state, self.device)

    def read_later(self, *values: Tensor) -> Callable[[], list[float]]:
        scalars = torch.stack([value.detach().to(self.device, torch.float32).reshape(()) for value in values])
        host = torch.empty(len(values), dtype=torch.float32, pin_memory=True)
        host.copy_(scalars, non_blocking=True)
        copied = torch.cuda.Event()
        copied.record()

        def read() -> list[float]:
            copied.synchronize()
            return host.tolist()

        return read


@contextmanager
def refusing_draws() -> Iterator[None]:
    """Raise at the end if the body drew random numbers from one of the host's generators."""
    before = torch.get_rng_state(), random.getstate()
    yield
    if not torch.equal(before[0], torch.get_rng_state()) or before[1] != random.getstate():
        raise Unrecordable("the network draws random numbers on the host, which would be the same at every update")


def recorder_for(device: torch.device) -> Recorder | None:
    """The recorder of a CUDA device; None elsewhere, where launches cost little and numbers are read at once."""
    return CudaRecorder(device) if device.type == "cuda" else None
