"""Base class of networks that describe pictures, and a small convolutional network that turns a picture into a grid of cells.

    p(y | picture) = Πₜ p(yₜ | y₍<ₜ₎, a₁ … a_L)        a₁ … a_L the annotations of the L cells, row by row

Legend: B batch, S pixels across and down, T target, L cells, D width of an annotation, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.errors import SaccadeError
from saccade.nn.backbones import TunedBackbone
from saccade.nn.decoder import EncoderDecoder
from saccade.trace.lens import Lens


@dataclass(frozen=True)
class Seen:
    """What a captioner is given of a picture: its pixels, or features of a frozen backbone; of one that is trained with it the
    pixels and the backbone, which it takes as a module and which turns them into features.

    Attributes:
        pixels: across and down of the framed picture; 0 where features are given.
        features: rows, columns and width of the features' grid.
        backbone: pictures [B, 3, S, S] → features [B, L, D].
    """

    pixels: int = 0
    features: tuple[int, int, int] | None = None
    backbone: TunedBackbone | None = None


@dataclass
class Looks:
    """What a captioner looked at while it was taught: filled step by step, read by :meth:`Captioner.regulariser`.

    Attributes:
        weights: of every step, [B, L].
        log_probs: log α of the drawn cells of every step, [B]; empty where no cell is drawn.
        drawn: the rows whose cells were drawn [B]; None where no cell is drawn.
    """

    weights: list[Float[Tensor, "B L"]] = field(default_factory=list)
    log_probs: list[Float[Tensor, " B"]] = field(default_factory=list)
    drawn: Bool[Tensor, " B"] | None = None


class Captioner(EncoderDecoder):
    """Base of the networks that the task ``caption`` trains, made by ``(config, size, seen, start)``: the size of the
    vocabulary, what is given of a picture, and the token before the first word.

    Attributes:
        grid: rows and columns of the cells that it looks at.
    """

    grid: tuple[int, int]

    def encode(
        self,
        source: Float[Tensor, "B 3 S S"] | Float[Tensor, "B L D"],
        lengths: Int[Tensor, " B"] | None = None,
        *,
        lens: Lens | None = None,
    ) -> tuple[Tensor, ...]:
        """The memory of pictures, or of their features; ``lengths`` are not used, as all pictures have as many cells."""
        raise NotImplementedError

    def state_of_training(self) -> dict[str, Tensor]:
        """Tensors that :meth:`regulariser` updates in place; checkpoints hold them, bundles do not."""
        return {}

    def regulariser(
        self,
        looks: Looks,
        log_likelihood: Float[Tensor, "B T"],
        real: Bool[Tensor, "B T"],
        state: dict[str, Tensor],
    ) -> Float[Tensor, ""]:
        """What training adds to −Σ log p(y): a sum over captions. ``log_likelihood`` is that of each true word, without
        gradient; ``real`` is False at padding."""
        return log_likelihood.new_zeros(())


class PictureCnn(nn.Module):
    """Convolutions that halve a picture until its cells are left, and one more among the cells; no cell is pooled away.

        x⁰ = [red; green; blue; column; row]           of each pixel, from −1 to 1
        xⁱ = relu(norm(conv 4×4, stride 2 (xⁱ⁻¹)))     a = relu(norm(conv 3×3 (xⁿ)))     norm: over the batch

    A cell sees 5 · 2ⁿ − 2 pixels across, and its own 2ⁿ are in their middle: with an odd kernel they would not be, and
    attention would lie half a cell beside what it looks at. The channels are not normalised picture by picture: a picture
    with much red could then not be told from one with little.

    Shapes: pictures [B, 3, S, S] → annotations [B, L, D], L = (S / 2ⁿ)², D the last of the n ``channels``.
    """

    def __init__(self, channels: Sequence[int], pixels: int) -> None:
        super().__init__()
        if not channels or pixels % 2 ** len(channels) or pixels < 2 ** len(channels):
            raise SaccadeError(
                f"model.channels: expected pictures that {len(channels)} halvings leave whole, found {pixels} pixels"
            )
        layers = [_block(before, after, kernel=4, stride=2) for before, after in pairwise([5, *channels])]
        self.layers = nn.Sequential(*layers, _block(channels[-1], channels[-1], kernel=3, stride=1))
        self.grid = (pixels >> len(channels), pixels >> len(channels))
        self.width = channels[-1]

    def forward(self, pictures: Float[Tensor, "B 3 S S"]) -> Float[Tensor, "B L D"]:
        B, _, H, W = pictures.shape
        colours = pictures.to(next(self.parameters()).dtype)
        down, across = (torch.linspace(-1, 1, size, dtype=colours.dtype, device=colours.device) for size in (H, W))
        places = torch.stack([across.expand(H, W), down.unsqueeze(1).expand(H, W)]).expand(B, 2, H, W)
        annotations: Tensor = self.layers(torch.cat([colours, places], dim=1))
        return annotations.flatten(2).mT


def _block(inputs: int, outputs: int, *, kernel: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )
