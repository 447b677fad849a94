"""Sizes of tiles, and ranges cut into pieces."""

from __future__ import annotations

import itertools


def power_of_2(size: int) -> int:
    """The smallest power of two that is at least `size`."""
    return 1 << max(0, size - 1).bit_length()


def ceil_div(size: int, most: int) -> int:
    """The number of pieces of at most `most` that `size` is cut into: ⌈size / most⌉."""
    return -(-size // most)


def slices(start: int, stop: int, most: int) -> list[slice]:
    """Cut a range into the fewest pieces of at most `most`, equal within one, so that none is too short for a call."""
    length = stop - start
    if not length:
        return []
    pieces = ceil_div(length, most)
    edges = [start + length * piece // pieces for piece in range(pieces + 1)]
    return [slice(low, high) for low, high in itertools.pairwise(edges)]
