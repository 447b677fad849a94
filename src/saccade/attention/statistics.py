"""``attend`` under a lens that keeps the greatest weights or statistics, without storing the T × S weights.

The contexts come from the kernel that serves without a lens, the statistics from another that goes over the scores again, a
tile or a block of queries at a time; memory grows with T + S. The log-sum-exp of each row comes from the forward pass where
it returns one.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from saccade.attention.fast import Plan, one_dtype, times
from saccade.attention.normalise import Softmax
from saccade.attention.scores import Additive, Cosine, Dot, General, Prepared
from saccade.attention.windows import Extent, Window
from saccade.kernels.additive.engines import engine_for
from saccade.kernels.dot.reference import dot_scores
from saccade.kernels.dtypes import widened
from saccade.kernels.launching import has_fused
from saccade.kernels.statistics import blocked
from saccade.kernels.statistics.reference import Statistics, Wanted
from saccade.kernels.visibility import Visibility

KEPT_IN_REGISTERS = 64
"""The most weights per row that the fused kernel keeps."""


def attend_and_count(
    plan: Plan,
    query: Tensor,
    key: Tensor | Prepared,
    value: Tensor,
    *,
    score: Additive | Dot | General | Cosine,
    normalise: Softmax,
    window: Window,
    offset: int | None,
    dropout: float,
    wanted: Wanted,
) -> tuple[Tensor, Statistics]:
    """The contexts [B, (H,) T, E], and statistics of the weights over items [N = B · H, …]."""
    if plan.run is None:
        raise ValueError("statistics without weights need a kernel for the contexts")
    T, S = query.shape[-2], key.size if isinstance(key, Prepared) else key.shape[-2]
    visibility = window.visibility(Extent(T, S, offset, query.device, query.dtype))
    heads = query.shape[1] if query.dim() == 4 else 1
    beta = float(normalise.beta)  # a kernel serves no tensor
    if isinstance(score, Additive):
        with torch.no_grad():
            found = _additive(*score.operands(query, key), visibility, heads, beta, wanted)
        return plan.run(), found
    projected, ready, factor = score.operands(query, key)
    scale = factor * beta
    context, lse = _flash(projected, ready, value, visibility, scale, dropout)
    if context is None:
        context = plan.run()
    with torch.no_grad():
        return context, _dot(projected, ready, visibility, heads, scale, wanted, lse)


def _additive(
    query: Tensor, key: Tensor, v: Tensor, visibility: Visibility, heads: int, beta: float, wanted: Wanted
) -> Statistics:
    query, key, _ = one_dtype(query, key, key)
    query, key = (tensor.flatten(0, -3).contiguous() for tensor in (query, key))
    v = times(v.to(query.dtype), beta).reshape(-1, v.shape[-1])
    engine, _ = engine_for(query, key)

    def scores(rows: slice, keys: slice) -> Tensor:
        return engine.scores(query[:, rows].contiguous(), key[:, keys].contiguous(), v, Visibility(), heads=heads)

    shape = (*query.shape[:2], key.shape[1])
    return blocked.statistics(scores, shape, visibility, like=query, wanted=wanted, heads=heads)


def _dot(
    query: Tensor, key: Tensor, visibility: Visibility, heads: int, scale: float, wanted: Wanted, lse: Tensor | None
) -> Statistics:
    query, key, _ = one_dtype(query, key, key)
    flat_query, flat_key = query.flatten(0, -3), key.flatten(0, -3)
    if has_fused(query) and query.dtype != torch.float64 and min(wanted.top, key.shape[-2]) <= KEPT_IN_REGISTERS:
        from saccade.kernels.statistics import fused

        options: dict[str, Any] = {"scale": scale, "wanted": wanted, "heads": heads}
        return fused.statistics(
            flat_query, flat_key, visibility, **options, lse=None if lse is None else lse.flatten(0, -2)
        )

    def scores(rows: slice, keys: slice) -> Tensor:
        some, others = widened(flat_query[:, rows], flat_key[:, keys])
        return dot_scores(some, others, scale)

    shape = (*flat_query.shape[:2], flat_key.shape[1])
    return blocked.statistics(scores, shape, visibility, like=flat_query, wanted=wanted, heads=heads)


def _flash(
    query: Tensor, key: Tensor, value: Tensor, visibility: Visibility, scale: float, dropout: float
) -> tuple[Tensor | None, Tensor | None]:
    """Contexts and log-sum-exp of PyTorch's flash attention, or (None, None) where it does not apply."""
    query, key, value = one_dtype(query, key, value)
    D, E, T, S = query.shape[-1], value.shape[-1], query.shape[-2], key.shape[-2]
    serves = query.is_cuda and query.dtype in (torch.float16, torch.bfloat16) and D == E and D % 8 == 0 and D <= 256
    if not serves or not (visibility.everything or (visibility.causal and T == S)) or math.prod(query.shape) == 0:
        return None, None
    headed = [tensor if tensor.dim() == 4 else tensor.unsqueeze(1) for tensor in (query, key, value)]
    found = torch.ops.aten._scaled_dot_product_flash_attention(*headed, dropout, visibility.causal, scale=scale)
    context, lse = found[0], found[1].detach()
    return (context, lse) if query.dim() == 4 else (context.squeeze(1), lse.squeeze(1))
