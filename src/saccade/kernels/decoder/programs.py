"""The Triton programs of a decoder's step: the equations are those of blocked.py, the launches are in fused.py.

A program serves one item n. It goes through the keys in chunks of BS, and through the widths D and E in blocks of BD and
BE; WHOLE says that the keys fit in one chunk, and then scores never leave the registers. Keys that are not seen, or have
no weight, are not loaded. Arithmetic is float32. Tensors that are None leave their part of a program out.

Legend: N items, T steps, S keys, D width of queries and keys, E width of values, P = D + 2 S + E; x_n is the stride of
value along N, and so on: q query, k key, x value, r real.
"""

import triton
import triton.language as tl


@triton.jit
def _tanh(x):
    """tanh x and its slope 1 − tanh² x, both to a few roundings of themselves at any magnitude.

    With e = exp(−2|x|) ≤ 1 nothing overflows. Near 0, where 1 − e would cancel, the odd series of tanh takes over: its
    next term is 1e-8 of the sum at ¼.
    """
    size = tl.abs(x)
    e = tl.exp(-2.0 * size)
    r = 1.0 / (1.0 + e)
    far = tl.where(x < 0.0, e - 1.0, 1.0 - e) * r
    x2 = tl.minimum(x * x, 1.0)
    near = x * (1.0 + x2 * (-0.33333333 + x2 * (0.13333333 + x2 * (-0.053968254 + x2 * 0.021869488))))
    return tl.where(size < 0.25, near, far), 4.0 * e * r * r


@triton.jit
def _scores(query, key, v, seen, s, scale, k_s, D: tl.constexpr, BS: tl.constexpr, BD: tl.constexpr):
    """The scores [BS] of the keys s; query and key point at the item."""
    scores = tl.zeros([BS], tl.float32)
    for first in range(0, D, BD):
        d = first + tl.arange(0, BD)
        inside = d < D
        q = tl.load(query + d, mask=inside, other=0.0).to(tl.float32)
        k = tl.load(key + s[:, None] * k_s + d[None, :], mask=seen[:, None] & inside[None, :], other=0.0).to(tl.float32)
        if v is None:
            scores += tl.sum(k * (q * scale)[None, :], axis=1)
        else:
            y, _ = _tanh(k + q[None, :])
            scores += tl.sum(y * tl.load(v + d, mask=inside, other=0.0).to(tl.float32)[None, :], axis=1)
    return scores


