"""The queries of local attention in chunks, and their windows of keys: views where windows slide, gathered where they jump.

A band's windows stand still at the ends of a sequence (they are pushed inwards), and slide by one key a query between them:

    t:      0   1   2   3   4   5   6   7      radius 2, S = 8, W = 5
    first:  0   0   0   1   2   3   3   3
            still       sliding     still

Legend: N batch with heads, T queries, S keys, D width of queries and keys, E width of values, W keys in a window; n items and t
queries of a chunk.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.kernels.local.reach import Inputs, Reach

CHUNK_ELEMENTS = {"cpu": 1 << 20}
"""Numbers in the windows of a chunk: 4 MB in float32, which a processor's cache holds …"""

MOST_ELEMENTS = 1 << 23
"""… and 32 MB on other devices, which want few and large calls."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some items and queries. ``first`` is where the first query's window begins, or [n, t] where each of them does."""

    reach: Reach
    items: slice
    queries: slice
    positions: Float[Tensor, "#n t"] | Int[Tensor, "#n t"]
    first: int | Int[Tensor, "n t"]
    slides: bool = False

    def windows(self, tensor: Float[Tensor, "N S C"]) -> Float[Tensor, "n #t W C"]:
        """The rows that each query sees of keys or values; 1 for t where all see the same."""
        W, tensor = self.reach.width, tensor[self.items]
        if isinstance(self.first, Tensor):
            return tensor.unfold(1, W, 1).mT[_each(self.first), self.first]
        if self.slides:
            return tensor[:, self.first : self.first + self._size + W - 1].unfold(1, W, 1).mT
        return tensor[:, None, self.first : self.first + W]

    def add(
        self, part: Float[Tensor, "n t W #C"], row: Float[Tensor, "n t 1 C"] | None, total: Float[Tensor, "N S C"]
    ) -> None:
        """Add ``part`` (times ``row``) to the rows that each query sees of ``total``; the order of summing is fixed."""
        W, total = self.reach.width, total[self.items]
        if isinstance(self.first, Tensor):
            self._add_gathered(part if row is None else part * row, self.first, total)
        elif self.slides:
            for w in range(W):  # no two queries see one key in the same place of their windows
                rows = total[:, self.first + w : self.first + w + self._size]
                if row is None:
                    rows.add_(part[:, :, w])
                else:
                    rows.addcmul_(part[:, :, w], row.squeeze(-2))
        else:
            seen = total[:, self.first : self.first + W]
            if row is None:
                seen.add_(part.sum(1))
            else:
                seen.baddbmm_(part.squeeze(-1).mT, row.squeeze(-2))

    def _add_gathered(self, parts: Float[Tensor, "n t W C"], first: Int[Tensor, "n t"], total: Tensor) -> None:
        n, S, C = total.shape
        W = self.reach.width
        if first.shape[1] == 1:  # a decoder's step: each row of `total` is met at most once
            windows = total.unfold(1, W, 1).mT  # [n, S − W + 1, W, C]
            windows[_each(first), first] = windows[_each(first), first] + parts
            return
        places = first.unsqueeze(-1) + torch.arange(W, device=first.device)  # [n, t, W]
        places = places + S * torch.arange(n, device=first.device)[:, None, None]
        total.view(n * S, C).index_add_(0, places.flatten(), parts.reshape(-1, C))

    def seen(self) -> Bool[Tensor, "#n t W"]:
        """Which keys of its window each query sees."""
        return self.reach.seen(self._places, self.reach.middles(self.positions), self.items)

    def gain(self, dtype: torch.dtype) -> Float[Tensor, "#n t W"] | None:
        return None if self.reach.sigma is None else self.reach.gain(self.distance(dtype))

    def distance(self, dtype: torch.dtype) -> Float[Tensor, "#n t W"]:
        """s − p for the keys s of each window."""
        return self._places - self.positions.unsqueeze(-1).to(dtype)

    def of_items(self, tensor: Float[Tensor, "#N D"]) -> Float[Tensor, "#n D"]:
        """This chunk's part of what all items share or each has its own of."""
        return tensor if tensor.shape[0] == 1 else tensor[self.items]

    @property
    def _size(self) -> int:
        return int(self.queries.stop - self.queries.start)

    @property
    def _places(self) -> Int[Tensor, "#n t W"]:
        device = self.positions.device
        if isinstance(self.first, Tensor):
            first = self.first
        else:
            stop = self.first + self._size if self.slides else self.first + 1
            first = torch.arange(self.first, stop, device=device).unsqueeze(0)  # [1, t or 1]
        return first.unsqueeze(-1) + torch.arange(self.reach.width, device=device)


def _each(first: Int[Tensor, "n t"]) -> Int[Tensor, "n 1"]:
    return torch.arange(first.shape[0], device=first.device).unsqueeze(-1)


def chunks_of(inputs: Inputs, reach: Reach) -> Iterator[Chunk]:
    """All items and queries, in chunks whose windows stay within the budget. None where there is nothing to see."""
    N, T, D = inputs.query.shape
    device, centre = inputs.query.device, inputs.centre
    pair = reach.width * max(1, D, inputs.value.shape[2])  # numbers that one query looks at
    if N * T * reach.width == 0:
        return
    pairs = max(1, CHUNK_ELEMENTS.get(device.type, MOST_ELEMENTS) // pair)
    n = min(N, pairs)
    runs = [(slice(0, T), None, False)] if centre is not None else list(_runs(reach))
    for items, (run, start, slides) in itertools.product(_slices(0, N, n), runs):
        for queries in _slices(run.start, run.stop, max(1, pairs // n)):
            if centre is not None:
                positions = centre[items, queries].detach()
                yield Chunk(reach, items, queries, positions, reach.first(reach.middles(positions)))
            elif start is not None:
                own = torch.arange(reach.shift + queries.start, reach.shift + queries.stop, device=device)
                first = start + queries.start - run.start if slides else start
                yield Chunk(reach, items, queries, own.unsqueeze(0), first, slides)


def _runs(reach: Reach) -> Iterator[tuple[slice, int, bool]]:
    """The queries of a band whose windows stand still, slide, and stand still again; and where the first of them begins."""
    last = reach.S - reach.width
    low = min(max(reach.before - reach.shift, 0), reach.T)
    high = min(max(last + reach.before - reach.shift, low), reach.T)
    for start, stop, first, slides in (
        (0, low, 0, False),
        (low, high, low + reach.shift - reach.before, True),
        (high, reach.T, last, False),
    ):
        if stop > start:
            yield slice(start, stop), first, slides


def working_dtype(inputs: Inputs) -> torch.dtype:
    """float64 where an input has it, else float32."""
    tensors = (inputs.query, inputs.key, inputs.value, inputs.v)
    return torch.float64 if any(t is not None and t.dtype is torch.float64 for t in tensors) else torch.float32


def _slices(start: int, stop: int, most: int) -> list[slice]:
    """Cut a range into the fewest pieces of at most `most`, equal within one."""
    length = stop - start
    pieces = math.ceil(length / most)
    edges = [start + length * piece // pieces for piece in range(pieces + 1)]
    return [slice(low, high) for low, high in itertools.pairwise(edges)]
