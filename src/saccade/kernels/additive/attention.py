"""Additive attention from queries, keys and values to contexts, in memory that grows neither with T × S × D nor with T × S.

    context_t = Σ_s softmax_s(vᵀ tanh(q_t + k_s)) · value_s

It processes blocks of queries. The scores and their gradients come from an engine (engines.py). Where all weights together
are small they are saved for the backward pass; otherwise only each row's log-sum-exp is, and the weights are recomputed.
With G the gradient of the contexts and W the weights,

    ∂value = Wᵀ G      ∂scores = W ∘ (G valueᵀ − rowsum(W ∘ G valueᵀ))      ∂q, ∂k, ∂v: the engine's, from ∂scores

Under torch.compile it is the operator ``saccade::additive_attention``, which is traced as one node; elsewhere it is an
autograd function, which has less host overhead.

Legend: N batch × heads, G different v (1, the heads, or N), T queries, S keys, D width, E width of values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.kernels.additive import reference
from saccade.kernels.additive.engines import CODES, Begun, Engine, engine_begun, engine_for, engine_of
from saccade.kernels.dtypes import without_autocast, working_dtype
from saccade.kernels.second_order import gradients_through
from saccade.kernels.visibility import Visibility

WEIGHTS_AT_ONCE = {"cpu": 1 << 22, "cuda": 1 << 26}
"""Weights in one block of queries: on a GPU enough to fill it, on a CPU 16 MB."""

WEIGHTS_KEPT = {"cpu": 1 << 22, "cuda": 1 << 25}
"""Up to so many weights are saved for the backward pass rather than recomputed (128 MB on a GPU)."""

FEATURES_KEPT = 1 << 28
"""Up to so many bytes of an engine's features are saved as well."""


def additive_attention(
    query: Float[Tensor, "N T D"],
    key: Float[Tensor, "N S D"],
    value: Float[Tensor, "N S E"],
    v: Float[Tensor, "G D"],
    visibility: Visibility,
    *,
    heads: int = 1,
    dropout: float = 0.0,
    engine: str = "auto",
) -> Float[Tensor, "N T E"]:
    """Context [N, T, E]; a query that sees nothing gets zeros. Item n takes row n mod G of ``v``.

    ``visibility`` refers to the batch of N / heads items. ``engine`` is one of `engines.NAMES`, or "auto".
    """
    if not torch.compiler.is_compiling():
        options = visibility, heads, dropout, engine, torch.is_grad_enabled()
        attended: Tensor = _Attention.apply(query, key, value, v, *options)
        return attended
    seed = torch.randint(2**31, (), device="cpu")
    window = (visibility.lengths, visibility.mask, visibility.shift, visibility.before, visibility.after)
    operator = torch.ops.saccade.additive_attention
    context: Tensor = operator(query, key, value, v, *window, heads, dropout, seed, engine)[0]
    return context


