"""Windows: which keys a query may attend to (True = visible), and optionally a gain that multiplies the weights after
normalising. Windows are frozen values and compose with ``&``: visible in both, gains multiplied.

``everywhere`` · ``causal`` · ``band(radius)`` (Luong's local-m) · ``gaussian(centre, radius)`` (his local-p) ·
``padding(lengths)`` · ``mask(seen)``

Legend: B batch, H heads, T queries, S keys. Positions are counted from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.attention.checks import check_one_of, check_parts, check_radius, tensor_of
from saccade.errors import SaccadeError
from saccade.kernels.dtypes import working_dtype
from saccade.kernels.visibility import Visibility, beside


@dataclass(frozen=True)
class Extent:
    """The queries and keys that a window applies to; ``offset`` is the position of the first query (None: not given), ``batch``
    the number of items (None: not known)."""

    queries: int
    keys: int
    offset: int | None
    device: torch.device
    dtype: torch.dtype
    batch: int | None = None

    @property
    def query_positions(self) -> Tensor:
        start = self.offset or 0
        return torch.arange(start, start + self.queries, device=self.device).unsqueeze(-1)  # [T, 1]

    @property
    def key_positions(self) -> Tensor:
        return torch.arange(self.keys, device=self.device)  # [S]


class Window:
    """All keys are visible and weights unchanged; the base of the other windows."""

    def __init_subclass__(cls) -> None:
        # A subclass that overrides `visible` must not inherit a `visibility` that says something else.
        if "visible" in cls.__dict__ and "visibility" not in cls.__dict__:
            cls.visibility = Window.visibility  # type: ignore[method-assign]

    def visible(self, extent: Extent) -> Bool[Tensor, "... S"] | None:
        """[T, S], [B, T, S] or [B, H, T, S], with size 1 where an axis does not matter; None: all visible."""
        return None

    def gain(self, extent: Extent) -> Float[Tensor, "... S"] | None:
        """The factor of the weights after normalising; None: 1."""
        return None

    def visibility(self, extent: Extent) -> Visibility:
        """``visible`` as kernels take it: lengths and bands are given as such, so that kernels can skip tiles."""
        visible = self.visible(extent)
        return Visibility() if visible is None else Visibility(mask=torch.atleast_2d(visible))

    def __and__(self, other: Window) -> Window:
        check_parts(window=other)
        parts = (*_parts(self), *_parts(other))
        return parts[0] if len(parts) == 1 else All(parts) if parts else everywhere

    def __repr__(self) -> str:
        return "everywhere"


everywhere = Window()


@dataclass(frozen=True, repr=False)
class All(Window):
    """Several windows combined."""

    parts: tuple[Window, ...]

    def visible(self, extent: Extent) -> Tensor | None:
        visible: Tensor | None = None
        for part in self.parts:
            mask = part.visible(extent)
            if mask is not None:
                visible = mask if visible is None else torch.logical_and(*beside(visible, mask))
        return visible

    def gain(self, extent: Extent) -> Tensor | None:
        total: Tensor | None = None
        for part in self.parts:
            factor = part.gain(extent)
            if factor is not None:
                total = factor if total is None else torch.mul(*beside(total, factor))
        return total

    def visibility(self, extent: Extent) -> Visibility:
        visibility = Visibility()
        for part in self.parts:
            visibility = visibility & part.visibility(extent)
        return visibility

    def __repr__(self) -> str:
        return " & ".join(repr(part) for part in self.parts)


@dataclass(frozen=True, repr=False)
class Causal(Window):
    """A query sees the keys up to its own position. Called with an alignment, it defines the case T ≠ S."""

    align: Literal["top-left", "bottom-right"] | None = None

    def __call__(self, align: Literal["top-left", "bottom-right"]) -> Causal:
        check_one_of(("top-left", "bottom-right"), align=align)
        return Causal(align)

    def visible(self, extent: Extent) -> Tensor:
        return extent.key_positions <= extent.query_positions + self._shift(extent)  # [T, S]

    def visibility(self, extent: Extent) -> Visibility:
        return Visibility(shift=(extent.offset or 0) + self._shift(extent), after=0)

    def _shift(self, extent: Extent) -> int:
        if self.align is None and extent.offset is None and extent.queries != extent.keys:
            raise SaccadeError(
                f"causal with {extent.queries} queries and {extent.keys} keys has two meanings: "
                "say causal('top-left') or causal('bottom-right'), or pass offset="
            )
        return extent.keys - extent.queries if self.align == "bottom-right" and extent.offset is None else 0

    def __repr__(self) -> str:
        return "causal" if self.align is None else f"causal({self.align!r})"


causal = Causal()


@dataclass(frozen=True, eq=False, repr=False)
class Band(Window):
    """Keys at most ``radius`` away from the centre; without one, from the query's own position."""

    radius: int
    centre: Float[Tensor, "*batch T"] | Int[Tensor, "*batch T"] | None = None

    def visible(self, extent: Extent) -> Tensor:
        middle = extent.query_positions if self.centre is None else self.centre.detach().floor().unsqueeze(-1)
        return (extent.key_positions - middle).abs() <= self.radius  # [(B, (H,)) T, S]

    def visibility(self, extent: Extent) -> Visibility:
        if self.centre is not None:
            return super().visibility(extent)
        return Visibility(shift=extent.offset or 0, before=self.radius, after=self.radius)

    def __repr__(self) -> str:
        return f"band({self.radius})"


def band(radius: int, centre: Tensor | None = None) -> Band:
    """Luong's local-m: the keys within ``radius`` of the query's position, or of ``centre`` [B, (H,) T]."""
    check_radius(radius, 0)
    return Band(radius, None if centre is None else _positions(centre))


