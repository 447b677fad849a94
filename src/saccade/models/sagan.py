"""SAGAN (Zhang, Goodfellow, Metaxas & Odena 2019): a class-conditional GAN whose two networks attend to their feature maps.

    generator        z → linear → up-blocks, each with twice the rows and half the channels → BN, ReLU, 3×3 → tanh
    up-block         x ↦ conv(ReLU(CBN(conv(up(ReLU(CBN(x))))))) + conv₁ₓ₁(up(x))
                     CBN(x) = g_y ⊙ normalise(x) + b_y: gain and bias of each class (conditional batch normalisation)
    discriminator    down-blocks, each with half the rows and twice the channels → ReLU, sum over places → h
                     D(x, y) = wᵀh + e_yᵀh + b                            (the projection of Miyato & Koyama 2018)
    down-block       x ↦ pool(conv(ReLU(conv(ReLU(x))))) + pool(conv₁ₓ₁(x))
    attention        y = γ · o(x) + x on the map of ``attention`` rows and columns (:mod:`saccade.attention.spatial`)

Every convolution, linear layer and class vector but those of CBN is divided by its largest singular value, in both networks.
The recipe of the paper: hinge losses, Adam with β₁ = 0 and β₂ = 0.9, learning rate 1e-4 for the generator (``train.lr``) and
4e-4 for the discriminator, one step of each.

Legend: B batch, Z width of the noise, C channels, H rows and columns of a feature map, S of a picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from saccade.attention.spatial import SelfAttention2d
from saccade.errors import SaccadeError
from saccade.nn.config import check
from saccade.nn.gan import Discriminator, Gan, Generator
from saccade.trace.axes import Grid
from saccade.trace.lens import Lens, Site

SMALLEST = 4  # rows of the coarsest map
IMAGE, POOLED = "image", "pooled"  # the axes of the generator's attention


@dataclass(frozen=True)
class Config:
    """The sizes of the paper, for pictures of any size that can be halved."""

    channels: int = 64  # of the finest map of the generator; twice as many with each halving
    most_channels: int = 1024
    noise: int = 128  # Z
    attention: int | None = 16  # rows and columns of the maps with attention (paper: 32 of 128); null: none
    keys: Literal["every", "pooled"] = "every"  # pooled: the authors' code, the maximum of each 2×2 places
    lr_discriminator: float = 4e-4  # the generator's is train.lr
    steps: int = 1  # of the discriminator for each of the generator

    def __post_init__(self) -> None:
        check(self, "channels", "most_channels", "noise", "attention", "steps")
        if not self.lr_discriminator > 0:
            raise ValueError(f"lr_discriminator must be above 0: got {self.lr_discriminator}")


class Sagan(Gan):
    """Pictures of ``size`` rows and columns, of so many classes."""

    config_class = Config
    generator: SaganGenerator
    discriminator: SaganDiscriminator

    def __init__(self, config: Config, size: int, classes: int) -> None:
        super().__init__()
        self.config, self.size = config, size
        sizes = map_sizes(size)
        if config.attention is not None and config.attention not in sizes[1:]:
            known = ", ".join(map(str, sizes[1:])) or "none"
            raise SaccadeError(
                f"model.attention must be the rows of a feature map of pictures of {size} × {size} ({known}), or null: "
                f"got {config.attention}"
            )
        self.noise, self.every = config.noise, config.steps
        self.discriminator_settings = {"lr": config.lr_discriminator}
        self.generator = SaganGenerator(config, sizes, classes)
        self.discriminator = SaganDiscriminator(config, sizes, classes)
        self.sites = () if config.attention is None else (self.generator.site,)

    def axes(self, image: Tensor | None = None) -> dict[str, Grid]:
        attention, rows = self.generator.attention, self.config.attention
        return {} if attention is None or rows is None else attention.axes(rows, rows, self.generator.site, image)

    def monitored(self) -> dict[str, float]:
        """γ of both networks."""
        parts = {"generator": self.generator.attention, "discriminator": self.discriminator.attention}
        return {f"gamma_{name}": float(block.gamma.detach()) for name, block in parts.items() if block is not None}


def map_sizes(size: int) -> list[int]:
    """The rows of the feature maps of a picture, finest first: halved as long as four or more are left.

    >>> map_sizes(32), map_sizes(28)
    ([32, 16, 8, 4], [28, 14, 7])
    """
    sizes = [size]
    while sizes[-1] % 2 == 0 and sizes[-1] // 2 >= SMALLEST:
        sizes.append(sizes[-1] // 2)
    if len(sizes) == 1:
        raise SaccadeError(
            f"data.image.size must be a multiple of 2, and at least {2 * SMALLEST}, for sagan: got {size}"
        )
    return sizes


class SaganGenerator(Generator):
    """z [B, Z], labels [B] → pictures [B, 3, S, S]. Attention follows the block that gives the map of its size."""

    attention: SelfAttention2d | None

    def __init__(self, config: Config, sizes: list[int], classes: int) -> None:
        super().__init__()
        coarse = sizes[::-1]  # rows, coarsest first
        widths = [min(config.channels << number, config.most_channels) for number in range(len(sizes))][::-1]
        self.coarsest, self.first = coarse[0], widths[0]
        self.project = _normed(nn.Linear(config.noise, widths[0] * coarse[0] ** 2))
        self.blocks = nn.ModuleList(UpBlock(inputs, outputs, classes) for inputs, outputs in pairwise(widths))
        self.normalise = nn.BatchNorm2d(widths[-1])
        self.output = _normed(nn.Conv2d(widths[-1], 3, 3, padding=1))
        self.attention = _attention(config, dict(zip(coarse, widths, strict=True)))
        self.attended = None if config.attention is None else coarse.index(config.attention) - 1
        self.site = Site("generator", query=IMAGE, key=IMAGE if config.keys == "every" else POOLED)

    def forward(
        self, noise: Float[Tensor, "B Z"], labels: Int64[Tensor, " B"], *, lens: Lens | None = None
    ) -> Float[Tensor, "B 3 S S"]:
        features = self.project(noise).unflatten(1, (self.first, self.coarsest, self.coarsest))
        if self.attention is not None and self.attended == -1:
            features = self.attention(features, lens=lens, site=self.site)
        for number, block in enumerate(self.blocks):
            features = block(features, labels)
            if self.attention is not None and self.attended == number:
                features = self.attention(features, lens=lens, site=self.site)
        pictures: Tensor = torch.tanh(self.output(functional.relu(self.normalise(features))))
        return pictures


class SaganDiscriminator(Discriminator):
    """pictures [B, 3, S, S], labels [B] → scores [B]."""

    attention: SelfAttention2d | None

    def __init__(self, config: Config, sizes: list[int], classes: int) -> None:
        super().__init__()
        halved = sizes[1:]
        widths = [min(config.channels << number, config.most_channels) for number in range(len(halved))]
        inputs = [3, *widths[:-1]]
        self.blocks = nn.ModuleList(
            DownBlock(before, after, first=not number)
            for number, (before, after) in enumerate(zip(inputs, widths, strict=True))
        )
        self.last = DownBlock(widths[-1], widths[-1], pool=False)
        self.attention = _attention(config, dict(zip(halved, widths, strict=True)))
        self.attended = None if config.attention is None else halved.index(config.attention)
        self.score = _normed(nn.Linear(widths[-1], 1))
        self.projection = _normed(nn.Embedding(classes, widths[-1]))

    def forward(self, pictures: Float[Tensor, "B 3 S S"], labels: Int64[Tensor, " B"]) -> Float[Tensor, " B"]:
        features = pictures
        for number, block in enumerate(self.blocks):
            features = block(features)
            if self.attention is not None and self.attended == number:
                features = self.attention(features)
        summed = functional.relu(self.last(features)).sum((2, 3))  # [B, C]
        scores: Tensor = self.score(summed).squeeze(1) + (self.projection(labels) * summed).sum(1)
        return scores


class UpBlock(nn.Module):
    """[B, C, H, H] → [B, C', 2H, 2H], normalised by class."""

    def __init__(self, inputs: int, outputs: int, classes: int) -> None:
        super().__init__()
        self.before, self.between = ClassNorm(inputs, classes), ClassNorm(outputs, classes)
        self.first = _normed(nn.Conv2d(inputs, outputs, 3, padding=1))
        self.second = _normed(nn.Conv2d(outputs, outputs, 3, padding=1))
        self.shortcut = _normed(nn.Conv2d(inputs, outputs, 1))

    def forward(self, features: Float[Tensor, "B C H H"], labels: Int64[Tensor, " B"]) -> Tensor:
        changed = self.first(_doubled(functional.relu(self.before(features, labels))))
        changed = self.second(functional.relu(self.between(changed, labels)))
        found: Tensor = changed + _doubled(self.shortcut(features))
        return found


class DownBlock(nn.Module):
    """[B, C, H, H] → [B, C', H / 2, H / 2]; without ``pool`` the size stays. The ``first`` one reads pixels, without a ReLU."""

    def __init__(self, inputs: int, outputs: int, *, first: bool = False, pool: bool = True) -> None:
        super().__init__()
        self.reads_pixels, self.pool = first, pool
        self.first = _normed(nn.Conv2d(inputs, outputs, 3, padding=1))
        self.second = _normed(nn.Conv2d(outputs, outputs, 3, padding=1))
        self.shortcut = _normed(nn.Conv2d(inputs, outputs, 1)) if pool or inputs != outputs else nn.Identity()

    def forward(self, features: Float[Tensor, "B C H H"]) -> Tensor:
        changed = self.first(features if self.reads_pixels else functional.relu(features))
        changed = self.second(functional.relu(changed)) + self.shortcut(features)
        # Pooling is linear, so the sum may be pooled.
        found: Tensor = functional.avg_pool2d(changed, 2) if self.pool else changed
        return found


class ClassNorm(nn.Module):
    """Batch normalisation with the gain and the bias of each picture's class."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.normalise = nn.BatchNorm2d(channels, affine=False)
        self.gain, self.bias = nn.Embedding(classes, channels), nn.Embedding(classes, channels)
        nn.init.ones_(self.gain.weight)
        nn.init.zeros_(self.bias.weight)

    def forward(self, features: Float[Tensor, "B C H H"], labels: Int64[Tensor, " B"]) -> Float[Tensor, "B C H H"]:
        gain, bias = (part(labels)[:, :, None, None] for part in (self.gain, self.bias))
        normalised: Tensor = gain * self.normalise(features) + bias
        return normalised


def _doubled(features: Float[Tensor, "B C H H"]) -> Tensor:
    return functional.interpolate(features, scale_factor=2, mode="nearest")


def _normed(layer: Any) -> Any:
    """A layer with Xavier's initial weights, divided by their largest singular value."""
    nn.init.xavier_uniform_(layer.weight)
    return spectral_norm(layer)


def _attention(config: Config, channels: dict[int, int]) -> SelfAttention2d | None:
    """The block for the map of the configured size, given the channels of each size."""
    if config.attention is None:
        return None
    return SelfAttention2d(channels[config.attention], keys=config.keys, spectral=True)