class _Attention(torch.autograd.Function):
    """The arguments of :func:`additive_attention` → context."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        v: Tensor,
        visibility: Visibility,
        heads: int,
        dropout: float,
        engine: str,
        recording: bool,
    ) -> Tensor:
        seed = torch.randint(2**31, (), device="cpu") if dropout else _NO_SEED
        features: tuple[Tensor, ...] = ()
        with without_autocast(query):
            if len(_blocks(query, key.shape[1])) == 1:
                chosen, begun = engine_begun(query, key, v, visibility, heads, engine)
                if recording and sum(part.nbytes for part in begun.features) <= FEATURES_KEPT:
                    features = begun.features
            else:
                (chosen, _), begun = engine_for(query, key, engine), None
            context, kept, sums = _forward(chosen, query, key, value, v, visibility, heads, dropout, seed, begun)
        ctx.options = (visibility, heads, dropout, seed)
        ctx.engine = chosen
        ctx.save_for_backward(query, key, value, v, kept, sums, *features)
        return context

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, v, kept, sums, *features = ctx.saved_tensors
        visibility, heads, dropout, seed = ctx.options
        if torch.is_grad_enabled():
            needed = ctx.needs_input_grad[:4]
            again = _differentiable(query, key, value, v, visibility, heads, dropout, seed, grads[0], needed)
            return *again, *_NO_GRADIENTS
        with without_autocast(query):
            grad, saved = grads[0].contiguous(), (kept, sums, tuple(features))
            gradients = _backward(ctx.engine, grad, query, key, value, v, *saved, visibility, heads, dropout, seed)
        return *gradients, *_NO_GRADIENTS


_NO_GRADIENTS = (None,) * 5  # of the window, the heads, dropout, the engine's name and whether gradients are recorded

_NO_SEED = torch.zeros((), dtype=torch.int64)


# ---- The operator -----------------------------------------------------------------------------------------------------

_SCHEMA = (
    "(Tensor query, Tensor key, Tensor value, Tensor v, Tensor? lengths, Tensor? mask, SymInt shift, SymInt? before, "
    "SymInt? after, SymInt heads, float dropout, Tensor seed, str engine) -> (Tensor, Tensor, Tensor, Tensor)"
)


@torch.library.custom_op("saccade::additive_attention", mutates_args=(), schema=_SCHEMA)
def _operator(
    query: Tensor, key: Tensor, value: Tensor, v: Tensor, lengths: Tensor | None, mask: Tensor | None, shift: int,
    before: int | None, after: int | None, heads: int, dropout: float, seed: Tensor, engine: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    visibility = Visibility(lengths, shift, before, after, mask)
    chosen, _ = engine_for(query, key, engine)
    with without_autocast(query):
        return *_forward(chosen, query, key, value, v, visibility, heads, dropout, seed), chosen.code()


@_operator.register_fake
def _(
    query: Tensor, key: Tensor, value: Tensor, v: Tensor, lengths: Tensor | None, mask: Tensor | None, shift: int,
    before: int | None, after: int | None, heads: int, dropout: float, seed: Tensor, engine: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    N, T, _ = query.shape
    S = key.shape[1]
    working = working_dtype(query.dtype)
    kept = query.new_empty((N, T, S) if _kept(query, S) else (0,), dtype=working)
    sums = query.new_empty((0,) if _kept(query, S) else (N, T), dtype=working)
    return value.new_empty(N, T, value.shape[-1]), kept, sums, torch.empty(CODES, dtype=torch.float64)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    query, key, value, v, lengths, mask, *numbers = inputs
    ctx.shape, ctx.numbers = (lengths, mask), numbers
    ctx.save_for_backward(query, key, value, v, *output[1:])


def _backward_of(ctx: Any, grad: Tensor, *unused: Tensor | None) -> tuple[Tensor | None, ...]:
    query, key, value, v, kept, sums, code = ctx.saved_tensors
    (lengths, mask), (shift, before, after, heads, dropout, seed, _) = ctx.shape, ctx.numbers
    visibility = Visibility(lengths, shift, before, after, mask)
    if torch.is_grad_enabled():
        found = _differentiable(query, key, value, v, visibility, heads, dropout, seed, grad, ctx.needs_input_grad[:4])
    else:
        options = (lengths, mask, shift, before, after, heads, dropout, seed)
        found = torch.ops.saccade.additive_attention_backward(
            grad.contiguous(), query, key, value, v, kept, sums, code, *options
        )
    return *found, *([None] * 9)


_operator.register_autograd(_backward_of, setup_context=_setup)


@torch.library.custom_op(
    "saccade::additive_attention_backward",
    mutates_args=(),
    schema="(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor v, Tensor kept, Tensor sums, Tensor code, "
    "Tensor? lengths, Tensor? mask, SymInt shift, SymInt? before, SymInt? after, SymInt heads, float dropout, Tensor seed)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
)
def _backward_operator(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, v: Tensor, kept: Tensor, sums: Tensor, code: Tensor,
    lengths: Tensor | None, mask: Tensor | None, shift: int, before: int | None, after: int | None, heads: int,
    dropout: float, seed: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    visibility = Visibility(lengths, shift, before, after, mask)
    with without_autocast(query):
        return _backward(
            engine_of(code, query), grad, query, key, value, v, kept, sums, (), visibility, heads, dropout, seed
        )


@_backward_operator.register_fake
def _(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, v: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value), torch.empty_like(v)


# ---- Forward and backward ---------------------------------------------------------------------------------------------


def _forward(
    engine: Engine, query: Tensor, key: Tensor, value: Tensor, v: Tensor, visibility: Visibility, heads: int, dropout: float,
    seed: Tensor, begun: Begun | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The contexts, and for the backward pass either all weights or each row's log-sum-exp; the other is empty.

    ``begun`` is what the engine has already computed, where all queries are one block.
    """
    N, S = query.shape[0], key.shape[1]
    keeping = _kept(query, S)
    parts: list[tuple[Tensor, Tensor]] = []
    for rows in _blocks(query, S):
        part = visibility.rows(rows.start, rows.stop)
        raw = (engine.begin(query[:, rows], key, v, part, heads) if begun is None else begun).raw
        if engine.weights is not None and keeping and not dropout and engine.longest >= S:
            weights, rounded = engine.weights(raw, v, part, heads, value.dtype)
            parts.append((torch.bmm(rounded, value), weights))
            continue
        scores = engine.finish(raw, v, part, heads)
        weights = _softmax(scores, visibility)
        context = torch.bmm(_dropped(weights, dropout, seed, rows).to(value.dtype), value)
        parts.append((context, weights if keeping else torch.logsumexp(scores, dim=-1)))
    context, kept = (_joined(part) for part in zip(*parts, strict=True)) if parts else (
        value.new_empty(N, 0, value.shape[-1]), query.new_empty(N, 0, S, dtype=working_dtype(query.dtype))
    )  # fmt: skip
    return (context, kept, kept.new_empty(0)) if keeping else (context, kept.new_empty(0), kept)


