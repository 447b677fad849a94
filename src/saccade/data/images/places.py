"""Finds the pictures that a manifest names: files in folders, members of zip archives, or what a program has in hand.

A picture's digest is its identity: the same picture under two names compares equal, and a folder that has moved holds the same
pictures. It is taken of the file's size and of its first and last 16 KiB, of an uncompressed BMP and of a small file of all of
it, so that a large corpus is not read twice: compressed pictures that share these differ in no pixel.
"""

from __future__ import annotations

import io
import os
import stat
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, ClassVar, Protocol, cast

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray

from saccade.data.files.limits import MAX_RECORD, Total, max_record, raised
from saccade.data.images.pictures import EXPECTED, SUFFIXES, Header, header_of, read_picture
from saccade.errors import InputError
from saccade.storage import read_bytes, regular_file

ENDS = 16 << 10  # bytes from either end of a file that its digest is taken of
DIGEST = 16  # bytes
ZIPS_OPEN = 32


class Origin(Protocol):
    """Where a picture's pixels come from."""

    @property
    def header(self) -> Header | None: ...

    def read(self, name: str) -> UInt8[ndarray, "H W 3"]: ...


@dataclass(frozen=True)
class InFile:
    """A picture that is a file of its own, or a member of a zip archive, and its header once that was read."""

    path: str
    member: str | None = None
    header: Header | None = field(default=None, compare=False)

    def content(self, most: int | None = None) -> bytes:
        """The bytes of the file, of which there may be at most ``most``."""
        most = max_record() if most is None else most
        if self.member is None:
            return read_bytes(self.path, EXPECTED, most=most)
        return _read_member(self.path, self.member, most)

    def read(self, name: str) -> UInt8[ndarray, "H W 3"]:
        return read_picture(self.content(), str(self))

    def __str__(self) -> str:
        return self.path if self.member is None else f"{self.path}: {self.member}"


@dataclass(frozen=True, eq=False)
class InMemory:
    """A picture that a program has handed over: bytes, an array, a PIL image, a tensor."""

    given: Any
    header: Header | None = None  # of bytes

    def read(self, name: str) -> UInt8[ndarray, "H W 3"]:
        return read_picture(self.given, name)


class Drawn(Protocol):
    """What a generated data set describes and draws when it is needed; equal descriptions draw equal pictures."""

    def draw(self) -> UInt8[ndarray, "H W 3"]: ...


@dataclass(frozen=True)
class InScene:
    """A picture that is drawn each time."""

    scene: Drawn
    header: ClassVar[None] = None

    def read(self, name: str) -> UInt8[ndarray, "H W 3"]:
        return self.scene.draw()


@dataclass(frozen=True, order=True)
class Picture:
    """A picture by its digest, and what it is called. Its pixels are read when they are asked for, and are no part of it."""

    digest: str
    name: str = field(default="picture", compare=False)
    origin: InitVar[Origin | None] = None

    def __post_init__(self, origin: Origin | None) -> None:
        object.__setattr__(self, "_origin", origin)

    def __repr__(self) -> str:
        return f"Picture({self.name!r})"

    @property
    def where(self) -> Origin | None:
        """Where its pixels come from; None for a picture that another machine described."""
        found: Origin | None = self.__dict__["_origin"]
        return found

    def read(self) -> UInt8[ndarray, "H W 3"]:
        """The pixels, turned and in RGB."""
        if self.where is None:
            raise InputError(self.name, expected="a picture with its pixels", found="its name alone")
        return self.where.read(self.name)

    @classmethod
    def of_scene(cls, scene: Drawn, name: str = "scene") -> Picture:
        """A picture that is drawn when it is read."""
        return cls(blake2b(repr(scene).encode(), digest_size=DIGEST).hexdigest(), name, InScene(scene))

    @classmethod
    def of_file(cls, path: str | Path, name: str | None = None, *, whole: bool = False) -> Picture:
        """A picture in a file, whose header is read now; ``whole``: its pixels too, so that a truncated one is found now."""
        return check_picture(InFile(str(path)), str(path) if name is None else name, whole=whole)

    @classmethod
    def in_memory(cls, given: Any, where: str) -> Picture:
        """A picture that a program has in hand. A name of a file is one, too."""
        if isinstance(given, Picture):
            return given
        if isinstance(given, str | Path):
            return cls.of_file(given)
        if isinstance(given, bytes | bytearray | memoryview):
            given = bytes(given)
            return cls(_digest(given), where, InMemory(given, header_of(given, where)))
        pixels = read_picture(given, where)
        return cls(pixel_digest(pixels), where, InMemory(pixels))


def pixel_digest(pixels: UInt8[ndarray, "H W 3"]) -> str:
    """The digest of a picture that is no file."""
    shape = "×".join(map(str, pixels.shape)).encode()
    return blake2b(np.ascontiguousarray(pixels).data, digest_size=DIGEST, key=shape).hexdigest()


def _digest(content: bytes) -> str:
    return _digest_of(io.BytesIO(content), len(content))


def _digest_of(file: BinaryIO, size: int) -> str:
    """The digest of a picture's file, which it reads the ends of."""
    file.seek(0)
    start = file.read(ENDS)
    if size <= 2 * ENDS or start.startswith(b"BM"):
        return blake2b(start + file.read(), digest_size=DIGEST).hexdigest()
    digest = blake2b(start, digest_size=DIGEST)
    file.seek(size - ENDS)
    digest.update(file.read(ENDS))
    digest.update(str(size).encode())
    return digest.hexdigest()