@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(Window):
    """A band around ⌊centre⌋ and the gain exp(−(s − centre)² / 2σ²), σ = radius / 2."""

    centre: Float[Tensor, "*batch T"]
    radius: int

    def visible(self, extent: Extent) -> Tensor:
        # Only the window's middle is rounded: the gain keeps the real centre, through which its gradient flows.
        return Band(self.radius, self.centre).visible(extent)

    def gain(self, extent: Extent) -> Tensor:
        distance = extent.key_positions - self.centre.unsqueeze(-1)
        return torch.exp(-(distance**2) / (2 * (self.radius / 2) ** 2)).to(extent.dtype)

    def __repr__(self) -> str:
        return f"gaussian(centre={list(self.centre.shape)}, radius={self.radius})"


def gaussian(centre: Float[Tensor, "*batch T"], radius: int) -> Gaussian:
    """Luong's local-p: weights × exp(−(s − p)² / 2σ²) with σ = radius/2, inside the window; not renormalised (eq. 10)."""
    check_radius(radius, 1)
    return Gaussian(_positions(centre), radius)


@dataclass(frozen=True, eq=False, repr=False)
class Padding(Window):
    """Real keys are visible, padding is not."""

    keep: Int[Tensor, " B"] | Bool[Tensor, "B S"]

    def visible(self, extent: Extent) -> Tensor:
        if self.keep.dtype == torch.bool:
            if self.keep.shape[-1] != extent.keys:
                raise SaccadeError(f"the padding mask covers {self.keep.shape[-1]} keys, but there are {extent.keys}")
            return self.keep.unsqueeze(-2)  # [B, 1, S]
        if self.lengths_of_items and extent.batch == 1 < len(self.keep):
            raise SaccadeError(
                f"padding: expected the length of one item, found {len(self.keep)}: a mask of one item is [1, S], for "
                "instance [[1, 1, 0]]"
            )
        return (extent.key_positions < self.keep.unsqueeze(-1)).unsqueeze(-2)  # [B, 1, S]

    def visibility(self, extent: Extent) -> Visibility:
        return Visibility(lengths=self.keep) if self.lengths_of_items else super().visibility(extent)

    @property
    def lengths_of_items(self) -> bool:
        """Whether it is one length per item, [B], rather than a mask or a length per head."""
        return self.keep.dtype != torch.bool and self.keep.dim() == 1

    def __repr__(self) -> str:
        return f"padding({list(self.keep.shape)})"


def padding(keep: Tensor | Sequence[int] | Sequence[Sequence[int]]) -> Padding:
    """Hide padding: ``keep`` is the length of each row [B] (or of all, one number), or a mask [B, S] that is True (or 1) at
    real keys.

    A mask may hold whole numbers, as the ``attention_mask`` of a Hugging Face tokenizer does: [B, S] of 1 and 0 alone is one.
    Other whole numbers [B, H] are a length per head. Lists are taken too.

    >>> padding([2, 3]), padding([[1, 1, 0], [1, 1, 1]])
    (padding([2]), padding([2, 3]))
    """
    keep = tensor_of(keep, "padding", "the length of each row, or a mask that is True at real keys")
    whole = not (keep.is_floating_point() or keep.is_complex())
    if keep.dtype != torch.bool and keep.dim() == 2 and bool(((keep == 0) | (keep == 1)).all()):
        return Padding(keep.bool())
    if not whole or keep.dim() > 2 or (keep.dtype == torch.bool and not keep.dim()):
        expected = "lengths [B] as whole numbers, or a mask [B, S] of True and False or of 1 and 0"
        raise SaccadeError(f"padding: expected {expected}, found {list(keep.shape)} of {keep.dtype}")
    return Padding(keep)


@dataclass(frozen=True, eq=False, repr=False)
class Masked(Window):
    """Keys are visible where the mask is True."""

    keep: Bool[Tensor, "... T S"]

    def visible(self, extent: Extent) -> Tensor:
        sizes = zip(self.keep.shape[-2:], (extent.queries, extent.keys), strict=True)
        if any(size not in (1, whole) for size, whole in sizes):
            raise SaccadeError(
                f"the mask is {list(self.keep.shape)}, but there are {extent.queries} queries and {extent.keys} keys: "
                "expected [T, S], [B, T, S] or [B, H, T, S]"
            )
        return self.keep

    def __repr__(self) -> str:
        return f"mask({list(self.keep.shape)})"


def mask(seen: Tensor | Sequence[Any]) -> Masked:
    """Any mask, True where a query may look: [T, S], [B, T, S] or [B, H, T, S], with 1 where an axis does not matter."""
    seen = tensor_of(seen, "mask", "a mask that is True where a query may look")
    if seen.dim() < 2:
        raise SaccadeError(f"mask: expected [T, S], [B, T, S] or [B, H, T, S], found {list(seen.shape)}")
    if seen.dtype != torch.bool:
        raise SaccadeError(f"mask: expected booleans, True where a query may look, found {seen.dtype}: pass mask != 0")
    return Masked(seen)


def _positions(centre: Any) -> Tensor:
    """The centres, in float32 at least: half precision has no odd positions from 256 (bfloat16) or 2048 (float16) on."""
    positions = tensor_of(centre, "centre", "the centre of each query's window")
    if positions.dtype == torch.bool or positions.is_complex():
        raise SaccadeError(f"centre: expected numbers, positions of keys, found {positions.dtype}")
    return positions.to(working_dtype(positions.dtype))


def _parts(window: Window) -> tuple[Window, ...]:
    if isinstance(window, All):
        return window.parts
    return () if window is everywhere else (window,)
