"""Reports how far a search is, and how many bytes it will hold if it writes its longest outputs (:mod:`saccade.progress`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from saccade.nn.cuda_graphs import leaves
from saccade.progress import is_watched, report
from saccade.trace.lens import Record

SETTLED = 8  # steps after which the growth per step is known


class Course:
    """A search of at most ``steps`` steps, which makes ``copies`` of its memory.

    It holds what it held at first, and what every further step adds: caches in the state, and the records of a lens.
    """

    def __init__(self, steps: int, memory: Any, copies: int) -> None:
        self.steps, self.recorded = max(steps, 1), 0
        self.memory = copies * size_of(memory) if is_watched() else 0
        self.first: int | None = None
        report(0.0, self.memory)  # before anything is copied

    def report(self, step: int, state: Any, records: Sequence[Sequence[Record]] = ()) -> None:
        """After step number ``step``, from 1, which left this state and these records."""
        if not is_watched():
            return
        self.recorded += sum(size_of(tuple(record.tensors.values())) for made in records for record in made)
        held = self.memory + size_of(state) + self.recorded
        if self.first is None:
            self.first = held
        if step >= SETTLED:
            held = self.first + (held - self.first) * self.steps // step
        report(step / self.steps, held)


def size_of(part: Any) -> int:
    """The bytes of the tensors of a memory or state."""
    return sum(leaf.nbytes for leaf in leaves(part) if isinstance(leaf, Tensor))
