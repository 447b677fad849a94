"""Writes files atomically, one or several together, locks them, and saves tensors with a JSON header. No pickle.

A safetensors file holds named tensors and a string-to-string header; ours has JSON under one key, ``saccade`` (the
order of several keys would be undefined): ``{"crc32": …, "document": …}``. The checksum covers the document and the tensors,
so corruption is detected. JSON is written in ASCII, so any label survives: emoji, right-to-left text, lone surrogates,
``</script>``.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import socket
import stat
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from saccade.documents import Count, checked, parse, quote
from saccade.errors import InputError, SaccadeError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from torch import Tensor

Result = TypeVar("Result")

HEADER = "saccade"


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file atomically: on failure the old file stays."""

    def write(partial: Path) -> None:
        with open(partial, "wb") as file:
            file.write(content)

    _replace(Path(path), write, size=len(content))


def _replace(path: Path, write: Callable[[Path], None], *, size: int) -> None:
    """Write a temporary file beside it, fsync, rename: a reader sees the old file or the new one, never a part."""
    if not path.name:
        raise SaccadeError(f"{path}: expected the name of a file to write, found a folder")
    # The process id keeps two writers of one file apart.
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(partial)
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SaccadeError(
            f"{path}: could not write {size:,} bytes: {reason}; an existing file is unchanged"
        ) from error
    finally:
        with suppress(OSError, ValueError):
            partial.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    write_bytes(path, text.encode("utf-8", errors="surrogatepass"))


def write_json(path: str | Path, document: Any) -> None:
    text = json.dumps(document, indent=2, ensure_ascii=False)
    # UTF-8 has no lone surrogates; JSON's escapes do.
    text = re.sub("[\ud800-\udfff]", lambda lone: f"\\u{ord(lone[0]):04x}", text)
    write_text(path, text + "\n")


MOST_JSON = 64 * 2**20  # bytes; a document takes up to some twenty times as much memory as its text


@contextmanager
def regular_file(path: str | Path, expected: str = "a file", most: int = MOST_JSON) -> Iterator[tuple[BinaryIO, int]]:
    """A regular file of at most ``most`` bytes, opened, and its size, which is checked first: it may be sparse, or a pipe."""
    path = Path(path)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            found = "a folder" if stat.S_ISDIR(status.st_mode) else "a device or a pipe"
            raise InputError(path, expected="a readable file", found=found)
        if status.st_size > most:
            raise InputError(path, expected=f"at most {most:,} bytes", found=f"{status.st_size:,}")
        with open(path, "rb") as file:
            yield file, status.st_size
    except FileNotFoundError:
        raise InputError(path, expected=expected, found="no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise InputError(
            path, expected="a readable file", found=getattr(error, "strerror", None) or str(error)
        ) from None


def read_bytes(path: str | Path, expected: str = "a file", most: int = MOST_JSON) -> bytes:
    """The content of a regular file of at most ``most`` bytes, which is checked first: it may be sparse, or a pipe."""
    with regular_file(path, expected, most) as (file, _):
        return file.read()


