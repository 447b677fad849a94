"""Additive attention under weight normalisation, with a bias: TensorFlow Addons' ``BahdanauAttention(normalize=True)``.

    score(s, h) = (g / ‖v‖) vᵀ tanh(W s + U h + b)

The score is Bahdanau et al. 2015's, its length and direction learned apart after Salimans & Kingma 2016.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.attention.layers import Attention
from saccade.attention.normalise import Normaliser, softmax
from saccade.attention.scores import Additive, Prepared, additive
from saccade.attention.windows import Window, everywhere
from saccade.trace.lens import Lens, Site


class NormedAttention(Attention):
    """One look with score (g / ‖v‖) vᵀ tanh(W query + U key + b).

    Parameters: v [width], query_weight W [width, query_width], key_weight U [width, key_width], g a number, bias b [width].
    g begins as √(1 / width) and b as zeros. Shapes and call as :class:`saccade.nn.Attention`.
    """

    def __init__(
        self,
        query_width: int,
        key_width: int,
        *,
        width: int | None = None,
        normalise: Normaliser = softmax,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(query_width, key_width, score="additive", width=width, normalise=normalise, dropout=dropout)
        self.g = nn.Parameter(torch.tensor(self.v.numel() ** -0.5))
        self.bias = nn.Parameter(torch.zeros_like(self.v))

    @property
    def score(self) -> Additive:
        """The score as a value over this layer's parameters, for queries that were projected and shifted."""
        return additive(self.g * self.v / self.v.norm(), key_weight=self.key_weight)

    def forward(
        self,
        query: Float[Tensor, "B T Dq"],
        key: Float[Tensor, "B S Dk"] | Prepared,
        value: Float[Tensor, "B S E"] | None = None,
        *,
        window: Window = everywhere,
        offset: int | None = None,
        lens: Lens | None = None,
        site: str | Site = "attention",
    ) -> Float[Tensor, "B T E"]:
        projected = query @ self.query_weight.mT + self.bias  # [B, T, width]
        return super().forward(projected, key, value, window=window, offset=offset, lens=lens, site=site)
