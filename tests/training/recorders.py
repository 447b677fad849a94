"""What stands in for a CUDA device where there is none: what was recorded is computed again when it is repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class Repeater:
    """Counts what is recorded and repeated; ``refuse`` says what cannot be recorded."""

    def __init__(self, refuse: str = "") -> None:
        self.refuse, self.recorded, self.repeated = refuse, 0, 0
        self.inside = False
        self.read: list[int] = []  # the updates whose numbers were read, in order
        self.sent = 0

    @contextmanager
    def entered(self) -> Iterator[None]:
        self.inside = True
        yield
        self.inside = False

    @contextmanager
    def refusing_waits(self) -> Iterator[None]:
        yield
        if self.refuse == "waiting":
            raise RuntimeError("called a synchronizing CUDA operation\nand more")

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        assert self.inside
        if self.refuse == "recording":
            torch.rand(3)  # what a failure leaves behind
            raise RuntimeError("operation not permitted when stream is capturing")
        self.recorded += 1

        def repeat() -> None:
            assert self.inside
            self.repeated += 1
            work()

        return repeat

    def fill(self, buffer: Tensor, content: Tensor) -> None:
        buffer.copy_(content)

    def random_state(self) -> Tensor:
        return torch.get_rng_state()

    def restore_random_state(self, state: Tensor) -> None:
        torch.set_rng_state(state)

    def read_later(self, *values: Tensor) -> Callable[[], list[float]]:
        self.sent += 1
        number, found = self.sent, [float(value.detach()) for value in values]

        def read() -> list[float]:
            self.read.append(number)
            return found

        return read
