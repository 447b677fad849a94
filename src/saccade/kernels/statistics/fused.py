"""Statistics of attention weights for dot scores on a GPU: two passes over tiles of scores, none of which is stored.

Besides the results it stores one number per query, lse. Given lse_t (flash attention returns it; otherwise a first pass
computes it), a pair costs one fused multiply-add and

    d_ts = log₂ p_ts = (scale · q_tᵀk_s − lse_t) · log₂ e           p_ts = 2^d_ts

*By rows*, a program has a block of queries and goes through the keys: entropy_t = −ln 2 Σ_s p d, without the cancellation of
lse − Σ p · score, and the k greatest d. A row keeps k of them, and a tile is searched only while it has one above the least
that is kept; under a causal window from the diagonal back, since near keys often have the largest weights, so that after the
first tiles little is inserted. Inserted weights leave the tile and displaced ones go to the residual, which is thus a sum and
not a difference. *By keys*, a program has a block of keys, goes through the queries and sums what the keys receive. No
atomics, so results are deterministic.

A kept weight is one int64: d in the upper bits, as an integer of the same order, and the position below. So no two are equal,
and the greater of two is the greater weight, or the lower position. Programs with the most work start first.

Legend: N = B·H items (batch × heads), T queries, S keys, D width, k kept per row; in a program BM queries, BN keys, BD ≥ D.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.launching import on_device_of
from saccade.kernels.statistics.reference import Statistics, Wanted
from saccade.kernels.visibility import Visibility

MOST_KEPT = 64
"""The most weights per row that fit in registers."""

DTYPES = (torch.float32, torch.bfloat16, torch.float16)

FAR = 1 << 30
"""A band of this many keys hides nothing; positions are int32 in the programs."""


def precision_of(query: Tensor) -> str:
    """How products are formed: "tf32x3", of float32 on Hopper's tensor cores, which add three products of TF32; else "ieee".

    Measured on an H200 against float64, tf32x3 is as accurate as ieee in a fifth of its time; other GPUs have less shared
    memory, or were not measured.
    """
    narrow = query.dtype is torch.float32 and query.shape[-1] <= 128
    if not narrow or not query.is_cuda or torch.version.hip is not None:
        return "ieee"
    return "tf32x3" if torch.cuda.get_device_capability(query.device)[0] == 9 else "ieee"


def tiles(kernel: str, D: int, kept: int, dtype: torch.dtype, masked: bool, precision: str = "ieee") -> dict[str, int]:
    """The sides of a tile of scores, and warps and stages, for ``kernel`` "lse", "rows" or "keys".

    By the compiler's count for compute capability 9.0, no registers spill (with a mask of its own, "rows" spills a few),
    and two programs fit on a multiprocessor (except for 128 numbers by tf32x3): one multiplies while the other searches.
    """
    BD = max(16, triton.next_power_of_2(D))
    if precision == "tf32x3":
        return {"BM": 64, "BN": 64, "BD": BD, "num_warps": 8 if masked else 4, "num_stages": 2}
    if dtype is torch.float32:  # without tensor cores
        side = 64 if BD <= 128 else 32
        return {"BM": side, "BN": side, "BD": BD, "num_warps": 8 if BD <= 128 else 4, "num_stages": 2}
    if BD > 128 or masked or kept > 32:
        return {"BM": 64, "BN": 64, "BD": BD, "num_warps": 8 if masked else 4, "num_stages": 2}
    if kernel == "keys":
        return {"BM": 64, "BN": 128, "BD": BD, "num_warps": 8, "num_stages": 3}
    return {"BM": 64, "BN": 128, "BD": BD, "num_warps": 4, "num_stages": 2}


def statistics(
    query: Float[Tensor, "*batch T D"],
    key: Float[Tensor, "*keys S D"],
    visibility: Visibility,
    *,
    scale: float,
    wanted: Wanted,
    heads: int = 1,
    lse: Float[Tensor, "*batch T"] | None = None,
) -> Statistics:
    """Statistics of softmax(scale · query keyᵀ), without storing the weights.

    Args:
        query: [N, T, D] with N = batch × ``heads``, or [B, H, T, D], with any strides.
        key: [M, S, D] or [B, H_key, S, D]; consecutive groups of heads of equal size may share keys.
        seen: which keys queries see. Tiles outside lengths and band are skipped; a mask skips none.
        scale: what products are multiplied by.
        wanted: what to compute.
        heads: item n has the lengths of n // ``heads`` (known from the shape with four axes).
        lse: log Σ exp of the scores of each row (natural logarithm, float32), if known. A query that sees nothing has ±inf.
    """
    with torch.no_grad():
        call = _Call.of(query, key, visibility, scale, heads)
        kept = min(wanted.top, call.S)
        _check(call, kept)
        batch = query.shape[:-2]
        lse = call.lse() if lse is None else lse.detach().float().reshape(call.N, call.T).contiguous()
        found = call.by_rows(lse, wanted, kept)
        if wanted.received:
            found["received"] = call.by_keys(lse)
        blind = lse.abs() == math.inf
        found["lse"] = lse.masked_fill(blind, -math.inf)
        return Statistics(**{name: tensor.unflatten(0, batch) for name, tensor in found.items()})


def _check(call: _Call, kept: int) -> None:
    query, key = call.query, call.key
    if query.shape[-1] != key.shape[-1] or query.dtype != key.dtype or query.dtype not in DTYPES or kept > MOST_KEPT:
        raise SaccadeError(
            "statistics.fused: expected queries and keys of one width, both float32, bfloat16 or float16, and at most "
            f"{MOST_KEPT} weights kept per row, found {query.dtype} of width {query.shape[-1]}, {key.dtype} of width "
            f"{key.shape[-1]} and {kept} kept; statistics.blocked serves them"
        )


@dataclass(frozen=True, eq=False)
class _Call:
    """The arguments that all three programs share."""

    query: Tensor  # [B, H, T, D]
    key: Tensor  # [B, H_key, S, D]
    visibility: Visibility
    mask: Tensor | None  # [B, H, T, S] of uint8
    scale: float

    @classmethod
    def of(cls, query: Tensor, key: Tensor, visibility: Visibility, scale: float, heads: int) -> _Call:
        if query.dim() == 3:
            B = query.shape[0] // heads
            if B * heads != query.shape[0] or (B and (key.shape[0] % B or heads % max(1, key.shape[0] // B))):
                raise SaccadeError(
                    f"statistics.fused: expected query [batch × heads, T, D] and keys of as many heads or of a divisor of "
                    f"them, found query {list(query.shape)}, key {list(key.shape)} and heads={heads}"
                )
            query, key = query.unflatten(0, (B, heads)), key.unflatten(0, (B, key.shape[0] // max(1, B)))
        if query.device.type == "cpu" and query.dtype is torch.bfloat16:
            query, key = query.float(), key.float()  # Triton's interpreter would multiply the bit patterns
        query, key = (rows if rows.stride(-1) == 1 else rows.contiguous() for rows in (query, key))
        mask = visibility.mask
        if mask is not None:
            mask = mask.unsqueeze(-3) if mask.dim() == 3 else mask
            mask = mask.expand(*query.shape[:3], key.shape[2]).view(torch.uint8)
        return cls(query, key, visibility, mask, scale)

    @property
    def N(self) -> int:
        return self.query.shape[0] * self.query.shape[1]

    @property
    def T(self) -> int:
        return self.query.shape[2]

    @property
    def S(self) -> int:
        return self.key.shape[2]

    def lse(self) -> Tensor:
        """log Σ exp of each row [N, T]."""
        found = self._empty(self.T).fill_(-math.inf)
        self._launch(lse_by_rows, "lse", self.T, "BM", (found,))
        return found

    def by_rows(self, lse: Tensor, wanted: Wanted, kept: int) -> dict[str, Tensor]:
        """All but the mass received."""
        found: dict[str, Tensor] = {}
        if wanted.top:
            found["top_index"] = self._empty(self.T, kept, dtype=torch.int64)
            found["top_weights"] = self._empty(self.T, kept)
            found["residual"] = self._empty(self.T)
        if wanted.entropy:
            found["entropy"] = self._empty(self.T)
        if wanted.maximum:
            found["maximum"], found["argmax"] = self._empty(self.T), self._empty(self.T, dtype=torch.int64)
        names = ("top_index", "top_weights", "residual", "entropy", "maximum", "argmax")
        slots = max(kept, int(wanted.maximum))  # the maximum is the first kept weight
        if found:
            self._launch(
                statistics_by_rows,
                "rows",
                self.T,
                "BM",
                (lse, *(found.get(name, lse) for name in names)),
                TOP=kept,
                HELD=slots,
                SLOTS=triton.next_power_of_2(max(1, slots)),
                RESIDUAL=wanted.top > 0,
                ENTROPY=wanted.entropy,
                MAXIMUM=wanted.maximum,
            )
        return found

    def by_keys(self, lse: Tensor) -> Tensor:
        """The mass that each key receives [N, S]."""
        received = self._empty(self.S)
        self._launch(received_by_keys, "keys", self.S, "BN", (lse, received))
        return received

    def _empty(self, *sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
        # Without queries or keys no program runs, and the results are zeros.
        make = torch.empty if self.T and self.S else torch.zeros
        return make(self.N, *sizes, dtype=dtype, device=self.query.device)

    def _launch(
        self, kernel: Any, name: str, length: int, side: str, tensors: tuple[Tensor, ...], **parts: Any
    ) -> None:
        _, H, _, D = self.query.shape
        if not (self.N and self.T and self.S):
            return
        precision = precision_of(self.query)
        sides = tiles(name, D, parts.get("HELD", 0), self.query.dtype, self.mask is not None, precision)
        visibility, lengths, mask = self.visibility, self.visibility.lengths, self.mask
        before, after = (
            FAR if width is None else max(-FAR, min(width, FAR)) for width in (visibility.before, visibility.after)
        )
        with on_device_of(self.query):
            kernel[(self.N * triton.cdiv(length, sides[side]),)](
                *tensors,
                self.query,
                self.key,
                self.query if lengths is None else lengths.to(self.query.device, torch.int32),
                self.query if mask is None else mask,
                *self.query.stride()[:3],
                *self.key.stride()[:3],
                *((0,) * 4 if mask is None else mask.stride()),
                H,
                H // max(1, self.key.shape[1]),
                self.T,
                self.S,
                self.scale / math.log(2),
                visibility.shift,
                before,
                after,
                BEFORE=visibility.before is not None,
                AFTER=visibility.after is not None,
                LENGTHS=lengths is not None,
                MASK=mask is not None,
                D=D,
                PRECISION=precision,
                **parts,
                **sides,
            )


# ---- Programs ----------------------------------------------------------------------------------------------------------


BLANK = tl.constexpr(-1e30)  # log₂ of no weight: 2^BLANK is 0, and 0 · BLANK is not NaN, as it would be with −inf
BEYOND = tl.constexpr(1e30)  # log-sum-exp of a row beyond the last: its d are below BLANK, so it has no weight
LAST = tl.constexpr(0x7FFFFFFF)
LEAST_INT64 = tl.constexpr(-(1 << 63))
GREATEST_INT64 = tl.constexpr((1 << 63) - 1)
LN2 = tl.constexpr(math.log(2))
LOG2E = tl.constexpr(1 / math.log(2))

WINDOW = ("shift", "before", "after")  # numbers that change from call to call and are not specialised on


# ---- Which keys a tile's rows see


@triton.jit
def _limit(lengths, b, S, LENGTHS: tl.constexpr):
    """The number of keys that item b of the batch has."""
    limit = S
    if LENGTHS:
        limit = tl.minimum(S, tl.load(lengths + b))
    return limit


@triton.jit
def _key_tiles(
    r0, limit, shift, before, after, BEFORE: tl.constexpr, AFTER: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    """The first key of the first tile with a key that rows r0, …, r0 + BM − 1 see, and the number of tiles."""
    first = 0
    stop = limit
    if AFTER:
        stop = tl.minimum(limit, r0 + BM + shift + after)
    if BEFORE:
        first = tl.maximum(0, r0 + shift - before) // BN * BN
    return first, tl.maximum(0, tl.cdiv(stop - first, BN))


@triton.jit
def _hides(
    r0, c0, limit, shift, before, after,
    BEFORE: tl.constexpr, AFTER: tl.constexpr, MASK: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Whether limit, band or mask may hide a pair of the tile at (r0, c0)."""
    some = c0 + BN > limit
    if AFTER:
        some = some | (c0 + BN - 1 > r0 + shift + after)
    if BEFORE:
        some = some | (c0 < r0 + BM - 1 + shift - before)
    if MASK:
        some = some | True
    return some


@triton.jit
def _sees(
    rows, columns, r0, c0, limit, shift, before, after, mask, m_t, m_s, T, S,
    BEFORE: tl.constexpr, AFTER: tl.constexpr, MASK: tl.constexpr,
):  # fmt: skip
    """Which pairs of the tile at (r0, c0) are visible; rows and columns count from there and broadcast.

    ``mask`` points to the item's own.
    """
    mask += r0.to(tl.int64) * m_t + c0.to(tl.int64) * m_s
    places = rows * m_t + columns * m_s  # within a tile 32 bits are enough
    rows += r0
    columns += c0
    visible = (columns < limit) & (rows < T)
    if AFTER:
        visible = visible & (columns <= rows + (shift + after))
    if BEFORE:
        visible = visible & (columns >= rows + (shift - before))
    if MASK:
        visible = visible & (tl.load(mask + places, mask=(columns < S) & (rows < T), other=0) != 0)
    return visible


# ---- What is loaded, and what is kept


@triton.jit
def _vectors(base, first, stride, count, D: tl.constexpr, ROWS: tl.constexpr, BD: tl.constexpr):
    """[ROWS, BD] from row ``first`` on; 0 beyond the last row and beyond the width."""
    row = tl.arange(0, ROWS)
    column = tl.arange(0, BD)
    within = (first + row < count)[:, None]
    if D < BD:
        within = within & (column < D)[None, :]
    return tl.load(base + first.to(tl.int64) * stride + row[:, None] * stride + column[None, :], mask=within, other=0.0)


@triton.jit
def _lse2(lse, n, rows, T):
    """log-sum-exp in base 2; 0 for a row that sees nothing: its d are BLANK anyway."""
    known = tl.load(lse + n.to(tl.int64) * T + rows, mask=rows < T, other=BEYOND)
    return tl.where(tl.abs(known) == float("inf"), 0.0, known * LOG2E)


@triton.jit
def _packed(d, place):
    """One int64 that orders as d does, and among equal d by the lower place."""
    bits = d.to(tl.int32, bitcast=True)
    order = bits ^ ((bits >> 31) & LAST)  # negative floats order backwards by their bits
    return (order.to(tl.int64) << 32) | (place ^ LAST).to(tl.int64)


@triton.jit
def _value(packed):
    order = (packed >> 32).to(tl.int32)
    return (order ^ ((order >> 31) & LAST)).to(tl.float32, bitcast=True)


@triton.jit
def _insert(d, c0, kept, rest, spread, BN: tl.constexpr):
    """Move the greatest of the tile d [BM, BN] at key c0 to ``kept`` [BM, SLOTS].

    Displaced weights are added to ``rest`` (Σ p) and ``spread`` (Σ p d) of what is not kept.
    """
    least = tl.min(kept, 1)
    floor = _value(least)
    greatest = tl.max(d, 1)
    found = tl.sum((greatest > floor).to(tl.int32), 0)
    # In a branch, the search does not turn the loop around it into an outer loop, whose loads are not pipelined.
    if found > 0:
        columns = tl.arange(0, BN)[None, :]
        while found > 0:
            enters = greatest > floor
            column = tl.min(tl.where(d == greatest[:, None], columns, BN), 1)
            d = tl.where((columns == column[:, None]) & enters[:, None], BLANK, d)
            leaves = (kept == least[:, None]) & enters[:, None]
            kept = tl.where(leaves, _packed(greatest, c0 + column)[:, None], kept)
            mass = tl.where(enters, tl.exp2(floor), 0.0)
            rest += mass
            spread += mass * floor
            least = tl.min(kept, 1)
            floor = _value(least)
            greatest = tl.max(d, 1)
            found = tl.sum((greatest > floor).to(tl.int32), 0)
    return d, kept, rest, spread


