"""A decoder's step in one Triton launch, its gradients in another, and a memory's gradients over all steps in a third.

The equations are in blocked.py. A program has one item n. It goes through the keys in chunks of BS, and through the widths D
and E in blocks of BD and BE; WHOLE means that the keys fit in one chunk, and then scores never leave the registers. Keys that
are not visible, or have no weight, are not loaded. Arithmetic is float32. Arguments that are None leave their part out.

Legend: N items, T steps, S keys, D width of queries and keys, E width of values, P = D + 2 S + E; in programs x_n is the
stride of value along N, and so on: q query, k key, x value, r real.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, overload

import torch
import triton
import triton.language as tl
from jaxtyping import Bool, Float
from torch import Tensor

from saccade.kernels.decoder.blocked import Parts, over_steps
from saccade.kernels.dtypes import without_autocast
from saccade.kernels.tiling import ceil_div, power_of_2


@dataclass(frozen=True)
class Tiles:
    """Sides of a tile: BS keys, BD and BE numbers of their widths; and the warps that share it."""

    BS: int
    BD: int
    BE: int
    warps: int


def tiles(S: int, D: int, E: int) -> Tiles:
    """For a step: a tile is up to 16,384 numbers, 64 registers per thread of eight warps."""
    return _step_tiles(S, D, E, room=16384)


def back_tiles(S: int, D: int, E: int) -> Tiles:
    """For a step's gradients, which hold tanh, its slope and their products at once: half of that."""
    return _step_tiles(S, D, E, room=8192)


