"""Reports the progress of a long computation to a watcher, which may raise an exception to stop it.

A search reports after each step, a prediction loop after each batch:

    with watched(print):
        bundle.predict(texts)  # Progress(share=0.5, held=2300, positions=120) …

Reports go to the watcher of the same thread or asyncio task; without one they cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Progress(NamedTuple):
    """The progress of a computation.

    Attributes:
        share: how much is done, 0 to 1; None where only a layer has ended.
        held: the bytes that it will hold at most; 0 where this is not known.
        positions: how many positions of outputs it will compute at most; 0 where this is not known.
    """

    share: float | None = None
    held: int = 0
    positions: int = 0


Watcher = Callable[[Progress], None]
_WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(watcher: Watcher | None) -> Iterator[None]:
    """Send the reports of the block to ``watcher``."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def is_watched() -> bool:
    """Whether anyone watches: what is computed for a report alone can be left out otherwise."""
    return _WATCHER.get() is not None


def report(share: float | None = None, held: int = 0, positions: int = 0) -> None:
    """Tell the watcher, if there is one; raises what it raises."""
    watcher = _WATCHER.get()
    if watcher is not None:
        watcher(Progress(share, held, positions))


@contextmanager
def portion(start: float, size: float) -> Iterator[None]:
    """Work inside the block is ``size`` of the whole, from ``start``: its reports become those of the whole.

    >>> with watched(print), portion(0.5, 0.25):
    ...     report(1.0, positions=30)
    Progress(share=0.75, held=0, positions=120)
    """
    outer = _WATCHER.get()

    def whole(part: Progress) -> None:
        if outer is not None:
            share = None if part.share is None else start + size * part.share
            outer(Progress(share, part.held, round(part.positions / size)))

    with watched(None if outer is None else whole):
        yield
