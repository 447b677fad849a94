"""Says which keys each query sees, as kernels take it: lengths and a diagonal band, which let them skip tiles, and a mask.

    visible(n, t, s)  =  s < lengths[n]  and  t + shift − before ≤ s ≤ t + shift + after  and  mask[n, t, s]

Legend: B batch, H heads, T queries, S keys.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

OPEN = 1 << 30
"""Stands for an open side of the band."""


@dataclass(frozen=True, eq=False)
class Visibility:
    """Everything is visible, unless one of the parts restricts it. ``None`` means no restriction.

    ``mask`` is [T, S], [B, T, S] or [B, H, T, S], with size 1 where an axis does not matter.
    """

    lengths: Int[Tensor, " B"] | None = None
    shift: int = 0
    before: int | None = None
    after: int | None = None
    mask: Bool[Tensor, "... S"] | None = None

    def fits(self, batch: Sequence[int]) -> bool:
        """Whether it matches this batch, [B] or [B, H], without broadcasting it to more items."""
        if self.lengths is not None and self.lengths.shape != batch[:1]:
            return False
        axes = () if self.mask is None else self.mask.shape[:-2]
        return len(axes) <= len(batch) and all(size in (1, whole) for size, whole in zip(axes, batch, strict=False))

    @property
    def everything(self) -> bool:
        return self.lengths is None and self.before is None and self.after is None and self.mask is None

    def __and__(self, other: Visibility) -> Visibility:
        """What is visible in both."""
        if self.lengths is None or other.lengths is None:
            lengths = other.lengths if self.lengths is None else self.lengths
        else:
            lengths = torch.minimum(self.lengths, other.lengths)
        if self.mask is None or other.mask is None:
            mask = other.mask if self.mask is None else self.mask
        else:
            mask = torch.logical_and(*beside(self.mask, other.mask))
        # Each counts before and after from its own diagonal; the result counts from the first one's.
        shift = self.shift if self.banded or not other.banded else other.shift
        both = [(part, shift - part.shift) for part in (self, other)]
        before = [part.before + moved for part, moved in both if part.before is not None]
        after = [part.after - moved for part, moved in both if part.after is not None]
        return Visibility(lengths, shift, min(before, default=None), min(after, default=None), mask)

    @property
    def causal(self) -> bool:
        """Whether it is exactly this: a query sees the keys up to its own position, both counted from 0."""
        return (
            self.after == 0 and self.shift == 0 and self.before is None and self.lengths is None and self.mask is None
        )

    @property
    def banded(self) -> bool:
        return self.before is not None or self.after is not None

    def rows(self, start: int, stop: int) -> Visibility:
        """The visibility of the queries ``start``, …, ``stop − 1`` alone."""
        mask = self.mask
        if mask is not None and mask.shape[-2] > 1:
            mask = mask[..., start:stop, :]
        return replace(self, shift=self.shift + start, mask=mask)

    def keys(self, start: int, stop: int) -> Visibility:
        """The visibility of the keys ``start``, …, ``stop − 1`` alone, renumbered from 0."""
        mask, lengths = self.mask, self.lengths
        if mask is not None and mask.shape[-1] > 1:
            mask = mask[..., start:stop]
        if lengths is not None:
            lengths = (lengths - start).clamp(min=0)
        return replace(self, shift=self.shift - start, mask=mask, lengths=lengths)

    def dense(self, T: int, S: int, device: torch.device) -> Bool[Tensor, "... S"] | None:
        """One mask [T, S], [B, T, S] or [B, H, T, S] (size 1 where an axis does not matter), or None if all is visible."""
        keys = torch.arange(S, device=device)
        diagonal = torch.arange(T, device=device).unsqueeze(-1) + self.shift  # [T, 1]
        visible = self.mask
        if self.before is not None:
            visible = _and(visible, keys >= diagonal - self.before)
        if self.after is not None:
            visible = _and(visible, keys <= diagonal + self.after)
        if self.lengths is not None:
            visible = _and(visible, keys < self.lengths.to(device)[:, None, None])  # [B, 1, S]
        return visible

    def bounds(self) -> tuple[int, int]:
        """The band as t + low ≤ s ≤ t + high; an open side lies beyond every key, and sums with it fit in 32 bits."""
        low = -OPEN if self.before is None else max(-OPEN, min(OPEN, self.shift - self.before))
        high = OPEN if self.after is None else max(-OPEN, min(OPEN, self.shift + self.after))
        return low, high

    def pointers(self, beside: Tensor) -> tuple[Tensor, Tensor, tuple[int, int, int, int]]:
        """Lengths, and the mask with its strides over batch, head, query and key (0 where an axis does not matter), on the
        device of ``beside``, which is also passed, unread, in place of an absent part."""
        lengths = beside if self.lengths is None else self.lengths.to(beside.device)
        if self.mask is None:
            return lengths, beside, (0, 0, 0, 0)
        mask = self.mask.to(beside.device)
        mask = mask.unsqueeze(1) if mask.dim() == 3 else mask
        mask = mask[(None,) * (4 - mask.dim())]
        b, h, t, s = (0 if size == 1 else stride for size, stride in zip(mask.shape, mask.stride(), strict=True))
        return lengths, mask.view(torch.uint8), (b, h, t, s)

    def hide(self, scores: Float[Tensor, "N T S"], heads: int = 1) -> Float[Tensor, "N T S"]:
        """Scores with −∞ where a key is not visible; N = batch × ``heads``."""
        _, T, S = scores.shape
        visible = self.dense(T, S, scores.device)
        if visible is None:
            return scores
        if visible.dim() == 3:
            visible = visible.unsqueeze(1)
        by_head: Tensor = scores.unflatten(0, (-1, heads))
        return by_head.masked_fill(~visible, -math.inf).flatten(0, 1)


def _and(one: Tensor | None, other: Tensor) -> Tensor:
    return other if one is None else torch.logical_and(*beside(one, other))


def beside(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Makes [B, T, S] and [B, H, T, S] broadcast: the head axis is inserted in the middle, not in front."""
    if one.dim() == 3 and other.dim() == 4:
        one = one.unsqueeze(1)
    elif one.dim() == 4 and other.dim() == 3:
        other = other.unsqueeze(1)
    return one, other
