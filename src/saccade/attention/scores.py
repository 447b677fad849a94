"""How well a query and a key match. Each score is a frozen value: called with query and key, it gives scores [B, (H,) T, S].

| value | score(q, k) | whose |
|---|---|---|
| ``dot`` | qᵀk | Luong et al. 2015 |
| ``scaled_dot`` | qᵀk / √D | Vaswani et al. 2017 |
| ``general(W)`` | qᵀ W k | Luong et al. 2015 |
| ``additive(v, W, U)`` (= ``concat``) | vᵀ tanh(W q + U k) | Bahdanau et al. 2015 |
| ``location(W)`` | (W q)ₛ: where to look, from the query alone | Luong et al. 2015 |
| ``cosine(β)`` | β cos(q, k) | Graves et al. 2014 |

A score of −inf means "not visible". ``score.prepare(key)`` does once what depends on the keys alone; what it returns goes
where the key goes.

Legend: B batch, H heads, T queries, S keys, D width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from saccade.errors import SaccadeError
from saccade.kernels.choose import Choice, Request, choose


@dataclass(frozen=True, eq=False)
class Prepared:
    """Keys after the part of a score that depends on them alone. ``size`` is the number of keys S."""

    key: Float[Tensor, "*batch S D"]

    @property
    def size(self) -> int:
        return self.key.shape[-2]


@runtime_checkable
class Score(Protocol):
    """What a score must do."""

    def prepare(self, key: Tensor) -> Prepared: ...

    def __call__(self, query: Tensor, key: Tensor | Prepared) -> Tensor: ...

    def choice(self, query: Tensor, key: Tensor | Prepared) -> Choice: ...


class _Score:
    """A score made of: a projected query, prepared keys, and the kernel of ``op`` over them."""

    op = "dot"

    def prepare(self, key: Tensor) -> Prepared:
        return Prepared(key)

    def _query(self, query: Tensor) -> Tensor:
        return query

    def _ready(self, key: Tensor | Prepared) -> Tensor:
        return key.key if isinstance(key, Prepared) else self.prepare(key).key

    def choice(self, query: Tensor, key: Tensor | Prepared) -> Choice:
        """Which kernel serves these tensors, and why."""
        return self._choose(self._query(query), self._ready(key))

    def _choose(self, query: Tensor, ready: Tensor) -> Choice:
        *batch, T, D = query.shape
        return choose(
            Request(
                op=self.op,
                device=query.device.type,
                dtype=query.dtype,
                shape=(math.prod(batch), T, ready.shape[-2], D),
                needs_grad=torch.is_grad_enabled() and (query.requires_grad or ready.requires_grad),
                capturing=torch.compiler.is_compiling(),
            )
        )

    def __repr__(self) -> str:
        parts = []
        for field in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            content = getattr(self, field.name)
            if content is not None:
                parts.append(f"{field.name}={list(content.shape) if isinstance(content, Tensor) else content}")
        return f"{type(self).__name__.lower()}({', '.join(parts)})"


@dataclass(frozen=True, repr=False)
class Dot(_Score):
    """qᵀk · scale; ``scaled`` divides by √D instead."""

    scaled: bool = False

    def __call__(self, query: Tensor, key: Tensor | Prepared) -> Tensor:
        ready = self._ready(key)
        if query.shape[-1] != ready.shape[-1]:
            raise SaccadeError(
                f"a dot score needs queries and keys of one width: got {query.shape[-1]} and {ready.shape[-1]} "
                "(general fits them)"
            )
        scale = query.shape[-1] ** -0.5 if self.scaled else 1.0
        scores: Tensor = self._choose(query, ready).function(query, ready, scale)
        return scores

    def __repr__(self) -> str:
        return "scaled_dot" if self.scaled else "dot"


dot = Dot()
scaled_dot = Dot(scaled=True)


@dataclass(frozen=True, eq=False, repr=False)
class General(_Score):
    """qᵀ W k with W [D_query, D_key]."""

    weight: Float[Tensor, "Dq Dk"]

    def prepare(self, key: Tensor) -> Prepared:
        return Prepared(key @ self.weight.mT)

    def __call__(self, query: Tensor, key: Tensor | Prepared) -> Tensor:
        ready = self._ready(key)
        scores: Tensor = self._choose(query, ready).function(query, ready, 1.0)
        return scores


def general(weight: Float[Tensor, "Dq Dk"]) -> General:
    """qᵀ W k (Luong et al. 2015). With W = I it is ``dot``."""
    return General(weight)


@dataclass(frozen=True, eq=False, repr=False)
class Additive(_Score):
    """vᵀ tanh(W q + U k); without W or U, query or key come projected."""

    v: Float[Tensor, "*heads D"]
    query_weight: Float[Tensor, "D Dq"] | None = None
    key_weight: Float[Tensor, "D Dk"] | None = None
    op = "additive"

    def prepare(self, key: Tensor) -> Prepared:
        return Prepared(key if self.key_weight is None else key @ self.key_weight.mT)

    def _query(self, query: Tensor) -> Tensor:
        return query if self.query_weight is None else query @ self.query_weight.mT

    def __call__(self, query: Tensor, key: Tensor | Prepared) -> Tensor:
        projected, ready = self._query(query), self._ready(key)
        if not projected.shape[-1] == ready.shape[-1] == self.v.shape[-1]:
            raise SaccadeError(
                "an additive score needs query, key and v of one width: "
                f"got {projected.shape[-1]}, {ready.shape[-1]} and {self.v.shape[-1]}"
            )
        scores: Tensor = self._choose(projected, ready).function(projected, ready, self.v)
        return scores


def additive(
    v: Float[Tensor, "*heads D"],
    query_weight: Float[Tensor, "D Dq"] | None = None,
    key_weight: Float[Tensor, "D Dk"] | None = None,
) -> Additive:
    """vᵀ tanh(W q + U k) (Bahdanau et al. 2015). Luong's concat score is the same: W_a = [W U] acts on [q; k]."""
    return Additive(v, query_weight, key_weight)


