"""Features of pictures by a frozen backbone, computed once and kept on disk.

    CACHE/NAME-DIGEST/about.json            the backbone, its layer, how pictures are framed, the size of the grid
    CACHE/NAME-DIGEST/0f3a….safetensors     "features" float16 [N, L, D] of N pictures, whose digests are in the header

The folder's digest is taken of the backbone's weights, its layer and normalisation, and of how pictures are framed; a picture's
is that of its content (:mod:`saccade.data.images.places`). So features are found again under other names, in other runs and
recipes, and never for another picture or backbone. A shard is written whole or not at all: after a kill, only the pictures
since the last shard are computed again. Features are read through a memory map. Neither computing nor reading them needs
memory that grows with the number of pictures, beyond some bytes for each.

Legend: B batch, L cells of an h × w grid, D width, N pictures of a shard.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float16, Float32
from torch import Tensor

from saccade.data.images.batch import ImageStore
from saccade.data.images.config import FeatureConfig
from saccade.data.images.pictures import ImageConfig
from saccade.data.images.places import Picture
from saccade.data.paths import locate
from saccade.errors import InputError
from saccade.nn.backbones import Backbone, load_backbone
from saccade.progress import report
from saccade.storage import save_tensors, stored_header, write_json

CACHE = Path("~/.cache/saccade/features")
ABOUT, SUFFIX, FORMAT = "about.json", ".safetensors", 1
HEX = re.compile("(?:[0-9a-f]{2})+")  # digests of pictures
ON_CPU, ON_GPU = 4, 64  # pictures that go through a backbone together; the values of few fit into a CPU's caches
SHARD_BYTES = 64 << 20  # of features in memory until they are written …
SHARD_SECONDS = 30.0  # … and the time after which they are written anyway
MAPS_OPEN = 256  # shards that are mapped at a time

Done = Callable[[int, int], None]  # pictures with features, pictures in total


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
    return CACHE.expanduser() if config.cache is None else locate(config.cache, folder)


def features_of(backbone: Backbone, pixels: Tensor, where: str = "data.features") -> Float32[Tensor, "B L D"]:
    """The features of framed pictures [B, 3, S, S] as the cache gives them back: computed in the backbone's precision, rounded
    to float16."""
    return _rounded(backbone, pixels, where).float()


def _rounded(backbone: Backbone, pixels: Tensor, where: str) -> Float16[Tensor, "B L D"]:
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
        self._index = _Index(self.folder, (self.grid[0] * self.grid[1], self.grid[2]))
        self._maps: dict[int, np.ndarray] = {}
        missing = list({picture.digest: picture for picture in pictures if picture.digest not in self._index}.values())
        self.computed = len(missing)
        if missing:
            known = len({picture.digest for picture in pictures}) - len(missing)
            chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
            together = batch or (ON_CPU if chosen.type == "cpu" else ON_GPU)
            show = progress if callable(progress) else None
            with _bar(known + len(missing)) if progress is True else nullcontext(show) as done:
                self._compute(missing, image, backbone, chosen, together, done, known)
        self._places = np.array([self._index.place(picture.digest) for picture in pictures], np.int64).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self._places)

    def features(self, numbers: Sequence[int]) -> Float32[Tensor, "B L D"]:
        """The features of the pictures with these numbers."""
        rows = [self._map(int(shard))[row] for shard, row in self._places[list(numbers)]]
        return torch.from_numpy(np.stack(rows).astype(np.float32))

    def _map(self, shard: int) -> np.ndarray:
        found = self._maps.get(shard)
        if found is None:
            if len(self._maps) >= MAPS_OPEN:
                self._maps.pop(next(iter(self._maps)))
            found = self._maps[shard] = self._index.mapped(shard)
        return found

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
        total = known + len(missing)
        store = ImageStore(missing, image, held=0)
        starts = range(0, len(missing), batch)
        parts: list[tuple[list[str], Tensor]] = []
        size, since = 0, time.monotonic()
        before = next(backbone.parameters(), torch.zeros(())).device
        backbone.to(device)
        try:
            with ThreadPoolExecutor(1, "saccade-features") as reader, _evaluating(backbone):

                def read(start: int) -> Tensor:
                    return store.pixels(range(start, min(start + batch, len(missing))))

                ahead = reader.submit(read, 0)
                for start in starts:
                    pixels = ahead.result()
                    if start + batch < len(missing):
                        ahead = reader.submit(read, start + batch)
                    features = _rounded(backbone, pixels, f"{missing[start].name} and pictures after it")
                    if features.shape[1:] != (self.grid[0] * self.grid[1], self.grid[2]):
                        expected, found = f"a grid of {self.grid}", f"{list(features.shape[1:])}"
                        raise InputError(backbone.name, field="layer", expected=expected, found=found)
                    parts.append(([picture.digest for picture in missing[start : start + batch]], features))
                    size += features.nbytes
                    if size >= SHARD_BYTES or time.monotonic() - since > SHARD_SECONDS:
                        self._index.add(parts)
                        parts, size, since = [], 0, time.monotonic()
                    ready = known + start + len(pixels)
                    report(ready / total)  # whoever watches may stop it
                    if done is not None:
                        done(ready, total)
        finally:
            if parts:  # also of an interrupted computation
                self._index.add(parts)
            backbone.to(before)


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


class _Index:
    """Which shard and which row of it has the features of which picture."""

    def __init__(self, folder: Path, shape: tuple[int, int]) -> None:
        self.folder, self.shape = folder, shape
        self._shards: list[Path] = []
        self._offsets: list[tuple[int, int]] = []  # bytes before the features of a shard, and its pictures
        self._rows: dict[bytes, tuple[int, int]] = {}
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            with suppress(InputError):  # a damaged one: its pictures are computed again
                self._enter(path)

    def __contains__(self, digest: str) -> bool:
        return bytes.fromhex(digest) in self._rows

    def place(self, digest: str) -> tuple[int, int]:
        return self._rows[bytes.fromhex(digest)]

    def add(self, parts: Sequence[tuple[list[str], Float16[Tensor, "B L D"]]]) -> None:
        """Write the digests and features of pictures as a shard. Its name is that of its pictures: two processes that compute
        the same write the same."""
        digests = [digest for part, _ in parts for digest in part]
        features = torch.cat([features for _, features in parts])
        name = hashlib.blake2b("".join(digests).encode(), digest_size=8).hexdigest()
        path = self.folder / f"{name}{SUFFIX}"
        save_tensors(path, {"features": features}, {"pictures": digests})
        self._enter(path)

    def mapped(self, shard: int) -> np.ndarray:
        """The features of a shard, which the system reads as they are needed."""
        offset, count = self._offsets[shard]
        try:
            return np.memmap(self._shards[shard], np.float16, "r", offset, (count, *self.shape))
        except (OSError, ValueError) as error:
            path = self._shards[shard]
            raise InputError(path, expected="the features that were here", found=str(error)) from None

    def _enter(self, path: Path) -> None:
        document, tensors, offset = stored_header(path)
        pictures = document.get("pictures") if isinstance(document, dict) else None
        stored = tensors.get("features")
        if not isinstance(pictures, list) or stored is None or len(tensors) != 1:
            raise InputError(path, expected="features of pictures", found="another file")
        if not all(isinstance(digest, str) and HEX.fullmatch(digest) for digest in pictures):
            raise InputError(path, field="pictures", expected="digests", found="something else")
        shape = (len(pictures), *self.shape)
        if stored.dtype != "F16" or tuple(stored.shape) != shape:
            raise InputError(path, expected=f"F16 {list(shape)}", found=f"{stored.dtype} {list(stored.shape)}")
        number = len(self._shards)
        self._shards.append(path)
        self._offsets.append((offset, len(pictures)))
        for row, digest in enumerate(pictures):
            self._rows.setdefault(bytes.fromhex(digest), (number, row))


@contextmanager
def _evaluating(backbone: Backbone) -> Iterator[None]:
    training = backbone.training
    backbone.eval()
    try:
        yield
    finally:
        backbone.train(training)


@contextmanager
def _bar(total: int) -> Iterator[Done]:
    """A progress bar on the terminal, with pictures per second; nothing where there is none."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("features"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task, started, first = bar.add_task("features", total=total, rate=""), time.monotonic(), None

        def done(ready: int, of: int) -> None:
            nonlocal first
            first = ready if first is None else first
            seconds = time.monotonic() - started
            rate = f"{(ready - first) / seconds:.1f} pictures/s" if ready > first else ""
            bar.update(task, completed=ready, total=of, rate=rate)

        yield done
