"""Reads the lines of a text file, plain, gzipped or xz'd, in bounded memory, whatever the file holds.

A plain file is read up to the size it has when it is opened; a last line that this cuts through is a fault. A line of more than
LINE_LIMIT bytes is a fault too, and is skipped without being held in memory. The bounds of :mod:`saccade.data.files.limits`
hold; they raise LINE_LIMIT where the user has set one.
"""

from __future__ import annotations

import codecs
import gzip
import lzma
import os
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from saccade.data.files.limits import MAX_RECORD, Total, max_record, raised
from saccade.data.files.records import GROWING, LONG, NOT_UTF8, NUL, Fault, fault
from saccade.errors import InputError

Encoding = str  # a name that Python knows; it must extend ASCII, since lines are split as bytes

LINE_LIMIT = 1 << 20  # bytes: more than this in one line is a wrong file, not a sentence
SKIP_LIMIT = 64 << 20  # bytes of an over-long line that are skipped in search of its end
CHUNK = 1 << 16
OPENERS: dict[str, Callable[[BinaryIO], object]] = {".gz": gzip.open, ".xz": lzma.open}
BROKEN = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
SIGNATURES = {  # first bytes of files that are not text
    b"\x1f\x8b": "gzip data: its name should end in .gz",
    b"\xfd7zXZ": "xz data: its name should end in .xz",
    b"\xff\xfe": "UTF-16: save it as UTF-8",
    b"\xfe\xff": "UTF-16: save it as UTF-8",
    b"PK\x03\x04": "a zip archive or a spreadsheet: save it as TSV or CSV",
    b"PAR1": "Parquet: its name should end in .parquet",
}
SPECIAL = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}


class Line(NamedTuple):
    """A line with its end. Where it has a fault, ``text`` is what could be decoded of it."""

    number: int
    text: str
    fault: Fault | None


@cache
def codec_of(encoding: Encoding) -> str:
    """The name that all aliases of an encoding share; a ValueError where lines cannot be read in it.

    >>> codec_of("cp1252") == codec_of("windows-1252"), codec_of("UTF8")
    (True, 'utf-8')
    """
    try:
        name = codecs.lookup(encoding).name.removesuffix("-sig")
        if "a\n".encode(name) == b"a\n":
            return name
    except (LookupError, UnicodeError, ValueError):
        pass
    known = "utf-8, latin-1, windows-1252, cp1251, shift_jis or another that extends ASCII"
    raise ValueError(f"encoding must be {known}: got {encoding!r} (iconv converts files to UTF-8)")


def text_lines(path: Path) -> Iterator[str]:
    """The lines of a text file with their ends; the first fault is raised."""
    for line in lines_of(path):
        if line.fault is not None:
            raise line.fault.error
        yield line.text


def lines_of(
    path: Path, encoding: Encoding = "utf-8", *, longest: int | None = None, bounded: bool = True
) -> Iterator[Line]:
    """The lines of a text file with their ends and their faults. They have at most ``longest`` bytes: the user's bound, else
    LINE_LIMIT. The whole file is ``bounded`` unless the caller keeps little of it."""
    number, encoding = 0, codec_of(encoding)
    longest = longest or max_record(LINE_LIMIT)
    with _opened(path) as (file, packed):
        total, left = Total(path, packed), _size(file, path)
        while raw := _line(file, left, path, number + 1, longest):
            number += 1
            left = None if left is None else left - len(raw)
            if bounded:
                total.add(len(raw), number)
            if len(raw) > longest:
                expected, hint = f"lines of at most {longest:,} bytes", raised(MAX_RECORD, longest)
                yield Line(number, "", fault(number, LONG, path, expected=expected, found="a longer one", hint=hint))
                left = _skip(file, raw, left, path, number, longest)
            elif left == 0 and raw[-1] != 0x0A and _size(file, path) != file.tell():
                expected, found = "a whole last line", "one that is still being written"
                hint = "the file grew while it was read"
                yield Line(number, "", fault(number, GROWING, path, expected=expected, found=found, hint=hint))
            else:
                yield _decoded(raw, path, number, encoding)
        if left:
            expected, found = "a file that does not change while it is read", f"{left:,} bytes fewer at its end"
            raise InputError(path, line=number + 1, expected=expected, found=found)


def parallel_lines(paths: Sequence[Path], encoding: Encoding = "utf-8") -> Iterator[tuple[Line, ...]]:
    """Line i of every file, together; an InputError where one file ends before the others."""
    for number, lines in enumerate(zip_longest(*(lines_of(path, encoding) for path in paths)), start=1):
        if None in lines:
            shorter = paths[lines.index(None)]
            others = " and ".join(path.name for path, line in zip(paths, lines, strict=True) if line is not None)
            found = f"the end after {number - 1:,} lines"
            raise InputError(shorter, line=number, expected=f"as many lines as in {others}", found=found)
        yield lines


