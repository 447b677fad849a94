"""All that training asks of a CUDA device beside arithmetic: recording launches, repeating them, and reading numbers late.

A recurrent network's update is thousands of small kernels, and the host takes longer to launch them than the device to run
them. A CUDA graph is such a sequence of launches, recorded once and repeated with one call: over the same memory, so what
goes in and comes out lives in buffers that stay where they are.

Work that is recorded, repeated or done live between the two runs on one stream of its own, in order: no buffer is written
before it was read.
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
        """What is done inside runs on the recorder's own stream, after what came before and before what comes after."""

    def refusing_waits(self) -> AbstractContextManager[None]:
        """Work that makes the host wait for the device raises: it could not be recorded. So does work for which the host
        draws random numbers: they would be the same at every repetition."""

    def record(self, work: Work) -> Work:
        """What repeats this work; recording does not do it. Raises where it cannot be recorded."""

    def fill(self, buffer: Tensor, content: Tensor) -> None:
        """Write a host's tensor into a device's buffer without waiting for it."""

    def random_state(self) -> Tensor: ...

    def restore_random_state(self, state: Tensor) -> None: ...

    def late(self, *values: Tensor) -> Callable[[], list[float]]:
        """A function that waits for these scalars and returns them: it costs nothing until it is called."""


class CudaRecorder:
    """A stream, a pool of memory that all graphs share, and the generator of random numbers of one CUDA device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)
        # Graphs run one after another and keep nothing in the pool from one to the next: one graph's memory serves all.
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
        # Only from pinned memory does a copy not wait; the allocator keeps that memory until the copy is done.
        buffer.copy_(content.pin_memory(), non_blocking=True)

    def random_state(self) -> Tensor:
        return torch.cuda.get_rng_state(self.device)

    def restore_random_state(self, state: Tensor) -> None:
        torch.cuda.set_rng_state(state, self.device)

    def late(self, *values: Tensor) -> Callable[[], list[float]]:
        found = torch.stack([value.detach().to(self.device, torch.float32).reshape(()) for value in values])
        arriving = torch.empty(len(values), dtype=torch.float32, pin_memory=True)
        arriving.copy_(found, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record()

        def read() -> list[float]:
            arrived.synchronize()
            return arriving.tolist()

        return read


@contextmanager
def refusing_draws() -> Iterator[None]:
    """Work that drew random numbers from one of the host's generators raises at its end."""
    before = torch.get_rng_state(), random.getstate()
    yield
    if not torch.equal(before[0], torch.get_rng_state()) or before[1] != random.getstate():
        raise Unrecordable("the network draws random numbers on the host, which would be the same at every update")


def recorder_for(device: torch.device) -> Recorder | None:
    """What records on this device; None where launches are no burden and numbers are read at once."""
    return CudaRecorder(device) if device.type == "cuda" else None
