"""The base of networks that classify pictures: pixels → features → logits of labels.

Legend: B batch, S rows and columns of a picture, D width of the features, C labels.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from saccade.trace.axes import Grid
from saccade.trace.lens import Lens, Site


class PictureClassifier(nn.Module):
    """Base of the networks for the task ``classify_images``, made by ``(config, size, classes)``: pictures of ``size`` rows
    and columns, whose values lie between −1 and 1.

    Attributes:
        sites: where it attends.
    """

    sites: tuple[Site, ...] = ()

    def features(self, pictures: Float[Tensor, "B 3 S S"], *, lens: Lens | None = None) -> Float[Tensor, "B D"]:
        """What the logits are computed from; distances between sets of pictures are measured in it."""
        raise NotImplementedError

    def forward(self, pictures: Float[Tensor, "B 3 S S"], *, lens: Lens | None = None) -> Float[Tensor, "B C"]:
        """Logits of the labels."""
        raise NotImplementedError

    def axes(self, image: Tensor | None = None) -> dict[str, Grid]:
        """The axes of the maps that a lens records; ``image``, uint8 [S, S, 3], is what they are drawn over."""
        return {}

    def monitored(self) -> dict[str, float]:
        """What the log of a run shows of the network at each evaluation, by name."""
        return {}
