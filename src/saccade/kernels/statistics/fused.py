"""Statistics of attention weights for dot scores on a GPU: two passes over tiles of scores, none of which is stored.

What is held beside the results is one number a query, lse. The kernels, and how they go about it, are in passes.py.

Legend: N = B·H items (batch × heads), T queries, S keys, D width, k kept per row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import triton
from jaxtyping import Float
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.launching import on_device_of
from saccade.kernels.statistics import passes
from saccade.kernels.statistics.reference import Statistics, Wanted
from saccade.kernels.visibility import Seen

MOST_KEPT = 64
"""What a row keeps stays in registers: more than this would not."""

DTYPES = (torch.float32, torch.bfloat16, torch.float16)

FAR = 1 << 30
"""A band this wide, in keys, hides nothing: positions are int32 in the kernels."""


def precision_of(query: Tensor) -> str:
    """How products are formed: "tf32x3", of float32 on Hopper's tensor cores, which add three products of TF32; else "ieee".

    Measured on an H200 against float64, tf32x3 is as near as ieee and takes a fifth of its time; other GPUs have less shared
    memory, or were never tried.
    """
    narrow = query.dtype is torch.float32 and query.shape[-1] <= 128
    if not narrow or not query.is_cuda or torch.version.hip is not None:
        return "ieee"
    return "tf32x3" if torch.cuda.get_device_capability(query.device)[0] == 9 else "ieee"


def tiles(kernel: str, D: int, kept: int, dtype: torch.dtype, masked: bool, precision: str = "ieee") -> dict[str, int]:
    """The sides of a tile of scores, and warps and stages, for ``kernel`` "lse", "rows" or "keys".

    By the compiler's count for compute capability 9.0, no registers spill (with a mask of its own, "rows" spills a few),
    and two programs fit on a multiprocessor (but of 128 numbers by tf32x3): one multiplies while the other searches.
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
    seen: Seen,
    *,
    scale: float,
    wanted: Wanted,
    heads: int = 1,
    lse: Float[Tensor, "*batch T"] | None = None,
) -> Statistics:
    """Statistics of softmax(scale · query keyᵀ), with memory for what is returned and no more.

    Args:
        query: [N, T, D] with N = batch × ``heads``, or [B, H, T, D], laid out in any way.
        key: [M, S, D] or [B, H_key, S, D]; heads in groups of equal size may share keys, one after the other.
        seen: which keys queries see. Lengths and band are skipped by; a mask is not.
        scale: what products are multiplied by.
        wanted: what to compute.
        heads: item n has the lengths of n // ``heads`` (known from the shape with four axes).
        lse: log Σ exp of the scores of each row, natural, if it is known: float32. A query that sees nothing has ±inf.
    """
    with torch.no_grad():
        call = _Call.of(query, key, seen, scale, heads)
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
    """Tensors and numbers that all three kernels take, in the order in which they take them."""

    query: Tensor  # [B, H, T, D]
    key: Tensor  # [B, H_key, S, D]
    seen: Seen
    mask: Tensor | None  # [B, H, T, S] of uint8
    scale: float

    @classmethod
    def of(cls, query: Tensor, key: Tensor, seen: Seen, scale: float, heads: int) -> _Call:
        if query.dim() == 3:
            B = query.shape[0] // heads
            if B * heads != query.shape[0] or (B and (key.shape[0] % B or heads % max(1, key.shape[0] // B))):
                raise SaccadeError(
                    f"statistics.fused: expected query [batch × heads, T, D] and keys of as many heads or of a divisor of "
                    f"them, found query {list(query.shape)}, key {list(key.shape)} and heads={heads}"
                )
            query, key = query.unflatten(0, (B, heads)), key.unflatten(0, (B, key.shape[0] // max(1, B)))
        if query.device.type == "cpu" and query.dtype is torch.bfloat16:
            query, key = query.float(), key.float()  # Triton's interpreter would multiply the bits as integers
        query, key = (rows if rows.stride(-1) == 1 else rows.contiguous() for rows in (query, key))
        mask = seen.mask
        if mask is not None:
            mask = mask.unsqueeze(-3) if mask.dim() == 3 else mask
            mask = mask.expand(*query.shape[:3], key.shape[2]).view(torch.uint8)
        return cls(query, key, seen, mask, scale)

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
        self._launch(passes.lse_by_rows, "lse", self.T, "BM", (found,))
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
        held = max(kept, int(wanted.maximum))  # the greatest is the first of those kept
        if found:
            self._launch(
                passes.statistics_by_rows,
                "rows",
                self.T,
                "BM",
                (lse, *(found.get(name, lse) for name in names)),
                TOP=kept,
                HELD=held,
                SLOTS=triton.next_power_of_2(max(1, held)),
                RESIDUAL=wanted.top > 0,
                ENTROPY=wanted.entropy,
                MAXIMUM=wanted.maximum,
            )
        return found

    def by_keys(self, lse: Tensor) -> Tensor:
        """The mass that each key receives [N, S]."""
        received = self._empty(self.S)
        self._launch(passes.received_by_keys, "keys", self.S, "BN", (lse, received))
        return received

    def _empty(self, *sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
        # Where there is nothing to go through no kernel runs, and zeros are what it would have written.
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
        seen, lengths, mask = self.seen, self.seen.lengths, self.mask
        before, after = (FAR if width is None else max(-FAR, min(width, FAR)) for width in (seen.before, seen.after))
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
                seen.shift,
                before,
                after,
                BEFORE=seen.before is not None,
                AFTER=seen.after is not None,
                LENGTHS=lengths is not None,
                MASK=mask is not None,
                D=D,
                PRECISION=precision,
                **parts,
                **sides,
            )
