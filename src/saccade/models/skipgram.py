"""Skip-gram with negative sampling (Mikolov et al. 2013, 2.2): a word's vector tells which words stand near it.

    score(centre, context) = u_context · v_centre
    −log σ(u_o · v_c) − Σₖ log σ(−u_k · v_c)        o stands near c; K words k are drawn, whatever the text

The vectors v are what is kept; u serves to learn them. A word that is drawn and is the very one that is there is left out.

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
    """How many numbers a vector has."""

    embedding: int = 100

    def __post_init__(self) -> None:
        check(self, "embedding")


class Skipgram(nn.Module):
    """Two tables of vectors: of words as centres (``embedding``) and as contexts. Gradients are dense, so that any optimiser
    serves and updates can be recorded."""

    config_class = Config
    sites: tuple[Site, ...] = ()  # it looks nowhere

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
        """Scores of the words that are there, and of those drawn against them: −∞ where one of these is the word itself."""
        others = torch.cat([contexts.unsqueeze(1), against], dim=1)  # [P, 1 + K]
        scores = torch.bmm(self.context(others), self.embedding(centres).unsqueeze(-1)).squeeze(-1)
        same = against == contexts.unsqueeze(1)
        return scores[:, 0], scores[:, 1:].masked_fill(same, -torch.inf)
