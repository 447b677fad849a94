"""Writes files atomically, and tensors with a JSON header as one safetensors file. No pickle.

A safetensors file holds named tensors and a string-to-string header; ours has JSON under one key, ``saccade`` (the
order of several keys would be undefined): ``{"crc32": …, "document": …}``. The checksum covers the document and the tensors,
so corruption is detected. JSON is written in ASCII, so any label survives: emoji, right-to-left text, lone surrogates,
``</script>``.
"""

from __future__ import annotations

import json
import os
import re
import struct
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.errors import InputError, SaccadeError

if TYPE_CHECKING:
    from torch import Tensor

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


def read_json(path: str | Path) -> Any:
    """The JSON document in a file; a missing or broken one is an error that names the file and the line."""
    path = Path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(path, expected="a JSON file", found="no such file") from None
    except OSError as error:
        raise InputError(path, expected="a readable file", found=str(error.strerror)) from None
    except UnicodeDecodeError as error:
        raise InputError(path, expected="UTF-8 text", found=f"byte {error.object[error.start]:#04x}") from None
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise InputError(path, expected="valid JSON", found=getattr(error, "msg", str(error)), line=line) from None


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


def load_tensors(path: str | Path) -> tuple[dict[str, Tensor], Any]:
    """What :func:`save_tensors` wrote. A truncated, tampered or foreign file is refused with a clear error."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise InputError(path, expected="a safetensors file", found="a folder" if path.is_dir() else "no such file")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
    except OSError as error:
        raise InputError(path, expected="a readable file", found=error.strerror or str(error)) from None
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError, struct.error) as error:
        raise InputError(path, expected="a whole safetensors file", found=f"a damaged one: {error}") from None
    if HEADER not in metadata:
        raise InputError(path, expected="a file written by saccade", found="a safetensors file without its header")
    try:
        sealed = json.loads(metadata[HEADER])
        fits = sealed["crc32"] == _checksum(tensors, json.dumps(sealed["document"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(path, expected="a JSON header with its checksum", found=repr(error)) from None
    if not fits:
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
