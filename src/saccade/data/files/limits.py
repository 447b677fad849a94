"""Limits how much is read into memory, since a small compressed file may hold gigabytes. The limits:

    SACCADE_MAX_RECORD    bytes of one record: by default 1 MiB for a line, a row of a table or a sentence of tagged words, and
                          64 MiB for a cell of Parquet or a text that is a file of its own
    SACCADE_MAX_DATA      bytes of one file or folder, unpacked, with 200 more per line, row or text: by default 2 GiB; and
                          unless it is set, at most 50 times what a .gz or .xz file has read of itself
    SACCADE_MAX_PIXELS    pixels of one picture, by default 64M: decoded they take three bytes each
    SACCADE_MAX_SAMPLES   samples of a recording that are decoded at once, by default 256M: decoded they take four bytes each

All are environment variables, since they depend on the machine; values such as 500MB, 8GB, 200M.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import BinaryIO

from saccade.errors import InputError, SaccadeError

MAX_RECORD, MAX_DATA, MAX_PIXELS = "SACCADE_MAX_RECORD", "SACCADE_MAX_DATA", "SACCADE_MAX_PIXELS"
MAX_SAMPLES = "SACCADE_MAX_SAMPLES"
RECORD, DATA, PIXELS, SAMPLES = 64 << 20, 2 << 30, 64 << 20, 256 << 20
ENTRY = 200  # bytes of memory that a record takes beside its text
TIGHT = 50  # times smaller than unpacked: text as a person writes it is not, of which SMALL bytes or more are unpacked
SMALL = 16 << 20
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def max_record(default: int | None = None) -> int:
    """The most bytes of one record; ``default`` is what holds unless the user has set a bound."""
    return _set(MAX_RECORD, RECORD if default is None else default)


def max_data() -> int:
    """The most bytes of one file."""
    return _set(MAX_DATA, DATA)


def max_pixels() -> int:
    """The most pixels of one picture."""
    return _set(MAX_PIXELS, PIXELS)


def max_samples() -> int:
    """The most samples of one recording that are decoded at once."""
    return _set(MAX_SAMPLES, SAMPLES)


def raised(name: str, needed: int) -> str:
    """The hint how to raise a bound to more than ``needed`` bytes."""
    megabytes = max(1, -(-needed * 2 >> 20))
    size = f"{megabytes}MB" if megabytes < 4096 else f"{megabytes >> 10}GB"
    return f"if this is meant and fits into memory, raise the bound: export {name}={size}"


class Total:
    """Counts what is read of a file or folder; an InputError where it is too much.

    Args:
        packed: the compressed bytes that are being read, where the file is compressed.
    """

    def __init__(self, path: str | Path, packed: BinaryIO | None = None) -> None:
        self.path, self.packed, self.bytes, self.most = path, packed, 0, max_data()
        self._unpacked, self._next_check = 0, SMALL

    def add(self, size: int, line: int | None = None, entries: int = 1) -> None:
        """Count a line, a row or a text of ``size`` bytes."""
        self.bytes += size + entries * ENTRY
        if self.bytes > self.most:
            expected = f"at most {self.most:,} bytes, unpacked and with {ENTRY} more per record"
            raise self._too_much(line, expected, found="more")
        self._unpacked += size
        if self._unpacked > self._next_check:
            self._next_check += SMALL
            self._check_ratio(line)

    def _check_ratio(self, line: int | None) -> None:
        if self.packed is None or os.environ.get(MAX_DATA, "").strip():
            return
        packed = self.packed.tell()
        if self._unpacked > TIGHT * packed:
            found = f"{self._unpacked:,} bytes of text in the first {packed:,}"
            raise self._too_much(line, f"at most {TIGHT} times the bytes of the compressed file", found=found)

    def _too_much(self, line: int | None, expected: str, found: str) -> InputError:
        hint = raised(MAX_DATA, self.most)
        return InputError(self.path, line=line, expected=expected, found=found, hint=hint)


def _set(name: str, default: int) -> int:
    given = os.environ.get(name, "").strip()
    if not given:
        return default
    size = re.fullmatch(r"(\d{1,15})\s*([KMGT]?)(?:i?B)?", given, re.IGNORECASE)
    if size is None or not int(size[1]):
        raise SaccadeError(f"{name}: expected a size such as 500MB or 8GB, found {given!r}")
    return int(size[1]) * UNITS[size[2].upper()]