def _step_tiles(S: int, D: int, E: int, room: int) -> Tiles:
    BS = min(power_of_2(S), 64)
    BD, BE = min(power_of_2(D), room // BS), min(power_of_2(E), room // BS)
    return Tiles(BS, BD, BE, warps=8 if BS * max(BD, BE) >= 8192 else 4)


def gather_tiles(S: int, D: int) -> Tiles:
    """For the gradients of a memory: three tiles live at once, so they are small, and there are many programs."""
    return Tiles(min(power_of_2(S), 16), min(power_of_2(D), 128), 1, warps=4)


class Ready(NamedTuple):
    """A memory's keys and values, as the programs read them."""

    key: Float[Tensor, "N S D"]
    value: Float[Tensor, "N S E"]


def prepare(key: Float[Tensor, "N S D"], value: Float[Tensor, "N S E"]) -> Ready:
    return Ready(_rows(key.detach()), _rows(value.detach()))


def look(
    ready: Ready,
    query: Float[Tensor, "N D"],
    v: Float[Tensor, " D"] | None,
    scale: float,
    real: Bool[Tensor, "N S"] | None,
    dtype: torch.dtype,
) -> tuple[Float[Tensor, "N E"], Float[Tensor, "N S"]]:
    """Context in ``dtype``, and weights, in one launch."""
    (key, value), query = ready, _rows(query)
    (N, S, D), E = key.shape, value.shape[-1]
    context = query.new_empty(N, E, dtype=dtype)
    weights = query.new_empty(N, S, dtype=torch.float32)
    tile = tiles(S, D, E)
    whole = tile.BS >= S
    if N:
        look_program[(N,)](
            query, key, value, _rows(v), None if real is None else real.view(torch.uint8),
            context, weights, weights if whole else torch.empty_like(weights), S, float(scale),
            query.stride(0), *key.stride()[:2], *value.stride()[:2], *((0, 0) if real is None else real.stride()),
            D=D, E=E, WHOLE=whole, BS=tile.BS, BD=tile.BD, BE=tile.BE, num_warps=tile.warps,
        )  # fmt: skip
    return context, weights


def look_back(
    ready: Ready,
    query: Float[Tensor, "N D"],
    v: Float[Tensor, " D"] | None,
    scale: float,
    weights: Float[Tensor, "N S"],
    grad_context: Float[Tensor, "N E"],
    grad_weights: Float[Tensor, "N S"] | None,
) -> tuple[Float[Tensor, "N D"], Float[Tensor, "N P"]]:
    """The gradient of the query, and the row that the memory's gradients need of this step, in one launch."""
    (key, value), query = ready, _rows(query)
    (N, S, D), E = key.shape, value.shape[-1]
    row = weights.new_empty(N, D + 2 * S + E)
    grad_query = torch.empty_like(query, memory_format=torch.contiguous_format)
    tile = back_tiles(S, D, E)
    whole = tile.BS >= S
    if N:
        look_back_program[(N,)](
            query, key, value, _rows(v), weights, grad_context.contiguous(),
            None if grad_weights is None else grad_weights.contiguous(), grad_query, row,
            weights if whole else torch.empty_like(weights), S, float(scale),
            query.stride(0), *key.stride()[:2], *value.stride()[:2],
            D=D, E=E, WHOLE=whole, BS=tile.BS, BD=tile.BD, BE=tile.BE, num_warps=tile.warps,
        )  # fmt: skip
    return grad_query, row


def gather(
    ready: Ready, v: Float[Tensor, " D"] | None, scale: float, rows: Float[Tensor, "T N P"]
) -> tuple[Float[Tensor, "N S D"], Float[Tensor, "N S E"], Float[Tensor, " D"] | None]:
    """The gradients of key, value and v from the rows of all steps, in float32."""
    key = ready.key
    (T, N, P), (_, S, D) = rows.shape, key.shape
    query, grad_scores, weights, grad_context = Parts.of(rows, S, D)
    with without_autocast(key):
        grad_value = over_steps(weights, grad_context)
        if v is None:
            return over_steps(grad_scores, query) * scale, grad_value, None
    tile = gather_tiles(S, D)
    blocks = ceil_div(S, tile.BS)
    grad_key, parts = rows.new_empty(N, S, D), rows.new_empty(N * blocks, D)
    if N and blocks:
        gather_program[(N, blocks, ceil_div(D, tile.BD))](
            key, _rows(v), rows, grad_key, parts, T, N, S, P, *key.stride()[:2],
            D=D, BS=tile.BS, BD=tile.BD, num_warps=tile.warps,
        )  # fmt: skip
    return grad_key, grad_value, parts.sum(0)


@overload
def _rows(tensor: Tensor) -> Tensor: ...
@overload
def _rows(tensor: Tensor | None) -> Tensor | None: ...
def _rows(tensor: Tensor | None) -> Tensor | None:
    """The tensor with a stride of 1 along the last axis, which the programs require."""
    return tensor if tensor is None or tensor.stride(-1) == 1 else tensor.contiguous()


# ---- Programs ----------------------------------------------------------------------------------------------------------


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
def look_program(
    query, key, value, v, real, context, weights, scores,
    S, scale, q_n, k_n, k_s, x_n, x_s, r_n, r_s,
    D: tl.constexpr, E: tl.constexpr, WHOLE: tl.constexpr, BS: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """Scores → softmax → read. `scores` is room to keep the scores when they are more than a chunk."""
    n = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    total = 0.0
    chunk = tl.full([BS], -float("inf"), tl.float32)
    for start in range(0, S, BS):
        s = start + tl.arange(0, BS)
        seen = s < S
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
            chunk = tl.load(scores + n * S + s, mask=s < S, other=-float("inf"))
        tl.store(weights + n * S + s, tl.exp(chunk - ground) * part, mask=s < S)
    for first in range(0, E, BE):
        e = first + tl.arange(0, BE)
        inside = e < E
        read = tl.zeros([BE], tl.float32)
        for start in range(0, S, BS):
            s = start + tl.arange(0, BS)
            if not WHOLE:
                chunk = tl.load(scores + n * S + s, mask=s < S, other=-float("inf"))
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
def look_back_program(
    query, key, value, v, weights, grad_context, grad_weights, grad_query, rows, scratch,
    S, scale, q_n, k_n, k_s, x_n, x_s,
    D: tl.constexpr, E: tl.constexpr, WHOLE: tl.constexpr, BS: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """∂query, and the step's row."""
    n = tl.program_id(0).to(tl.int64)
    row = rows + n * (D + 2 * S + E)
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
            factor = k if v is None else _tanh(k + q[None, :])[1]
            moved += tl.sum(factor * g[:, None], axis=0)
        tl.store(grad_query + n * D + d, moved * gain, mask=inside)
        tl.store(row + d, q, mask=inside)
    for first in range(0, E, BE):
        e = first + tl.arange(0, BE)
        g = tl.load(grad_context + n * E + e, mask=e < E, other=0.0).to(tl.float32)
        tl.store(row + D + 2 * S + e, g, mask=e < E)
    for start in range(0, S, BS):
        s = start + tl.arange(0, BS)
        if not WHOLE:
            share = tl.load(weights + n * S + s, mask=s < S, other=0.0)
            along = tl.load(scratch + n * S + s, mask=s < S, other=0.0)
        tl.store(row + D + s, _pull(share, along, total), mask=s < S)
        tl.store(row + D + S + s, share, mask=s < S)


@triton.jit
def gather_program(
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
