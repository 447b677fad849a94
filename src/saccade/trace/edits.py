"""Edits: change attention through the lens.

``Mask`` hides keys, ``Boost`` multiplies their weights and divides the row by its new sum, ``Set`` replaces a row after
normalising and gain, ``Even`` gives all visible keys the same weight. An edit applies to a site, and may name one head and one
step; ``None`` means all of them. Where keys grow with the output, a key that does not exist yet is ignored; one that never
exists is an error (:meth:`saccade.trace.Lens.check`).

With α the weights before the gain, under any normaliser,

    Boost:  αₛ ← fₛ αₛ Σ α / Σ f α          f the factor at its keys, 1 elsewhere

For a softmax this adds log f to its logits. A weight of exactly 0, as sparsemax gives, stays 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from saccade.errors import SaccadeError


@dataclass(frozen=True, kw_only=True)
class Edit:
    """Where an edit applies: at which site, head and step (the absolute position of the query)."""

    site: str | None = None
    head: int | None = None
    step: int | None = None

    def __post_init__(self) -> None:
        # Edits also come from files and requests, whose types are not checked.
        if not (self.site is None or isinstance(self.site, str)):
            raise SaccadeError(f"site must be the name of a site: got {self.site!r}")
        for name in ("head", "step"):
            number = getattr(self, name)
            if number is not None and not _is_position(number):
                raise SaccadeError(f"{name} must be 0 or a positive whole number: got {number!r}")

    def rows(self, site: str, offset: int, weights: Tensor) -> tuple[slice, slice] | None:
        """The heads and queries of ``weights`` [B, H, T, S] that this edit changes; None where it does not apply."""
        _, H, T, _ = weights.shape
        if self.site is not None and self.site != site:
            return None
        if self.step is not None and not offset <= self.step < offset + T:
            return None
        if self.head is not None and not 0 <= self.head < H:
            raise SaccadeError(f"{self}: site {site!r} has {H} head(s), found head={self.head}")
        heads = slice(None) if self.head is None else slice(self.head, self.head + 1)
        queries = slice(None) if self.step is None else slice(self.step - offset, self.step - offset + 1)
        return heads, queries

    def to_json(self) -> dict[str, Any]:
        return {"edit": type(self).__name__.lower(), **asdict(self)}


@dataclass(frozen=True)
class Mask(Edit):
    """Hides ``keys``."""

    keys: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "keys", _keys(self.keys))

    def before(self, scores: Tensor, where: tuple[slice, slice]) -> Tensor:
        return _add(self, scores, where, -math.inf)


@dataclass(frozen=True)
class Boost(Edit):
    """Multiplies the weight of each of ``keys`` by ``factor``, under any normaliser; then the row is divided by its new sum."""

    keys: tuple[int, ...]
    factor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "keys", _keys(self.keys))
        number = isinstance(self.factor, int | float) and not isinstance(self.factor, bool)
        if not number or not self.factor > 0 or math.isinf(self.factor):
            raise SaccadeError(f"factor must be a positive number: got {self.factor!r} (to hide a key, use Mask)")

    def before(self, scores: Tensor, where: tuple[slice, slice]) -> Tensor:
        return _add(self, scores, where, math.log(self.factor))

    def normalised(self, weights: Tensor, where: tuple[slice, slice]) -> Tensor:
        """The same, of weights whose normaliser is no softmax."""
        heads, queries = where
        changed = weights.clone()
        rows = changed[:, heads, queries]
        there = rows > 0
        # Logarithms, so that no factor overflows; twice masked, because the gradient of log 0 is not finite.
        logits = torch.where(there, rows, 1.0).log().masked_fill(~there & there.any(-1, keepdim=True), -math.inf)
        boosted = torch.softmax(logits + _addend(self, logits, math.log(self.factor)), dim=-1)
        changed[:, heads, queries] = torch.where(there, boosted * rows.sum(-1, keepdim=True), rows)
        return changed


@dataclass(frozen=True)
class Set(Edit):
    """Replaces the row by ``row``, one weight per key, without normalising it."""

    row: tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.row, str | bytes | Mapping) or not isinstance(self.row, Iterable) or _is_scalar(self.row):
            raise SaccadeError(f"row must be a list of weights, one per key: got {self.row!r:.60}")
        row = tuple(self.row)
        wrong = [weight for weight in row if isinstance(weight, str) or not _is_number(weight)]
        if wrong:
            raise SaccadeError(f"row must hold numbers: got {wrong[0]!r:.60}")
        object.__setattr__(self, "row", tuple(map(float, row)))
        if any(not weight >= 0 or math.isinf(weight) for weight in self.row):
            raise SaccadeError(f"weights must be finite and not negative: got {self.row}")

    def after(self, weights: Tensor, where: tuple[slice, slice]) -> Tensor:
        S = weights.shape[-1]
        if len(self.row) != S:
            raise SaccadeError(f"row: expected {S} weights, one per key, found {len(self.row)}")
        heads, queries = where
        changed = weights.clone()
        changed[:, heads, queries] = torch.tensor(self.row, dtype=weights.dtype, device=weights.device)
        return changed


@dataclass(frozen=True)
class Even(Edit):
    """Gives all visible keys the same weight."""

    def before(self, scores: Tensor, where: tuple[slice, slice]) -> Tensor:
        heads, queries = where
        changed = scores.clone()
        rows = changed[:, heads, queries]
        changed[:, heads, queries] = torch.where(rows > -math.inf, torch.zeros_like(rows), rows)
        return changed

    def after(self, weights: Tensor, where: tuple[slice, slice]) -> Tensor:
        heads, queries = where
        changed = weights.clone()
        visible = (changed[:, heads, queries] > 0).to(weights.dtype)  # a gain may have made them unequal again
        changed[:, heads, queries] = visible / visible.sum(-1, keepdim=True).clamp_min(1)
        return changed


EDITS: dict[str, type[Edit]] = {"mask": Mask, "boost": Boost, "set": Set, "even": Even}


def edit_from_json(document: dict[str, Any]) -> Edit:
    """The edit that :meth:`Edit.to_json` wrote."""
    if not isinstance(document, dict) or not isinstance(document.get("edit"), str):
        raise SaccadeError(f"expected an edit, {{'edit': …}}, found {document!r}")
    content = dict(document)
    kind = EDITS.get(content.pop("edit"))
    if kind is None:
        raise SaccadeError(f"unknown edit: expected one of {', '.join(EDITS)}, found {document['edit']!r}")
    try:
        return kind(**content)
    except (TypeError, ValueError) as error:
        raise SaccadeError(f"edit {document.get('edit')!r}: {error}") from None


def _is_position(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _is_number(weight: Any) -> bool:
    return hasattr(weight, "__float__") and getattr(weight, "shape", ()) in ((), (1,))


def _is_scalar(weights: Any) -> bool:
    """Whether it is a tensor or an array without an axis."""
    return getattr(weights, "shape", None) == ()


def _keys(keys: Any) -> tuple[int, ...]:
    sparse = isinstance(keys, Tensor) and keys.is_sparse
    if not isinstance(keys, Iterable) or isinstance(keys, str | bytes | Mapping) or sparse:
        raise SaccadeError(f"keys must be positions, several in a tuple: got {keys!r}")
    listed = keys.tolist() if hasattr(keys, "tolist") else keys
    positions: tuple[int, ...] = tuple(listed) if isinstance(listed, Iterable) else (listed,)
    wrong = [key for key in positions if not _is_position(key)]
    if wrong:
        raise SaccadeError(f"keys must be positions, 0 or positive whole numbers: got {wrong[0]!r}")
    return positions


def _add(edit: Mask | Boost, scores: Tensor, where: tuple[slice, slice], amount: float) -> Tensor:
    heads, queries = where
    changed = scores.clone()
    changed[:, heads, queries] = changed[:, heads, queries] + _addend(edit, scores, amount)
    return changed


def _addend(edit: Mask | Boost, scores: Tensor, amount: float) -> Tensor:
    """``amount`` at the edit's keys [S], 0 elsewhere."""
    S = scores.shape[-1]
    addend = scores.new_zeros(S)
    addend[[key for key in edit.keys if key < S]] = amount  # `Lens.check` reports keys that never exist
    return addend
