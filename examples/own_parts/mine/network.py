"""A glance: attention straight over what was read, and one recurrent cell that writes.

hⱼ = E xⱼ + P j,  sᵢ = GRU([E' yᵢ₋₁; cᵢ₋₁], sᵢ₋₁),  cᵢ = Σⱼ αᵢⱼ hⱼ,  p(yᵢ) = softmax(W [sᵢ; cᵢ])
"""

from dataclasses import dataclass

import torch
from torch import nn

from saccade.attention.windows import padding
from saccade.nn import Attention, EncoderDecoder
from saccade.trace import Site

SITE = Site("decoder.attention", query="target", key="source")


@dataclass(frozen=True)
class Config:
    width: int = 32
    places: int = 64

    def __post_init__(self):
        if self.width < 1:
            raise ValueError(f"width must be at least 1: got {self.width}")


class Glance(EncoderDecoder):
    config_class, sites = Config, (SITE,)

    def __init__(self, config, source_size, target_size):
        super().__init__()
        self.config, D = config, config.width
        self.words, self.places = nn.Embedding(source_size, D), nn.Embedding(config.places, D)
        self.written, self.cell = nn.Embedding(target_size, D), nn.GRUCell(2 * D, D)
        self.attention, self.output = Attention(D, D), nn.Linear(2 * D, target_size)

    def encode(self, source, lengths, *, lens=None):  # memory: [B, S, D] and [B]
        places = torch.arange(source.shape[1], device=source.device).clamp(max=self.config.places - 1)
        return self.words(source) + self.places(places), lengths

    def start(self, memory):  # state: hidden and context, each [B, D]
        nothing = memory[0].new_zeros(len(memory[0]), self.config.width)
        return nothing, nothing

    def step(self, token, state, memory, *, offset, lens=None):
        (hidden, context), (words, lengths) = state, memory
        hidden = self.cell(torch.cat([self.written(token), context], dim=-1), hidden)
        look = {"window": padding(lengths), "offset": offset, "lens": lens, "site": SITE}
        context = self.attention(hidden.unsqueeze(1), words, **look).squeeze(1)  # one query: [B, 1, D]
        return self.output(torch.cat([hidden, context], dim=-1)), (hidden, context)