def decoded(content: bytes, where: str | Path) -> str:
    """The text of a file's content."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(where, expected="UTF-8 text", found=f"byte {content[error.start]:#04x}") from None


def read_json(path: str | Path) -> Any:
    """The JSON document in a file; a missing or broken one is an error that names the file and the line."""
    return parse(decoded(read_bytes(path, "a JSON file"), path), path)


# ----------------------------------------------------------------------------------------------------
# Several files that are replaced together.
#
# The new files are written to the folder SAVING, which is renamed to NEXT once they are complete: from then on they are the
# files. Then they are moved up one by one, the last one (which the others are checked against) at the end. A process that is
# killed leaves the old files, or the new ones in two places; readers look in both, and the next save moves the rest.

SAVING, NEXT = ".saving", ".next"
ATTEMPTS = 100  # to read files that another process replaces meanwhile


@contextmanager
def replaced_together(folder: str | Path, *, last: str) -> Iterator[Path]:
    """Replace several files of a folder atomically: the block writes them, ``last`` among them, into the folder it is given.

    Readers find them by :func:`current_file`, and read several of them by :func:`read_together`.
    """
    folder = Path(folder)
    saving = folder / SAVING
    try:
        _move_up(folder, last)  # what a killed process left
        shutil.rmtree(saving, ignore_errors=True)
        saving.mkdir(parents=True)
        yield saving
        os.rename(saving, folder / NEXT)
        _move_up(folder, last)
    except OSError as error:
        raise SaccadeError(
            f"{folder}: could not save: {error.strerror or error}; what was saved before is intact"
        ) from error
    finally:
        shutil.rmtree(saving, ignore_errors=True)


def _move_up(folder: Path, last: str) -> None:
    if not (folder / NEXT).is_dir():
        return
    for name in sorted(os.listdir(folder / NEXT), key=lambda name: name == last):
        os.replace(folder / NEXT / name, folder / name)
    os.rmdir(folder / NEXT)


def current_file(folder: str | Path, name: str) -> Path:
    """The path of a file that :func:`replaced_together` wrote; if a process was killed, it may still be in the new folder."""
    path = Path(folder) / NEXT / name
    return path if path.is_file() else Path(folder) / name


def read_together(folder: str | Path, last: str, read: Callable[[], Result]) -> Result:
    """What ``read`` returns of files that :func:`replaced_together` wrote; read again if they were replaced meanwhile."""
    folder, failed = Path(folder), None
    for attempt in range(ATTEMPTS):
        before = _version(folder, last)
        try:
            result = read()
        except (SaccadeError, OSError):
            # Once more for the same version: a file may have moved while it was opened, with the last one still to come.
            if (before == failed and _version(folder, last) == before) or attempt == ATTEMPTS - 1:
                raise
            failed = before
        else:
            if _version(folder, last) == before:
                return result
    raise SaccadeError(f"{folder}: expected files that are not being written, found them replaced repeatedly")


def _version(folder: Path, last: str) -> tuple[Any, ...]:
    """Differs before and after any file was replaced or moved up."""
    waiting: list[str] = []
    with suppress(OSError):
        waiting = sorted(os.listdir(folder / NEXT))
    for path in (folder / NEXT / last, folder / last):
        with suppress(OSError):
            stat = path.stat()
            return waiting, stat.st_ino, stat.st_mtime_ns
    return (waiting,)


# ----------------------------------------------------------------------------------------------------
# Locks. The operating system releases a lock when the process that holds it ends, however it ends.

TRIES, PAUSE = 20, 0.01  # a process that only looks whether a lock is held may hold it for a moment


class InUse(InputError):
    """Another process holds the lock on a file."""


@contextmanager
def locked(path: Path, *, where: Path, expected: str) -> Iterator[None]:
    """Hold the lock file ``path``; if another process holds it, raise :class:`InUse`, which names that process.

    The file stays. Where the system or the file system has no locks, nothing is locked.
    """
    with _locked_file(path, where, expected) as file:
        holder = {"process": os.getpid(), "host": socket.gethostname(), "at": now()}
        with suppress(OSError):  # a full disk: the lock holds without a name
            file.truncate(0)
            file.write(json.dumps(holder).encode())
            file.flush()
        try:
            yield
        finally:
            with suppress(OSError):
                file.truncate(0)


def _locked_file(path: Path, where: Path, expected: str) -> BinaryIO:
    """The lock file, opened and locked."""
    for _ in range(TRIES):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = open(path, "a+b")  # noqa: SIM115 (the caller closes it)
        except OSError as error:
            raise SaccadeError(f"{path}: could not write: {error.strerror}") from error
        if not _lock(file):
            with file:
                raise InUse(
                    where,
                    expected=expected,
                    found=f"{_holder(file)}, which holds its lock",
                    hint="wait for it or stop it",
                )
        with suppress(
            OSError
        ):  # its last holder may have removed it meanwhile: then a third process would lock another file
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                return file
        file.close()
    raise InUse(where, expected=expected, found="one that others begin and end all the time", hint="try again")


def lock_holder(path: Path) -> str | None:
    """The process that holds a lock file, in words; None if no process does. Raises OSError where that cannot be known."""
    with open(path, "rb") as file:
        if fcntl is None:
            raise OSError(f"{path}: this system has no file locks")
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _holder(file)
    return None


def _lock(file: BinaryIO) -> bool:
    """Whether the lock was taken."""
    for _ in range(TRIES if fcntl is not None else 0):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(PAUSE)
        except OSError:  # a file system without locks
            return True
        else:
            return True
    return fcntl is None


def _holder(file: BinaryIO) -> str:
    for _ in range(TRIES):
        with suppress(OSError, ValueError, KeyError, TypeError):
            file.seek(0)
            holder = json.loads(file.read())
            return f"process {holder['process']} on {holder['host']}, since {holder['at']},"
        time.sleep(PAUSE)  # it was taken just now
    return "another process"


def now() -> str:
    """The current time with its UTC offset: ``2026-01-31T17:05:09+01:00``."""
    return datetime.now().astimezone().isoformat(timespec="seconds")


def save_tensors(path: str | Path, tensors: Mapping[str, Tensor], header: Any) -> None:
    """Named tensors and a JSON document in one safetensors file, bit for bit."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    # safetensors refuses tensors that share memory; each is stored in full.
    whole = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    try:
        text = json.dumps(header)
    except (TypeError, ValueError) as error:
        raise SaccadeError(
            f"{path}: expected a header of plain data (text, numbers, lists, dictionaries): {error}"
        ) from None
    sealed = f'{{"crc32": "{_checksum(whole, text)}", "document": {text}}}'

    def write(partial: Path) -> None:
        partial.touch()
        usual = partial.stat().st_mode  # safetensors makes the file readable by its owner only
        try:
            save_file(whole, partial, metadata={HEADER: sealed})  # straight to disk, without a copy in memory
            partial.chmod(usual)
        except SafetensorError as error:  # e.g. no space left, or a read-only folder
            reason = re.search(r"I/O error: (.*?) \(os error", str(error))
            raise OSError(reason[1] if reason else str(error)) from error

    _replace(Path(path), write, size=sum(tensor.nbytes for tensor in whole.values()))


