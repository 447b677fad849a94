"""A tape: places that are written one after the other and read again at every step, with gradients, and never copied.

    write(t): tape[t] ← eₜ        read(t): tape[0 … t−1]        ∂L/∂eₜ = Σ over the reads after t of what they send to place t

A network that looks at all of its own earlier states would stack them anew at every step. Here they lie in one tensor. To
autograd, an entry that is written and what is read of it are tied by a mark, an empty tensor that goes from each write to
whatever comes after it; what flows back is added up in a second tape, and an entry takes its part when all that read it
has given.

Legend: B batch, L places, K entries written at once, N places read. Each part has a width of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable


class _Places:
    """What is written, a tensor [B, L, w] for each part, and what flows back to it."""

    def __init__(self, contents: tuple[Tensor, ...]) -> None:
        self.contents = contents
        self.gradients: tuple[Tensor, ...] | None = None

    def flowing_back(self) -> tuple[Tensor, ...]:
        if self.gradients is None:
            # In float32 at least: many small parts are added up.
            self.gradients = tuple(
                torch.zeros_like(content, dtype=torch.promote_types(content.dtype, torch.float32))
                for content in self.contents
            )
        return self.gradients

    def put(self, place: int | Tensor, entries: Sequence[Tensor]) -> None:
        for content, entry in zip(self.contents, entries, strict=True):
            entry = entry.detach().to(content.dtype)
            if isinstance(place, int):
                content[:, place : place + entry.shape[1]] = entry
            else:
                content.scatter_(1, place[:, None, None].expand_as(entry), entry)

    def seen(self, count: int) -> tuple[Tensor, ...]:
        # .data counts its own versions: what is written behind these places later leaves them as they were, but autograd,
        # which counts changes by the tensor, would refuse to go back through what was read.
        return tuple(content.data[:, :count] for content in self.contents)


class Tape:
    """Places for entries of several parts, all empty (0) at first.

    Args:
        contents: a tensor [B, L, w] for each part, which the tape writes in. It must carry no gradient of its own.
    """

    def __init__(self, *contents: Float[Tensor, "B L _"]) -> None:
        self._places = _Places(contents)
        self._mark = contents[0].new_empty(0)

    @classmethod
    def empty(cls, batch: int, places: int, widths: Sequence[int], like: Tensor) -> Tape:
        """A tape of so many places, on the device and in the type of ``like``."""
        return cls(*(like.new_zeros(batch, places, width) for width in widths))

    def write(self, *entries: Float[Tensor, "B K _"], place: int | Int[Tensor, " B"]) -> None:
        """Put an entry of each part at ``place`` and the places behind it; each row at its own where it is a tensor, of which
        an entry is then one (K = 1). A place is written once."""
        if not torch.is_grad_enabled():
            self._places.put(place, entries)
            return
        first = not self._mark.requires_grad
        self._mark = _Write.apply(self._mark, self._places, place, first, *entries)

    def read(self, count: int) -> tuple[Float[Tensor, "B N _"], ...]:
        """The first ``count`` places of each part."""
        if not torch.is_grad_enabled():
            return self._places.seen(count)
        found: tuple[Tensor, ...] = _Read.apply(self._mark, self._places, count)
        return found


class _Write(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mark: Tensor, places: _Places, place: int | Tensor, first: bool, *entries: Tensor) -> Tensor:
        places.put(place, entries)
        # The mark is not kept: it would keep the graph, of which this is a part, alive for ever.
        ctx.places, ctx.place, ctx.first = places, place, first
        ctx.sizes = [(entry.shape, entry.dtype) for entry in entries]
        return mark.new_empty(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, mark: Tensor) -> tuple[Tensor | None, ...]:
        found, place = [], ctx.place
        for gradient, (shape, dtype) in zip(ctx.places.flowing_back(), ctx.sizes, strict=True):
            if isinstance(place, int):
                part = gradient[:, place : place + shape[1]]
            else:
                part = gradient.gather(1, place[:, None, None].expand(shape))
            found.append(part.to(dtype))
        if ctx.first:
            ctx.places.gradients = None  # nothing is left to flow back: another pass begins anew
        return mark, None, None, None, *found


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mark: Tensor, places: _Places, count: int) -> tuple[Tensor, ...]:
        ctx.places, ctx.count = places, count
        return places.seen(count)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *parts: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.places.flowing_back()
        for gradient, part in zip(gradients, parts, strict=True):
            gradient[:, : ctx.count] += part
        return gradients[0].new_empty(0), None, None
