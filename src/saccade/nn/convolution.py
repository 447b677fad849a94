"""Convolutions over padded sequences: padding is read as 0, so a row gives the same result alone and in a batch.

Legend: B batch, S positions, m input width, n output width.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.attention.checks import check_dropout, check_lengths, check_rows, check_size
from saccade.errors import SaccadeError
from saccade.nn.recurrent import mask_of


class Convolution(nn.Module):
    """A stack of layers, each position computed from its neighbours: h'ₛ = relu(Σₖ W_k h_{s+k} + b), k = −r … r, width = 2
    r + 1.

    Shapes: x [B, S, m], lengths [B] → [B, S, n]; outputs beyond a row's length are 0.
    """

    def __init__(self, inputs: int, outputs: int, *, width: int = 3, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        check_size(inputs=inputs, outputs=outputs, width=width, layers=layers)
        check_dropout(dropout)
        if width % 2 == 0:
            raise SaccadeError(f"width must be odd, to have a centre: got {width}")
        widths = [inputs, *([outputs] * layers)]
        self.layers = nn.ModuleList(
            nn.Conv1d(before, after, width, padding=width // 2) for before, after in pairwise(widths)
        )
        self.dropout, self.inputs, self.outputs = nn.Dropout(dropout), inputs, outputs

    def forward(self, x: Float[Tensor, "B S m"], lengths: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B S n"]:
        check_rows(self.inputs, x=x)
        if lengths is not None:
            check_lengths(lengths, *x.shape[:2])
        if not x.shape[1]:
            return x.new_zeros(x.shape[0], 0, self.outputs)
        real = None if lengths is None else mask_of(lengths, x.shape[1]).unsqueeze(-1)  # [B, S, 1]
        for number, layer in enumerate(self.layers):
            if number:
                x = self.dropout(x)
            x = x if real is None else x * real
            x = torch.relu(layer(x.mT)).mT
        return x if real is None else x * real