@triton.jit
def _weight(packed):
    """The weight, at most 1 although lse is rounded, and its position, 0 where the weight is 0."""
    weight = tl.exp2(_value(packed))
    return tl.where(weight > 1.0, 1.0, weight), tl.where(weight > 0.0, (packed & LAST) ^ LAST, 0)


# ---- The passes


@triton.jit(do_not_specialize=WINDOW)
def lse_by_rows(
    lse, query, key, lengths, mask, q_b, q_h, q_t, k_b, k_h, k_s, m_b, m_h, m_t, m_s,
    H, group, T, S, scale2, shift, before, after,
    BEFORE: tl.constexpr, AFTER: tl.constexpr, LENGTHS: tl.constexpr, MASK: tl.constexpr,
    D: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """log Σ exp of the scores of BM queries, by the running maximum and the sum below it."""
    blocks = tl.cdiv(T, BM)
    n = tl.program_id(0) // blocks
    r0 = (blocks - 1 - tl.program_id(0) % blocks) * BM
    b, h = (n // H).to(tl.int64), (n % H).to(tl.int64)
    rows = r0 + tl.arange(0, BM)
    q = _vectors(query + b * q_b + h * q_h, r0, q_t, T, D, BM, BD)
    key += b * k_b + h // group * k_h
    limit = _limit(lengths, b, S, LENGTHS)
    first, count = _key_tiles(r0, limit, shift, before, after, BEFORE, AFTER, BM, BN)

    greatest = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    for step in range(count):
        c0 = first + step * BN
        z = tl.dot(q, tl.trans(_vectors(key, c0, k_s, S, D, BN, BD)), input_precision=PRECISION) * scale2
        if _hides(r0, c0, limit, shift, before, after, BEFORE, AFTER, MASK, BM, BN):
            visible = _sees(
                tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :], r0, c0, limit, shift, before, after,
                mask + b * m_b + h * m_h, m_t, m_s, T, S, BEFORE, AFTER, MASK,
            )  # fmt: skip
            z = tl.where(visible, z, -float("inf"))
        higher = tl.maximum(greatest, tl.max(z, 1))
        level = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp2(greatest - level) + tl.sum(tl.exp2(z - level[:, None]), 1)
        greatest = higher
    logarithm = tl.log2(tl.where(total == 0.0, 1.0, total))
    found = tl.where(greatest == -float("inf"), greatest, (greatest + logarithm) * LN2)
    tl.store(lse + n.to(tl.int64) * T + rows, found, mask=rows < T)


@triton.jit(do_not_specialize=WINDOW)
def statistics_by_rows(
    lse, top_index, top_weights, residual, entropy, maximum, argmax,
    query, key, lengths, mask, q_b, q_h, q_t, k_b, k_h, k_s, m_b, m_h, m_t, m_s,
    H, group, T, S, scale2, shift, before, after,
    TOP: tl.constexpr, HELD: tl.constexpr, SLOTS: tl.constexpr,
    RESIDUAL: tl.constexpr, ENTROPY: tl.constexpr, MAXIMUM: tl.constexpr,
    BEFORE: tl.constexpr, AFTER: tl.constexpr, LENGTHS: tl.constexpr, MASK: tl.constexpr,
    D: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Entropy, maximum, the TOP greatest and the residual of BM queries. HELD ≥ TOP are kept, in SLOTS slots."""
    blocks = tl.cdiv(T, BM)
    n = tl.program_id(0) // blocks
    r0 = (blocks - 1 - tl.program_id(0) % blocks) * BM
    b, h = (n // H).to(tl.int64), (n % H).to(tl.int64)
    rows = r0 + tl.arange(0, BM)
    q = _vectors(query + b * q_b + h * q_h, r0, q_t, T, D, BM, BD)
    key += b * k_b + h // group * k_h
    lse2 = _lse2(lse, n, rows, T)
    limit = _limit(lengths, b, S, LENGTHS)
    first, count = _key_tiles(r0, limit, shift, before, after, BEFORE, AFTER, BM, BN)

    # An empty slot is BLANK, at its own position beyond all keys; a surplus slot is never the least.
    slots = tl.arange(0, SLOTS)
    empty = tl.where(slots < HELD, _packed(tl.full([SLOTS], BLANK, tl.float32), slots ^ LAST), GREATEST_INT64)
    kept = tl.zeros([BM, SLOTS], tl.int64) + empty[None, :]
    rest = tl.zeros([BM], tl.float32)
    spread = tl.zeros([BM], tl.float32)
    for step in range(count):
        c0 = first + step * BN
        if AFTER:
            c0 = first + (count - 1 - step) * BN
        k = _vectors(key, c0, k_s, S, D, BN, BD)
        d = tl.fma(tl.dot(q, tl.trans(k), input_precision=PRECISION), scale2, -lse2[:, None])
        if _hides(r0, c0, limit, shift, before, after, BEFORE, AFTER, MASK, BM, BN):
            visible = _sees(
                tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :], r0, c0, limit, shift, before, after,
                mask + b * m_b + h * m_h, m_t, m_s, T, S, BEFORE, AFTER, MASK,
            )  # fmt: skip
            d = tl.where(visible, d, BLANK)
        if HELD > 0:
            d, kept, rest, spread = _insert(d, c0, kept, rest, spread, BN)
        if RESIDUAL or ENTROPY:
            p = tl.exp2(d)
            rest += tl.sum(p, 1)
            spread += tl.sum(p * d, 1)

    out = n.to(tl.int64) * T + rows
    within = rows < T
    kept = tl.where(slots[None, :] < HELD, kept, LEAST_INT64)
    if MAXIMUM:
        weight, place = _weight(tl.max(kept, 1))
        tl.store(maximum + out, weight, mask=within)
        tl.store(argmax + out, place, mask=within)
    for slot in range(HELD):
        best = tl.max(kept, 1)
        kept = tl.where(kept == best[:, None], LEAST_INT64, kept)
        weight, place = _weight(best)
        spread += weight * _value(best)
        if slot < TOP:
            tl.store(top_weights + out * TOP + slot, weight, mask=within)
            tl.store(top_index + out * TOP + slot, place, mask=within)
    if RESIDUAL:
        tl.store(residual + out, rest, mask=within)
    if ENTROPY:
        nats = 0.0 - LN2 * spread
        tl.store(entropy + out, tl.where(nats < 0.0, 0.0, nats), mask=within)


@triton.jit(do_not_specialize=WINDOW)
def received_by_keys(
    lse, received, query, key, lengths, mask, q_b, q_h, q_t, k_b, k_h, k_s, m_b, m_h, m_t, m_s,
    H, group, T, S, scale2, shift, before, after,
    BEFORE: tl.constexpr, AFTER: tl.constexpr, LENGTHS: tl.constexpr, MASK: tl.constexpr,
    D: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Σ_t p of BN keys. Keys beyond their item's length are set to 0 at the end, so tiles need not check lengths."""
    blocks = tl.cdiv(S, BN)
    n = tl.program_id(0) // blocks
    c0 = (tl.program_id(0) % blocks) * BN
    b, h = (n // H).to(tl.int64), (n % H).to(tl.int64)
    columns = c0 + tl.arange(0, BN)
    k = _vectors(key + b * k_b + h // group * k_h, c0, k_s, S, D, BN, BD)
    query += b * q_b + h * q_h
    limit = _limit(lengths, b, S, LENGTHS)
    first = 0
    stop = tl.where(c0 < limit, T, 0)
    if AFTER:
        first = tl.maximum(0, c0 - shift - after) // BM * BM
    if BEFORE:
        stop = tl.minimum(stop, c0 + BN - shift + before)

    total = tl.zeros([BN], tl.float32)
    for step in range(tl.maximum(0, tl.cdiv(stop - first, BM))):
        r0 = first + step * BM
        rows = r0 + tl.arange(0, BM)
        q = _vectors(query, r0, q_t, T, D, BM, BD)
        lse2 = _lse2(lse, n, rows, T)
        d = tl.fma(tl.dot(k, tl.trans(q), input_precision=PRECISION), scale2, -lse2[None, :])
        if _hides(r0, c0, S + BN, shift, before, after, BEFORE, AFTER, MASK, BM, BN):
            visible = _sees(
                tl.arange(0, BM)[None, :], tl.arange(0, BN)[:, None], r0, c0, limit, shift, before, after,
                mask + b * m_b + h * m_h, m_t, m_s, T, S, BEFORE, AFTER, MASK,
            )  # fmt: skip
            d = tl.where(visible, d, BLANK)
        total += tl.sum(tl.exp2(d), 1)
    tl.store(received + n.to(tl.int64) * S + columns, tl.where(columns < limit, total, 0.0), mask=columns < S)
