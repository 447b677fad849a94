"""Reads MNIST's file format: a header of big-endian numbers, then bytes.

    0 0 8 n    the type of the values (8: bytes) and the number n of axes; then n sizes of four bytes; then the values

Files may be gzipped. What the header promises is checked before the values are read, since it may ask for any amount.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import IO, cast

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray

from saccade.data.files.limits import MAX_DATA, max_data, raised
from saccade.errors import InputError
from saccade.storage import regular_file

EXPECTED = "a file in MNIST's format (idx)"
BYTES = 8  # the only type of value that pictures and labels have


def is_idx(name: str) -> bool:
    """Whether a file's name is that of pictures in MNIST's format.

    >>> is_idx("train-images-idx3-ubyte.gz"), is_idx("train-labels-idx1-ubyte.gz")
    (True, False)
    """
    return "images" in name and "idx3" in name


def labels_beside(name: str) -> str:
    """The name of the file with the labels of these pictures.

    >>> labels_beside("t10k-images.idx3-ubyte")
    't10k-labels.idx1-ubyte'
    """
    return name.replace("images", "labels").replace("idx3", "idx1")


def read_idx(path: str | Path, axes: int) -> UInt8[ndarray, "..."]:
    """The values of a file, which must have so many axes."""
    most = max_data()
    with regular_file(path, EXPECTED, most) as (file, _):
        stream = cast(IO[bytes], gzip.GzipFile(fileobj=file) if Path(path).suffix == ".gz" else file)
        try:
            return _read(stream, path, axes, most)
        except (OSError, EOFError, zlib.error) as error:
            found = f"a damaged one: {' '.join(str(error).split())[:100]}"
            raise InputError(path, expected=EXPECTED, found=found) from None


def _read(stream: IO[bytes], path: str | Path, axes: int, most: int) -> UInt8[ndarray, "..."]:
    head = stream.read(4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] != BYTES:
        raise InputError(
            path, expected=f"{EXPECTED} of bytes", found=f"a file that begins with {head.hex(' ') or 'nothing'}"
        )
    if head[3] != axes:
        raise InputError(path, expected=f"{axes} axes", found=str(head[3]))
    header = stream.read(4 * axes)
    sizes = np.frombuffer(header[: len(header) // 4 * 4], ">u4").tolist()
    count = math.prod(sizes) if len(sizes) == axes else 0
    if not count:
        raise InputError(path, expected="values", found=f"none: the sizes are {sizes}")
    if count > most:
        raise InputError(path, expected=f"at most {most:,} bytes", found=f"{count:,}", hint=raised(MAX_DATA, count))
    values = stream.read(count)
    if len(values) < count or stream.read(1):
        found = "more" if len(values) == count else f"{len(values):,}"
        raise InputError(path, expected=f"{count:,} values, as its header says", found=found)
    return np.frombuffer(values, np.uint8).reshape(sizes)