concat = additive


@dataclass(frozen=True, eq=False, repr=False)
class Location(_Score):
    """(W q)ₛ: the query alone says where to look. Keys beyond the rows of W are not visible."""

    weight: Float[Tensor, "places D"]

    def choice(self, query: Tensor, key: Tensor | Prepared) -> Choice:
        return self._choose(query, self.weight[: self._ready(key).shape[-2]])

    def __call__(self, query: Tensor, key: Tensor | Prepared) -> Tensor:
        S, places = self._ready(key).shape[-2], self.weight.shape[0]
        rows = self.weight[:S]
        scores: Tensor = self._choose(query, rows).function(query, rows, 1.0)
        return scores if places >= S else functional.pad(scores, (0, S - places), value=-math.inf)


def location(weight: Float[Tensor, "places D"]) -> Location:
    """(W q)ₛ (Luong et al. 2015); short inputs use the first S rows of W, positions beyond its last row are ignored."""
    return Location(weight)


@dataclass(frozen=True, eq=False, repr=False)
class Cosine(_Score):
    """β cos(q, k); β > 0, a number or a tensor that broadcasts against the scores."""

    beta: float | Tensor = 1.0
    epsilon: float = 1e-8

    def prepare(self, key: Tensor) -> Prepared:
        return Prepared(functional.normalize(key, dim=-1, eps=self.epsilon))

    def _query(self, query: Tensor) -> Tensor:
        return functional.normalize(query, dim=-1, eps=self.epsilon)

    def __call__(self, query: Tensor, key: Tensor | Prepared) -> Tensor:
        direction, ready = self._query(query), self._ready(key)
        scores: Tensor = self._choose(direction, ready).function(direction, ready, 1.0)
        return self.beta * scores


def cosine(beta: float | Tensor = 1.0) -> Cosine:
    """β cos(q, k): content addressing (Graves et al. 2014). A negative β would seek the least alike; it is refused."""
    if not isinstance(beta, Tensor) and not beta > 0:
        raise SaccadeError(f"beta must be positive: got {beta}")
    return Cosine(beta)
