"""Features of pictures by a frozen backbone, computed once and kept on disk; and a backbone that networks train.

    CACHE/NAME-DIGEST/about.json            the backbone, its layer, how pictures are framed, the size of the grid
    CACHE/NAME-DIGEST/0f3a….safetensors     "features" float16 [N, L, D] of N pictures, whose digests are in the header

The folder's digest is taken of the backbone's weights, its layer and normalisation, and of how pictures are framed; a picture's
is that of its content (:mod:`saccade.data.images.places`). So features are found again under other names, in other runs and
recipes, and never for another picture or backbone. How they are kept is said in :mod:`saccade.data.feature_cache`.

Legend: B batch, L cells of an h × w grid, D width, N pictures of a shard.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float16
from torch import Tensor

from saccade.data.feature_cache import (
    ABOUT,
    Done,
    FeatureShards,
    ShardWriter,
    cache_folder,
    progress_of,
    read_ahead,
)
from saccade.data.images.batch import ImageStore
from saccade.data.images.config import FeatureConfig
from saccade.data.images.pictures import ImageConfig
from saccade.data.images.places import Picture
from saccade.data.paths import locate
from saccade.documents import parse
from saccade.errors import InputError
from saccade.nn.backbones import Backbone, TunedBackbone, backbone_like, load_backbone
from saccade.progress import report
from saccade.storage import write_json

FORMAT = 1
FILE, TUNED = "features.json", "tuned"  # of a bundle; its part about a backbone that was trained
ON_CPU, ON_GPU = 4, 64  # pictures that go through a backbone together; the values of few fit into a CPU's caches


def backbone_of(config: FeatureConfig, folder: Path = Path()) -> Backbone:
    """The backbone that a recipe in ``folder`` names, in evaluation mode."""
    return load_backbone(
        str(locate(config.backbone, folder)) if config.names_folder else config.backbone,
        layer=config.layer,
        weights=None if config.weights is None else locate(config.weights, folder),
        mean=config.mean,
        std=config.std,
    )


def cache_of(config: FeatureConfig, folder: Path = Path()) -> Path:
    """The folder that features are kept in."""
    return cache_folder(config.cache, folder)


def features_of(backbone: Backbone, pixels: Tensor, where: str = "data.features") -> Float16[Tensor, "B L D"]:
    """The features of framed pictures [B, 3, S, S] as the cache gives them back: computed in the backbone's precision, rounded
    to float16."""
    device = next(backbone.parameters(), torch.zeros(())).device
    with torch.inference_mode():
        features: Tensor = backbone(pixels.to(device))
        rounded = features.to("cpu", torch.float16).contiguous()
        if not bool(rounded.isfinite().all()):
            largest = f"{float(features.abs().max()):g}"
            raise InputError(where, expected="features that float16 holds, up to 65,504", found=largest)
    return rounded


class FeatureStore:
    """The features of a corpus' pictures, by their numbers in it; those that the cache lacks are computed when it is made.

    Args:
        pictures: of the corpus; one that occurs several times is computed once.
        image: how pictures are framed.
        backbone: frozen, in evaluation mode; it is moved to ``device`` while features are computed.
        cache: the folder of all caches; see the module.
        batch: pictures that go through the backbone together; ``ON_CPU`` or ``ON_GPU`` unless given.
        device: where features are computed; a GPU where there is one unless given.
        progress: show a bar while they are computed, or call this function.

    Attributes:
        grid: rows, columns and width of the features.
    """

    def __init__(
        self,
        pictures: Sequence[Picture],
        image: ImageConfig,
        backbone: Backbone,
        cache: Path,
        *,
        batch: int | None = None,
        device: torch.device | str | None = None,
        progress: bool | Done = True,
    ) -> None:
        digest = backbone.digest
        self.folder = folder_of(backbone.name, digest, image, cache)
        self.grid = _about(self.folder, backbone, digest, image)
        self._shards = FeatureShards(self.folder, (self.grid[0] * self.grid[1], self.grid[2]), "pictures")
        missing = list({picture.digest: picture for picture in pictures if picture.digest not in self._shards}.values())
        self.computed = len(missing)
        if missing:
            known = len({picture.digest for picture in pictures}) - len(missing)
            chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
            together = batch or (ON_CPU if chosen.type == "cpu" else ON_GPU)
            with progress_of(progress, known + len(missing), "pictures") as done:
                self._compute(missing, image, backbone, chosen, together, done, known)
        places = [self._shards.place(picture.digest) for picture in pictures]
        self._places = np.array(places, np.int64).reshape(-1, 3)

    def __len__(self) -> int:
        return len(self._places)

    def features(self, numbers: Sequence[int]) -> Float16[Tensor, "B L D"]:
        """The features of the pictures with these numbers."""
        places = self._places[list(numbers)].tolist()
        rows = np.empty((len(places), self.grid[0] * self.grid[1], self.grid[2]), np.float16)
        for number, (shard, first, count) in enumerate(places):
            rows[number] = self._shards.rows(shard, first, count)[0]
        return torch.from_numpy(rows)

    def _compute(
        self,
        missing: Sequence[Picture],
        image: ImageConfig,
        backbone: Backbone,
        device: torch.device,
        batch: int,
        done: Done | None,
        known: int,
    ) -> None:
        """Compute and write shards; the next batch is read while the backbone computes."""
        total, (rows, columns, width) = known + len(missing), self.grid
        store = ImageStore(missing, image, held=0)
        starts = range(0, len(missing), batch)
        before = next(backbone.parameters(), torch.zeros(())).device
        backbone.to(device)

        def read(start: int) -> Tensor:
            return store.pixels(range(start, min(start + batch, len(missing))))

        try:
            with _evaluating(backbone), ShardWriter(self._shards, len(missing)) as writer:
                for start, pixels in read_ahead(read, starts):
                    features = features_of(backbone, pixels, f"{missing[start].name} and pictures after it")
                    if features.shape[1:] != (rows * columns, width):
                        expected, found = f"a grid of {self.grid}", f"{list(features.shape[1:])}"
                        raise InputError(backbone.name, field="layer", expected=expected, found=found)
                    digests = [picture.digest for picture in missing[start : start + batch]]
                    writer.add(digests, features, [1] * len(digests))
                    ready = known + start + len(pixels)
                    report(ready / total)  # whoever watches may stop it
                    if done is not None:
                        done(ready, total)
        finally:
            backbone.to(before)


class KeptFeatures:
    """The features that a task's networks read in place of pixels: those of corpora are kept on disk, others computed when they
    are wanted. The backbone is loaded at once, while the trust in the names of a recipe is known.

    Attributes:
        grid: rows, columns and width of the features.
    """

    def __init__(self, config: FeatureConfig, image: ImageConfig) -> None:
        self.config, self.image, self.backbone = config, image, backbone_of(config)
        self.grid, self._digest = self.backbone.grid(image.size), self.backbone.digest
        self._stores: list[tuple[FeatureStore, dict[str, int]]] = []

    @classmethod
    def of(
        cls, config: FeatureConfig | None, image: ImageConfig, files: Mapping[str, str] | None = None
    ) -> Self | None:
        """The features that ``data.features`` describes, if there are any; ``files`` are those of a bundle, whose network was
        trained on the features of the same backbone."""
        if config is None:
            return None
        made = cls(config, image)
        if files is not None:
            stated = parse(files.get(FILE, "null"), FILE)
            if isinstance(stated, dict) and TUNED in stated:
                expected = f"the settings of {config.backbone}, which the run has trained with its network"
                raise InputError("recipe", field="data.features.tune", expected=expected, found="none")
            _check_digest(config, stated, made._stated)
        return made

    def files(self) -> dict[str, str]:
        """What a bundle keeps of the backbone: its digest, and the grid."""
        return {FILE: json.dumps(self._stated)}

    @property
    def _stated(self) -> dict[str, Any]:
        return {"digest": self._digest, "grid": list(self.grid)}

    def store(self, pictures: Sequence[Picture]) -> FeatureStore:
        """The kept features of a corpus' pictures."""
        store = FeatureStore(pictures, self.image, self.backbone, cache_of(self.config), batch=self.config.batch)
        self._stores.append((store, {picture.digest: number for number, picture in enumerate(pictures)}))
        return store

    def features(self, pictures: Sequence[Picture]) -> Float16[Tensor, "B L D"]:
        """The features of any pictures: as they are kept, or computed now and not kept."""
        rows: dict[int, Tensor] = {}
        for number, picture in enumerate(pictures):
            for store, numbers in self._stores:
                if picture.digest in numbers:
                    rows[number] = store.features([numbers[picture.digest]])[0]
                    break
        missing = [number for number in range(len(pictures)) if number not in rows]
        framed = ImageStore(pictures, self.image, held=0)
        for start in range(0, len(missing), ON_CPU):
            part = missing[start : start + ON_CPU]
            rows |= zip(part, features_of(self.backbone, framed.pixels(part)), strict=True)
        return torch.stack([rows[number] for number in range(len(pictures))])


