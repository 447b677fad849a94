"""Generative adversarial networks: a generator of pictures, a discriminator that tells them from real ones, hinge losses.

    L_D = E[max(0, 1 − D(x, y))] + E[max(0, 1 + D(G(z, y), y))]        L_G = −E[D(G(z, y), y)]        z ~ N(0, 1)

Legend: B batch, Z width of the noise, S rows and columns of a picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from saccade.trace.axes import Grid
from saccade.trace.lens import Lens, Site


class Generator(nn.Module):
    """Noise and the numbers of classes → pictures whose values lie between −1 and 1."""

    def forward(
        self, noise: Float[Tensor, "B Z"], labels: Int64[Tensor, " B"], *, lens: Lens | None = None
    ) -> Float[Tensor, "B 3 S S"]:
        raise NotImplementedError


class Discriminator(nn.Module):
    """Pictures and the numbers of their classes → how real each is: above 0 for real ones."""

    def forward(self, pictures: Float[Tensor, "B 3 S S"], labels: Int64[Tensor, " B"]) -> Float[Tensor, " B"]:
        raise NotImplementedError


class Gan(nn.Module):
    """Base of the networks for the task ``generate``, made by ``(config, size, classes)``: pictures of ``size`` rows and
    columns, of so many classes.

    Attributes:
        generator, discriminator: its two networks, each trained by a phase of its own.
        noise: Z.
        every: updates of the discriminator for each of the generator.
        discriminator_settings: fields of the recipe's ``train`` section that differ for the discriminator.
        sites: where the generator attends.
    """

    generator: Generator
    discriminator: Discriminator
    noise: int
    every: int = 1
    discriminator_settings: Mapping[str, Any] = {}
    sites: tuple[Site, ...] = ()

    def forward(
        self, noise: Float[Tensor, "B Z"], labels: Int64[Tensor, " B"], *, lens: Lens | None = None
    ) -> Float[Tensor, "B 3 S S"]:
        """The generator's pictures."""
        pictures: Tensor = self.generator(noise, labels, lens=lens)
        return pictures

    def axes(self, image: Tensor | None = None) -> dict[str, Grid]:
        """The axes of the generator's maps; ``image``, uint8 [S, S, 3], is what they are drawn over."""
        return {}

    def monitored(self) -> dict[str, float]:
        """What the log of a run shows of the network at each evaluation, by name."""
        return {}


def discriminator_loss(real: Float[Tensor, " B"], generated: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
    """The hinge loss per pair of a real and a generated picture, from their scores.

    >>> import torch
    >>> discriminator_loss(torch.tensor([2.0, 0.25]), torch.tensor([-3.0, 0.5])).tolist()
    [0.0, 2.25]
    """
    return functional.relu(1 - real) + functional.relu(1 + generated)


def generator_loss(generated: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
    """−D(G(z, y), y), per generated picture."""
    return -generated
