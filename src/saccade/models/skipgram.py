"""Skip-gram with negative sampling (Mikolov et al. 2013, 2.2): a word's vector predicts the words near it.

    score(centre, context) = u_context · v_centre
    −log σ(u_o · v_c) − Σₖ log σ(−u_k · v_c)        o occurs near c; K words k are drawn at random

The vectors v are the result; u is only used in training. A drawn word that equals the context word is ignored.

Legend: P pairs, K words drawn against each, D width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.nn.config import check
from saccade.trace.lens import Site


@dataclass(frozen=True)
class Config:
    """Width of the vectors."""

    embedding: int = 100

    def __post_init__(self) -> None:
        check(self, "embedding")


class Skipgram(nn.Module):
    """Two tables of vectors: of words as centres (``embedding``) and as contexts. Gradients are dense, so that any optimiser
    works and updates can be captured in CUDA graphs."""

    config_class = Config
    sites: tuple[Site, ...] = ()  # no attention

    def __init__(self, config: Config, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(vocabulary, config.embedding)
        self.context = nn.Embedding(vocabulary, config.embedding)
        nn.init.uniform_(self.embedding.weight, -0.5 / config.embedding, 0.5 / config.embedding)
        nn.init.zeros_(self.context.weight)

    def forward(
        self, centres: Int[Tensor, " P"], contexts: Int[Tensor, " P"], against: Int[Tensor, "P K"]
    ) -> tuple[Float[Tensor, " P"], Float[Tensor, "P K"]]:
        """Scores of the context words, and of the drawn ones: −∞ where a drawn word equals the context word."""
        others = torch.cat([contexts.unsqueeze(1), against], dim=1)  # [P, 1 + K]
        scores = torch.bmm(self.context(others), self.embedding(centres).unsqueeze(-1)).squeeze(-1)
        same = against == contexts.unsqueeze(1)
        return scores[:, 0], scores[:, 1:].masked_fill(same, -torch.inf)