class TunedFeatures:
    """The backbone that a task's networks train with them (``data.features.tune``): nothing is kept, each network has its own.
    It starts from the weights in its folder or package; those of a bundle are in the network, and a folder is not needed.

    Attributes:
        grid: rows, columns and width of the features.
    """

    def __init__(self, make: Callable[[], Backbone], architecture: Any, grid: tuple[int, int, int]) -> None:
        self._make, self._architecture, self.grid = make, architecture, grid

    @classmethod
    def of(cls, config: FeatureConfig, image: ImageConfig, files: Mapping[str, str] | None = None) -> Self:
        """The backbone that ``data.features`` describes. ``files`` are those of a bundle whose network has trained it; where a
        run starts from another, they may be those of one on kept features of the same backbone."""
        stated = None if files is None else parse(files.get(FILE, "null"), FILE)
        named = {"backbone": config.backbone, "layer": config.layer}
        if isinstance(stated, dict) and TUNED in stated:
            tuned = stated[TUNED]
            for field, value in named.items():
                if isinstance(tuned, dict) and tuned.get(field) != value:  # only where a run starts from another
                    expected = f"{str(tuned.get(field))[:200]!r}, which the network was trained with"
                    raise InputError("recipe", field=f"data.features.{field}", expected=expected, found=repr(value))
            how: dict[str, Any] = {"layer": config.layer, "weights": config.weights, "where": FILE}
            return cls(partial(backbone_like, config.backbone, tuned, **how), tuned, _grid_in(stated))
        backbone = backbone_of(config)
        grid = backbone.grid(image.size)
        if files is not None:
            _check_digest(config, stated, {"digest": backbone.digest, "grid": list(grid)})
        return cls(partial(copy.deepcopy, backbone), {**named, **backbone.architecture}, grid)

    def files(self) -> dict[str, str]:
        """What a bundle keeps of the backbone beside its weights."""
        return {FILE: json.dumps({TUNED: self._architecture, "grid": list(self.grid)})}

    def module(self) -> TunedBackbone:
        """The backbone for one network."""
        return TunedBackbone(self._make())


