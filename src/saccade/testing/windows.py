"""What a window promises.

Legend: B batch, T queries, S keys, D width.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from saccade.attention.own import OwnWindow
from saccade.attention.windows import Extent, Window, everywhere, padding
from saccade.plugins import EVERYTHING, searching
from saccade.testing.promises import ContractBroken, demand, drawn, keep, name_of, numbers, reached, same

B, T, S = 2, 4, 5
LENGTHS = (5, 3)


def check_window(part: Any, query_width: int = 5, *, row: Callable[[int], Window] | None = None) -> tuple[str, ...]:
    """Raise :class:`ContractBroken` unless a window keeps every promise; return the promises.

    Args:
        part: a :class:`Window`, a class derived from nn.Module made by ``(query_width,)`` that makes one from queries and
            lengths, its name ``package.module:Name``, or such a module. A window that holds tensors holds them for
            2 items, 4 queries and 5 keys.
        row: for a window that holds a tensor with something for each query: the window of query t alone.

    >>> from saccade.attention.windows import band
    >>> len(check_window(band(2)))
    5
    """
    __tracebackhide__ = True
    try:
        with searching(trust=EVERYTHING):  # a test names what it tries
            subject = _Subject(OwnWindow(part, query_width).eval().double(), query_width, row)
    except Exception as fault:
        raise ContractBroken(f"{name_of(part)} cannot be made: {fault}") from fault
    return keep(name_of(part), subject, PROMISES)


@dataclass(frozen=True)
class _Subject:
    maker: OwnWindow
    query_width: int
    row: Callable[[int], Window] | None

    def window(self, first: int = 0, count: int = T, maker: OwnWindow | None = None) -> Window:
        """The window of ``count`` queries from ``first`` on."""
        if self.row is not None and count == 1:
            return self.row(first)
        queries = drawn(B, T, self.query_width, seed=5)[:, first : first + count]
        made: Window = (maker or self.maker)(queries, torch.tensor(LENGTHS))
        return made


def _extent(queries: int = T, keys: int = S, offset: int = 0) -> Extent:
    return Extent(queries, keys, offset, torch.device("cpu"), torch.float64)


def _seen(window: Window, extent: Extent) -> Tensor:
    """What is visible, [B, T, S] (or with heads) in full."""
    mask = window.visible(extent)
    return _full(torch.ones((), dtype=torch.bool) if mask is None else mask, extent)


def _gained(window: Window, extent: Extent) -> Tensor:
    gain = window.gain(extent)
    return _full(torch.ones((), dtype=torch.float64) if gain is None else gain, extent)


def _full(part: Tensor, extent: Extent) -> Tensor:
    heads = [part.shape[1]] if part.dim() == 4 else []
    return part.expand(B, *heads, extent.queries, extent.keys)


def _masks(subject: _Subject) -> None:
    extent = _extent()
    mask, gain = subject.window().visible(extent), subject.window().gain(extent)
    if mask is not None:
        demand(mask.dtype == torch.bool, f"visible gave {mask.dtype}, not True and False")
    for what, part in (("visible", mask), ("gain", gain)):
        fits = part is None or _broadcasts(part.shape, (B, T, S) if part.dim() < 4 else (B, part.shape[1], T, S))
        demand(fits, f"{what} gave {list(part.shape) if part is not None else None} for {[B, T, S]}")
    if gain is not None:
        numbers(gain, "gains")
        demand((gain >= 0).all(), f"the least gain is {float(gain.detach().min()):.6g}")
        demand(gain.dtype == extent.dtype, f"the gain is {gain.dtype} beside weights in {extent.dtype}")


def _broadcasts(shape: torch.Size, full: tuple[int, ...]) -> bool:
    paired = zip(reversed(shape), reversed(full), strict=False)
    return 2 <= len(shape) <= len(full) and all(size in (1, wanted) for size, wanted in paired)


def _rows(subject: _Subject) -> None:
    whole = _extent()
    seen, gain = _seen(subject.window(), whole), _gained(subject.window(), whole)
    for t in range(T):
        one = _extent(1, offset=t)
        window = subject.window(t, 1)
        wrong = _seen(window, one) != seen[..., t : t + 1, :]
        demand(not wrong.any(), f"query {t} alone (offset={t}) sees other keys than among all {T}")
        same(_gained(window, one), gain[..., t : t + 1, :], f"the gain of query {t} alone")


def _padding(subject: _Subject) -> None:
    if _holds_tensors(subject.maker.part):
        return  # they fix the number of keys
    near, far = _extent(), _extent(keys=S + 3)
    changed = _seen(subject.window(), near) != _seen(subject.window(), far)[..., :S]
    demand(
        not changed.any(), f"{int(changed.sum())} keys change sides when the batch is padded from {S} to {S + 3} keys"
    )
    same(_gained(subject.window(), far)[..., :S], _gained(subject.window(), near), "gains in a longer batch")


def _holds_tensors(window: Any) -> bool:
    if isinstance(window, tuple):
        return any(_holds_tensors(part) for part in window)
    parts = vars(window).values() if isinstance(window, Window) else ()
    return isinstance(window, Tensor) or any(_holds_tensors(part) for part in parts)


def _composes(subject: _Subject) -> None:
    window, extent = subject.window(), _extent()
    real = padding(torch.tensor(LENGTHS))
    together = _seen(window & real, extent)
    mine, theirs = _seen(window, extent), _seen(real, extent)
    expected = mine & (theirs.unsqueeze(1) if mine.dim() == 4 else theirs)
    demand(torch.equal(together, expected), "window & padding does not show what both show")
    demand(torch.equal(_seen(real & window, extent), expected), "padding & window does not show what both show")
    same(_gained(window & real, extent), _gained(window, extent), "the gain of window & padding")
    same(_gained(window & window, extent), _gained(window, extent) ** 2, "the gain of window & window")
    demand(torch.equal(_seen(everywhere & window, extent), mine), "everywhere & window is not the window")


def _unchanged(subject: _Subject) -> None:
    maker = copy.deepcopy(subject.maker)
    window, extent = subject.window(maker=maker), _extent()
    first = _seen(window, extent), _gained(window, extent)
    _seen(subject.window(2, 1, maker), _extent(1, offset=2))
    demand(torch.equal(_seen(window, extent), first[0]), "asked again, it shows other keys")
    same(_gained(window, extent), first[1], "the gain, asked again", rtol=0, atol=0)
    gain = window.gain(extent)
    learnt = list(maker.named_parameters())
    if learnt:
        if gain is None or not gain.requires_grad:
            raise ContractBroken(f"it has {len(learnt)} parameters, and its gain depends on none of them")
        (gain * drawn(*gain.shape, dtype=gain.dtype)).sum().backward()
        reached((name.removeprefix("part."), parameter) for name, parameter in learnt)


PROMISES: dict[str, Callable[[_Subject], None]] = {
    "what is visible is True and False over queries and keys, and gains are not negative": _masks,
    "queries one at a time see what they see all at once": _rows,
    "what is visible does not depend on how far the batch is padded": _padding,
    "it composes with other windows by &": _composes,
    "asked again it shows the same, and gradients of its gain reach every parameter": _unchanged,
}
