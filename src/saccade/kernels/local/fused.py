"""Local attention in one Triton launch, and its gradients in one (local-p) or two (local-m).

A program serves one query: it finds its window, scores the W keys, takes the softmax, multiplies by the gain and reads the
values, with nothing between in memory but the W weights that the backward pass takes up. The equations are those of blocked.py.
Gradients of keys and values are sums over the queries that see a key:

    local-m   those queries follow from the key's place: one program a key sums over them, always in the same order
    local-p   any query may see it: programs of queries add to it (a decoder's single query writes). Where PyTorch is asked for
              deterministic algorithms, the blocked kernel computes these gradients

Serves float32, float16 and bfloat16 with sums in float32.

Legend: N batch with heads, T queries, S keys, D width of queries and keys, E width of values, W keys in a window.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.launching import on_device_of
from saccade.kernels.local import blocked, differentiable
from saccade.kernels.local.differentiable import Gradients
from saccade.kernels.local.fused_programs import key_gradients, query_gradients, read_window
from saccade.kernels.local.memory import Memory, Sums
from saccade.kernels.local.reach import Inputs, LocalWeights, Reach, checked, reach_of

MOST_WIDTH = 1024
"""The widest window whose scores one program holds."""

MOST_QUERIES = 64
"""Of the queries that see a key, as many are taken at a time."""

SERVED = (torch.float32, torch.float16, torch.bfloat16)


class Tiles(NamedTuple):
    """Sides of the tiles a program works through: BW keys (or queries) × BD of the width of keys, BE of that of values."""

    BW: int
    BD: int
    BE: int
    num_warps: int


def tiles(width: int, D: int, E: int, *, most: int = 4096) -> Tiles:
    """The whole window at once, and as much of the width as makes a tile of `most` numbers: the place to tune."""
    BW = max(2, _power_of_2(width))
    across = max(16, most // BW)
    BD, BE = (min(across, max(16, _power_of_2(size))) for size in (D, E))
    return Tiles(BW, BD, BE, num_warps=4 if BW * max(BD, BE) <= 4096 else 8)


def _power_of_2(size: int) -> int:
    """The least that holds this many."""
    return 1 << max(0, size - 1).bit_length()


def refusal(inputs: Inputs, reach: Reach) -> str | None:
    """Why these inputs are not served, or None."""
    for name, tensor in inputs._asdict().items():
        dtypes = SERVED if tensor is None or tensor.is_floating_point() or name != "centre" else (tensor.dtype,)
        if tensor is not None and tensor.dtype not in dtypes:
            return f"{name} is {str(tensor.dtype).removeprefix('torch.')}, and it computes in float32"
    if reach.width > MOST_WIDTH:
        return f"windows are {reach.width} keys wide, and a program holds {MOST_WIDTH}"
    return None


def local_attention(
    query: Float[Tensor, "N T D"],
    key: Float[Tensor, "N S D"],
    value: Float[Tensor, "N S E"],
    *,
    radius: int,
    ahead: int | None = None,
    centre: Float[Tensor, "N T"] | None = None,
    shift: int = 0,
    lengths: Int[Tensor, " N"] | None = None,
    scale: float = 1.0,
    v: Float[Tensor, "*N D"] | None = None,
    sigma: float | None = None,
    memory: Memory | None = None,
) -> Float[Tensor, "N T E"]:
    """What each query finds among the keys around its centre; arguments as in `reference.local_attention`.

    ``memory``, of `memory.remember(key, value)`, spares a decoder's steps a gradient over all S keys each.
    """
    inputs = checked(query, key, value, centre, v)
    reach = reach_of(query, key, radius=radius, ahead=ahead, shift=shift, centre=centre, lengths=lengths, sigma=sigma)
    _refuse(inputs, reach)
    return differentiable.attention(ENGINE, inputs, reach, scale, memory)


def local_weights(
    query: Float[Tensor, "N T D"],
    key: Float[Tensor, "N S D"],
    *,
    radius: int,
    ahead: int | None = None,
    centre: Float[Tensor, "N T"] | None = None,
    shift: int = 0,
    lengths: Int[Tensor, " N"] | None = None,
    scale: float = 1.0,
    v: Float[Tensor, "*N D"] | None = None,
    sigma: float | None = None,
) -> LocalWeights:
    """The weights inside each query's window, the gain in them, to be looked at: they carry no gradient."""
    inputs = checked(query, key, key[..., :0], centre, v)
    reach = reach_of(query, key, radius=radius, ahead=ahead, shift=shift, centre=centre, lengths=lengths, sigma=sigma)
    _refuse(inputs, reach)
    with torch.no_grad():
        _, weights = _forward(inputs, reach, scale, query.dtype, gained=True)
        first = reach.first(reach.middles(reach.positions(centre, query.device)))
        return LocalWeights(weights.to(query.dtype), first.expand(query.shape[0], -1))


