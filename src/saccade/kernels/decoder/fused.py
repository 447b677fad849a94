"""A decoder's step in one launch, its gradients in another, by Triton; and the gradients of a memory for all steps of a
loop in a third. The equations are those of blocked.py, the programs those of programs.py.

Legend: N items, T steps, S keys, D width of queries and keys, E width of values, P = D + 2 S + E.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.kernels.decoder import programs, reference
from saccade.kernels.decoder.blocked import Parts, over_steps
from saccade.kernels.dtypes import result_dtype


@dataclass(frozen=True)
class Tiles:
    """Sides of a tile, and how many warps share it. BS keys; BD and BE numbers of their widths."""

    BS: int
    BD: int
    BE: int
    warps: int


def tiles(S: int, D: int, E: int) -> Tiles:
    """For a step: a tile is up to 16,384 numbers, 64 registers a thread of eight warps."""
    return _step_tiles(S, D, E, room=16384)


def back_tiles(S: int, D: int, E: int) -> Tiles:
    """For a step's gradients, which have tanh, its slope and their products at hand at once: half of that."""
    return _step_tiles(S, D, E, room=8192)


def _step_tiles(S: int, D: int, E: int, room: int) -> Tiles:
    BS = min(_power(S), 64)
    BD, BE = min(_power(D), room // BS), min(_power(E), room // BS)
    return Tiles(BS, BD, BE, warps=8 if BS * max(BD, BE) >= 8192 else 4)


def gather_tiles(S: int, D: int) -> Tiles:
    """For the gradients of a memory: three tiles live at once, so they are small, and there are many programs."""
    return Tiles(min(_power(S), 16), min(_power(D), 128), 1, warps=4)


def _power(size: int) -> int:
    return 1 << max(0, size - 1).bit_length()


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
    lengths: Int[Tensor, " N"] | None = None,
) -> tuple[Float[Tensor, "N E"], Float[Tensor, "N S"]]:
    """Context in ``dtype``, and weights, in one launch."""
    (key, value), query = ready, _rows(query)
    (N, S, D), E = key.shape, value.shape[-1]
    context = query.new_empty(N, E, dtype=dtype)
    weights = query.new_empty(N, S, dtype=torch.float32)
    tile = tiles(S, D, E)
    whole = tile.BS >= S
    if N:
        programs.look[(N,)](
            query, key, value, _rows(v), None if real is None else real.view(torch.uint8), lengths,
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
    (N, S, D), E = ready.key.shape, ready.value.shape[-1]
    row = weights.new_empty(N, D + 2 * S + E)
    return _launch_back(ready, query, v, scale, weights, grad_context, grad_weights, rows=row), row


def _launch_back(
    ready: Ready, query: Tensor, v: Tensor | None, scale: float, weights: Tensor, grad_context: Tensor,
    grad_weights: Tensor | None, *, rows: Tensor | None = None, grad_key: Tensor | None = None,
    grad_value: Tensor | None = None, grad_v: Tensor | None = None,
) -> Tensor:  # fmt: skip
    (key, value), query = ready, _rows(query)
    (N, S, D), E = key.shape, value.shape[-1]
    grad_query = torch.empty_like(query, memory_format=torch.contiguous_format)
    tile = back_tiles(S, D, E)
    whole = tile.BS >= S
    if N:
        programs.look_back[(N,)](
            query, key, value, _rows(v), weights, grad_context.contiguous(),
            None if grad_weights is None else grad_weights.contiguous(), grad_query, rows, grad_key, grad_value, grad_v,
            weights if whole else torch.empty_like(weights), S, float(scale),
            query.stride(0), *key.stride()[:2], *value.stride()[:2],
            D=D, E=E, WHOLE=whole, BS=tile.BS, BD=tile.BD, BE=tile.BE, num_warps=tile.warps,
        )  # fmt: skip
    return grad_query


def gather(
    ready: Ready, v: Float[Tensor, " D"] | None, scale: float, rows: Float[Tensor, "T N P"]
) -> tuple[Float[Tensor, "N S D"], Float[Tensor, "N S E"], Float[Tensor, " D"] | None]:
    """The gradients of key, value and v from the rows of all steps, in float32."""
    key = ready.key
    (T, N, P), (_, S, D) = rows.shape, key.shape
    query, grad_scores, weights, grad_context = Parts.of(rows, S, D)
    with torch.autocast(key.device.type, enabled=False):
        grad_value = over_steps(weights, grad_context)
        if v is None:
            return over_steps(grad_scores, query) * scale, grad_value, None
    tile = gather_tiles(S, D)
    blocks = -(-S // tile.BS)
    grad_key, parts = rows.new_empty(N, S, D), rows.new_empty(N * blocks, D)
    if N and blocks:
        programs.gather[(N, blocks, -(-D // tile.BD))](
            key, _rows(v), rows, grad_key, parts, T, N, S, P, *key.stride()[:2],
            D=D, BS=tile.BS, BD=tile.BD, num_warps=tile.warps,
        )  # fmt: skip
    return grad_key, grad_value, parts.sum(0)


@overload
def _rows(tensor: Tensor) -> Tensor: ...
@overload
def _rows(tensor: Tensor | None) -> Tensor | None: ...
def _rows(tensor: Tensor | None) -> Tensor | None:
    """The programs take any strides but that of the last axis."""
    return tensor if tensor is None or tensor.stride(-1) == 1 else tensor.contiguous()


def step_attention(
    query: Float[Tensor, "N D"],
    key: Float[Tensor, "N S D"],
    value: Float[Tensor, "N S E"],
    *,
    v: Float[Tensor, " D"] | None = None,
    scale: float | None = None,
    real: Bool[Tensor, "N S"] | None = None,
    lengths: Int[Tensor, " N"] | None = None,
) -> tuple[Float[Tensor, "N E"], Float[Tensor, "N S"]]:
    """One step by itself, as `reference.step_attention`. In a loop over one memory `loop.Memory` has less to write.

    float64, which the programs do not compute in, and torch.compile, which fuses plain operations, get the reference.
    """
    reference.check_memory(key, value, v, scale, real, lengths)
    reference.check_query(query, key)
    if torch.compiler.is_compiling() or reference.working_type(query, key, value) is torch.float64:
        return reference.step_attention(query, key, value, v=v, scale=scale, real=real, lengths=lengths)
    lengths = None if lengths is None else lengths.to(key.device)
    found: tuple[Tensor, Tensor] = _Step.apply(query, key, value, v, real, lengths, 1.0 if scale is None else scale)
    return found


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, v: Tensor | None, real: Tensor | None,
        lengths: Tensor | None, scale: float,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        dtype = result_dtype(query, key, value)
        context, weights = look(prepare(key, value), query, v, scale, real, dtype, lengths)
        ctx.save_for_backward(query, key, value, v, real, lengths, weights)
        ctx.scale = scale
        ctx.set_materialize_grads(False)
        return context, weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        query, key, value, v, real, lengths, weights = ctx.saved_tensors
        needed = ctx.needs_input_grad[:4]
        if torch.is_grad_enabled():
            found = reference.differentiable_gradients(
                (query, key, value, v), grads, needed, scale=ctx.scale, real=real, lengths=lengths
            )
            return *found, None, None, None
        grad_context, grad_weights = grads
        if grad_context is None and grad_weights is None:
            return (None,) * 7
        if grad_context is None:
            grad_context = query.new_zeros(len(query), value.shape[-1])
        grad_key, grad_value = (
            torch.empty_like(x, memory_format=torch.contiguous_format) if need else None
            for x, need in zip((key, value), needed[1:3], strict=True)
        )
        parts = weights.new_empty(query.shape) if needed[3] else None  # each item's part of ∂v
        grad_query = _launch_back(
            prepare(key, value), query, v, ctx.scale, weights, grad_context, grad_weights,
            grad_key=grad_key, grad_value=grad_value, grad_v=parts,
        )  # fmt: skip
        return grad_query, grad_key, grad_value, None if parts is None else parts.sum(0).to(v.dtype), None, None, None
