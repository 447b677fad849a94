"""Pictures as tensors, read when a batch needs them, and batches of them with captions or labels.

Legend: B batch, S pixels across and down, T target positions, L cells of a feature grid, D width.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor
from torch.nn import functional

from saccade.data.batching import TensorBatch, closed_and_opened, extended, rounded
from saccade.data.images.config import Augment
from saccade.data.images.pictures import Framing, ImageConfig, fit_picture
from saccade.data.images.places import Picture
from saccade.errors import SaccadeError

IGNORED = -100  # the label of a row that is padding
HELD = 512 << 20  # bytes of framed pictures that a store keeps
READERS = 4  # threads; decoding releases the interpreter's lock


class ImageStore:
    """The framed pictures of a corpus, by their numbers in it. They are read when they are asked for; the first ones stay in
    memory, up to ``held`` bytes, so that its peak does not grow with the number of pictures."""

    def __init__(self, pictures: Sequence[Picture], config: ImageConfig, *, held: int = HELD) -> None:
        self.pictures, self.config = pictures, config
        self._room = held // (3 * config.size**2)
        self._kept: dict[int, tuple[np.ndarray, Framing]] = {}
        self._writing = threading.Lock()
        self._readers: ThreadPoolExecutor | None = None
        self._process = os.getpid()

    def __len__(self) -> int:
        return len(self.pictures)

    def pixels(self, numbers: Sequence[int]) -> UInt8[Tensor, "B 3 S S"]:
        """The pictures with these numbers."""
        missing = [number for number in dict.fromkeys(numbers) if number not in self._kept]
        # Several large ones at once would take gigabytes.
        alone = missing if len(missing) == 1 else [number for number in missing if self._is_large(number)]
        read = {number: self._framed(number) for number in alone}
        rest = [number for number in missing if number not in read]
        readers = min(READERS, os.cpu_count() or 1)
        framed = self._pool(readers).map(self._framed, rest) if readers > 1 and rest else map(self._framed, rest)
        read |= zip(rest, framed, strict=True)
        stacked = np.stack([(read.get(number) or self._kept[number])[0] for number in numbers])
        return torch.from_numpy(stacked).permute(0, 3, 1, 2).contiguous()

    def framing(self, number: int) -> Framing:
        """Where the frame of a picture lies on its original."""
        return self._framed(number)[1]

    def _is_large(self, number: int) -> bool:
        origin = self.pictures[number].where
        return origin is not None and origin.header is not None and origin.header.is_large

    def _framed(self, number: int) -> tuple[np.ndarray, Framing]:
        kept = self._kept.get(number)
        if kept is None:
            kept = fit_picture(self.pictures[number].read(), self.config)
            with self._writing:
                if len(self._kept) < self._room:
                    self._kept[number] = kept
        return kept

    def _pool(self, readers: int) -> ThreadPoolExecutor:
        if self._readers is None or self._process != os.getpid():  # threads do not survive a fork
            self._readers, self._process = ThreadPoolExecutor(readers, "saccade-pictures"), os.getpid()
        return self._readers


def pixels_of(pictures: Sequence[np.ndarray], config: ImageConfig) -> tuple[UInt8[Tensor, "B 3 S S"], list[Framing]]:
    """Pictures [H, W, 3] of any sizes as one tensor, and where each frame lies on its original."""
    framed = [fit_picture(picture, config) for picture in pictures]
    stacked = np.stack([pixels for pixels, _ in framed])
    return torch.from_numpy(stacked).permute(0, 3, 1, 2).contiguous(), [framing for _, framing in framed]


def scaled(pixels: UInt8[Tensor, "B 3 S S"]) -> Float[Tensor, "B 3 S S"]:
    """Pixels from 0 to 255 as values from −1 to 1."""
    return pixels.float() / 127.5 - 1


def augmented(pictures: Float[Tensor, "B 3 S S"], augment: Augment) -> Float[Tensor, "B 3 S S"]:
    """Pictures of values from −1 to 1, each varied by itself. Random numbers come from PyTorch's global generators, whose state
    is part of a checkpoint: a resumed run varies them as it would have."""
    B, _, S, _ = pictures.shape
    device = pictures.device

    def drawn(least: float, most: float) -> Float[Tensor, "B 1 1 1"]:
        return least + (most - least) * torch.rand(B, 1, 1, 1, device=device)

    places = torch.arange(S, device=device)
    rows, columns = places.expand(B, S), places.expand(B, S)
    if augment.flip:
        columns = torch.where(torch.rand(B, 1, device=device) < 0.5, columns.flip(1), columns)
    if augment.shift:
        most = round(augment.shift * S)
        down, across = (torch.randint(-most, most + 1, (B, 1), device=device) for _ in range(2))
        rows, columns = (rows + down).clamp(0, S - 1), (columns + across).clamp(0, S - 1)
    picture = torch.arange(B, device=device)[:, None, None]
    varied = pictures.permute(0, 2, 3, 1)[picture, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    if augment.colour:
        least, most_colour = 1 - augment.colour, 1 + augment.colour
        varied = (varied + 1) * drawn(least, most_colour) - 1  # brightness: black stays black
        middle = varied.mean((1, 2, 3), keepdim=True)
        varied = middle + (varied - middle) * drawn(least, most_colour)  # contrast
        grey = varied.mean(1, keepdim=True)
        varied = (grey + (varied - grey) * drawn(least, most_colour)).clamp(-1, 1)  # saturation
    return varied


@dataclass(frozen=True)
class CaptionBatch(TensorBatch):
    """Pictures, or their features, with a caption each. The decoder reads ``target_in`` and is trained to predict
    ``target_out``, one step ahead."""

    source: UInt8[Tensor, "B 3 S S"] | Float[Tensor, "B L D"]
    target_in: Int64[Tensor, "B T"]  # <bos> tokens <pad> …
    target_out: Int64[Tensor, "B T"]  # tokens <eos> <pad> …
    target_lengths: Int64[Tensor, " B"]  # <eos> counted
    indices: list[int]  # positions of the rows in their corpus
    tokens: int  # real target tokens, <eos> counted: known on the host

    def bucketed(self) -> CaptionBatch:
        """The same batch in one of few shapes: rows of length 1 without a target below, padding on the right."""
        B, T = self.target_in.shape
        rows, right = rounded(B, 8) - B, rounded(T, 2) - T
        return replace(
            self,
            source=with_rows(self.source, rows),
            target_in=extended(self.target_in, rows, right),
            target_out=extended(self.target_out, rows, right),
            target_lengths=functional.pad(self.target_lengths, (0, rows), value=1),
        )


def with_rows(table: Tensor, rows: int) -> Tensor:
    """The table with so many rows of zeros below."""
    return torch.cat([table, table.new_zeros(rows, *table.shape[1:])]) if rows else table


def collate_captions(source: Tensor, captions: Sequence[Sequence[int]], indices: Sequence[int]) -> CaptionBatch:
    """The batch of these sources and the ids of their captions, padded, with <bos> before or <eos> after them."""
    if not captions or not len(captions) == len(indices) == len(source):
        counts = f"{len(source)} pictures, {len(captions)} captions, {len(indices)} indices"
        raise SaccadeError(f"a batch needs a caption and an index for each picture: got {counts}")
    (target_out, target_in), lengths = closed_and_opened(captions)
    return CaptionBatch(
        source=source,
        target_in=torch.from_numpy(target_in),
        target_out=torch.from_numpy(target_out),
        target_lengths=torch.from_numpy(lengths),
        indices=list(indices),
        tokens=int(lengths.sum()),
    )


@dataclass(frozen=True)
class ImageBatch(TensorBatch):
    """Pictures and the numbers of their labels."""

    pixels: UInt8[Tensor, "B 3 S S"]
    labels: Int64[Tensor, " B"]
    indices: list[int]  # positions of the records in their corpus
    tokens: int  # records, the units of the loss: known on the host

    def bucketed(self) -> ImageBatch:
        """The same batch with one of few numbers of rows: those below have no label, and no weight."""
        rows = rounded(len(self.labels), 8) - len(self.labels)
        labels = functional.pad(self.labels, (0, rows), value=IGNORED)
        return replace(self, pixels=with_rows(self.pixels, rows), labels=labels)


def collate_images(pixels: Tensor, labels: Sequence[int], indices: Sequence[int]) -> ImageBatch:
    """The batch of these pictures and labels."""
    if not len(pixels) == len(labels) == len(indices):
        counts = f"{len(pixels)} pictures, {len(labels)} labels, {len(indices)} indices"
        raise SaccadeError(f"a batch needs a label and an index for each picture: got {counts}")
    return ImageBatch(pixels, torch.tensor(list(labels), dtype=torch.int64), list(indices), len(labels))
