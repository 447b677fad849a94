"""A score that is clipped, a normaliser with a learned temperature, a window that waits."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import softplus

from saccade.attention.normalise import softmax
from saccade.attention.windows import Window


class Clipped(nn.Module):
    """5 tanh(qᵀ W k / √D): no key outweighs another by more than e¹⁰ (Bello et al. 2017)."""

    def __init__(self, query_width, key_width):
        super().__init__()
        self.project = nn.Linear(key_width, query_width, bias=False)

    def prepare(self, key):  # once a sentence: [B, S, key_width] → [B, S, query_width]
        return self.project(key)

    def forward(self, query, key):  # [B, T, query_width], and what prepare gave → [B, T, S]
        return 5 * torch.tanh(query @ key.mT / query.shape[-1] ** 0.5)


class Temperature(nn.Module):
    """softmax(z / τ): how sharply to look is learned."""

    def __init__(self):
        super().__init__()
        self.raw = nn.Parameter(torch.tensor(0.5413))  # τ = softplus(raw) > 0, at first 1

    def forward(self, scores):
        hidden = scores == -torch.inf
        cooled = scores.masked_fill(hidden, 0.0) / softplus(self.raw)  # −inf / τ would make τ's gradient NaN
        return softmax(cooled.masked_fill(hidden, -torch.inf))


@dataclass(frozen=True)
class Wait(Window):
    """Word t is written when t + k words were heard, and looks at no others (wait-k, Ma et al. 2019)."""

    k: int

    def visible(self, extent):  # [T, S], True = may look
        return extent.key_positions < extent.query_positions + self.k


wait2 = Wait(2)
