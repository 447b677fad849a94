"""Numbers for a page: little-endian, gzipped, one block an array; the same numbers give the same bytes."""

from __future__ import annotations

import os
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

Array = ndarray[Any, Any]
# The names of types in a page, and what they are in memory.
TYPES = {"f32": "<f4", "u8": "u1", "i32": "<i4"}
HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"  # gzip, deflate, no name, no time, no system
LEVEL = 6
THREADS = min(8, os.cpu_count() or 1)


class Blocks:
    """Gathers the arrays of a page and says where each will be found."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []

    def add(self, array: Array | Tensor, dtype: str) -> dict[str, Any]:
        """Keep an array as ``f32``, ``u8`` or ``i32``; what the header says of it."""
        found = np.ascontiguousarray(numbers(array), TYPES[dtype])
        self.arrays.append(found)
        return {"block": len(self.arrays) - 1, "dtype": dtype, "shape": list(found.shape)}

    def gzipped(self) -> tuple[bytes, ...]:
        """All arrays, compressed. zlib lets other threads run meanwhile."""
        with ThreadPoolExecutor(max_workers=THREADS) as pool:
            return tuple(pool.map(gzip, self.arrays))


def numbers(array: Array | Tensor) -> Array:
    """The array in NumPy's form, whatever device and precision it is of."""
    if not isinstance(array, Tensor):
        return array
    array = array.detach().cpu()
    return np.asarray((array.to(torch.float32) if array.is_floating_point() else array).numpy())


def gzip(array: Array) -> bytes:
    """The array's bytes in a gzip file that carries no date."""
    content = array.reshape(-1).view(np.uint8).data if array.size else b""
    # Rounded weights hardly ever repeat in longer runs than of one byte: looking for more costs time and finds less.
    strategy = zlib.Z_RLE if array.dtype == np.uint8 else zlib.Z_DEFAULT_STRATEGY
    squeeze = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, 9, strategy)
    body = squeeze.compress(content) + squeeze.flush()
    return HEADER + body + struct.pack("<II", zlib.crc32(content), array.nbytes & 0xFFFFFFFF)