def check_picture(origin: InFile, name: str, *, whole: bool) -> Picture:
    """The picture there once its header, or with ``whole`` all of it, has been read; an InputError where it is none."""
    where = str(origin)
    if whole or origin.member is not None:
        header = None
        if origin.member is not None:
            with member_stream(origin.path, origin.member) as stream:  # what is no picture is not unpacked
                header = header_of(stream, where)
        content = origin.content()
        header = header or header_of(content, where)
        if whole:
            read_picture(content, where)
        return Picture(_digest(content), name, replace(origin, header=header))
    with regular_file(origin.path, EXPECTED, most=max_record()) as (file, size):
        header = header_of(file, where)
        return Picture(_digest_of(file, size), name, replace(origin, header=header))


# Zip archives -----------------------------------------------------------------------------------------------------------


@contextmanager
def _reading_zip(path: str | Path) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(path, expected="a zip archive", found="no such file") from None
    except Exception as error:  # zipfile, zlib, lzma and struct each raise their own of a damaged archive
        words = " ".join(str(error).split())[:100]
        raise InputError(path, expected="a whole zip archive", found=f"a damaged one: {words}") from None


@lru_cache(maxsize=ZIPS_OPEN)
def _archive(path: str, changed: int, process: int) -> zipfile.ZipFile:
    """An open archive; another process opens its own, since a forked one would share the position in the file."""
    return zipfile.ZipFile(path)


def _open_zip(path: str) -> zipfile.ZipFile:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise InputError(path, expected="a zip archive", found="a folder, a pipe or a device")
    return _archive(path, status.st_mtime_ns, os.getpid())


@contextmanager
def member_stream(path: str, member: str) -> Iterator[BinaryIO]:
    """A member of a zip archive, unpacked as it is read."""
    with _reading_zip(path), _open_zip(path).open(member) as stream:
        yield cast(BinaryIO, stream)


def _read_member(path: str, member: str, most: int) -> bytes:
    with member_stream(path, member) as stream:
        content = stream.read(most + 1)  # what an archive states of a member's size is not believed
    if len(content) > most:
        expected, hint = f"at most {most:,} bytes", raised(MAX_RECORD, len(content))
        raise InputError(f"{path}: {member}", expected=expected, found="more", hint=hint)
    return content


def members_of(path: str | Path) -> list[str]:
    """The names of the files in a zip archive, without what macOS adds."""
    with _reading_zip(path):
        names = [info.filename for info in _open_zip(str(path)).infolist() if not info.is_dir()]
    Total(path).add(sum(map(len, names)), entries=len(names))
    return [name for name in names if not _hidden(name)]


def _hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(name).parts)


def is_zip(path: str | Path) -> bool:
    """Whether a name is that of a zip archive."""
    return Path(path).suffix.lower() == ".zip"


def is_picture(name: str) -> bool:
    """Whether a file's name is that of a picture.

    >>> is_picture("a/b.JPG"), is_picture("b.txt")
    (True, False)
    """
    return PurePosixPath(name).suffix.lower().removeprefix(".") in SUFFIXES


# Folders ----------------------------------------------------------------------------------------------------------------


def files_in(place: str | Path) -> dict[str, InFile]:
    """Every file of a folder, of the folders below it, or of a zip archive, by its name in it, in the order of the names."""
    place = Path(place)
    if is_zip(place):
        return {name: InFile(str(place), name) for name in sorted(members_of(place))}
    if not place.is_dir():
        found = "a file" if place.exists() else "no such file or folder"
        raise InputError(place, expected="a folder or a zip archive of pictures", found=found)
    total, files = Total(place), {}
    for folder, below, names in os.walk(place):
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in sorted(names):
            file = Path(folder, name)
            if not name.startswith(".") and file.is_file():
                total.add(len(name))
                files[file.relative_to(place).as_posix()] = InFile(str(file))
    return dict(sorted(files.items()))


class Places:
    """The pictures in some folders and zip archives, by the names that a manifest calls them.

    A name is looked for as a path below each of the ``places``; then, in a folder's zip archives; then by its last part with
    any suffix: a manifest that says ``1.jpg`` means ``1.webp`` where that is what there is. An absolute name, and one that
    leads out of the folders by ``..``, is looked for as it is.
    """

    def __init__(self, places: Sequence[str | Path]) -> None:
        self.places = [Path(place) for place in places]
        for place in self.places:
            if not place.exists():
                raise InputError(place, expected="a folder or a zip archive of pictures", found="nothing of that name")
        self._members: dict[str, InFile] | None = None
        self._stems: dict[str, InFile] = {}

    def find(self, name: str) -> InFile | None:
        """Where the picture is that a manifest calls ``name``; None where there is none."""
        if "\0" in name or not name.strip():
            return None
        for place in self.places:
            if not is_zip(place):
                path = Path(os.path.normpath(place / name))
                if _is_file(path):
                    return InFile(str(path))
        if self._members is None:
            self._index()
        members = self._members or {}
        plain = name.replace("\\", "/").removeprefix("./")
        found = members.get(plain) or members.get(PurePosixPath(plain).name)
        return found or self._stems.get(PurePosixPath(plain).stem)

    def _index(self) -> None:
        """Every picture by its name, by its last part and by its stem; of equal ones the first."""
        self._members = {}
        for place in self.places:
            files = files_in(place)
            for name, origin in list(files.items()):
                if is_zip(name) and origin.member is None:
                    files |= {member: InFile(origin.path, member) for member in members_of(origin.path)}
            for name, origin in files.items():
                if is_picture(name):
                    self._members.setdefault(name, origin)
                    self._members.setdefault(PurePosixPath(name).name, origin)
                    self._stems.setdefault(PurePosixPath(name).stem, origin)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long
        return False
