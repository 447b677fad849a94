"""Pictures and sounds as data: addresses, so that a page needs no other file."""

from __future__ import annotations

import base64
import io
import struct
import wave
import zlib
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.views.html.binary import numbers

Array = ndarray[Any, Any]
LONGEST_SIDE = 1024  # pixels; a page shows pictures no larger
LOUDEST = 32767
FASTEST = 2**31 - 1  # samples a second that a WAV can name


def image_address(image: Tensor) -> str | None:
    """A picture, uint8 [rows, columns, 3], as a PNG in a ``data:`` address; large ones are made smaller. None where it
    has no pixels."""
    if image.dtype is not torch.uint8 or image.dim() != 3 or image.shape[2] != 3:
        found = f"{str(image.dtype).removeprefix('torch.')} {list(image.shape)}"
        raise SaccadeError(f"image of a grid: expected uint8 [rows, columns, 3], found {found}")
    if not image.numel():
        return None
    return "data:image/png;base64," + base64.b64encode(png(_smaller(numbers(image)))).decode()


def sound_address(audio: Tensor, rate: int) -> str | None:
    """A sound [samples], between −1 and 1 or in 16-bit steps, as a WAV in a ``data:`` address. None where nobody said
    at what rate it is to be played."""
    if not 0 < rate <= FASTEST:
        return None
    samples = numbers(audio).reshape(-1)
    if samples.dtype.kind == "f":
        samples = np.rint(np.nan_to_num(samples, posinf=1, neginf=-1).clip(-1, 1) * LOUDEST)
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return "data:audio/wav;base64," + base64.b64encode(buffer.getvalue()).decode()


def png(image: Array) -> bytes:
    """A PNG file of a picture, uint8 [rows, columns, 3]: each row unfiltered."""
    height, width = image.shape[:2]
    rows = np.zeros((height, 1 + width * 3), np.uint8)
    rows[:, 1:] = image.reshape(height, width * 3)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in parts
    )


def _smaller(image: Array) -> Array:
    """The picture with its longer side at most ``LONGEST_SIDE``: each pixel the mean of a square."""
    factor = -(-max(image.shape[:2]) // LONGEST_SIDE)
    if factor == 1:
        return image
    # The shorter side of a thin strip may be less than a square: something is left of it all the same.
    down, across = (min(factor, size) for size in image.shape[:2])
    rows, columns = image.shape[0] // down, image.shape[1] // across
    squares = image[: rows * down, : columns * across].reshape(rows, down, columns, across, 3)
    return np.asarray(np.rint(squares.mean((1, 3))), np.uint8)