MOST_HEADER = 32 * 2**20  # bytes of a safetensors file's header
BLOCK = 512  # bytes, as systems count them
SPARSE = 1000  # times as large as what is written of it; a file system that compresses saves less on weights
LARGE = 4 * 2**30  # bytes; of smaller files a system may not have counted the blocks yet
SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}  # bytes


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as the header of its file describes it."""

    dtype: str
    shape: tuple[Count, ...]
    data_offsets: tuple[Count, Count]


def stored_tensors(path: str | Path) -> dict[str, StoredTensor]:
    """The tensors that a safetensors file holds, by its header, which must fit the size of the file. None of them is read."""
    return _header(Path(path))[0]


def stored_header(path: str | Path) -> tuple[Any, dict[str, StoredTensor], int]:
    """The JSON document and the tensors of a file that :func:`save_tensors` wrote, and the byte at which these begin, for a
    memory map. None of them is read, so the checksum is not checked."""
    path = Path(path)
    tensors, metadata = _header(path)
    sealed = parse(metadata.get(HEADER, "null"), path)
    if not isinstance(sealed, dict) or "document" not in sealed:
        raise InputError(path, expected="a file written by saccade", found="a safetensors file without its header")
    return (
        sealed["document"],
        tensors,
        path.stat().st_size - max((t.data_offsets[1] for t in tensors.values()), default=0),
    )


def _header(path: Path) -> tuple[dict[str, StoredTensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file."""
    if not path.is_file():
        found = "a folder" if path.is_dir() else "a device or a pipe" if path.exists() else "no such file"
        raise InputError(path, expected="a safetensors file", found=found)
    expected = "a whole safetensors file"
    try:
        status = path.stat()
        size, written = status.st_size, BLOCK * getattr(status, "st_blocks", status.st_size)
        if size > LARGE and size > SPARSE * max(written, BLOCK):  # reading gigabytes of nothing takes minutes
            raise InputError(path, expected=expected, found=f"{written:,} bytes that take {size:,}")
        with open(path, "rb") as file:
            start = file.read(8)
            length = int.from_bytes(start, "little")
            if len(start) < 8 or length > min(size - 8, MOST_HEADER):
                raise InputError(
                    path, expected=expected, found="a damaged one: its header is longer than the file or 32 MB"
                )
            document = parse(file.read(length).decode("utf-8"), path)
    except OSError as error:
        raise InputError(path, expected="a readable file", found=error.strerror or str(error)) from None
    except ValueError as error:
        raise InputError(path, expected=expected, found=f"a damaged one: {error}") from None
    if not isinstance(document, dict):
        raise InputError(path, expected=expected, found="another document in its header")
    metadata = checked(dict[str, str], document.pop("__metadata__", {}), path, "__metadata__")
    tensors = checked(dict[str, StoredTensor], document, path)
    end = 0
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1].data_offsets):
        if tensor.dtype not in SIZES:
            raise InputError(path, field=name, expected=f"one of {', '.join(SIZES)}", found=quote(tensor.dtype))
        if tensor.data_offsets != (end, end := end + math.prod(tensor.shape) * SIZES[tensor.dtype]):
            raise InputError(path, field=name, expected=expected, found="a damaged one: sizes that do not fit")
    if end != size - 8 - length:
        found = f"a damaged one: {end:,} bytes of tensors by its header, {size - 8 - length:,} in it"
        raise InputError(path, expected=expected, found=found)
    return tensors, metadata


