"""Reads frames that were computed elsewhere: a .npy file per recording, or one archive (.npz, .safetensors) of all. No torch.

    frames/0017.npy            [L, D]
    corpus.npz                 one array [L, D] per recording, by its name; or "feats" [ΣL, D] and "offsets" [N + 1], whose
                               i-th recording is that of the manifest's i-th row
    corpus.safetensors         one tensor [L, D] per recording, by its name

A .npy file and a .safetensors archive are mapped into memory; an .npz archive, which is compressed, is read by recording, or
once where it holds all recordings in one array.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from saccade.data.audio.recordings import DIGEST, DamagedRecording, digest_of_file
from saccade.data.files.limits import max_data
from saccade.errors import InputError
from saccade.storage import stored_tensors

EXPECTED = "frames [L, D] of numbers (.npy)"
ARCHIVES = ("npz", "safetensors")
MOST_WIDTH = 4096
MAGIC = (b"\x93NUMPY", b"PK")  # how a .npy file and an .npz archive begin


@dataclass(frozen=True, order=True)
class GivenFrames:
    """The frames of a recording by their digest, and what they are called; they are read when they are asked for."""

    digest: str
    name: str = field(default="frames", compare=False)
    origin: InitVar[Any] = None  # an array, a file, or an archive
    key: InitVar[Any] = None
    shape: InitVar[tuple[int, int]] = (0, 0)

    def __post_init__(self, origin: Any, key: Any, shape: tuple[int, int]) -> None:
        object.__setattr__(self, "_place", (origin, key, shape))

    def __repr__(self) -> str:
        return f"GivenFrames({self.name!r})"

    @property
    def count(self) -> int:
        """How many frames."""
        return int(self.__dict__["_place"][2][0])

    @property
    def width(self) -> int:
        """The values of a frame."""
        return int(self.__dict__["_place"][2][1])

    def read(self) -> Float32[ndarray, "L D"]:
        """The frames."""
        origin, key, shape = self.__dict__["_place"]
        if origin is None:
            raise InputError(self.name, expected="frames", found="their name alone")
        values = origin if isinstance(origin, ndarray) else origin.array(key)
        if values.shape != shape:
            raise InputError(
                self.name, expected=f"the {list(shape)} values that were here", found=f"{list(values.shape)}"
            )
        with np.errstate(over="ignore"):
            frames = np.asarray(values, np.float32)
        if not np.isfinite(frames).all():
            row = int((~np.isfinite(frames)).any(axis=1).argmax())
            raise DamagedRecording(self.name, expected="finite numbers", found=f"{frames[row].min():g} in frame {row}")
        return frames

    @classmethod
    def of_file(cls, path: Path, name: str) -> GivenFrames:
        """The frames in a .npy file, whose header is read now."""
        file = NumpyFile(path)
        return cls(digest_of_file(path), name, file, None, _shape(file.array(None), path))

    @classmethod
    def in_memory(cls, given: Any, where: str) -> GivenFrames:
        """Frames that a program has in hand, or the name of a .npy file."""
        if isinstance(given, GivenFrames):
            return given
        if isinstance(given, str | Path):
            return cls.of_file(Path(given), str(given))
        if isinstance(given, bytes):
            given = _of_bytes(given, where)
        if hasattr(given, "detach"):
            given = given.detach().cpu().float().numpy()
        if not isinstance(given, ndarray | list | tuple):
            raise InputError(where, expected="a .npy file or an array [L, D]", found=f"a {type(given).__name__}")
        try:
            values = np.asarray(given)
        except ValueError as error:
            raise InputError(where, expected="an array [L, D]", found=f"no array: {error}"[:100]) from None
        shape = _shape(values, where)
        key = f"{shape} {values.dtype}".encode()
        digest = blake2b(np.ascontiguousarray(values).data, digest_size=DIGEST, key=key).hexdigest()
        return cls(digest, where, values, None, shape)


def _shape(values: ndarray, where: str | Path) -> tuple[int, int]:
    if (
        values.ndim != 2
        or values.dtype.kind not in "fiu"
        or not values.shape[0]
        or not 1 <= values.shape[1] <= MOST_WIDTH
    ):
        found = f"{values.dtype} {list(values.shape)}"
        raise InputError(where, expected=f"{EXPECTED[: -len(' (.npy)')]}, D at most {MOST_WIDTH:,}", found=found)
    return int(values.shape[0]), int(values.shape[1])


def _check_magic(start: bytes, where: str | Path) -> None:
    """Raise on other files: of these NumPy says that they hold pickled objects."""
    if not start.startswith(MAGIC):
        hint = "data.features.kind: given reads frames, not recordings"
        raise InputError(where, expected=EXPECTED, found="another kind of file", hint=hint)


def _of_bytes(content: bytes, where: str) -> ndarray:
    _check_magic(content, where)
    try:
        values: ndarray = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception as error:  # numpy raises many kinds on a damaged file
        raise InputError(
            where, expected=EXPECTED, found=f"a damaged file: {' '.join(str(error).split())[:80]}"
        ) from None
    return values


@dataclass(frozen=True)
class NumpyFile:
    """An array in a file, mapped into memory."""

    path: Path

    def array(self, key: Any) -> ndarray:
        if not self.path.is_file():
            raise InputError(
                self.path, expected="a .npy file", found="a folder" if self.path.is_dir() else "no such file"
            )
        with self.path.open("rb") as file:
            _check_magic(file.read(8), self.path)
        try:
            found: ndarray = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except Exception as error:  # numpy raises many kinds on a damaged file
            words = " ".join(str(error).split())[:80]
            raise DamagedRecording(self.path, expected=EXPECTED, found=f"a damaged file: {words}") from None
        if not isinstance(found, ndarray):
            found.close()
            hint = "data.features.archive names an archive"
            raise InputError(self.path, expected=EXPECTED, found="an archive of several arrays", hint=hint)
        return found


class Archive:
    """The frames of all recordings in one file."""

    def __init__(self, path: Path) -> None:
        self.path, self.digest = path, digest_of_file(path)
        self.offsets: ndarray | None = None
        self._rows: ndarray | None = None
        suffix = path.suffix.lower().removeprefix(".")
        if suffix == "safetensors":
            stored = {name: tensor.shape for name, tensor in stored_tensors(path).items()}
            self.shapes: Mapping[str, tuple[int, ...]] = {name: tuple(shape) for name, shape in stored.items()}
        elif suffix == "npz":
            self.shapes = self._npz_shapes()
        else:
            raise InputError(
                path, field="data.features.archive", expected=".npz or .safetensors", found=repr(path.name)
            )
        if "offsets" in self.shapes and "feats" in self.shapes:
            self._check_offsets()

    def __len__(self) -> int:
        return len(self.shapes) if self.offsets is None else len(self.offsets) - 1

    @property
    def in_order(self) -> bool:
        """Whether recordings are those of the manifest's rows, rather than named."""
        return self.offsets is not None

    def frames(self, key: Any, name: str) -> GivenFrames:
        """The frames of a recording: of its name, or of its row, counted from 0."""
        where = f"{self.path}: {name}"
        if self.offsets is not None:
            if not 0 <= key < len(self):
                raise InputError(where, expected=f"one of {len(self):,} recordings", found=f"the {key + 1:,}th row")
            shape = (int(self.offsets[key + 1] - self.offsets[key]), self.shapes["feats"][1])
        else:
            if key not in self.shapes:
                raise InputError(where, expected=f"one of its {len(self):,} arrays", found=f"no {str(key)[:60]!r}")
            shape = self.shapes[key]  # type: ignore[assignment]
        if len(shape) != 2 or not shape[0] or not 1 <= shape[1] <= MOST_WIDTH:
            raise InputError(where, expected="frames [L, D]", found=f"the shape {list(shape)}")
        digest = blake2b(f"{self.digest} {key}".encode(), digest_size=DIGEST).hexdigest()
        return GivenFrames(digest, name, self, key, (shape[0], shape[1]))

    def array(self, key: Any) -> ndarray:
        """The values of a recording."""
        if self.offsets is None:
            return self._stored(key)
        if self._rows is None:
            self._rows = self._stored("feats")
        return self._rows[self.offsets[key] : self.offsets[key + 1]]

    def _stored(self, name: str) -> ndarray:
        try:
            if self.path.suffix.lower() == ".npz":
                with np.load(self.path, allow_pickle=False) as archive:
                    found: ndarray = archive[name]
            else:
                found = _safetensors(self.path, name)
        except Exception as error:  # zipfile, zlib, numpy and safetensors each raise their own of a damaged file
            words = " ".join(str(error).split())[:80]
            raise DamagedRecording(
                self.path, field=name, expected="an array", found=f"a damaged one: {words}"
            ) from None
        return found

    def _npz_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the arrays, by their headers; an archive may state to unpack to more than there is room for."""
        shapes: dict[str, tuple[int, ...]] = {}
        try:
            with zipfile.ZipFile(self.path) as archive:
                for info in archive.infolist():
                    name = info.filename.removesuffix(".npy")
                    with archive.open(info) as member:
                        version = np.lib.format.read_magic(member)
                        read = (
                            np.lib.format.read_array_header_1_0
                            if version == (1, 0)
                            else np.lib.format.read_array_header_2_0
                        )
                        shape, _, dtype = read(member)
                    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
                    if max(size, info.file_size) > max_data() or size > info.file_size:
                        expected = f"at most {min(max_data(), info.file_size):,} bytes"
                        raise InputError(self.path, field=name, expected=expected, found=f"{size:,}")
                    if dtype.kind not in "fiu":
                        raise InputError(self.path, field=name, expected="numbers", found=str(dtype))
                    shapes[name] = shape
        except InputError:
            raise
        except Exception as error:  # zipfile, zlib and numpy each raise their own of a damaged file
            words = " ".join(str(error).split())[:80]
            raise InputError(self.path, expected="an .npz archive", found=f"a damaged one: {words}") from None
        return shapes

    def _check_offsets(self) -> None:
        offsets = self._stored("offsets")
        rows = self.shapes["feats"]
        if offsets.ndim != 1 or len(offsets) < 2 or offsets.dtype.kind not in "iu" or len(rows) != 2:
            raise InputError(self.path, expected='"feats" [ΣL, D] and "offsets" [N + 1]', found="other shapes")
        offsets = offsets.astype(np.int64)
        if offsets[0] != 0 or offsets[-1] != rows[0] or (np.diff(offsets) < 1).any():
            found = f"{offsets[0]} to {offsets[-1]:,} for {rows[0]:,} rows, or one without a row"
            raise InputError(
                self.path, field="offsets", expected="growing numbers from 0 to the rows of feats", found=found
            )
        self.offsets = offsets


def _safetensors(path: Path, name: str) -> ndarray:
    import torch
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        tensor = file.get_tensor(name)
    found: ndarray = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return found


@lru_cache(maxsize=8)
def _archive(path: str, changed: int) -> Archive:
    return Archive(Path(path))


def archive_of(path: Path) -> Archive:
    """An archive, whose splits may be read one after the other."""
    if not path.is_file():
        found = "a folder" if path.is_dir() else "no such file"
        raise InputError(path, field="data.features.archive", expected=".npz or .safetensors", found=found)
    return _archive(str(path), path.stat().st_mtime_ns)
