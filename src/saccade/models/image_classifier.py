"""A small CNN that classifies pictures, with a block of self-attention (Zhang et al. 2019) or without.

    x → conv₃ₓ₃, BN, ReLU → (conv₃ₓ₃, BN, ReLU, the maximum of each 2×2 places) × halvings → conv₁ₓ₁, BN, ReLU
      → mean over places → features → linear → logits

The block stands on the map of ``attention`` rows and columns, before the 1×1 convolution if that map is the last. Without it
a place sees only what its window holds, and the mean adds up what single places saw.

Legend: B batch, S rows and columns of a picture, D width of the features, C labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from saccade.attention.spatial import SelfAttention2d
from saccade.errors import SaccadeError
from saccade.nn.config import check
from saccade.nn.picture_classifier import PictureClassifier
from saccade.trace.axes import Grid
from saccade.trace.lens import Lens, Site

IMAGE, POOLED = "image", "pooled"  # the axes of the map


@dataclass(frozen=True)
class Config:
    """A network that trains on a CPU."""

    channels: int = 32  # of the first map; twice as many with each halving
    halvings: int = 2  # of rows and columns
    width: int = 64  # of the features
    attention: int | None = None  # rows and columns of the map with attention; null: none
    keys: Literal["every", "pooled"] = "every"  # pooled: the maximum of each 2×2 places
    dropout: float = 0.0  # of the features

    def __post_init__(self) -> None:
        check(self, "channels", "width", "attention")
        if not 0 <= self.halvings <= 8:
            raise ValueError(f"halvings must be from 0 to 8: got {self.halvings}")


class ImageClassifier(PictureClassifier):
    """Pictures [B, 3, S, S] → logits [B, C]."""

    config_class = Config
    attention: SelfAttention2d | None

    def __init__(self, config: Config, size: int, classes: int) -> None:
        super().__init__()
        self.config = config
        sizes, widths = [size], [config.channels]
        for _ in range(config.halvings):
            sizes.append(sizes[-1] // 2)
            widths.append(2 * widths[-1])
        if sizes[-1] < 1:
            raise SaccadeError(
                f"model.halvings must leave a row of pictures of {size} × {size}: got {config.halvings} halvings"
            )
        if config.attention is not None and config.attention not in sizes:
            known = ", ".join(map(str, sizes))
            raise SaccadeError(
                f"model.attention must be the rows of a feature map of pictures of {size} × {size} ({known}), or null: "
                f"got {config.attention}"
            )
        inputs = [3, *widths[:-1]]
        self.convolutions = nn.ModuleList(
            nn.Conv2d(before, after, 3, padding=1, bias=False) for before, after in zip(inputs, widths, strict=True)
        )
        self.norms = nn.ModuleList(map(nn.BatchNorm2d, widths))
        self.mix, self.mix_norm = nn.Conv2d(widths[-1], config.width, 1, bias=False), nn.BatchNorm2d(config.width)
        self.output = nn.Linear(config.width, classes)
        self.attended = None if config.attention is None else sizes.index(config.attention)
        self.attention = None if self.attended is None else SelfAttention2d(widths[self.attended], keys=config.keys)
        self.site = Site("attention", query=IMAGE, key=IMAGE if config.keys == "every" else POOLED)
        self.sites = () if self.attention is None else (self.site,)

    def features(self, pictures: Float[Tensor, "B 3 S S"], *, lens: Lens | None = None) -> Float[Tensor, "B D"]:
        features = pictures
        for number, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            features = functional.relu(norm(convolution(features)))
            features = functional.max_pool2d(features, 2) if number else features
            if self.attention is not None and self.attended == number:
                features = self.attention(features, lens=lens, site=self.site)
        mixed: Tensor = functional.relu(self.mix_norm(self.mix(features)))
        return mixed.mean((2, 3))

    def forward(self, pictures: Float[Tensor, "B 3 S S"], *, lens: Lens | None = None) -> Float[Tensor, "B C"]:
        features = self.features(pictures, lens=lens)
        logits: Tensor = self.output(functional.dropout(features, self.config.dropout, self.training))
        return logits

    def axes(self, image: Tensor | None = None) -> dict[str, Grid]:
        rows = self.config.attention
        return {} if self.attention is None or rows is None else self.attention.axes(rows, rows, self.site, image)

    def monitored(self) -> dict[str, float]:
        """γ of the block."""
        return {} if self.attention is None else {"gamma": float(self.attention.gamma.detach())}


def window_of(config: Config) -> int:
    """How many pixels across a place of the last map sees without attention.

    >>> window_of(Config(halvings=0)), window_of(Config(halvings=1)), window_of(Config(halvings=2))
    (3, 6, 12)
    """
    window, stride = 3, 1
    for _ in range(config.halvings):
        window, stride = window + 2 * stride + stride, 2 * stride
    return window
