"""Local attention in one Triton launch, and its gradients in one (local-p) or two (local-m).

A program has one query: it finds its window, scores the W keys, takes the softmax, multiplies by the gain and reads the
values; only the W weights that the backward pass needs are stored. The equations are those of blocked.py. Gradients of keys
and values are sums over the queries that see a key:

    local-m   those queries follow from the key's position: one program per key sums over them, always in the same order
    local-p   any query may see it: programs of queries add to it (a decoder's single query writes). Where PyTorch must use
              deterministic algorithms, the blocked kernel computes these gradients

Serves float32, float16 and bfloat16 with sums in float32. In programs strides are named by tensor and axis: q query, k key,
x value, c centre; n item, s key or query, d width. Weights, gradients of scores and the gradient of the context are contiguous.
`sharpness` is 1 / 2σ².

Legend: N batch with heads, T queries, S keys, D width of queries and keys, E width of values, W keys in a window.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from saccade.kernels.launching import on_device_of
from saccade.kernels.local import blocked
from saccade.kernels.local.differentiable import Engine, Gradients
from saccade.kernels.local.reference import Inputs, Reach
from saccade.kernels.tiling import power_of_2

MOST_WIDTH = 1024
"""The widest window whose scores one program holds."""

MOST_QUERIES = 64
"""Queries that see a key are processed so many at a time."""

SERVED = (torch.float32, torch.float16, torch.bfloat16)


class Tiles(NamedTuple):
    """Sides of a program's tiles: BW keys (or queries) × BD of the width of keys, BE of that of values."""

    BW: int
    BD: int
    BE: int
    num_warps: int


