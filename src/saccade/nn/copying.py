"""A word is written out of the vocabulary, or copied from where the network looks (See, Liu & Manning 2017).

    p(y) = g · softmax(logits)(y) + (1 − g) · Σ_{s: xₛ = y} αₛ,        g = σ(wᵀ[what the step knows] + b)

Source and target share one vocabulary; with one of sub-words every word can be copied, seen in training or not.

Legend: B batch, T target, S source, V vocabulary, w width of what a step knows.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.errors import SaccadeError


class Copying(nn.Module):
    """Mixes a network's logits with its attention weights; what it returns are log-probabilities, which are logits too."""

    def __init__(self, width: int, source_size: int, target_size: int) -> None:
        super().__init__()
        if source_size != target_size:
            raise SaccadeError(
                "model.copy: expected one vocabulary for source and target (data.shared: true), "
                f"found {source_size:,} source and {target_size:,} target tokens"
            )
        self.gate = nn.Linear(width, 1)

    def forward(
        self,
        logits: Float[Tensor, "B T V"],
        weights: Float[Tensor, "B T S"],
        source: Int[Tensor, "B S"],
        known: Float[Tensor, "B T w"],
    ) -> Float[Tensor, "B T V"]:
        written = torch.sigmoid(self.gate(known)).float()  # g: [B, T, 1]
        copied = (1 - written) * weights.float()
        mixed = written * torch.softmax(logits.float(), dim=-1)
        mixed = mixed.scatter_add(-1, source.unsqueeze(1).expand_as(copied), copied)
        return mixed.clamp_min(torch.finfo(mixed.dtype).tiny).log()
