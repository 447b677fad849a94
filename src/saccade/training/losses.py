"""Cross-entropy of sequences, padding left out, with label smoothing (Szegedy et al. 2016)."""

from __future__ import annotations

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
