"""The settings of augmentation and of the features of a backbone, as recipes write them. No torch."""

from __future__ import annotations

from dataclasses import dataclass

from saccade.plugins import is_own

BACKBONES = ("efficientnet_lite0",)  # those that need no folder
Channels = tuple[float, float, float]  # red, green, blue


@dataclass(frozen=True)
class Augment:
    """How training pictures are varied (``data.augment``), each picture of a batch by itself.

    Attributes:
        flip: half of the pictures are mirrored; not for pictures whose captions say left and right.
        shift: they are moved by up to this share of their size, edges repeated.
        colour: brightness, contrast and saturation are scaled by up to this share.
    """

    flip: bool = False
    shift: float = 0.0
    colour: float = 0.0

    def __post_init__(self) -> None:
        for name in ("shift", "colour"):
            if not 0 <= getattr(self, name) <= 0.5:
                raise ValueError(f"{name} must be from 0 to 0.5: got {getattr(self, name)}")

    @property
    def varies(self) -> bool:
        """Whether anything is varied."""
        return self.flip or self.shift > 0 or self.colour > 0


@dataclass(frozen=True)
class Tune:
    """How a backbone is trained with the network that reads its features (``data.features.tune``).

    Attributes:
        lr: its learning rate where that of the network is ``train.lr``: a schedule scales both alike.
    """

    lr: float

    def __post_init__(self) -> None:
        if not 0 < self.lr < float("inf"):
            raise ValueError(f"lr must be positive: got {self.lr}")


@dataclass(frozen=True)
class FeatureConfig:
    """Features of a backbone (``data.features``): of a frozen one they are computed once per picture and kept on disk; one that
    is tuned is part of the network, and nothing is kept.

    Attributes:
        backbone: ``efficientnet_lite0``, a folder with a model of ``transformers``, or ``package.module:Class`` of your own.
        layer: the module whose output is the grid, by its name in the backbone; the backbone's last grid unless given.
        weights: a file of weights that your own class is called with, or of ``efficientnet_lite0`` as safetensors; nothing, or
            those of the installed package, unless given.
        mean, std: of the channels, as shares of 255; as the folder's preprocessor states them, or 0 and 1, unless given.
        cache: the folder in which features are kept; ``~/.cache/saccade/features`` unless given.
        batch: pictures that go through the backbone together: 4 on a CPU, whose caches they fit, and 64 on a GPU unless given.
        tune: train the backbone too; it is frozen unless given.
    """

    backbone: str
    layer: str | None = None
    weights: str | None = None
    mean: Channels | None = None
    std: Channels | None = None
    cache: str | None = None
    batch: int | None = None
    tune: Tune | None = None

    def __post_init__(self) -> None:
        if not self.backbone.strip():
            raise ValueError("backbone must be a folder or package.module:Class: got nothing")
        if self.batch is not None and self.batch < 1:
            raise ValueError(f"batch must be at least 1: got {self.batch}")
        for name in ("cache", "batch"):
            if self.tune is not None and getattr(self, name) is not None:
                raise ValueError(
                    f"{name} must be left out with tune: features that change with every update cannot be kept: got "
                    f"{getattr(self, name)}"
                )
        if self.std is not None and not all(value > 0 for value in self.std):
            raise ValueError(f"std must be above 0: got {list(self.std)}")

    @property
    def names_folder(self) -> bool:
        """Whether the backbone is a model in a folder, whose path may be relative."""
        return names_folder(self.backbone)


def names_folder(backbone: str) -> bool:
    """Whether a backbone's name is that of a folder.

    >>> names_folder("models/resnet"), names_folder("efficientnet_lite0"), names_folder("mine.cnn:Tiny")
    (True, False, False)
    """
    return backbone not in BACKBONES and not is_own(backbone)
