"""Self-attention over a feature map, for any CNN (SAGAN: Zhang, Goodfellow, Metaxas & Odena 2019).

    sᵢⱼ = f(xᵢ)ᵀ g(xⱼ),    βⱼᵢ = softmaxᵢ sᵢⱼ,    oⱼ = v(Σᵢ βⱼᵢ h(xᵢ)),    yⱼ = γ oⱼ + xⱼ

f, g, h and v are 1×1 convolutions and γ is a learned number that starts at 0, so a fresh block is the identity. The dot
products are not scaled.

Legend: B batch, C channels, H height, W width, N = H · W queries, M keys.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from saccade.attention.checks import check_flag, check_given_size, check_one_of, check_size, check_states
from saccade.attention.core import attend
from saccade.attention.scores import dot
from saccade.errors import SaccadeError
from saccade.trace.axes import Grid
from saccade.trace.lens import Lens, Site


class SelfAttention2d(nn.Module):
    """Every position of a feature map attends to every other: y = γ · v(attend(g(x), f(x), h(x))) + x.

    Args:
        channels: C.
        reduced: width of f and g; C / 8 unless given.
        values: width of h; C / 2 unless given, as in the authors' code (their paper says C / 8).
        keys: ``every`` position is a key, as in the paper; or ``pooled``, the authors' code: keys and values are the
            maximum of each 2×2 positions, a quarter of the memory.
        spectral: normalise the four convolutions by their largest singular value (Miyato et al. 2018), as a GAN needs it.
        bias: give the convolutions a bias; neither the paper nor its code does.

    Shapes: x [B, C, H, W] → [B, C, H, W]. The lens records [N, M]: M = N, or ⌊H / 2⌋ · ⌊W / 2⌋ with pooled keys; positions
    are counted row by row, and :meth:`axes` labels them.

    At first only γ has a gradient. Exclude it from weight decay, or the block may never leave 0.

    >>> block, image = SelfAttention2d(16), torch.randn(2, 16, 5, 7)
    >>> bool((block(image) == image).all())
    True
    """

    def __init__(
        self,
        channels: int,
        *,
        reduced: int | None = None,
        values: int | None = None,
        keys: Literal["every", "pooled"] = "every",
        spectral: bool = False,
        bias: bool = False,
    ) -> None:
        super().__init__()
        check_one_of(("every", "pooled"), keys=keys)
        check_size(channels=channels)
        check_given_size(reduced=reduced, values=values)
        check_flag(spectral=spectral, bias=bias)
        reduced, values = reduced or max(1, channels // 8), values or max(1, channels // 2)
        self.channels, self.pooled = channels, keys == "pooled"

        def convolution(inputs: int, outputs: int) -> nn.Module:
            layer = nn.Conv2d(inputs, outputs, 1, bias=bias)
            return spectral_norm(layer) if spectral else layer

        self.query = convolution(channels, reduced)  # g
        self.key = convolution(channels, reduced)  # f
        self.value = convolution(channels, values)  # h
        self.output = convolution(values, channels)  # v
        self.gamma = nn.Parameter(torch.zeros(()))

    def forward(
        self, x: Float[Tensor, "B C H W"], *, lens: Lens | None = None, site: str | Site = "self"
    ) -> Float[Tensor, "B C H W"]:
        if not isinstance(x, Tensor):
            check_states(x=x)
        if x.dim() != 4:
            raise SaccadeError(f"expected a feature map [B, {self.channels}, H, W], found {list(x.shape)}")
        if x.shape[1] != self.channels:
            raise SaccadeError(f"expected a feature map of {self.channels} channels, found {x.shape[1]}")
        if self.pooled and min(x.shape[2:]) < 2:
            raise SaccadeError(f"pooled keys need a map of 2 × 2 at least: got {x.shape[2]} × {x.shape[3]}")
        query, key, value = self.query(x), self.key(x), self.value(x)
        if self.pooled:
            key, value = functional.max_pool2d(key, 2), functional.max_pool2d(value, 2)
        context = attend(
            _places(query), _places(key), _places(value), score=dot, lens=lens, site=site
        )  # [B, N, values]
        change: Tensor = self.output(context.mT.unflatten(2, x.shape[2:]))
        return self.gamma * change + x

    def axes(self, height: int, width: int, site: str | Site = "self", image: Tensor | None = None) -> dict[str, Grid]:
        """The axes of a trace taken at ``site`` of a map of this size: ``trace.labelled(block.axes(16, 16))``.

        ``image`` (uint8 [rows, columns, 3]) is what views draw the weights over.
        """
        below = (height // 2, width // 2) if self.pooled else (height, width)
        named = Site.of(site)
        sizes = {named.query: (height, width), named.key: below}
        return {name: _grid(*size, image) for name, size in sizes.items()}


def _places(features: Float[Tensor, "B C H W"]) -> Float[Tensor, "B N C"]:
    return features.flatten(2).mT


def _grid(height: int, width: int, image: Tensor | None) -> Grid:
    labels = tuple(f"{row},{column}" for row in range(height) for column in range(width))
    return Grid(labels, height=height, width=width, image=image)
