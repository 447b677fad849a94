"""The Triton programs of location-aware scores; fused.py starts them, and has the equations.

Legend: N items, S keys, D width, C filters, K = 2r + 1 taps, G rows of v; a tile is BS keys, BD numbers, BC filters, BK taps.
"""

import triton
import triton.language as tl


@triton.jit
def tanh_and_slope(x):
    """tanh x and 1 − tanh² x, each to a few roundings of itself at any magnitude; NaN passes.

    Far from 0 both come from e = exp(−2|x|), which cannot overflow. Below ¼, where 1 − e would cancel, tanh is its series:
    the first term left out is 1e-8 of the sum.
    """
    size = tl.abs(x)
    e = tl.exp(-2.0 * size)
    r = 1.0 / (1.0 + e)
    far = (1.0 - e) * r
    square = x * x
    series = 0.13333333 + square * (-0.05396825 + square * 0.02186949)
    near = x * (1.0 + square * (-0.33333333 + square * series))
    return tl.where(size < 0.25, near, tl.where(x < 0, -far, far)), 4.0 * e * r * r


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
    """∂k and ∂f of a block of keys, what they add to ∂q and ∂v, and f itself."""
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
    """What an item adds to ∂F [C, K]: a program has one item and a block of taps."""
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
