"""Exact statistics of attention weights for any score, on any device, a block of queries at a time.

Rows of weights are independent, so each block is what reference.py computes, over the keys that one of its queries may see;
only the mass received is summed over blocks. Besides the results it holds BLOCK_NUMBERS scores, which become the weights in
place, and at most two more tensors of that size.

Legend: N items (batch × heads), T queries, S keys, t queries in a block, s keys that they may see, k kept per row.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from saccade.kernels.dtypes import working_dtype
from saccade.kernels.statistics.reference import Statistics, Wanted
from saccade.kernels.visibility import Visibility

BLOCK_NUMBERS = 1 << 22
"""Scores per block: 16 MB in float32."""


def statistics(
    scores_of: Callable[[slice, slice], Tensor],
    shape: tuple[int, int, int],
    visibility: Visibility,
    *,
    like: Tensor,
    wanted: Wanted,
    heads: int = 1,
) -> Statistics:
    """Statistics of the softmax of scores that are computed block by block.

    Args:
        scores_of: the scores [N, t, s] of a slice of the queries and one of the keys, in memory of their own, which is
            overwritten; −inf hides a key, as ``visibility`` does.
        shape: (N, T, S), N = batch × heads.
        seen: which keys queries see; ``Seen()`` where ``scores_of`` hides keys itself.
        like: a tensor on the scores' device, of their dtype.
        wanted: what to compute.
        heads: item n has the lengths and the mask of n // ``heads``.

    >>> from saccade.kernels.dot.reference import dot_scores
    >>> query, key = torch.randn(6, 5, 8), torch.randn(6, 7, 8)
    >>> def scores(rows, keys):
    ...     return dot_scores(query[:, rows], key[:, keys])
    >>> found = statistics(scores, (6, 5, 7), Seen(), like=query, wanted=Wanted(top=3))
    >>> found.top_index.shape
    torch.Size([6, 5, 3])
    """
    N, T, S = shape
    step = max(1, BLOCK_NUMBERS // max(1, N * S))
    low, high = visibility.bounds()
    found = _of_nothing(shape, like, wanted)
    with torch.no_grad():
        for start in range(0, T, step):
            stop = min(start + step, T)
            rows, keys = slice(start, stop), slice(max(0, min(S, start + low)), max(0, min(S, stop + high)))
            if keys.start < keys.stop:
                scores = scores_of(rows, keys).to(found["lse"].dtype)
                _hide(scores, visibility.rows(start, stop).keys(keys.start, keys.stop), heads)
                _write(found, _of_block(scores, wanted), rows, keys)
    return Statistics(**found)


def _of_nothing(shape: tuple[int, int, int], like: Tensor, wanted: Wanted) -> dict[str, Tensor]:
    """The statistics of queries that see nothing."""
    N, T, S = shape
    k, dtype = min(wanted.top, S), working_dtype(like.dtype)
    floats: dict[str, tuple[int, ...]] = {"lse": (N, T)}
    floats |= {"maximum": (N, T)} if wanted.maximum else {}
    floats |= {"entropy": (N, T)} if wanted.entropy else {}
    floats |= {"received": (N, S)} if wanted.received else {}
    floats |= {"top_weights": (N, T, k), "residual": (N, T)} if wanted.top else {}
    found = {name: torch.zeros(size, dtype=dtype, device=like.device) for name, size in floats.items()}
    found["lse"].fill_(-math.inf)
    places: dict[str, tuple[int, ...]] = {"argmax": (N, T)} if wanted.maximum else {}
    places |= {"top_index": (N, T, k)} if wanted.top else {}
    return found | {name: torch.zeros(size, dtype=torch.int64, device=like.device) for name, size in places.items()}


def _hide(scores: Tensor, visibility: Visibility, heads: int) -> None:
    """Write −∞ in place where a key is not visible; for a plain band only the keys at its two edges are touched."""
    _, t, s = scores.shape
    edges = [slice(0, s)]
    if visibility.mask is None and visibility.lengths is None:
        low, high = visibility.bounds()
        edges = [slice(0, max(0, min(s, t - 1 + low))), slice(max(0, min(s, high + 1)), s)]
    for edge in edges:
        visible = visibility.keys(edge.start, edge.stop).dense(t, edge.stop - edge.start, scores.device)
        if visible is not None:
            visible = visible.unsqueeze(1) if visible.dim() == 3 else visible
            scores[..., edge].unflatten(0, (-1, heads)).masked_fill_(~visible, -math.inf)


def _of_block(scores: Tensor, wanted: Wanted) -> dict[str, Tensor]:
    """Statistics of the softmax of these scores [N, t, s], s > 0, which become the weights."""
    most = scores.amax(-1, keepdim=True)
    blind = most == -math.inf
    weights = scores.sub_(most.masked_fill(blind, 0.0)).exp_()
    total = weights.sum(-1, keepdim=True)
    found = {"lse": (total.log() + most).squeeze(-1)}
    weights.div_(total.masked_fill_(blind, 1.0))
    if wanted.entropy:
        found["entropy"] = torch.special.entr(weights).sum(-1) + 0.0  # -0 becomes 0
    if wanted.maximum:
        found["maximum"], found["argmax"] = weights.max(-1)
    if wanted.received:
        found["received"] = weights.sum(-2)
    if wanted.top:
        index = weights.topk(min(wanted.top, weights.shape[-1]), sorted=False).indices.sort(-1).values
        kept, order = weights.gather(-1, index).sort(dim=-1, descending=True, stable=True)
        index = index.gather(-1, order)
        # A sum of the rest, not a difference of sums: exactly 0 when nothing is left, and never negative.
        residual = weights.scatter_(-1, index, 0.0).sum(-1)
        found |= {"top_weights": kept, "top_index": index, "residual": residual}
    return found


def _write(found: dict[str, Tensor], block: dict[str, Tensor], rows: slice, keys: slice) -> None:
    """Write a block's statistics into those of all queries; the position of a weight of 0 stays 0."""
    for weights, places in (("maximum", "argmax"), ("top_weights", "top_index")):
        if places in block:
            block[places] = (block[places] + keys.start).masked_fill_(block[weights] == 0, 0)
    for name, part in block.items():
        if name == "received":
            found[name][:, keys] += part
            continue
        into = found[name][:, rows]
        (into if part.dim() == 2 else into[..., : part.shape[-1]]).copy_(part)