def load_tensors(path: str | Path, *, most: int | None = None) -> tuple[dict[str, Tensor], Any]:
    """What :func:`save_tensors` wrote. A truncated, tampered or foreign file, or one of more than ``most`` bytes, is refused
    with a clear error before its tensors are read."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    stored, metadata = _header(path)
    if most is not None and path.stat().st_size > most:
        raise InputError(path, expected=f"at most {most:,} bytes", found=f"{path.stat().st_size:,}")
    if HEADER not in metadata:
        raise InputError(path, expected="a file written by saccade", found="a safetensors file without its header")
    sealed = parse(metadata[HEADER], path)
    if not isinstance(sealed, dict) or not isinstance(sealed.get("crc32"), str) or "document" not in sealed:
        raise InputError(path, expected="a JSON header with its checksum", found="another document")
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in stored}
    except OSError as error:
        raise InputError(path, expected="a readable file", found=error.strerror or str(error)) from None
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError, MemoryError) as error:
        raise InputError(path, expected="a whole safetensors file", found=f"a damaged one: {error}") from None
    if sealed["crc32"] != _checksum(tensors, json.dumps(sealed["document"])):
        raise InputError(path, expected="a whole safetensors file", found="a damaged one: its checksum does not fit")
    return tensors, sealed["document"]


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same bit for bit: NaN is NaN, and 0 is not -0."""
    alike = one.dtype == other.dtype and one.shape == other.shape
    return alike and bool((_bytes(one) == _bytes(other)).all())


def _bytes(tensor: Tensor) -> Tensor:
    import torch

    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def _checksum(tensors: Mapping[str, Tensor], text: str) -> str:
    checksum = zlib.crc32(text.encode())
    for name, tensor in sorted(tensors.items()):
        checksum = zlib.crc32(f"{name} {tensor.dtype} {list(tensor.shape)}".encode(), checksum)
        checksum = zlib.crc32(_bytes(tensor).numpy().data, checksum)
    return f"{checksum:08x}"
