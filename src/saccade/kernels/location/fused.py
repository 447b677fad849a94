"""Location-aware scores of one query per item, forward in one launch, in Triton.

    scores_s = Σ_d v_d tanh(q_d + k_sd + Σ_c L_dc f_sc)         f_sc = Σ_j F_cj α_{s + j − r}

The sum inside tanh, as large as the keys at every eager step, is never stored; the backward pass recomputes it. With g the
gradient of the scores and u_sd = g_s v_d (1 − tanh²),

    ∂q = Σ_s u_s     ∂k_s = u_s     ∂v = Σ_s g_s tanh     ∂L = Σ_s u_s f_sᵀ
    ∂f_s = Lᵀ u_s    ∂F_j = Σ_s ∂f_s α_{s + j − r}        ∂α_s = Σ_j F_jᵀ ∂f_{s − j + r}

Sums over blocks of keys go to a buffer and are added in order: no atomics, so results are deterministic. Everything is
computed in float32 and rounded once. Legend: N items, S keys, D width, C filters, r their radius, K = 2r + 1 taps,
G rows of v (item n takes row n mod G); a tile is BS keys, BD numbers, BC filters, BK taps.

Under torch.compile it is the operator ``saccade::location_aware_scores``, which is traced as one node; elsewhere it is an
autograd function, which has less host overhead.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.dtypes import result_dtype
from saccade.kernels.location import reference
from saccade.kernels.location.reference import MOST_FILTERS
from saccade.kernels.programs import tanh_and_slope
from saccade.kernels.second_order import gradients_through


def tiles(S: int, D: int, C: int, K: int) -> dict[str, int]:
    """Sides of the tiles (powers of two, at least 16 in matrix products) and the warps that share one."""
    return {
        "BS": 16 if S <= 512 or C > 16 else 32,
        "BD": min(64, max(16, triton.next_power_of_2(D))),
        "BC": max(16, triton.next_power_of_2(C)),
        "BK": min(32, max(16, triton.next_power_of_2(K))),
        "num_warps": 4,
        "num_stages": 2,
    }


def location_aware_scores(
    query: Float[Tensor, "*batch 1 D"],
    key: Float[Tensor, "*batch S D"],
    v: Float[Tensor, "*#heads D"],
    previous: Float[Tensor, "*batch 1 S"],
    filters: Float[Tensor, "C K"],
    location_weight: Float[Tensor, "D C"],
) -> Float[Tensor, "*batch 1 S"]:
    """As `reference.location_aware_scores`, for one query per item, in float32."""
    reference.check_shapes(query, key, v, previous, filters, location_weight)
    *batch, T, D = query.shape
    S, C = key.shape[-2], filters.shape[0]
    dtype = result_dtype(query, key, v)
    if T != 1 or key.shape[:-2] != query.shape[:-2] or dtype is torch.float64 or C > MOST_FILTERS:
        raise SaccadeError(
            f"the fused kernel scores one query per item, in at most float32, with at most {MOST_FILTERS} filters: found "
            f"query {list(query.shape)}, key {list(key.shape)}, {dtype}, {C} filters; location.reference serves them"
        )
    N = math.prod(batch)
    if N == 0 or S == 0 or D == 0:
        return reference.location_aware_scores(query, key, v, previous, filters, location_weight)
    heads = tuple(v.shape[:-1])
    if heads != tuple(batch[len(batch) - len(heads) :]):
        v = v.expand(*batch, D)
    one_step = torch.ops.saccade.location_aware_scores if torch.compiler.is_compiling() else _Scores.apply
    scores: Tensor = one_step(
        query.reshape(N, D),
        key.reshape(N, S, D),
        v.reshape(-1, D),
        previous.expand(*batch, 1, S).reshape(N, S),
        filters,
        location_weight,
    )
    return scores.reshape(*batch, 1, S)


class _Scores(torch.autograd.Function):
    """query [N, D], key [N, S, D], v [G, D], previous [N, S], filters [C, K], location_weight [D, C] → float32 [N, S]."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        ctx.save_for_backward(*inputs)
        return _forward([tensor.contiguous() for tensor in inputs])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad_scores,) = grads
        inputs = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _differentiable_backward(inputs, grad_scores, ctx.needs_input_grad)
        return _rounded_backward(inputs, grad_scores, ctx.needs_input_grad)


