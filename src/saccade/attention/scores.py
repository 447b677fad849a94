"""Scores: how well a query and a key match. A score is a frozen value; called with query and key, it returns [B, (H,) T, S].

| value | score(q, k) | whose |
|---|---|---|
| ``dot`` | qᵀk | Luong et al. 2015 |
| ``scaled_dot`` | qᵀk / √D | Vaswani et al. 2017 |
| ``general(W)`` | qᵀ W k | Luong et al. 2015 |
| ``additive(v, W, U)`` (= ``concat``) | vᵀ tanh(W q + U k) | Bahdanau et al. 2015 |
| ``location(W)`` | (W q)ₛ: from the query alone | Luong et al. 2015 |
| ``cosine(β)`` | β cos(q, k) | Graves et al. 2014 |
| ``location_aware(v, W, U, F, L)`` | vᵀ tanh(W q + U k + L (F ∗ α) + b), α the last query's weights | Chorowski et al. 2015 |

A score of −inf means "not visible". Scores of half-precision inputs are float32: rounded, large ones would lose their
differences, and float16 would overflow. ``score.prepare(key)`` computes once what depends on the keys alone; pass its result in
place of the key.

Legend: B batch, H heads, T queries, S keys, D width.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from saccade.attention.checks import check_alike, check_beta, check_given_weights, check_states, check_weights
from saccade.errors import SaccadeError
from saccade.kernels.choose import Choice, Request, choose, choose_location_aware
from saccade.kernels.dtypes import widened, without_autocast, working_dtype


@dataclass(frozen=True, eq=False)
class Prepared:
    """Keys after the part of a score that depends on them alone. ``size`` is the number of keys S."""

    key: Float[Tensor, "*batch S D"]

    @property
    def size(self) -> int:
        return self.key.shape[-2]


@runtime_checkable
class Score(Protocol):
    """The interface of a score."""

    def prepare(self, key: Tensor) -> Prepared: ...

    def __call__(self, query: Tensor, key: Tensor | Prepared) -> Tensor: ...

    def choice(self, query: Tensor, key: Tensor | Prepared) -> Choice: ...


def name_of(score: Score) -> str:
    """The name of a score: ``additive``, ``scaled_dot``, …; a user's own by its name or its class.

    >>> name_of(scaled_dot), name_of(cosine())
    ('scaled_dot', 'cosine')
    """
    if isinstance(score, _Score):
        return repr(score).partition("(")[0]
    return str(getattr(score, "name", type(score).__name__))


def _check(query: Tensor, key: Tensor | Prepared) -> None:
    """Raise, naming the argument, where query and key cannot be scored together."""
    keys = key.key if isinstance(key, Prepared) else key
    check_states(query=query, key=keys)
    check_alike(query=query, key=keys)


class _Score:
    """Base of scores that apply the kernel of ``op`` to a projected query and prepared keys."""

    op = "dot"

    def prepare(self, key: Tensor) -> Prepared:
        return Prepared(key)

    def project(self, query: Tensor) -> Tensor:
        """The part of the score that depends on the query alone."""
        return query

    def _ready(self, key: Tensor | Prepared) -> Tensor:
        return key.key if isinstance(key, Prepared) else self.prepare(key).key

    def choice(self, query: Tensor, key: Tensor | Prepared) -> Choice:
        """Which kernel serves these tensors, and why."""
        return self._choose(self.project(query), self._ready(key))

    def _choose(self, query: Tensor, ready: Tensor) -> Choice:
        *batch, T, D = query.shape
        return choose(
            Request(
                op=self.op,
                device=query.device.type,
                dtype=working_dtype(query.dtype),
                shape=(math.prod(batch), T, ready.shape[-2], D),
                needs_grad=torch.is_grad_enabled() and (query.requires_grad or ready.requires_grad),
                capturing=torch.compiler.is_compiling(),
            )
        )

    def _scored(self, query: Tensor, ready: Tensor, operand: float | Tensor = 1.0) -> Tensor:
        """The kernel's scores, with a factor of the dot product or the additive score's v."""
        if isinstance(operand, Tensor):
            query, ready, operand = widened(query, ready, operand)
        else:
            query, ready = widened(query, ready)
        with without_autocast(query):
            scores: Tensor = self._choose(query, ready).function(query, ready, operand)
        return scores

    def __repr__(self) -> str:
        parts = []
        for field in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            content = getattr(self, field.name)
            if content is not None:
                parts.append(f"{field.name}={list(content.shape) if isinstance(content, Tensor) else content}")
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(self).__name__).lower()
        return f"{name}({', '.join(parts)})"


@dataclass(frozen=True, repr=False)
class Dot(_Score):
    """qᵀk · scale; ``scaled`` divides by √D instead."""

    scaled: bool = False

    def operands(self, query: Tensor, key: Tensor | Prepared) -> tuple[Tensor, Tensor, float]:
        """The query, the keys, and the factor of their product."""
        ready = self._ready(key)
        if query.shape[-1] != ready.shape[-1]:
            raise SaccadeError(
                f"a dot score needs queries and keys of one width: got {query.shape[-1]} and {ready.shape[-1]} "
                "(general fits them)"
            )
        return query, ready, self.scale(query.shape[-1])

    def scale(self, width: int) -> float:
        """The factor of the product of queries and keys of this width."""
        return width**-0.5 if self.scaled else 1.0

    def __call__(self, query: Tensor, key: Tensor | Prepared) -> Tensor:
        _check(query, key)
        return self._scored(*self.operands(query, key))

    def __repr__(self) -> str:
        return "scaled_dot" if self.scaled else "dot"


dot = Dot()
scaled_dot = Dot(scaled=True)


def _projected(states: Tensor, weight: Tensor, name: str) -> Tensor:
    """W x of every query or key."""
    if states.shape[-1] != weight.shape[-1]:
        raise SaccadeError(
            f"{name}: expected a width of {weight.shape[-1]}, as the score has, found {states.shape[-1]}"
        )
    return states @ weight.mT


@dataclass(frozen=True, eq=False, repr=False)
class General(_Score):
    """qᵀ W k with W [D_query, D_key]."""

    weight: Float[Tensor, "Dq Dk"]

    def prepare(self, key: Tensor) -> Prepared:
        return Prepared(_projected(key, self.weight, "key"))

    def operands(self, query: Tensor, key: Tensor | Prepared) -> tuple[Tensor, Tensor, float]:
        """The query, W k, and the factor of their product."""
        if query.shape[-1] != self.weight.shape[0]:
            raise SaccadeError(
                f"a general score needs queries as wide as the rows of W: got {query.shape[-1]} and {list(self.weight.shape)}"
            )
        return query, self._ready(key), 1.0

    def scale(self, width: int) -> float:
        return 1.0

    def __call__(self, query: Tensor, key: Tensor | Prepared) -> Tensor:
        _check(query, key)
        return self._scored(*self.operands(query, key))


def general(weight: Float[Tensor, "Dq Dk"]) -> General:
    """qᵀ W k (Luong et al. 2015). With W = I it is ``dot``."""
    check_weights(weight=weight)
    return General(weight)


@dataclass(frozen=True, eq=False, repr=False)
class Additive(_Score):
    """vᵀ tanh(W q + U k); without W or U, query or key come projected."""

    v: Float[Tensor, "*heads D"]
    query_weight: Float[Tensor, "D Dq"] | None = None
    key_weight: Float[Tensor, "D Dk"] | None = None
    op = "additive"

    def prepare(self, key: Tensor) -> Prepared:
        return Prepared(key if self.key_weight is None else _projected(key, self.key_weight, "key"))

    def project(self, query: Tensor) -> Tensor:
        return query if self.query_weight is None else _projected(query, self.query_weight, "query")

    def operands(self, query: Tensor, key: Tensor | Prepared) -> tuple[Tensor, Tensor, Tensor]:
        """W q, U k and v."""
        projected, ready = self.project(query), self._ready(key)
        if not projected.shape[-1] == ready.shape[-1] == self.v.shape[-1]:
            raise SaccadeError(
                "an additive score needs query, key and v of one width: "
                f"got {projected.shape[-1]}, {ready.shape[-1]} and {self.v.shape[-1]}"
            )
        return projected, ready, self.v

    def __call__(self, query: Tensor, key: Tensor | Prepared) -> Tensor:
        _check(query, key)
        return self._scored(*self.operands(query, key))


def additive(
    v: Float[Tensor, "*heads D"],
    query_weight: Float[Tensor, "D Dq"] | None = None,
    key_weight: Float[Tensor, "D Dk"] | None = None,
) -> Additive:
    """vᵀ tanh(W q + U k) (Bahdanau et al. 2015). Luong's concat score is the same: W_a = [W U] acts on [q; k]."""
    check_weights(v=v)
    check_given_weights(query_weight=query_weight, key_weight=key_weight)
    return Additive(v, query_weight, key_weight)


