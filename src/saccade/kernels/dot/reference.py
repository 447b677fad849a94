"""Dot-product scores (Luong et al. 2015, "dot"; scaled by 1/√D in Vaswani et al. 2017): score(q, k) = scale · qᵀk.

Legend: T queries, S keys, D width.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from saccade.errors import SaccadeError


def dot_scores(
    query: Float[Tensor, "*#batch T D"], key: Float[Tensor, "*#batch S D"], scale: float = 1.0
) -> Float[Tensor, "*batch T S"]:
    """Score every query against every key; the axes before the last two broadcast."""
    if query.shape[-1] != key.shape[-1]:
        raise SaccadeError(
            "dot scores: expected query [..., T, D] and key [..., S, D] of one width D, "
            f"found widths {query.shape[-1]} and {key.shape[-1]}; project one to the width of the other first"
        )
    # The query is scaled, not the product: it is smaller, and float16 products then overflow later.
    return (query * scale) @ key.mT