def _line(file: BinaryIO, left: int | None, path: Path, number: int, longest: int) -> bytes:
    try:
        return file.readline(longest + 1 if left is None else min(longest + 1, left))
    except BROKEN as error:
        raise _damaged(path, error, number) from error


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file's bytes, decompressed; errors of the system or of the compression become an InputError."""
    with _opened(path) as (file, _):
        yield file


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO | None]]:
    """A file's bytes, decompressed, and the compressed bytes that they are read from."""
    try:
        _check(path)
        opener = OPENERS.get(path.suffix.lower())
        with path.open("rb") as file:
            if opener is None:
                yield file, None
            else:
                with cast(BinaryIO, opener(file)) as unpacked:
                    yield unpacked, file
    except BROKEN as error:
        raise _damaged(path, error) from error
    except OSError as error:
        raise InputError(path, expected="a file that can be read", found=error.strerror or str(error)) from error


def _damaged(path: Path, error: Exception, line: int | None = None) -> InputError:
    found = f"truncated or damaged data ({error})"
    return InputError(path, line=line, expected=f"whole {path.suffix.removeprefix('.')} data", found=found)


def check_exists(path: Path) -> None:
    if not path.exists():
        raise InputError(path, expected="a file", found="nothing of that name", hint=_nearby(path))


def _check(path: Path) -> None:
    check_exists(path)
    if path.is_dir():
        raise InputError(path, expected="a file", found="a folder")
    special = SPECIAL.get(stat.S_IFMT(path.stat().st_mode))
    if special is not None:
        hint = "data are read more than once: write them to a file first"
        raise InputError(path, expected="a file", found=special, hint=hint)


def _nearby(path: Path) -> str:
    """Files of similar names in the folder of a missing file."""
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    close = get_close_matches(path.name, sorted(entry.name for entry in path.parent.iterdir()), n=3)
    return f"did you mean {' or '.join(close)}?" if close else f"the folder {path.parent} has no similar name"


def unpacked(path: Path) -> Path:
    """A file's name without .gz or .xz, whose suffix tells the format: pairs.tsv.gz → pairs.tsv."""
    return path.with_suffix("") if path.suffix.lower() in OPENERS else path


def _size(file: BinaryIO, path: Path) -> int | None:
    """The size of a plain file now; None for a compressed one, whose content's size is not known."""
    return None if path.suffix.lower() in OPENERS else os.fstat(file.fileno()).st_size


def _skip(file: BinaryIO, raw: bytes, left: int | None, path: Path, number: int, longest: int) -> int | None:
    """Skip the rest of an over-long line."""
    skipped = 0
    while raw and raw[-1] != 0x0A and left != 0:
        raw = file.readline(CHUNK if left is None else min(CHUNK, left))
        skipped += len(raw)
        left = None if left is None else left - len(raw)
        if skipped > SKIP_LIMIT:
            expected = f"lines of at most {longest:,} bytes"
            found, hint = f"one that does not end within {SKIP_LIMIT:,}", raised(MAX_RECORD, skipped)
            raise InputError(path, line=number, expected=expected, found=found, hint=hint)
    return left


def _decoded(raw: bytes, path: Path, number: int, encoding: Encoding) -> Line:
    try:
        text = raw.decode("utf-8-sig" if encoding == "utf-8" and number == 1 else encoding)
    except UnicodeDecodeError as error:
        # error.object is what was decoded: without the byte order mark, where there was one
        offset = error.start + len(raw) - len(error.object)
        reason, found = NOT_UTF8, f"the byte 0x{raw[offset]:02x} at offset {offset} of the line"
    else:
        if "\0" not in text:
            return Line(number, text, None)
        reason, found = NUL, f"a NUL byte at offset {raw.index(0)} of the line"
    kinds = [kind for signature, kind in SIGNATURES.items() if number == 1 and raw.startswith(signature)]
    hint = f"this looks like {kinds[0]}" if kinds else None
    guessed = encoding == "utf-8" and reason == NOT_UTF8 and hint is None
    if guessed and raw[offset : offset + 1].decode("cp1252", errors="replace").isalpha():
        hint = f"Windows-1252 or Latin-1? iconv -f WINDOWS-1252 -t UTF-8 {path.name} > NEW makes it UTF-8"
    expected = "UTF-8 text" if encoding == "utf-8" else f"{encoding} text"
    broken = fault(number, reason, path, expected=expected, found=found, hint=hint)
    if kinds:
        raise broken.error  # nothing that follows can be text
    return Line(number, raw.decode("utf-8", errors="replace").replace("\0", "\ufffd"), broken)


def without_end(text: str) -> str:
    """A line without the characters that end it."""
    return text.removesuffix("\n").removesuffix("\r")


def suffix_of(path: str | Path) -> str:
    """A file's suffix without its dot, in lower case, .gz and .xz left out: pairs.TSV.gz → tsv."""
    return unpacked(Path(path)).suffix.lower().removeprefix(".")