concat = additive


@dataclass(frozen=True, eq=False, repr=False)
class Location(_Score):
    """(W q)ₛ: weights depend on the query alone. Keys beyond the rows of W are not visible."""

    weight: Float[Tensor, "places D"]

    def choice(self, query: Tensor, key: Tensor | Prepared) -> Choice:
        return self._choose(query, self.weight[: self._ready(key).shape[-2]])

    def __call__(self, query: Tensor, key: Tensor | Prepared) -> Tensor:
        _check(query, key)
        S, places = self._ready(key).shape[-2], self.weight.shape[0]
        rows = self.weight[:S]
        scores = self._scored(query, rows)
        return scores if places >= S else functional.pad(scores, (0, S - places), value=-math.inf)


def location(weight: Float[Tensor, "places D"]) -> Location:
    """(W q)ₛ (Luong et al. 2015); short inputs use the first S rows of W, positions beyond its last row are ignored."""
    check_weights(weight=weight)
    return Location(weight)


@dataclass(frozen=True, eq=False, repr=False)
class Cosine(_Score):
    """β cos(q, k); β > 0, a number or a tensor that broadcasts against the scores."""

    beta: float | Tensor = 1.0
    epsilon: float = 1e-8

    def prepare(self, key: Tensor) -> Prepared:
        return Prepared(functional.normalize(key, dim=-1, eps=self.epsilon))

    def project(self, query: Tensor) -> Tensor:
        return functional.normalize(query, dim=-1, eps=self.epsilon)

    def operands(self, query: Tensor, key: Tensor | Prepared) -> tuple[Tensor, Tensor, float]:
        """The directions of query and keys, and the factor of their product: 1 where β is a tensor, which is left out."""
        return self.project(query), self._ready(key), 1.0 if isinstance(self.beta, Tensor) else self.beta

    def __call__(self, query: Tensor, key: Tensor | Prepared) -> Tensor:
        _check(query, key)
        direction, ready, _ = self.operands(query, key)
        return self.beta * self._scored(direction, ready)


