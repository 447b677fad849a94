"""The Triton programs of local attention; fused.py starts them and says what they compute.

Strides are named by tensor and axis: q query, k key, x value, c centre; n item, s key or query, d width. Weights, gradients of
scores and the gradient of the context are contiguous. `sharpness` is 1 / 2σ².

Legend: N batch with heads, T queries, S keys, D width of queries and keys, E width of values, W keys in a window.
"""

import triton
import triton.language as tl

UNSPECIALISED = ["T", "S", "shift"]
"""Sizes that change from call to call: a program compiled anew for each kind of number would cost more than it gains."""


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
        # Far out, and NaN, see nothing; they are brought to where an integer can hold them.
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
    CENTRE: tl.constexpr, LENGTHS: tl.constexpr, ADDITIVE: tl.constexpr, GAIN: tl.constexpr, GAINED: tl.constexpr,
    BW: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """One query: context [N, T, E] and the softmax [N, T, W] (GAINED: times the gain)."""
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
    kept = mixed if GAINED else softmax
    tl.store(weights + row * W + w, kept, mask=w < W)
    for start in range(0, E, BE):
        e = start + tl.arange(0, BE)
        x = tl.load(
            value + n * xn + places[:, None] * xs + e[None, :] * xd, mask=seen[:, None] & (e < E)[None, :], other=0.0
        ).to(tl.float32)
        found = tl.sum(mixed[:, None] * x, axis=0)
        tl.store(context + row * E + e, found.to(context.dtype.element_ty), mask=e < E)


@triton.jit
def _give(total, places, part, mask, MEETS: tl.constexpr, ADDS: tl.constexpr):
    """Write a part; ADDS: add it to what is there; MEETS: and other programs of this launch may add to it too."""
    if MEETS:
        tl.atomic_add(total + places, part, mask=mask, sem="relaxed")
    else:
        if ADDS:
            part += tl.load(total + places, mask=mask, other=0.0)
        tl.store(total + places, part.to(total.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=UNSPECIALISED)
def query_gradients(
    query, key, value, centre, v, lengths, weights, grad_context,
    grad_query, grad_key, grad_value, grad_centre, grad_v, grad_scores,
    qn, qs, qd, kn, ks, kd, xn, xs, xd, cn, ct, vn,
    T, S, D, E, W, before, after, shift, scale, sharpness,
    CENTRE: tl.constexpr, LENGTHS: tl.constexpr, ADDITIVE: tl.constexpr, GAIN: tl.constexpr,
    KEYS: tl.constexpr, VALUES: tl.constexpr, JUMPS: tl.constexpr, MEETS: tl.constexpr, ADDS: tl.constexpr,
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
            _give(grad_value, (n * S + places[:, None]) * E + e[None, :], part, inside, MEETS, ADDS)
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
            _give(grad_key, (n * S + places[:, None]) * D + d[None, :], part, inside, MEETS, ADDS)


@triton.jit(do_not_specialize=[*UNSPECIALISED, "low", "count"])
def key_gradients(
    query, key, value, centre, v, lengths, weights, grad_context, grad_scores, grad_key, grad_value, low, count,
    qn, qs, qd, kn, ks, kd, xn, xs, xd, cn, ct, vn,
    T, S, D, E, W, before, after, shift, scale, sharpness,
    CENTRE: tl.constexpr, LENGTHS: tl.constexpr, ADDITIVE: tl.constexpr, GAIN: tl.constexpr,
    KEYS: tl.constexpr, VALUES: tl.constexpr, ADDS: tl.constexpr,
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
            _give(grad_key, (n * S + s) * D + d, found, d < D, False, ADDS)
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
            _give(grad_value, (n * S + s) * E + e, tl.sum(total, axis=0), e < E, False, ADDS)
