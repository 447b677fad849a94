"""All that training asks of a CUDA device beside arithmetic: recording launches, repeating them, and reading numbers late.

A recurrent network's update is thousands of small kernels, and the host takes longer to launch them than the device to run
them. A CUDA graph is such a sequence of launches, recorded once and repeated with one call: over the same memory, so what
goes in and comes out lives in buffers that stay where they are.

Work that is recorded, repeated or done live between the two runs on one stream of its own, in order: no buffer is written
before it was read.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Protocol

import torch
from torch import Tensor

from saccade.nn.captured import refusing_waits

Work = Callable[[], None]


class Recorder(Protocol):
    """What :class:`saccade.training.graphs.Graphs` and the stepper need of a device."""

    def entered(self) -> AbstractContextManager[None]:
        """What is done inside runs on the recorder's own stream, after what came before and before what comes after."""

    def refusing_waits(self) -> AbstractContextManager[None]:
        """Work that makes the host wait for the device raises: it could not be recorded."""

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
        self._spoilt: list[torch.cuda.CUDAGraph] = []

    @contextmanager
    def entered(self) -> Iterator[None]:
        outside = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(outside)
        try:
            with torch.cuda.stream(self.stream):
                yield
        finally:
            outside.wait_stream(self.stream)

    def refusing_waits(self) -> AbstractContextManager[None]:
        return refusing_waits()

    def record(self, work: Work) -> Work:
        graph = torch.cuda.CUDAGraph()
        # Collecting garbage in mid-recording may free memory or graphs of someone else, which a recording forbids.
        collecting = gc.isenabled()
        gc.disable()
        try:
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"):
                work()
        except Exception:
            self._clean_up(graph)
            raise
        finally:
            if collecting:
                gc.enable()
        return graph.replay

    def _clean_up(self, graph: torch.cuda.CUDAGraph) -> None:
        """After a recording that failed, leave a device on which live work goes on."""
        # The allocator goes on asking a graph that was never ended whether an allocation is its own: it must not vanish.
        self._spoilt.append(graph)
        # The generator still believes that it is being recorded and would refuse to draw; its copy does not.
        with suppress(AttributeError, RuntimeError):
            generator = torch.cuda.default_generators[self.stream.device.index]
            generator.graphsafe_set_state(generator.clone_state())

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


def recorder_for(device: torch.device) -> Recorder | None:
    """What records on this device; None where launches are no burden and numbers are read at once."""
    return CudaRecorder(device) if device.type == "cuda" else None