def cosine(beta: float | Tensor = 1.0) -> Cosine:
    """β cos(q, k): content addressing (Graves et al. 2014). β must be positive."""
    check_beta(beta)
    return Cosine(beta)


@dataclass(frozen=True, eq=False, repr=False)
class LocationAware(_Score):
    """vᵀ tanh(W q + U k + L (F ∗ α) + b). ``previous`` is α, the weights of the query before; None: all on the first key."""

    v: Float[Tensor, "*heads D"]
    query_weight: Float[Tensor, "D Dq"] | None
    key_weight: Float[Tensor, "D Dk"] | None
    filters: Float[Tensor, "C K"]
    location_weight: Float[Tensor, "D C"]
    bias: Float[Tensor, " D"] | None = None
    previous: Float[Tensor, "*batch T S"] | None = None

    def after(self, weights: Float[Tensor, "*batch T S"] | None) -> LocationAware:
        """The same score for the query that follows these weights; None for the first query."""
        if weights is not None:
            check_states(weights=weights)
        return replace(self, previous=weights)

    def prepare(self, key: Tensor) -> Prepared:
        return Prepared(key if self.key_weight is None else _projected(key, self.key_weight, "key"))

    def project(self, query: Tensor) -> Tensor:
        projected = query if self.query_weight is None else _projected(query, self.query_weight, "query")
        return projected if self.bias is None else projected + self.bias

    def _choose(self, query: Tensor, ready: Tensor) -> Choice:
        return choose_location_aware(query, ready, self.v, self.filters)

    def __call__(self, query: Tensor, key: Tensor | Prepared) -> Tensor:
        _check(query, key)
        projected, ready = self.project(query), self._ready(key)
        previous = self.previous
        if previous is None:
            first = torch.arange(ready.shape[-2], device=ready.device) == 0
            previous = first.to(projected.dtype).expand(*projected.shape[:-1], -1)
        choice = self._choose(projected, ready)
        inputs: tuple[Tensor, ...] = (projected, ready, self.v, previous, self.filters, self.location_weight)
        if not choice.kernel.endswith(".fused"):  # which computes in float32 anyway
            inputs = widened(*inputs)
        with without_autocast(projected):
            scores: Tensor = choice.function(*inputs)
        return scores


def location_aware(
    v: Float[Tensor, "*heads D"],
    query_weight: Float[Tensor, "D Dq"] | None,
    key_weight: Float[Tensor, "D Dk"] | None,
    filters: Float[Tensor, "C K"],
    location_weight: Float[Tensor, "D C"],
    bias: Float[Tensor, " D"] | None = None,
) -> LocationAware:
    """vᵀ tanh(W q + U k + L (F ∗ α) + b) (Chorowski et al. 2015): a score that depends on the previous query's weights.

    α are the previous query's weights, F [C, 2r + 1] are C filters that reach r keys to each side, L [D, C] mixes their
    outputs. Queries come one at a time, and the weights are the state: pass those of one step to the next.

        previous = None                                           # before the first step all weight is on the first key
        for query in queries:                                     # [B, 1, Dq]
            weights = weigh(query, prepared, score=score.after(previous), normalise=smoothed)
            previous = weights

    Hidden keys must have weight 0, as :func:`weigh` ensures. With L = 0 it is ``additive``. Use the bias b with ``smoothed``.
    """
    check_weights(v=v, filters=filters, location_weight=location_weight)
    check_given_weights(query_weight=query_weight, key_weight=key_weight, bias=bias)
    return LocationAware(v, query_weight, key_weight, filters, location_weight, bias)