def _backward(
    engine: Engine, grad: Tensor, query: Tensor, key: Tensor, value: Tensor, v: Tensor, kept: Tensor, sums: Tensor,
    features: tuple[Tensor, ...], visibility: Visibility, heads: int, dropout: float, seed: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    working = working_dtype(query.dtype)
    of_queries: list[Tensor] = []
    totals: list[Tensor] = []  # gradients of the values, the keys and, per item, v
    blocks = _blocks(query, key.shape[1])
    summing = working if len(blocks) > 1 else value.dtype  # the result of a single block is rounded where it is written
    extra: dict[str, Any] = {"dtype": summing} if engine.rounds else {}
    if features:  # saved only where there is one block
        extra["features"] = features
    for rows in blocks:
        part, grad_rows = visibility.rows(rows.start, rows.stop), grad[:, rows]
        if kept.dim() == 3:
            weights = kept[:, rows]
        else:
            scores = engine.scores(query[:, rows], key, v, part, heads=heads)
            # A row that sees nothing has log-sum-exp −∞; with 0 in its place its weights are exp(−∞) = 0.
            weights = torch.exp(scores - sums[:, rows].masked_fill(sums[:, rows] == -math.inf, 0.0).unsqueeze(-1))
        of_value = _product(_dropped(weights, dropout, seed, rows).to(grad.dtype).mT, grad_rows, summing)
        grad_weights = _dropped(_product(grad_rows, value.mT, working), dropout, seed, rows)
        grad_scores = torch.ops.aten._softmax_backward_data(grad_weights, weights, -1, working)
        of_query, *others = engine.gradients(query[:, rows], key, v, grad_scores, part, heads=heads, **extra)
        of_queries.append(of_query.to(query.dtype))
        parts = [of_value, *others]
        totals = [total.add_(part) for total, part in zip(totals, parts, strict=True)] if totals else parts
    if not totals:
        return torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value), torch.zeros_like(v)
    of_value, of_key, of_v = totals
    summed = of_v.view(-1, *v.shape).sum(0)
    return _joined(of_queries), of_key.to(key.dtype), of_value.to(value.dtype), summed.to(v.dtype)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(tuple(parts), dim=1)


def _differentiable(
    query: Tensor, key: Tensor, value: Tensor, v: Tensor, visibility: Visibility, heads: int, dropout: float, seed: Tensor,
    grad: Tensor, needed: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    def formula(query: Tensor, key: Tensor, value: Tensor, v: Tensor) -> Tensor:
        spread = v.repeat(len(query) // len(v), 1)  # [N, D]
        scores = reference.additive_scores(query, key, spread)
        weights, blocks = _softmax(visibility.hide(scores, heads), visibility), _blocks(query, key.shape[1])
        weights = torch.cat([_dropped(weights[:, rows], dropout, seed, rows) for rows in blocks], 1)
        return weights.to(value.dtype) @ value

    return gradients_through(formula, (query, key, value, v), (grad,), needed)


# ---- Helpers ------------------------------------------------------------------------------------------------------


def _softmax(scores: Tensor, visibility: Visibility) -> Tensor:
    if visibility.everything:
        return torch.softmax(scores, dim=-1)
    blind = (scores == -math.inf).all(dim=-1, keepdim=True)
    return torch.softmax(scores.masked_fill(blind, 0.0), dim=-1).masked_fill(blind, 0.0)


def _dropped(weights: Tensor, dropout: float, seed: Tensor, rows: slice) -> Tensor:
    """Weights, or their gradients, after dropout; recomputed rows are dropped the same way."""
    if not dropout:
        return weights
    if dropout == 1:
        return torch.zeros_like(weights)
    chance = torch.Generator(weights.device).manual_seed(int(seed) + rows.start)
    keep = torch.rand(weights.shape, generator=chance, device=weights.device) >= dropout
    return weights * keep / (1 - dropout)


def _product(one: Tensor, other: Tensor, dtype: torch.dtype) -> Tensor:
    """A batch of matrix products in ``dtype``; a GPU accumulates half precision in float32 and need not round."""
    if one.dtype == dtype:
        return torch.bmm(one, other)
    if one.is_cuda:
        return torch.bmm(one, other, out_dtype=dtype)
    return torch.bmm(one.to(dtype), other.to(dtype))


def _blocks(query: Tensor, S: int) -> list[slice]:
    N, T, _ = query.shape
    most = max(1, WEIGHTS_AT_ONCE["cuda" if query.is_cuda else "cpu"] // max(1, N * S))
    return [slice(start, min(start + most, T)) for start in range(0, T, most)]


def _kept(query: Tensor, S: int) -> bool:
    N, T, _ = query.shape
    weights = N * T * S
    return weights <= WEIGHTS_KEPT["cuda" if query.is_cuda else "cpu"]
