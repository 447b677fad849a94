"""Recognises masks of other libraries as lengths and a band, to avoid their T × S numbers.

A mask is a tensor, or a rule that gives any of its rows. From three rows a band is guessed,

    visible(n, t, s)  =  real(n, s)  and  t + low ≤ s ≤ t + high,

and the guess is compared with every row, one block at a time. If it holds, the kernels use it (:class:`Visibility`); if not,
rows are made when they are needed.

Legend: B batch, H heads, T queries, S keys, t queries in a block. An axis that does not matter has size 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.visibility import Visibility

BLOCK_NUMBERS = 1 << 22
"""Numbers of a mask, or scores, per block."""

HIDING = -1e30
"""A key is hidden if a number this low, or the lowest of its type, is added to its score."""

Rows = Callable[[int, int], Tensor]


@dataclass(frozen=True, eq=False)
class Sight:
    """Which of S keys each of T queries sees: ``seen`` as lengths and a band, otherwise ``rows`` [B, H, t, S]."""

    queries: int
    keys: int
    seen: Visibility | None = None
    rows: Rows | None = None

    def block(self, start: int, stop: int, device: torch.device) -> Tensor | None:
        """What the queries start, …, stop − 1 see: [B, H, t, S]; None: everything."""
        if self.seen is None:
            return None if self.rows is None else self.rows(start, stop)
        visible = self.seen.rows(start, stop).dense(stop - start, self.keys, device)
        if visible is None:
            return None
        return visible.unsqueeze(1) if visible.dim() == 3 else visible[(None,) * (4 - visible.dim())]

    def of(self, start: int, stop: int) -> Sight:
        """The same for the queries start, …, stop − 1."""
        rows = self.rows
        return Sight(
            stop - start,
            self.keys,
            None if self.seen is None else self.seen.rows(start, stop),
            None if rows is None else lambda first, last: rows(start + first, start + last),
        )


def everything(T: int, S: int) -> Sight:
    return Sight(T, S, Visibility())


def sight_of_mask(mask: Tensor, T: int, S: int) -> tuple[Sight, Tensor | None]:
    """What a mask [B, H, T, S] (boolean, or added to the scores) leaves visible, and the numbers to add if they do more than
    hide keys. Any size may be 1."""
    mask = mask[(None,) * (4 - mask.dim())]
    if mask.shape[-2] not in (1, T) or mask.shape[-1] not in (1, S):
        raise SaccadeError(f"mask: expected [..., {T}, {S}] (either may be 1), found {list(mask.shape)}")
    mask = mask.expand(*mask.shape[:-1], S)
    if mask.dtype == torch.bool:
        visible, added = mask, None
    else:
        lowest = max(torch.finfo(mask.dtype).min, HIDING)
        visible = mask > lowest
        added = None if bool(((mask == 0) | ~visible).all()) else mask.masked_fill(~visible, 0.0)

    def rows(start: int, stop: int) -> Tensor:
        return visible if visible.shape[-2] == 1 else visible[:, :, start:stop]

    return recognised(rows, T, S, visible.device), added


def recognised(rows: Rows, T: int, S: int, device: torch.device, real: Tensor | None = None) -> Sight:
    """What these rows show, as lengths and a band if possible. ``real`` [B, S]: the keys that any query may see, if known."""
    unknown = Sight(T, S, None, rows)
    if not T or not S or rows(0, 1).shape[1] != 1:
        return unknown
    step = max(1, BLOCK_NUMBERS // max(1, rows(0, 1).shape[0] * S))
    blocks = [(start, min(start + step, T)) for start in range(0, T, step)]
    if real is None:
        real = torch.stack([rows(*block).any(-2).squeeze(1) for block in blocks]).any(0)  # [B, S]
    seen = _band(rows, T, S, real) & of_real_keys(real)
    guess = Sight(T, S, seen)
    for start, stop in blocks:
        visible = guess.block(start, stop, device)
        found = rows(start, stop)
        if not bool((found if visible is None else found == visible).all()):
            return unknown
    return guess


def of_real_keys(real: Tensor) -> Visibility:
    """Keys [B, S] as lengths if each row is a prefix, otherwise as a mask [B, 1, S]."""
    if bool(real.all()):
        return Visibility()
    lengths = real.sum(-1)
    if bool(((torch.arange(real.shape[-1], device=real.device) < lengths.unsqueeze(-1)) == real).all()):
        return Visibility(lengths=lengths)
    return Visibility(mask=real.unsqueeze(-2))


def _band(rows: Rows, T: int, S: int, real: Tensor) -> Visibility:
    """The narrowest band around three rows; a side without further real keys is open."""
    samples = sorted({0, T // 2, T - 1})
    places = torch.arange(S, device=real.device)
    visible = torch.stack([rows(t, t + 1)[:, 0, 0] for t in samples]) & real  # [samples, B, S]
    sees = visible.any(-1)
    if not bool(sees.any()):
        return Visibility()
    last = torch.where(visible, places, -1).amax(-1)  # [samples, B]
    first = torch.where(visible, places, S).amin(-1)
    diagonal = torch.tensor(samples, device=real.device).unsqueeze(-1)
    high = int(torch.where(sees, last - diagonal, -T - S).max())
    low = int(torch.where(sees, first - diagonal, T + S).min())
    ends, begins = torch.where(real, places, -1).amax(-1), torch.where(real, places, S).amin(-1)
    open_after = bool((last[0] == ends).all()) and bool(sees[0].all())
    open_before = bool((first[-1] == begins).all()) and bool(sees[-1].all())
    # A causal band ends at its diagonal, so that it is recognised as one.
    shift = low if open_after else high
    return Visibility(None, shift, None if open_before else shift - low, None if open_after else high - shift)


# ---- Masks as rules --------------------------------------------------------------------------------------------------


class DeferredMask(Tensor):
    """A mask [B, 1, T, S] that is allocated only when something computes with it. Models mostly just pass masks on."""

    sight: Sight
    behind: int
    before: int

    @staticmethod
    def of(sight: Sight, batch: int, device: torch.device, *, before: int = 0, behind: int = 0) -> DeferredMask:
        """``before``: the number of earlier queries; ``behind``: of dropped keys."""
        blank = torch.zeros((), dtype=torch.bool, device=device).expand(batch, 1, sight.queries, sight.keys)
        mask = blank.as_subclass(DeferredMask)
        mask.sight, mask.before, mask.behind = sight, before, behind
        return mask

    def dense(self) -> Tensor:
        """The whole mask, [B, 1, T, S]."""
        with torch._C.DisableTorchFunctionSubclass():
            shape, device = self.shape, self.device
            visible = self.sight.block(0, self.sight.queries, device)
            if visible is None:
                return torch.ones(shape, dtype=torch.bool, device=device)
            return visible.expand(shape)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in _SHAPE_ALONE:
            args = tuple(_dense(each) for each in args)
            kwargs = {name: _dense(each) for name, each in kwargs.items()}
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)


_SHAPE_ALONE = {
    Tensor.size, Tensor.dim, Tensor.numel, Tensor.is_floating_point, Tensor.__len__, Tensor.get_device,
    *(getattr(Tensor, name).__get__ for name in ("shape", "ndim", "dtype", "device", "is_cuda", "layout", "requires_grad",
                                                 "is_nested", "is_sparse", "is_meta")),
}  # fmt: skip


def _dense(argument: Any) -> Any:
    if isinstance(argument, DeferredMask):
        return argument.dense()
    return type(argument)(map(_dense, argument)) if type(argument) in (list, tuple) else argument