def _refuse(inputs: Inputs, reach: Reach) -> None:
    reason = refusal(inputs, reach)
    if reason is not None:
        raise SaccadeError(f"local.fused does not serve this: {reason}; local.blocked does")


def _forward(
    inputs: Inputs, reach: Reach, scale: float, dtype: torch.dtype, *, gained: bool = False
) -> tuple[Tensor, Tensor]:
    query, value = inputs.query, inputs.value
    (N, T, D), E, W = query.shape, value.shape[2], reach.width
    context = query.new_zeros(N, T, E, dtype=dtype)
    weights = query.new_zeros(N, T, W, dtype=torch.float32)
    if weights.numel():
        BW, BD, BE, num_warps = tiles(W, D, E)
        with on_device_of(query):
            read_window[(N * T,)](
                *_arguments(inputs, reach),
                context,
                weights,
                scale=scale,
                **_sizes(inputs, reach),
                GAINED=gained,
                BW=BW,
                BD=BD,
                BE=BE,
                num_warps=num_warps,
            )
    return context, weights


def _backward(
    inputs: Inputs,
    reach: Reach,
    scale: float,
    weights: Tensor,
    grad_context: Tensor,
    needed: tuple[bool, ...],
    sums: Sums | None = None,
) -> Gradients:
    query, key, value, centre, v = inputs
    N, T, D = query.shape
    meets = centre is not None and T > 1  # programs may meet at one key, and must add
    if meets and (needed[1] or needed[2]) and torch.are_deterministic_algorithms_enabled():
        return blocked.ENGINE.backward(inputs, reach, scale, weights, grad_context, needed, sums)
    grad_key, grad_value = sums or (
        torch.zeros(tensor.shape, dtype=torch.float32 if meets else tensor.dtype, device=tensor.device)
        if need
        else None
        for tensor, need in zip((key, value), needed[1:3], strict=True)
    )
    grad_query = torch.zeros(query.shape, dtype=query.dtype, device=query.device)
    grad_centre = query.new_zeros(N, T, dtype=torch.float32)
    grad_v = None if v is None else query.new_zeros(N, T, D, dtype=torch.float32)  # one a query, summed below
    if weights.numel():
        gradients = (grad_query, grad_key, grad_value, grad_centre, grad_v)
        adding = {"MEETS": meets, "ADDS": sums is not None}
        _launch_backward(inputs, reach, scale, weights, grad_context.contiguous(), gradients, adding)
    return (
        grad_query if needed[0] else None,
        None if grad_key is None or sums is not None else grad_key.to(key.dtype),
        None if grad_value is None or sums is not None else grad_value.to(value.dtype),
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
    adding: dict[str, bool],
) -> None:
    (N, T, D), E, band = inputs.query.shape, inputs.value.shape[2], inputs.centre is None
    grad_scores = torch.empty_like(weights)
    outputs = [grad_scores if tensor is None else tensor for tensor in gradients]  # stands in; never touched
    pointers, wanted = _arguments(inputs, reach), {"KEYS": gradients[1] is not None, "VALUES": gradients[2] is not None}
    settings: dict[str, Any] = {"scale": scale, **_sizes(inputs, reach), **wanted}
    BW, BD, BE, num_warps = tiles(reach.width, D, E)
    sides = {"BW": BW, "BD": BD, "BE": BE, "num_warps": num_warps}
    with on_device_of(inputs.query):
        query_gradients[(N * T,)](
            *pointers, weights, grad_context, *outputs, grad_scores, **settings, **adding, JUMPS=not band, **sides
        )
        low, high = _seen_by_band(reach)
        if band and high > low and any(wanted.values()):
            most_queries = min(reach.before + reach.after + 1, T, MOST_QUERIES)
            BQ, BD, BE, num_warps = tiles(most_queries, D, E)
            places = {"low": low, "count": high - low, "ADDS": adding["ADDS"]}
            sides = {"BQ": BQ, "BD": BD, "BE": BE, "num_warps": num_warps}
            key_gradients[(N * (high - low),)](
                *pointers, weights, grad_context, grad_scores, *outputs[1:3], **places, **settings, **sides
            )


def _seen_by_band(reach: Reach) -> tuple[int, int]:
    """The keys that a band's queries may see: from the first of them to behind the last."""
    return max(0, reach.shift - reach.before), min(reach.S, reach.T + reach.shift + reach.after)


def _arguments(inputs: Inputs, reach: Reach) -> tuple[Tensor, ...]:
    """The pointers that all programs take; the query's stands in for what is absent and never touched."""
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


ENGINE = differentiable.Engine("fused", _forward, _backward)