@triton.jit
def look(
    query, key, value, v, real, lengths, context, weights, scores,
    S, scale, q_n, k_n, k_s, x_n, x_s, r_n, r_s,
    D: tl.constexpr, E: tl.constexpr, WHOLE: tl.constexpr, BS: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """Scores → softmax → read. `scores` is room to keep the scores when they are more than a chunk."""
    n = tl.program_id(0).to(tl.int64)
    last = S
    if lengths is not None:
        last = tl.minimum(S, tl.load(lengths + n).to(tl.int32))
    top = -float("inf")
    total = 0.0
    chunk = tl.full([BS], -float("inf"), tl.float32)
    for start in range(0, last, BS):
        s = start + tl.arange(0, BS)
        seen = s < last
        if real is not None:
            seen = seen & (tl.load(real + n * r_n + s * r_s, mask=seen, other=0) != 0)
        found = _scores(query + n * q_n, key + n * k_n, v, seen, s, scale, k_s, D, BS, BD)
        chunk = tl.where(seen, found, -float("inf"))
        if not WHOLE:
            tl.store(scores + n * S + s, chunk, mask=s < S)
        higher = tl.maximum(top, tl.max(chunk, axis=0))
        ground = tl.where(higher == -float("inf"), 0.0, higher)  # −inf − (−inf) would be NaN: nothing seen yet
        total = total * tl.exp(top - ground) + tl.sum(tl.exp(chunk - ground), axis=0)
        top = higher
    if not WHOLE:
        tl.debug_barrier()  # scores are read again by other threads than wrote them
    ground = tl.where(top == -float("inf"), 0.0, top)
    part = 1.0 / tl.where(total == 0.0, 1.0, total)
    for start in range(0, S, BS):
        s = start + tl.arange(0, BS)
        if not WHOLE:
            chunk = tl.load(scores + n * S + s, mask=s < last, other=-float("inf"))
        tl.store(weights + n * S + s, tl.exp(chunk - ground) * part, mask=s < S)
    for first in range(0, E, BE):
        e = first + tl.arange(0, BE)
        inside = e < E
        read = tl.zeros([BE], tl.float32)
        for start in range(0, last, BS):
            s = start + tl.arange(0, BS)
            if not WHOLE:
                chunk = tl.load(scores + n * S + s, mask=s < last, other=-float("inf"))
            wanted = (chunk > -float("inf"))[:, None] & inside[None, :]
            x = tl.load(value + n * x_n + s[:, None] * x_s + e[None, :], mask=wanted, other=0.0).to(tl.float32)
            read += tl.sum(x * (tl.exp(chunk - ground) * part)[:, None], axis=0)
        tl.store(context + n * E + e, read, mask=inside)


@triton.jit
def _along(value, grad_context, wanted, s, x_s, E: tl.constexpr, BS: tl.constexpr, BE: tl.constexpr):
    """value[s] · ∂context [BS]; value and grad_context point at the item."""
    along = tl.zeros([BS], tl.float32)
    for first in range(0, E, BE):
        e = first + tl.arange(0, BE)
        inside = e < E
        g = tl.load(grad_context + e, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(value + s[:, None] * x_s + e[None, :], mask=wanted[:, None] & inside[None, :], other=0.0)
        along += tl.sum(x.to(tl.float32) * g[None, :], axis=1)
    return along


@triton.jit
def _pull(share, along, total):
    """The gradient of the scores, weights ∘ (∂w − Σ weights ∂w); 0 where there is no weight."""
    return share * (along - total)


@triton.jit
def _bend(k, q, v, g, gain):
    """What the keys k [BS, BD] and the gradients g [BS] of their scores give: ∂query but for its gain, ∂key, ∂v."""
    if v is None:
        to_query = k * g[:, None]
        to_key = g[:, None] * (q * gain)[None, :]
        to_v = to_key  # nobody asks
    else:
        y, slope = _tanh(k + q[None, :])
        to_query = slope * g[:, None]
        to_key = to_query * gain[None, :]
        to_v = y * g[:, None]
    return to_query, to_key, to_v


@triton.jit
def look_back(
    query, key, value, v, weights, grad_context, grad_weights, grad_query, rows, grad_key, grad_value, grad_v, scratch,
    S, scale, q_n, k_n, k_s, x_n, x_s,
    D: tl.constexpr, E: tl.constexpr, WHOLE: tl.constexpr, BS: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """∂query, and either the step's row or ∂key, ∂value and the item's part of ∂v."""
    n = tl.program_id(0).to(tl.int64)
    total = 0.0
    share = tl.zeros([BS], tl.float32)
    along = tl.zeros([BS], tl.float32)
    for start in range(0, S, BS):
        s = start + tl.arange(0, BS)
        share = tl.load(weights + n * S + s, mask=s < S, other=0.0)
        along = _along(value + n * x_n, grad_context + n * E, share != 0.0, s, x_s, E, BS, BE)
        if grad_weights is not None:
            along += tl.load(grad_weights + n * S + s, mask=s < S, other=0.0).to(tl.float32)
        total += tl.sum(share * along, axis=0)
        if not WHOLE:
            tl.store(scratch + n * S + s, along, mask=s < S)
    if not WHOLE:
        tl.debug_barrier()  # read again by other threads than wrote it
    for first in range(0, D, BD):
        d = first + tl.arange(0, BD)
        inside = d < D
        q = tl.load(query + n * q_n + d, mask=inside, other=0.0).to(tl.float32)
        moved = tl.zeros([BD], tl.float32)
        turned = tl.zeros([BD], tl.float32)
        gain = tl.full([BD], 1.0, tl.float32) * scale
        if v is not None:
            gain = tl.load(v + d, mask=inside, other=0.0).to(tl.float32)
        for start in range(0, S, BS):
            s = start + tl.arange(0, BS)
            if not WHOLE:
                share = tl.load(weights + n * S + s, mask=s < S, other=0.0)
                along = tl.load(scratch + n * S + s, mask=s < S, other=0.0)
            g = _pull(share, along, total)
            wanted = (share != 0.0)[:, None] & inside[None, :]
            k = tl.load(key + n * k_n + s[:, None] * k_s + d[None, :], mask=wanted, other=0.0).to(tl.float32)
            to_query, to_key, to_v = _bend(k, q, v, g, gain)
            moved += tl.sum(to_query, axis=0)
            turned += tl.sum(to_v, axis=0)
            if grad_key is not None:
                here = (s < S)[:, None] & inside[None, :]
                tl.store(grad_key + (n * S + s[:, None]) * D + d[None, :], to_key, mask=here)
        tl.store(grad_query + n * D + d, moved * gain, mask=inside)
        if grad_v is not None:
            tl.store(grad_v + n * D + d, turned, mask=inside)
        if rows is not None:
            tl.store(rows + n * (D + 2 * S + E) + d, q, mask=inside)
    _hand_on(weights, grad_context, rows, grad_value, scratch, share, along, total, n, S, D, E, WHOLE, BS, BE)


@triton.jit
def _hand_on(
    weights, grad_context, rows, grad_value, scratch, share, along, total, n, S,
    D: tl.constexpr, E: tl.constexpr, WHOLE: tl.constexpr, BS: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """What of the backward pass goes by keys or by the values' width: the rest of the row, and ∂value."""
    if rows is not None:
        row = rows + n * (D + 2 * S + E)
        for first in range(0, E, BE):
            e = first + tl.arange(0, BE)
            g = tl.load(grad_context + n * E + e, mask=e < E, other=0.0).to(tl.float32)
            tl.store(row + D + 2 * S + e, g, mask=e < E)
    for start in range(0, S, BS):
        s = start + tl.arange(0, BS)
        if not WHOLE:
            share = tl.load(weights + n * S + s, mask=s < S, other=0.0)
            along = tl.load(scratch + n * S + s, mask=s < S, other=0.0)
        if rows is not None:
            tl.store(row + D + s, _pull(share, along, total), mask=s < S)
            tl.store(row + D + S + s, share, mask=s < S)
        if grad_value is not None:
            for first in range(0, E, BE):
                e = first + tl.arange(0, BE)
                g = tl.load(grad_context + n * E + e, mask=e < E, other=0.0).to(tl.float32)
                inside = (s < S)[:, None] & (e < E)[None, :]
                tl.store(grad_value + (n * S + s[:, None]) * E + e[None, :], share[:, None] * g[None, :], mask=inside)


@triton.jit
def gather(
    key, v, rows, grad_key, grad_v, T, N, S, P, k_n, k_s, D: tl.constexpr, BS: tl.constexpr, BD: tl.constexpr
):  # fmt: skip
    """∂key of a tile of keys, and the tile's part of ∂v, over the steps."""
    n = tl.program_id(0).to(tl.int64)
    s = tl.program_id(1) * BS + tl.arange(0, BS)
    d = tl.program_id(2) * BD + tl.arange(0, BD)
    inside = (s < S)[:, None] & (d < D)[None, :]
    k = tl.load(key + n * k_n + s[:, None] * k_s + d[None, :], mask=inside, other=0.0).to(tl.float32)
    moved = tl.zeros([BS, BD], tl.float32)
    turned = tl.zeros([BS, BD], tl.float32)
    for t in range(T):
        row = rows + (t * N + n) * P
        q = tl.load(row + d, mask=d < D, other=0.0)
        g = tl.load(row + D + s, mask=s < S, other=0.0)
        y, slope = _tanh(k + q[None, :])
        moved += slope * g[:, None]
        turned += y * g[:, None]
    gain = tl.load(v + d, mask=d < D, other=0.0).to(tl.float32)
    tl.store(grad_key + (n * S + s[:, None]) * D + d[None, :], moved * gain[None, :], mask=inside)
    place = n * tl.num_programs(1) + tl.program_id(1)
    tl.store(grad_v + place * D + d, tl.sum(turned, axis=0), mask=d < D)