# ---- The operator -----------------------------------------------------------------------------------------------------

_INPUTS = "Tensor query, Tensor key, Tensor v, Tensor previous, Tensor filters, Tensor location_weight"
Six = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


@torch.library.custom_op("saccade::location_aware_scores", mutates_args=(), schema=f"({_INPUTS}) -> Tensor")
def _operator(*inputs: Tensor) -> Tensor:
    return _forward([tensor.contiguous() for tensor in inputs])


@_operator.register_fake
def _(*inputs: Tensor) -> Tensor:
    return inputs[1].new_empty(inputs[1].shape[:2], dtype=torch.float32)


def _setup(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward_of(ctx: Any, grad_scores: Tensor) -> tuple[Tensor | None, ...]:
    inputs, needed = ctx.saved_tensors, tuple(ctx.needs_input_grad[:6])
    if torch.is_grad_enabled():
        return _differentiable_backward(inputs, grad_scores, needed)
    found = torch.ops.saccade.location_aware_scores_backward(*inputs, grad_scores, needed)
    return tuple(gradient if need else None for gradient, need in zip(found, needed, strict=True))


_operator.register_autograd(_backward_of, setup_context=_setup)


@torch.library.custom_op(
    "saccade::location_aware_scores_backward",
    mutates_args=(),
    schema=f"({_INPUTS}, Tensor grad, bool[] needed) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def _backward_operator(*given: Any) -> Six:
    """Gradients of the six inputs, empty where none is needed."""
    *inputs, grad_scores, needed = given
    found = _rounded_backward(tuple(inputs), grad_scores, tuple(needed))
    one, two, three, four, five, six = (grad_scores.new_empty(0) if grad is None else grad for grad in found)
    return one, two, three, four, five, six


@_backward_operator.register_fake
def _(*given: Any) -> Six:
    *inputs, grad_scores, needed = given
    one, two, three, four, five, six = (
        tensor.new_empty(tensor.shape) if need else grad_scores.new_empty(0)
        for tensor, need in zip(inputs, needed, strict=True)
    )
    return one, two, three, four, five, six


# ---- Forward and backward ---------------------------------------------------------------------------------------------


def _rounded_backward(
    inputs: tuple[Tensor, ...], grad_scores: Tensor, needed: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    """The gradients of the six inputs, in their own dtypes; None where none is needed."""
    rows = [tensor.contiguous() for tensor in inputs]
    found = _backward(rows, grad_scores.contiguous(), needed)
    return tuple(
        None if gradient is None else gradient.to(tensor.dtype) for gradient, tensor in zip(found, inputs, strict=True)
    )


def _differentiable_backward(
    inputs: tuple[Tensor, ...], grad_scores: Tensor, needed: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    def formula(*tensors: Tensor) -> Tensor:
        # In one dtype, as the kernels compute.
        query, key, v, previous, filters, location_weight = (tensor.float() for tensor in tensors)
        heads = v.repeat(len(query) // len(v), 1)
        return reference.location_aware_scores(
            query.unsqueeze(1), key, heads, previous.unsqueeze(1), filters, location_weight
        ).squeeze(1)

    return gradients_through(formula, inputs, (grad_scores,), needed)


def _forward(inputs: list[Tensor]) -> Tensor:
    _, key, v, _, filters, _ = inputs
    (N, S, D), C, K, G = key.shape, *filters.shape, v.shape[0]
    scores = torch.empty(N, S, dtype=torch.float32, device=key.device)
    sides = tiles(S, D, C, K)
    scores_program[(N, triton.cdiv(S, sides["BS"]))](*inputs, scores, S, D, C, K, G, **sides)
    return scores


def _backward(inputs: list[Tensor], grad_scores: Tensor, needed: tuple[bool, ...]) -> tuple[Tensor | None, ...]:
    """Float32 gradients of the six inputs."""
    _, key, v, previous, filters, _ = inputs
    (N, S, D), C, K, G = key.shape, *filters.shape, v.shape[0]
    sides = tiles(S, D, C, K)
    blocks = triton.cdiv(S, sides["BS"])

    def buffer(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.float32, device=key.device)

    grad_key, parts_query, parts_v = buffer(N, S, D), buffer(N, blocks, D), buffer(N, blocks, D)
    features, grad_features = buffer(N, S, C), buffer(N, S, C)
    gradients_program[(N, blocks)](
        *inputs, grad_scores, grad_key, parts_query, parts_v, features, grad_features, S, D, C, K, G, **sides,
    )  # fmt: skip
    grad_previous, grad_filters = None, None
    if needed[3]:
        grad_previous = buffer(N, S)
        previous_program[(N, blocks)](filters, grad_features, grad_previous, S, C, K, **_without(sides, "BD", "BK"))
    if needed[4]:
        parts_filters = buffer(N, C, K)
        grid = (N, triton.cdiv(K, sides["BK"]))
        filters_program[grid](previous, grad_features, parts_filters, S, C, K, **_without(sides, "BD"))
        grad_filters = parts_filters.sum(0)
    return (
        parts_query.sum(1) if needed[0] else None,
        grad_key if needed[1] else None,
        parts_v.sum(1).reshape(N // G, G, D).sum(0) if needed[2] else None,
        grad_previous,
        grad_filters,
        grad_key.reshape(N * S, D).mT @ features.reshape(N * S, C) if needed[5] else None,
    )


def _without(sides: dict[str, int], *names: str) -> dict[str, int]:
    return {name: side for name, side in sides.items() if name not in names}


# ---- Programs ----------------------------------------------------------------------------------------------------------


@triton.jit
def _features(previous, filters, n, s, S, C, K, BS: tl.constexpr, BC: tl.constexpr, BK: tl.constexpr):
    """f [BS, BC]: the previous weights around each key, a tile of taps at a time."""
    c = tl.arange(0, BC)
    features = tl.zeros([BS, BC], dtype=tl.float32)
    for j0 in range(0, K, BK):
        j = j0 + tl.arange(0, BK)
        at = s[:, None] + j[None, :] - K // 2
        inside = (at >= 0) & (at < S) & (j[None, :] < K)
        around = tl.load(previous + n * S + at, mask=inside, other=0.0).to(tl.float32)  # [BS, BK]
        real = (j[:, None] < K) & (c[None, :] < C)
        taps = tl.load(filters + c[None, :] * K + j[:, None], mask=real, other=0.0).to(tl.float32)  # [BK, BC]
        features += tl.dot(around, taps, input_precision="ieee")
    return features


@triton.jit(do_not_specialize=["S"])  # which changes from batch to batch
def scores_program(
    query, key, v, previous, filters, location_weight, scores, S, D, C, K, G,
    BS: tl.constexpr, BD: tl.constexpr, BC: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """scores [N, S]; a program has one item and a block of its keys."""
    n = tl.program_id(0).to(tl.int64)
    s = tl.program_id(1) * BS + tl.arange(0, BS)
    c = tl.arange(0, BC)
    features = _features(previous, filters, n, s, S, C, K, BS, BC, BK)
    total = tl.zeros([BS], dtype=tl.float32)
    for d0 in range(0, D, BD):
        d = d0 + tl.arange(0, BD)
        q = tl.load(query + n * D + d, mask=d < D, other=0.0).to(tl.float32)
        v_d = tl.load(v + (n % G) * D + d, mask=d < D, other=0.0).to(tl.float32)
        real = (s[:, None] < S) & (d[None, :] < D)
        k = tl.load(key + (n * S + s[:, None]) * D + d[None, :], mask=real, other=0.0).to(tl.float32)
        mix = (c[:, None] < C) & (d[None, :] < D)
        place = tl.load(location_weight + d[None, :] * C + c[:, None], mask=mix, other=0.0).to(tl.float32)  # [BC, BD]
        hidden, _ = tanh_and_slope(q[None, :] + k + tl.dot(features, place, input_precision="ieee"))
        total += tl.sum(hidden * v_d[None, :], axis=1)
    tl.store(scores + n * S + s, total, mask=s < S)


@triton.jit(do_not_specialize=["S"])  # which changes from batch to batch
def gradients_program(
    query, key, v, previous, filters, location_weight, grad_scores,
    grad_key, parts_query, parts_v, out_features, grad_features, S, D, C, K, G,
    BS: tl.constexpr, BD: tl.constexpr, BC: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """∂k and ∂f of a block of keys, their part of ∂q and ∂v, and f itself."""
    n = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    s = block * BS + tl.arange(0, BS)
    c = tl.arange(0, BC)
    features = _features(previous, filters, n, s, S, C, K, BS, BC, BK)
    to_features = tl.zeros([BS, BC], dtype=tl.float32)
    g = tl.load(grad_scores + n * S + s, mask=s < S, other=0.0).to(tl.float32)
    for d0 in range(0, D, BD):
        d = d0 + tl.arange(0, BD)
        q = tl.load(query + n * D + d, mask=d < D, other=0.0).to(tl.float32)
        v_d = tl.load(v + (n % G) * D + d, mask=d < D, other=0.0).to(tl.float32)
        real = (s[:, None] < S) & (d[None, :] < D)
        rows = (n * S + s[:, None]) * D + d[None, :]
        k = tl.load(key + rows, mask=real, other=0.0).to(tl.float32)
        mix = (c[:, None] < C) & (d[None, :] < D)
        place = tl.load(location_weight + d[None, :] * C + c[:, None], mask=mix, other=0.0).to(tl.float32)  # [BC, BD]
        hidden, slope = tanh_and_slope(q[None, :] + k + tl.dot(features, place, input_precision="ieee"))
        u = (g[:, None] * v_d[None, :]) * slope  # 0 where s or d is padding
        tl.store(grad_key + rows, u, mask=real)
        part = (n * tl.num_programs(1) + block) * D + d
        tl.store(parts_query + part, tl.sum(u, axis=0), mask=d < D)
        tl.store(parts_v + part, tl.sum(g[:, None] * hidden, axis=0), mask=d < D)
        to_features += tl.dot(u, tl.trans(place), input_precision="ieee")
    at = (n * S + s[:, None]) * C + c[None, :]
    kept = (s[:, None] < S) & (c[None, :] < C)
    tl.store(out_features + at, features, mask=kept)
    tl.store(grad_features + at, to_features, mask=kept)


@triton.jit(do_not_specialize=["S"])  # which changes from batch to batch
def previous_program(filters, grad_features, grad_previous, S, C, K, BS: tl.constexpr, BC: tl.constexpr):
    """∂α_s = Σ_j Σ_c F_cj ∂f_{s − j + r, c}."""
    n = tl.program_id(0).to(tl.int64)
    s = tl.program_id(1) * BS + tl.arange(0, BS)
    c = tl.arange(0, BC)
    total = tl.zeros([BS, BC], dtype=tl.float32)
    for j in range(K):
        at = s - j + K // 2
        real = (at >= 0)[:, None] & (at < S)[:, None] & (c[None, :] < C)
        from_there = tl.load(grad_features + (n * S + at[:, None]) * C + c[None, :], mask=real, other=0.0)
        tap = tl.load(filters + c * K + j, mask=c < C, other=0.0).to(tl.float32)
        total += from_there * tap[None, :]
    tl.store(grad_previous + n * S + s, tl.sum(total, axis=1), mask=s < S)


@triton.jit(do_not_specialize=["S"])  # which changes from batch to batch
def filters_program(
    previous, grad_features, parts_filters, S, C, K, BS: tl.constexpr, BC: tl.constexpr, BK: tl.constexpr
):
    """An item's part of ∂F [C, K]; a program has one item and a block of taps."""
    n = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BK + tl.arange(0, BK)
    c = tl.arange(0, BC)
    total = tl.zeros([BK, BC], dtype=tl.float32)
    for s0 in range(0, S, BS):
        s = s0 + tl.arange(0, BS)
        at = s[None, :] + j[:, None] - K // 2
        inside = (at >= 0) & (at < S) & (s[None, :] < S) & (j[:, None] < K)
        around = tl.load(previous + n * S + at, mask=inside, other=0.0).to(tl.float32)  # [BK, BS]
        real = (s[:, None] < S) & (c[None, :] < C)
        to_features = tl.load(grad_features + (n * S + s[:, None]) * C + c[None, :], mask=real, other=0.0)  # [BS, BC]
        total += tl.dot(around, to_features, input_precision="ieee")
    kept = (j[:, None] < K) & (c[None, :] < C)
    tl.store(parts_filters + (n * C + c[None, :]) * K + j[:, None], total, mask=kept)
