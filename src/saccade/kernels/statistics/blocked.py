"""Statistics of attention weights for any score, on any device, exact, a block of queries at a time.

Rows of weights do not depend on each other, so each block is what reference.py computes of it; only the mass received is
summed over blocks. Beyond what is returned it holds BLOCK_NUMBERS scores and a few tensors of that size.

Legend: N items (batch × heads), T queries, S keys, t queries in a block.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from saccade.kernels.seen import Seen
from saccade.kernels.statistics.reference import Statistics, Wanted, of_scores

BLOCK_NUMBERS = 1 << 22
"""Scores in a block: in float32 16 MB, and no more than four tensors of that size live together."""


def statistics(
    scores_of: Callable[[slice], Tensor],
    shape: tuple[int, int, int],
    seen: Seen,
    *,
    wanted: Wanted,
    heads: int = 1,
) -> Statistics:
    """Statistics of the softmax of scores that are asked for as they are needed.

    Args:
        scores_of: the scores [N, t, S] of the queries of a slice; −inf hides a key, as ``seen`` does.
        shape: (N, T, S), N = batch × heads.
        seen: which keys queries see; ``Seen()`` where ``scores_of`` has hidden the others.
        wanted: what to compute.
        heads: item n has the lengths and the mask of n // ``heads``.

    >>> from saccade.kernels.dot.reference import dot_scores
    >>> query, key = torch.randn(6, 5, 8), torch.randn(6, 7, 8)
    >>> found = statistics(lambda rows: dot_scores(query[:, rows], key), (6, 5, 7), Seen(), wanted=Wanted(top=3))
    >>> found.top_index.shape
    torch.Size([6, 5, 3])
    """
    N, T, S = shape
    step = max(1, BLOCK_NUMBERS // max(1, N * S))
    results: dict[str, Tensor] = {}
    with torch.no_grad():
        for start in range(0, max(1, T), step):
            rows = slice(start, min(start + step, T))
            scores = seen.rows(rows.start, rows.stop).hide(scores_of(rows), heads)
            for name, part in of_scores(scores, wanted).tensors().items():
                if name == "received":
                    results[name] = results[name].add_(part) if name in results else part
                    continue
                if name not in results:
                    results[name] = part.new_empty(N, T, *part.shape[2:])
                results[name][:, rows] = part
    return Statistics(**results)
