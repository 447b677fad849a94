"""Turns scores into weights over the last axis: non-negative, summing to 1. A score of −inf gets weight 0; a row of only −inf
gets zeros, never NaN, in the result and in the gradient.

| value | weights of scores z | |
|---|---|---|
| ``softmax`` | exp zₛ / Σ exp z | |
| ``sharpened(β)`` | softmax(β z) | β > 1 sharpens (Graves et al. 2014; Chorowski et al. 2015) |
| ``smoothed``, ``Smoothed(r)`` | σ(zₛ + r) / Σ σ(z + r) | spreads over many keys (Chorowski et al. 2015); r = 0 unless given |
| ``top(k)`` | softmax of the k largest scores | the other weights are 0 (Chorowski et al. 2015) |
| ``sparsemax`` | the point of the simplex nearest to z | Martins & Astudillo 2016 |
| ``entmax15`` | [z/2 − τ]²₊ | Peters, Niculae & Martins 2019; between the two |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from saccade.attention.checks import check_beta, check_parts, check_scores, check_size
from saccade.errors import SaccadeError
from saccade.kernels.entmax import reference as entmax_reference


@runtime_checkable
class Normaliser(Protocol):
    """What a normaliser must do."""

    def __call__(self, scores: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Softmax:
    """softmax(β z); β a number, or a tensor that broadcasts against the scores."""

    beta: float | Tensor = 1.0

    def __call__(self, scores: Float[Tensor, "*batch T S"]) -> Float[Tensor, "*batch T S"]:
        check_scores(scores)
        blind = (scores == -math.inf).all(dim=-1, keepdim=True)
        return torch.softmax(self.logits(scores.masked_fill(blind, 0.0)), dim=-1).masked_fill(blind, 0.0)

    def logits(self, scores: Float[Tensor, "*batch T S"]) -> Float[Tensor, "*batch T S"]:
        """β z, less the same number in each row: its softmax gives the weights."""
        if self._is_plain or not scores.shape[-1]:
            return scores
        # Subtracting the maximum changes nothing, and large scores do not overflow when multiplied.
        most = scores.detach().amax(dim=-1, keepdim=True)
        return (scores - most.masked_fill(most == -math.inf, 0.0)) * self.beta

    @property
    def _is_plain(self) -> bool:
        return not isinstance(self.beta, Tensor) and self.beta == 1.0

    def __repr__(self) -> str:
        if isinstance(self.beta, Tensor):
            return f"sharpened({list(self.beta.shape)})"
        return "softmax" if self._is_plain else f"sharpened({self.beta})"


softmax = Softmax()


def sharpened(beta: float | Tensor) -> Softmax:
    """softmax(β z): β > 1 concentrates the weights on fewer keys, β < 1 on more; a tensor [B, T, 1] has one β per query."""
    check_beta(beta)
    return Softmax(beta)


@dataclass(frozen=True)
class Smoothed:
    """σ(z + r) / Σ σ(z + r): scores above −r get nearly equal weights. Unlike in a softmax the bias r matters: at r = 0 a key
    that does not fit has about half the weight of one that does."""

    bias: float | Tensor = 0.0

    def __call__(self, scores: Float[Tensor, "*batch T S"]) -> Float[Tensor, "*batch T S"]:
        check_scores(scores)
        return softmax(self.logits(scores))

    def logits(self, scores: Float[Tensor, "*batch T S"]) -> Float[Tensor, "*batch T S"]:
        """log σ(z + r): its softmax gives the weights, also of rows of very low scores, where σ / Σ σ would be 0 / 0."""
        return functional.logsigmoid(scores + self.bias)

    def __repr__(self) -> str:
        return "smoothed"


smoothed = Smoothed()


@dataclass(frozen=True)
class Top:
    """The ``keep`` largest weights of a softmax, sharpened or not, or of ``smoothed``, renormalised; the others are 0."""

    keep: int
    of: Softmax | Smoothed = softmax

    def __call__(self, scores: Float[Tensor, "*batch T S"]) -> Float[Tensor, "*batch T S"]:
        check_scores(scores)
        return softmax(self.logits(scores))

    def logits(self, scores: Float[Tensor, "*batch T S"]) -> Float[Tensor, "*batch T S"]:
        """The logits of ``of`` at the kept keys, −inf elsewhere."""
        logits = self.of.logits(scores)
        if self.keep >= scores.shape[-1]:
            return logits
        kept = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, logits.topk(self.keep).indices, True)
        return logits.masked_fill(~kept, -math.inf)

    def __repr__(self) -> str:
        return f"top({self.keep})" if self.of == softmax else f"top({self.keep}, {self.of!r})"


def top(keep: int, of: Softmax | Smoothed = softmax) -> Top:
    """Keep the ``keep`` largest weights of ``of`` and renormalise them; of equal ones at the edge only some are kept."""
    check_size(keep=keep)
    check_parts(normalise=of)
    if not isinstance(of, Softmax | Smoothed):
        raise SaccadeError(f"top: expected softmax, sharpened(β) or smoothed, found {of!r:.60}")
    return Top(keep, of)


@dataclass(frozen=True)
class Sparsemax:
    """The Euclidean projection of z on the simplex: many weights are exactly 0."""

    def __call__(self, scores: Float[Tensor, "*batch T S"]) -> Float[Tensor, "*batch T S"]:
        check_scores(scores)
        return entmax_reference.sparsemax(scores)

    def __repr__(self) -> str:
        return "sparsemax"


sparsemax = Sparsemax()


@dataclass(frozen=True)
class Entmax15:
    """α-entmax with α = 1.5: sparse like sparsemax, smooth like softmax."""

    def __call__(self, scores: Float[Tensor, "*batch T S"]) -> Float[Tensor, "*batch T S"]:
        check_scores(scores)
        return entmax_reference.entmax15(scores)

    def __repr__(self) -> str:
        return "entmax15"


entmax15 = Entmax15()


def logits_of(normalise: Normaliser, scores: Float[Tensor, "*batch T S"]) -> Float[Tensor, "*batch T S"] | None:
    """Numbers whose :data:`softmax` is ``normalise(scores)``; None for normalisers that are no softmax, and users' own."""
    return normalise.logits(scores) if type(normalise) in (Softmax, Smoothed, Top) else None  # type: ignore[attr-defined]