def _check_digest(config: FeatureConfig, stated: Any, found: Mapping[str, Any]) -> None:
    """Raise unless a bundle states the backbone that was found."""
    if stated != found:
        held = isinstance(stated, dict) and "digest" in stated
        digest = str(stated["digest"])[:40] if held else "of which it holds no digest"
        expected = f"the backbone that the network was trained with, {digest}"
        raise InputError(config.backbone, expected=expected, found=f"another one, {found['digest']}")


def _grid_in(stated: Mapping[str, Any]) -> tuple[int, int, int]:
    grid = stated.get("grid")
    if not isinstance(grid, list) or len(grid) != 3 or not all(type(side) is int and side > 0 for side in grid):
        raise InputError(FILE, field="grid", expected="rows, columns and width", found=repr(grid)[:60])
    rows, columns, width = grid
    return rows, columns, width


def folder_of(backbone: str, digest: str, image: ImageConfig, cache: Path) -> Path:
    """The folder in ``cache`` of the backbone of this name and digest, and of one way to frame pictures."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", Path(backbone).name).strip("-.")[:40] or "backbone"
    key = json.dumps([FORMAT, digest, asdict(image)], sort_keys=True)
    return cache / f"{name}-{hashlib.blake2b(key.encode(), digest_size=8).hexdigest()}"


def _about(folder: Path, backbone: Backbone, digest: str, image: ImageConfig) -> tuple[int, int, int]:
    """The grid of the features in a folder; the folder is made, and says what it holds."""
    rows, columns, width = backbone.grid(image.size)
    about = {"backbone": backbone.name, "digest": digest, "layer": backbone.layer, "image": asdict(image),
             "mean": backbone.mean, "std": backbone.std, "grid": [rows, columns, width], "format": FORMAT}  # fmt: skip
    if not (folder / ABOUT).is_file():
        write_json(folder / ABOUT, about)
    return rows, columns, width


@contextmanager
def _evaluating(backbone: Backbone) -> Iterator[None]:
    training = backbone.training
    backbone.eval()
    try:
        yield
    finally:
        backbone.train(training)
