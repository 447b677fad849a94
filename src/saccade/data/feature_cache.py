"""Keeps computed features on disk, each computed once: shards of float16, found by the digest of what they were computed of.

    FOLDER/about.json            what the features were computed by
    FOLDER/0f3a….safetensors     "features" float16 [R, …]: the rows of all items of a shard, one after the other; the header
                                 has the items' digests, and their numbers of rows where these differ from 1

A shard is written whole or not at all: after a kill, only the items since the last shard are computed again. Features are read
through a memory map. Neither computing nor reading them needs memory that grows with the number of items, beyond some bytes
for each.

Legend: R rows, of one item or of a shard.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import torch
from jaxtyping import Float16
from numpy import ndarray
from torch import Tensor

from saccade.data.paths import locate
from saccade.errors import InputError
from saccade.storage import save_tensors, stored_header

CACHE = Path("~/.cache/saccade/features")
ABOUT, SUFFIX = "about.json", ".safetensors"
HEX = re.compile("(?:[0-9a-f]{2})+")  # digests of items
SHARD_BYTES = 32 << 20  # of features in memory until they are written …
SHARD_SECONDS = 30.0  # … and the time after which they are written anyway
MAPS_OPEN = 256  # shards that are mapped at a time

Done = Callable[[int, int], None]  # items with features, items in total
T = TypeVar("T")
R = TypeVar("R")


def cache_folder(cache: str | None, folder: Path = Path()) -> Path:
    """The folder that features are kept in, as a recipe in ``folder`` names it."""
    return CACHE.expanduser() if cache is None else locate(cache, folder)


class FeatureShards:
    """Which rows of which shard of a folder are the features of which item.

    Args:
        folder: that of one way to compute features.
        shape: of one row.
        items: what the header of a shard calls its items.
    """

    def __init__(self, folder: Path, shape: tuple[int, ...], items: str) -> None:
        self.folder, self.shape, self.items = folder, shape, items
        self._shards: list[Path] = []
        self._offsets: list[tuple[int, int]] = []  # bytes before the features of a shard, and its rows
        self._places: dict[bytes, tuple[int, int, int]] = {}
        self._maps: dict[int, ndarray] = {}
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            with suppress(InputError):  # a damaged one: its items are computed again
                self._enter(path)

    def __contains__(self, digest: str) -> bool:
        return bytes.fromhex(digest) in self._places

    def place(self, digest: str) -> tuple[int, int, int]:
        """The shard of an item, its first row there, and its number of rows."""
        return self._places[bytes.fromhex(digest)]

    def rows(self, shard: int, first: int, count: int) -> Float16[ndarray, "R ..."]:
        """Rows of a shard, which the system reads as they are needed."""
        found = self._maps.get(shard)
        if found is None:
            if len(self._maps) >= MAPS_OPEN:
                self._maps.pop(next(iter(self._maps)))
            found = self._maps[shard] = self._mapped(shard)
        return found[first : first + count]

    def add(self, digests: Sequence[str], features: Float16[Tensor, "R ..."], counts: Sequence[int]) -> None:
        """Write a shard. Its name is that of its items: two processes that compute the same write the same."""
        name = hashlib.blake2b("".join(digests).encode(), digest_size=8).hexdigest()
        path = self.folder / f"{name}{SUFFIX}"
        rows = {} if all(count == 1 for count in counts) else {"rows": list(counts)}
        save_tensors(path, {"features": features}, {self.items: list(digests), **rows})
        self._enter(path)

    def _mapped(self, shard: int) -> ndarray:
        offset, count = self._offsets[shard]
        try:
            found: ndarray = np.memmap(self._shards[shard], np.float16, "r", offset, (count, *self.shape))
            return found.view(np.ndarray)  # a row of a memmap takes twice as long to read
        except (OSError, ValueError) as error:
            path = self._shards[shard]
            raise InputError(path, expected="the features that were here", found=str(error)) from None

    def _enter(self, path: Path) -> None:
        document, tensors, offset = stored_header(path)
        digests = document.get(self.items) if isinstance(document, dict) else None
        stored = tensors.get("features")
        if not isinstance(digests, list) or stored is None or len(tensors) != 1:
            raise InputError(path, expected=f"features of {self.items}", found="another file")
        if not all(isinstance(digest, str) and HEX.fullmatch(digest) for digest in digests):
            raise InputError(path, field=self.items, expected="digests", found="something else")
        counts = document.get("rows", [1] * len(digests))
        if (
            not isinstance(counts, list)
            or len(counts) != len(digests)
            or not all(type(c) is int and c > 0 for c in counts)
        ):
            raise InputError(path, field="rows", expected=f"{len(digests)} numbers of rows", found="something else")
        shape = (sum(counts), *self.shape)
        if stored.dtype != "F16" or tuple(stored.shape) != shape:
            raise InputError(path, expected=f"F16 {list(shape)}", found=f"{stored.dtype} {list(stored.shape)}")
        number = len(self._shards)
        self._shards.append(path)
        self._offsets.append((offset, shape[0]))
        first = 0
        for digest, count in zip(digests, counts, strict=True):
            self._places.setdefault(bytes.fromhex(digest), (number, first, count))
            first += count


class ShardWriter:
    """Collects features and writes a shard when enough are there, some time has passed, or it is left, also by an error."""

    def __init__(self, shards: FeatureShards, most: int) -> None:
        """``most``: rows that all items together will have, or a guess."""
        self._room = max(1, SHARD_BYTES // (2 * int(np.prod(shards.shape))))
        # One buffer: small tensors that live until a shard is written would leave holes all over the heap.
        self._buffer = torch.empty(max(1, min(self._room, most)), *shards.shape, dtype=torch.float16)
        self._shards, self._digests, self._counts = shards, list[str](), list[int]()
        self._filled, self._since = 0, time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._write()

    def add(self, digests: Sequence[str], features: Float16[Tensor, "R ..."], counts: Sequence[int]) -> None:
        """The features of some items, ``counts`` rows of each."""
        if self._filled + len(features) > len(self._buffer):
            self._write()
        if len(features) > len(self._buffer):
            self._buffer = torch.empty(features.shape, dtype=torch.float16)
        self._buffer[self._filled : self._filled + len(features)] = features
        self._filled += len(features)
        self._digests += digests
        self._counts += counts
        full = self._filled + len(features) > self._room  # for as many again
        if full or time.monotonic() - self._since > SHARD_SECONDS:
            self._write()

    def _write(self) -> None:
        if self._digests:
            self._shards.add(self._digests, self._buffer[: self._filled], self._counts)
        self._digests, self._counts, self._filled, self._since = [], [], 0, time.monotonic()


def read_ahead(read: Callable[[T], R], parts: Iterable[T]) -> Iterator[tuple[T, R]]:
    """What ``read`` returns of each part; the next one is read in a thread meanwhile."""
    with ThreadPoolExecutor(1, "saccade-features") as reader:
        waiting = None
        for part in parts:
            ahead = (part, reader.submit(read, part))
            if waiting is not None:
                yield waiting[0], waiting[1].result()
            waiting = ahead
        if waiting is not None:
            yield waiting[0], waiting[1].result()


@contextmanager
def progress_of(progress: bool | Done, total: int, unit: str) -> Iterator[Done | None]:
    """A bar on the terminal, or the caller's own function."""
    if callable(progress):
        yield progress
        return
    with _bar(total, unit) if progress else nullcontext() as done:
        yield done


@contextmanager
def _bar(total: int, unit: str) -> Iterator[Done]:
    """A progress bar on the terminal, with items per second; nothing where there is none."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns: tuple[Any, ...] = (
        TextColumn("features"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
    )  # fmt: skip
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task, started, first = bar.add_task("features", total=total, rate=""), time.monotonic(), None

        def done(ready: int, of: int) -> None:
            nonlocal first
            first = ready if first is None else first
            seconds = time.monotonic() - started
            rate = f"{(ready - first) / seconds:.1f} {unit}/s" if ready > first else ""
            bar.update(task, completed=ready, total=of, rate=rate)

        yield done
