"""Additive scores, vᵀ tanh(q + k), and their three gradients in Triton: float32, any magnitude, nothing of size T × S × D.

Each tanh is computed where it is used, forward and again backward (`direct_forms` says how). With g the gradient of the
scores,

    score_ts = Σ_d v_d tanh(q_td + k_sd)
    ∂q_td = v_d Σ_s g_ts (1 − tanh²)     ∂k_sd = v_d Σ_t g_ts (1 − tanh²)     ∂v_d = Σ_ts g_ts tanh

Every sum runs inside one thread, so a tanh serves all three gradients at once and no two threads add to one number: the
same bits every time. Unseen pairs outside lengths and band cost nothing.
Legend: N items with heads (item n is head n mod heads of batch n div heads), T queries, S keys, D width, G rows of v.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from saccade.errors import SaccadeError
from saccade.kernels.additive.direct_forms import FAST, Guard, form_number, form_of
from saccade.kernels.additive.direct_gradients import gradients_kernel, rows_kernel
from saccade.kernels.additive.direct_scores import scores_kernel, transpose_kernel
from saccade.kernels.launching import launch
from saccade.kernels.visibility import Seen


@dataclass(frozen=True)
class Tiles:
    """A score tile has `queries` · `warps` rows and 32 · `columns` columns; a step of the gradients takes 2 · `warps`
    queries against `keys` keys. Powers of two."""

    warps: int
    queries: int = 8
    columns: int = 4
    keys: int = 16
    registers: int | None = None  # the most a thread may have, where more would leave too few threads
    parts: int = 1  # programs that share the keys of one item in the gradients; each has a ∂q of its own


def score_tiles(T: int, S: int, form: str) -> Tiles:
    """Four rows and four columns a thread: of the tiles tried on an H200 the quickest, by a tenth over eight rows."""
    queries = 4
    warps = min(4, triton.next_power_of_2(triton.cdiv(T, queries)))
    columns = min(4, triton.next_power_of_2(triton.cdiv(S, 32)))
    return Tiles(warps=warps, queries=queries, columns=columns, registers=None if form == "large" else 128)


def gradient_tiles(N: int, T: int, S: int, D: int, form: str) -> Tiles:
    """Two programs of eight warps for each of 132 multiprocessors; where items are too few, the keys are shared out."""
    warps = min(8, triton.next_power_of_2(triton.cdiv(T, 2)))
    keys = 8  # `keys` × `warps` gradients of scores are loaded at once, and must be fewer than the threads
    wanted = 264 * 8 // (warps * N * triton.cdiv(D, 32))
    affordable = (1 << 28) // (4 * N * T * D)
    parts = max(1, min(wanted, affordable, triton.cdiv(S, keys)))
    return Tiles(warps=warps, keys=keys, registers=128, parts=parts)


def scores(
    query: Float[Tensor, "N T D"],
    key: Float[Tensor, "N S D"],
    v: Float[Tensor, "G D"],
    seen: Seen,
    *,
    heads: int = 1,
    form: str | None = None,
    out: Float[Tensor, "N T S"] | None = None,
    guard: Guard | None = None,
) -> Float[Tensor, "N T S"]:
    """Score every query against every key, in float32; −inf where a query does not see a key.

    Item n has row n mod G of `v` (G is 1, heads or N). `form` is one of `direct_forms.FORMS`; None looks at the rows.
    With a `guard` they are written only beyond its limit: what was in `out` stays otherwise.
    """
    _check(query, key, v)
    (N, T, D), S = query.shape, key.shape[1]
    out = torch.empty(N, T, S, dtype=torch.float32, device=query.device) if out is None else out
    if out.numel() == 0:
        return out
    form = form or form_of(query, key)
    tile = score_tiles(T, S, form)
    BT, BS = tile.queries * tile.warps, 32 * tile.columns
    v = v.float().contiguous()
    query_rows, scaled_rows, key_rows, width = _transposed(query, key, v, BT, BS, form, guard)
    v = F.pad(v, (0, width - D)) if width > D else v
    lengths, mask, strides = seen.pointers(query)
    low, high = seen.bounds()
    reach, limit = _guarding(guard, query)
    launch(
        scores_kernel, N * triton.cdiv(T, BT) * triton.cdiv(S, BS),
        (query_rows, scaled_rows, key_rows, v, lengths, mask, out, reach),
        (T, S, width, v.shape[0], heads, low, high, *strides, limit),
        FORM=form_number(form), LENGTHS=seen.lengths is not None, MASK=seen.mask is not None,
        QUERIES=tile.queries, WARPS=tile.warps, COLUMNS=tile.columns, FAST=FAST,
        GUARD=guard is not None, num_warps=tile.warps, num_stages=1, enable_fp_fusion=True, **_limit(tile),
    )  # fmt: skip
    return out


def gradients(
    query: Float[Tensor, "N T D"],
    key: Float[Tensor, "N S D"],
    v: Float[Tensor, "G D"],
    grad_scores: Float[Tensor, "N T S"],
    seen: Seen,
    *,
    heads: int = 1,
    form: str | None = None,
    guard: Guard | None = None,
) -> tuple[Float[Tensor, "N T D"], Float[Tensor, "N S D"], Float[Tensor, "N D"]]:
    """The gradients of query, key and, for each item on its own, v, in float32. `grad_scores` is 0 where not seen.

    With a `guard` they are anything up to its limit, and right beyond it.
    """
    _check(query, key, v)
    (N, T, D), S = query.shape, key.shape[1]
    grad_key = torch.empty(N, S, D, dtype=torch.float32, device=query.device)
    if N * T * S * D == 0:
        return grad_key.new_zeros(N, T, D), grad_key.zero_(), grad_key.new_zeros(N, D)
    form = form or form_of(query, key)
    tile = gradient_tiles(N, T, S, D, form)
    grad_query = grad_key.new_zeros(N, tile.parts, T, D)
    grad_v = grad_key.new_empty(N, tile.parts, D)
    weight = grad_scores.float()
    if S % tile.keys:
        weight = F.pad(weight, (0, -S % tile.keys))  # whole tiles load without a question, four numbers at a time
    lengths, _, _ = seen.pointers(query)
    low, high = seen.bounds()
    reach, limit = _guarding(guard, query)
    launch(
        gradients_kernel, N * tile.parts * triton.cdiv(D, 32),
        (_prepared(query, form, guard), key.contiguous(), v.float().contiguous(), weight.contiguous(), lengths,
         grad_query, grad_key, grad_v, reach),
        (T, S, weight.shape[-1], D, v.shape[0], heads, low, high, tile.parts, limit),
        FORM=form_number(form), LENGTHS=seen.lengths is not None, KEYS=tile.keys, WARPS=tile.warps, FAST=FAST,
        GUARD=guard is not None, num_warps=tile.warps, num_stages=1, enable_fp_fusion=True, **_limit(tile),
    )  # fmt: skip
    return grad_query[:, 0] if tile.parts == 1 else grad_query.sum(1), grad_key, grad_v.sum(1)


def _check(query: Tensor, key: Tensor, v: Tensor) -> None:
    if torch.float64 in (query.dtype, key.dtype, v.dtype):
        raise SaccadeError(
            "additive.direct computes in float32, found float64; additive.blocked and additive.reference serve float64"
        )
    N, _, D = query.shape
    if (key.shape[0], key.shape[2], v.shape[-1]) != (N, D, D) or v.dim() != 2 or (v.shape[0] and N % v.shape[0]):
        raise SaccadeError(
            "additive.direct: expected query [N, T, D], key [N, S, D] and v [G, D] with G a divisor of N, found "
            f"{list(query.shape)}, {list(key.shape)} and {list(v.shape)}"
        )


def _limit(tile: Tiles) -> dict[str, int]:
    return {} if tile.registers is None or not FAST else {"maxnreg": tile.registers}


def _guarding(guard: Guard | None, beside: Tensor) -> tuple[Tensor, int]:
    """The reach and the limit as programs take them; without a guard something, never read, in their place."""
    return (beside, 0) if guard is None else (guard.reach, guard.limit_bits)


def _prepared(query: Tensor, form: str, guard: Guard | None) -> Tensor:
    """Prepared rows in their own order, float32."""
    query = query.contiguous()
    if form == "large" and query.dtype is torch.float32:
        return query
    rows = torch.empty(query.shape, dtype=torch.float32, device=query.device)
    size, (reach, limit) = rows.numel(), _guarding(guard, query)
    constants = {"FORM": form_number(form), "FAST": FAST, "GUARD": guard is not None, "BLOCK": 1024, "num_warps": 4}
    launch(rows_kernel, triton.cdiv(size, 1024), (query, rows, reach), (size, limit), **constants)
    return rows


def _transposed(
    query: Tensor, key: Tensor, v: Tensor, BT: int, BS: int, form: str, guard: Guard | None
) -> tuple[Tensor, Tensor, Tensor, int]:
    """Prepared rows cut into blocks of BT or BS, each [width, block], so that the rows of a block lie side by side for
    every d, and its end is padded. Width is D rounded up to quads. The second is v tanh q, for the small form alone.
    """
    (N, T, D), S = query.shape, key.shape[1]
    width = -(-D // 4) * 4
    TB, SB = triton.cdiv(T, BT), triton.cdiv(S, BS)
    query_rows, key_rows = (
        torch.empty(N * blocks * width * block, dtype=torch.float32, device=query.device)
        for blocks, block in ((TB, BT), (SB, BS))
    )
    scaled_rows = torch.empty_like(query_rows) if form == "small" else query_rows
    tiles_of_query, tiles_of_key = triton.cdiv(TB * BT, 32), triton.cdiv(SB * BS, 32)
    reach, limit = _guarding(guard, query)
    launch(
        transpose_kernel, N * (tiles_of_query + tiles_of_key) * triton.cdiv(width, 32),
        (query.contiguous(), key.contiguous(), v, query_rows, scaled_rows, key_rows, reach),
        (N, T, S, D, width, v.shape[0], tiles_of_query, tiles_of_key, limit),
        BT=BT, BS=BS, FORM=form_number(form), FAST=FAST, GUARD=guard is not None, num_warps=4,
    )  # fmt: skip
    return query_rows, scaled_rows, key_rows, width
