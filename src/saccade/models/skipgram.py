"""Skip-gram with negative sampling (Mikolov et al. 2013, 2.2): a word's vector predicts its neighbouring words.

    score(centre, context) = u_context · v_centre
    −log σ(u_o · v_c) − Σₖ log σ(−u_k · v_c)        o is a neighbour of c; k are K negative samples

The vectors v are the result; u is only used in training. A negative sample that equals the true word is ignored.

Legend: P pairs, K negative samples per pair, D width.
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
    """The width of a vector."""

    embedding: int = 100

    def __post_init__(self) -> None:
        check(self, "embedding")


class Skipgram(nn.Module):
    """Two tables of vectors: of words as centres (``embedding``) and as contexts. Gradients are dense, so that every optimiser
    works and updates can be CUDA graphs."""

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
        """Scores of the true words and of the negative samples, −∞ for a sample that equals the true word."""
        others = torch.cat([contexts.unsqueeze(1), against], dim=1)  # [P, 1 + K]
        scores = torch.bmm(self.context(others), self.embedding(centres).unsqueeze(-1)).squeeze(-1)
        same = against == contexts.unsqueeze(1)
        return scores[:, 0], scores[:, 1:].masked_fill(same, -torch.inf)
