"""Cross-entropy of sequences, padding left out, with label smoothing (Szegedy et al. 2016).

    loss = −Σ_v q(v) log p(v),    q(v) = (1 − ε) · [v = target] + ε / V

ε is spread over all V tokens, the target among them, as Vaswani et al. (2017) have it; others spread it over V − 1 or leave
the padding out, and their losses have another floor. It is a cross-entropy: the entropy of q is not taken off, so no network
has a loss below it. What is reported of held-out data is without smoothing, whatever ε is, so that it compares.
"""

from __future__ import annotations

import math

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional


def sequence_loss(
    logits: Float[Tensor, "B T V"], target: Int[Tensor, "B T"], *, padding: int, smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Σ over real tokens of −Σ_v q(v) log p(v): q puts 1 − ε on the target and ε/V on every token."""
    return functional.cross_entropy(
        logits.flatten(0, 1).float(), target.flatten(), ignore_index=padding, reduction="sum", label_smoothing=smoothing
    )


def smoothing_floor(smoothing: float, size: int) -> float:
    """The entropy of q over ``size`` tokens: the least that a smoothed loss can be, per token.

    >>> round(smoothing_floor(0.1, 5), 4), round(smoothing_floor(0.1, 37_000), 4)
    (0.3897, 1.3769)
    """
    rest, top = smoothing / size, 1 - smoothing + smoothing / size
    return -sum(count * share * math.log(share) for count, share in ((1, top), (size - 1, rest)) if share > 0)