def tiles(width: int, D: int, E: int, *, most: int = 4096) -> Tiles:
    """The whole window at once, and as much of the width as makes a tile of `most` numbers: tune here."""
    BW = max(2, power_of_2(width))
    across = max(16, most // BW)
    BD, BE = (min(across, max(16, power_of_2(size))) for size in (D, E))
    return Tiles(BW, BD, BE, num_warps=4 if BW * max(BD, BE) <= 4096 else 8)


def refusal(inputs: Inputs, reach: Reach) -> str | None:
    """Why these inputs are not served, or None."""
    for name, tensor in inputs._asdict().items():
        dtypes = SERVED if tensor is None or tensor.is_floating_point() or name != "centre" else (tensor.dtype,)
        if tensor is not None and tensor.dtype not in dtypes:
            return f"{name} is {str(tensor.dtype).removeprefix('torch.')}, and it computes in float32"
    if reach.width > MOST_WIDTH:
        return f"windows are {reach.width} keys wide, and a program holds {MOST_WIDTH}"
    return None


def _forward(inputs: Inputs, reach: Reach, scale: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    query, value = inputs.query, inputs.value
    (N, T, D), E, W = query.shape, value.shape[2], reach.width
    context = query.new_zeros(N, T, E, dtype=dtype)
    weights = query.new_zeros(N, T, W, dtype=torch.float32)
    if weights.numel():
        sides = tiles(W, D, E)._asdict()
        with on_device_of(query):
            read_window[(N * T,)](
                *_arguments(inputs, reach), context, weights, scale=scale, **_sizes(inputs, reach), **sides
            )
    return context, weights


def _backward(
    inputs: Inputs,
    reach: Reach,
    scale: float,
    weights: Tensor,
    grad_context: Tensor,
    needed: tuple[bool, ...],
) -> Gradients:
    query, key, value, centre, v = inputs
    N, T, D = query.shape
    meets = centre is not None and T > 1  # several programs may write to one key, and must add
    if meets and (needed[1] or needed[2]) and torch.are_deterministic_algorithms_enabled():
        return blocked.ENGINE.backward(inputs, reach, scale, weights, grad_context, needed)
    grad_key, grad_value = (
        torch.zeros(tensor.shape, dtype=torch.float32 if meets else tensor.dtype, device=tensor.device)
        if need
        else None
        for tensor, need in zip((key, value), needed[1:3], strict=True)
    )
    grad_query = torch.zeros(query.shape, dtype=query.dtype, device=query.device)
    grad_centre = query.new_zeros(N, T, dtype=torch.float32)
    grad_v = None if v is None else query.new_zeros(N, T, D, dtype=torch.float32)  # one per query, summed below
    if weights.numel():
        gradients = (grad_query, grad_key, grad_value, grad_centre, grad_v)
        _launch_backward(inputs, reach, scale, weights, grad_context.contiguous(), gradients, meets)
    return (
        grad_query if needed[0] else None,
        None if grad_key is None else grad_key.to(key.dtype),
        None if grad_value is None else grad_value.to(value.dtype),
        grad_centre.to(centre.dtype) if centre is not None and needed[3] else None,
        grad_v.sum(1).sum_to_size(v.shape).to(v.dtype) if v is not None and grad_v is not None and needed[4] else None,
    )


def _launch_backward(
    inputs: Inputs,
    reach: Reach,
    scale: float,
    weights: Tensor,
    grad_context: Tensor,
    gradients: Gradients,
    meets: bool,
) -> None:
    (N, T, D), E, band = inputs.query.shape, inputs.value.shape[2], inputs.centre is None
    grad_scores = torch.empty_like(weights)
    outputs = [grad_scores if tensor is None else tensor for tensor in gradients]  # placeholders, never written
    pointers, wanted = _arguments(inputs, reach), {"KEYS": gradients[1] is not None, "VALUES": gradients[2] is not None}
    settings: dict[str, Any] = {"scale": scale, **_sizes(inputs, reach), **wanted}
    sides = tiles(reach.width, D, E)._asdict()
    with on_device_of(inputs.query):
        query_gradients[(N * T,)](
            *pointers, weights, grad_context, *outputs, grad_scores, **settings, MEETS=meets, JUMPS=not band, **sides
        )
        low, high = _seen_by_band(reach)
        if band and high > low and any(wanted.values()):
            most_queries = min(reach.before + reach.after + 1, T, MOST_QUERIES)
            BQ, BD, BE, num_warps = tiles(most_queries, D, E)
            places = {"low": low, "count": high - low}
            sides = {"BQ": BQ, "BD": BD, "BE": BE, "num_warps": num_warps}
            key_gradients[(N * (high - low),)](
                *pointers, weights, grad_context, grad_scores, *outputs[1:3], **places, **settings, **sides
            )


def _seen_by_band(reach: Reach) -> tuple[int, int]:
    """The range of keys that a band's queries may see."""
    return max(0, reach.shift - reach.before), min(reach.S, reach.T + reach.shift + reach.after)


def _arguments(inputs: Inputs, reach: Reach) -> tuple[Tensor, ...]:
    """The pointers that all programs take; the query's is a placeholder, never read, for absent ones."""
    query = inputs.query
    optional = (inputs.centre, None if inputs.v is None else inputs.v.contiguous(), reach.lengths)
    return (
        query,
        inputs.key,
        inputs.value,
        *(query if tensor is None else tensor.to(query.device) for tensor in optional),
    )


def _sizes(inputs: Inputs, reach: Reach) -> dict[str, Any]:
    query, key, value, centre, v = inputs
    strides = {"q": query.stride(), "k": key.stride(), "x": value.stride()}
    named = {f"{name}{axis}": step for name, steps in strides.items() for axis, step in zip("nsd", steps, strict=True)}
    return {
        **named,
        "cn": 0 if centre is None else centre.stride(0),
        "ct": 0 if centre is None else centre.stride(1),
        "vn": 0 if v is None or v.shape[0] == 1 else v.shape[1],
        "T": reach.T,
        "S": reach.S,
        "D": query.shape[2],
        "E": value.shape[2],
        "W": reach.width,
        "before": reach.before,
        "after": reach.after,
        "shift": reach.shift,
        "sharpness": 0.0 if reach.sigma is None else 1 / (2 * reach.sigma**2),
        "CENTRE": centre is not None,
        "LENGTHS": reach.lengths is not None,
        "ADDITIVE": v is not None,
        "GAIN": reach.sigma is not None,
    }


ENGINE = Engine("fused", _forward, _backward, refusal)
local_attention = ENGINE.local_attention


# ---- Programs ----------------------------------------------------------------------------------------------------------


UNSPECIALISED = ["T", "S", "shift"]
"""Sizes that change from call to call: specialising on them would compile programs anew."""


@triton.jit
def _tanh(x):
    # 1 − 2 / (1 + e^2x), right for any x: e^2x = ∞ leaves 1, e^2x = 0 leaves −1.
    return 1.0 - 2.0 / (1.0 + tl.exp2(x * 2.8853900817779268))


@triton.jit
def _window(
    centre, lengths, n, t, cn, ct, S, W, before, after, shift, CENTRE: tl.constexpr, LENGTHS: tl.constexpr, BW: tl.constexpr
):  # fmt: skip
    """Query t's centre p, the places [BW] of its window's keys, and which of them it sees."""
    if CENTRE:
        p = tl.load(centre + n * cn + t * ct).to(tl.float32)
        # NaN and far positions see nothing; they are clamped to what an integer can hold.
        near = tl.where(p == p, tl.floor(p), -1.0 - after)
        middle = tl.minimum(tl.maximum(near, -1.0 - after), 0.0 + S + before).to(tl.int64)
    else:
        middle = t + shift
        p = middle.to(tl.float32)
    first = tl.minimum(tl.maximum(middle - before, 0), S - W)
    w = tl.arange(0, BW)
    places = first + w
    seen = (w < W) & (places >= middle - before) & (places <= middle + after)
    if LENGTHS:
        seen = seen & (places < tl.load(lengths + n))
    return p, places, seen


@triton.jit(do_not_specialize=UNSPECIALISED)
def read_window(
    query, key, value, centre, v, lengths, context, weights,
    qn, qs, qd, kn, ks, kd, xn, xs, xd, cn, ct, vn,
    T, S, D, E, W, before, after, shift, scale, sharpness,
    CENTRE: tl.constexpr, LENGTHS: tl.constexpr, ADDITIVE: tl.constexpr, GAIN: tl.constexpr,
    BW: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """One query: context [N, T, E] and the softmax [N, T, W], before the gain."""
    row = tl.program_id(0).to(tl.int64)
    n, t = row // T, row % T
    p, places, seen = _window(
        centre, lengths, n, t, cn, ct, S, W, before, after, shift, CENTRE, LENGTHS, BW
    )  # fmt: skip
    products = tl.full((BW, BD), 0.0, dtype=tl.float32)
    for start in range(0, D, BD):
        d = start + tl.arange(0, BD)
        q = tl.load(query + n * qn + t * qs + d * qd, mask=d < D, other=0.0).to(tl.float32)
        k = tl.load(
            key + n * kn + places[:, None] * ks + d[None, :] * kd, mask=seen[:, None] & (d < D)[None, :], other=0.0
        ).to(tl.float32)
        if ADDITIVE:
            along = tl.load(v + n * vn + d, mask=d < D, other=0.0).to(tl.float32)
            products += along[None, :] * _tanh(q[None, :] + k)
        else:
            products += q[None, :] * k
    scores = tl.sum(products, axis=1)
    if not ADDITIVE:
        scores *= scale
    scores = tl.where(seen, scores, float("-inf"))
    highest = tl.max(scores, axis=0)
    highest = tl.where(highest == float("-inf"), 0.0, highest)  # a query that sees nothing: no ∞ − ∞
    powers = tl.where(seen, tl.exp(scores - highest), 0.0)
    total = tl.sum(powers, axis=0)
    softmax = powers / tl.where(total == 0.0, 1.0, total)
    mixed = softmax
    if GAIN:
        distance = places.to(tl.float32) - p
        mixed = softmax * tl.exp(-distance * distance * sharpness)
    w = tl.arange(0, BW)
    tl.store(weights + row * W + w, softmax, mask=w < W)
    for start in range(0, E, BE):
        e = start + tl.arange(0, BE)
        x = tl.load(
            value + n * xn + places[:, None] * xs + e[None, :] * xd, mask=seen[:, None] & (e < E)[None, :], other=0.0
        ).to(tl.float32)
        read = tl.sum(mixed[:, None] * x, axis=0)
        tl.store(context + row * E + e, read.to(context.dtype.element_ty), mask=e < E)


@triton.jit
def _add(total, places, part, mask, MEETS: tl.constexpr):
    """Write a part; MEETS: add it, since other programs of this launch may add to the same place."""
    if MEETS:
        tl.atomic_add(total + places, part, mask=mask, sem="relaxed")
    else:
        tl.store(total + places, part.to(total.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=UNSPECIALISED)
def query_gradients(
    query, key, value, centre, v, lengths, weights, grad_context,
    grad_query, grad_key, grad_value, grad_centre, grad_v, grad_scores,
    qn, qs, qd, kn, ks, kd, xn, xs, xd, cn, ct, vn,
    T, S, D, E, W, before, after, shift, scale, sharpness,
    CENTRE: tl.constexpr, LENGTHS: tl.constexpr, ADDITIVE: tl.constexpr, GAIN: tl.constexpr,
    KEYS: tl.constexpr, VALUES: tl.constexpr, JUMPS: tl.constexpr, MEETS: tl.constexpr,
    BW: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """One query: its own gradient, its centre's and its part of v's; JUMPS: also its part of those of keys and values."""
    row = tl.program_id(0).to(tl.int64)
    n, t = row // T, row % T
    p, places, seen = _window(
        centre, lengths, n, t, cn, ct, S, W, before, after, shift, CENTRE, LENGTHS, BW
    )  # fmt: skip
    w = tl.arange(0, BW)
    softmax = tl.load(weights + row * W + w, mask=w < W, other=0.0)
    distance = places.to(tl.float32) - p
    gain = tl.exp(-distance * distance * sharpness) if GAIN else tl.full((BW,), 1.0, dtype=tl.float32)

    products = tl.full((BW, BE), 0.0, dtype=tl.float32)
    for start in range(0, E, BE):
        e = start + tl.arange(0, BE)
        inside = seen[:, None] & (e < E)[None, :]
        grad = tl.load(grad_context + row * E + e, mask=e < E, other=0.0).to(tl.float32)
        x = tl.load(value + n * xn + places[:, None] * xs + e[None, :] * xd, mask=inside, other=0.0).to(tl.float32)
        products += grad[None, :] * x
        if JUMPS and VALUES:
            part = (softmax * gain)[:, None] * grad[None, :]
            _add(grad_value, (n * S + places[:, None]) * E + e[None, :], part, inside, MEETS)
    product = softmax * gain * tl.sum(products, axis=1)
    if GAIN and CENTRE:
        tl.store(grad_centre + row, 2.0 * sharpness * tl.sum(product * distance, axis=0))
    slope = product - softmax * tl.sum(product, axis=0)  # the gradient of the scores [BW]
    tl.store(grad_scores + row * W + w, slope, mask=w < W)

    for start in range(0, D, BD):
        d = start + tl.arange(0, BD)
        inside = seen[:, None] & (d < D)[None, :]
        q = tl.load(query + n * qn + t * qs + d * qd, mask=d < D, other=0.0).to(tl.float32)
        k = tl.load(key + n * kn + places[:, None] * ks + d[None, :] * kd, mask=inside, other=0.0).to(tl.float32)
        if ADDITIVE:
            along = tl.load(v + n * vn + d, mask=d < D, other=0.0).to(tl.float32)
            tanh = _tanh(q[None, :] + k)
            tl.store(grad_v + row * D + d, tl.sum(slope[:, None] * tanh, axis=0), mask=d < D)
            part = slope[:, None] * (1.0 - tanh * tanh) * along[None, :]
            own = tl.sum(part, axis=0)
        else:
            part = slope[:, None] * (q * scale)[None, :]
            own = tl.sum(slope[:, None] * k, axis=0) * scale
        tl.store(grad_query + row * D + d, own.to(grad_query.dtype.element_ty), mask=d < D)
        if JUMPS and KEYS:
            _add(grad_key, (n * S + places[:, None]) * D + d[None, :], part, inside, MEETS)


@triton.jit(do_not_specialize=[*UNSPECIALISED, "low", "count"])
def key_gradients(
    query, key, value, centre, v, lengths, weights, grad_context, grad_scores, grad_key, grad_value, low, count,
    qn, qs, qd, kn, ks, kd, xn, xs, xd, cn, ct, vn,
    T, S, D, E, W, before, after, shift, scale, sharpness,
    CENTRE: tl.constexpr, LENGTHS: tl.constexpr, ADDITIVE: tl.constexpr, GAIN: tl.constexpr,
    KEYS: tl.constexpr, VALUES: tl.constexpr,
    BQ: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """One key s of a band, with its value: sums over the queries t that see it, s − after ≤ t + shift ≤ s + before."""
    program = tl.program_id(0).to(tl.int64)
    n, s = program // count, low + program % count
    begin = tl.maximum(s - after - shift, 0).to(tl.int32)
    end = tl.minimum(s + before - shift + 1, T).to(tl.int32)
    if LENGTHS:
        end = tl.where(s < tl.load(lengths + n), end, begin)  # nobody sees padding
    if KEYS:
        for start in range(0, D, BD):
            d = start + tl.arange(0, BD)
            k = tl.load(key + n * kn + s * ks + d * kd, mask=d < D, other=0.0).to(tl.float32)
            total = tl.full((BQ, BD), 0.0, dtype=tl.float32)
            for earliest in range(begin, end, BQ):
                t = (earliest + tl.arange(0, BQ)).to(tl.int64)
                first = tl.minimum(tl.maximum(t + shift - before, 0), S - W)
                slope = tl.load(grad_scores + (n * T + t) * W + s - first, mask=t < end, other=0.0)
                q = tl.load(
                    query + n * qn + t[:, None] * qs + d[None, :] * qd,
                    mask=(t < end)[:, None] & (d < D)[None, :],
                    other=0.0,
                ).to(tl.float32)
                if ADDITIVE:
                    tanh = _tanh(q + k[None, :])
                    total += slope[:, None] * (1.0 - tanh * tanh)
                else:
                    total += slope[:, None] * q
            found = tl.sum(total, axis=0)
            if ADDITIVE:
                found *= tl.load(v + n * vn + d, mask=d < D, other=0.0).to(tl.float32)
            else:
                found *= scale
            _add(grad_key, (n * S + s) * D + d, found, d < D, False)
    if VALUES:
        for start in range(0, E, BE):
            e = start + tl.arange(0, BE)
            total = tl.full((BQ, BE), 0.0, dtype=tl.float32)
            for earliest in range(begin, end, BQ):
                t = (earliest + tl.arange(0, BQ)).to(tl.int64)
                first = tl.minimum(tl.maximum(t + shift - before, 0), S - W)
                mixed = tl.load(weights + (n * T + t) * W + s - first, mask=t < end, other=0.0)
                if GAIN:
                    distance = (s - t - shift).to(tl.float32)
                    mixed *= tl.exp(-distance * distance * sharpness)
                grad = tl.load(
                    grad_context + (n * T + t[:, None]) * E + e[None, :],
                    mask=(t < end)[:, None] & (e < E)[None, :],
                    other=0.0,
                ).to(tl.float32)
                total += mixed[:, None] * grad
            _add(grad_value, (n * S + s) * E + e, tl.sum(total, axis=0), e < E, False)
