"""Saves and loads a trained model: ``config.json``, ``model.safetensors``, the task's files, ``card.md``. No pickle.

``config.json`` has the SHA-256 of every other file and a checksum of itself, so that a truncated or altered bundle is refused
before any of it is used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.errors import InputError
from saccade.storage import load_tensors, read_json, save_tensors, write_json, write_text

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "saccade-bundle"
VERSION = 1
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "card.md"


@dataclass(frozen=True)
class Contents:
    """A bundle: ``config`` is plain data, ``tensors`` the network's state, ``files`` the task's files by name."""

    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    files: Mapping[str, str]
    card: str = ""


def save_bundle(folder: str | Path, contents: Contents) -> None:
    """Write a bundle; ``config.json`` comes last, so that a half-written bundle is refused."""
    folder = Path(folder)
    save_tensors(folder / WEIGHTS, contents.tensors, {"format": FORMAT, "version": VERSION})
    for name, text in {**contents.files, CARD: contents.card}.items():
        write_text(folder / name, text)
    names = [WEIGHTS, *contents.files]
    config = {
        "format": FORMAT,
        "version": VERSION,
        **contents.config,
        "files": {name: _digest((folder / name).read_bytes()) for name in names},
    }
    write_json(folder / CONFIG, {**config, "checksum": _checksum(config)})


def load_bundle(folder: str | Path) -> Contents:
    """Read a bundle; raises, naming the file, if anything is missing, damaged or altered."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(folder, expected="a run's folder", found="a file" if folder.exists() else "no such folder")
    if not (folder / CONFIG).is_file():
        raise InputError(folder, expected=f"a trained model ({CONFIG}, {WEIGHTS})", found=f"no {CONFIG}")
    config = read_config(folder)
    if not isinstance(config.get("files"), dict):
        found = type(config.get("files")).__name__
        raise InputError(folder / CONFIG, field="files", expected="names and checksums", found=found)
    for name, digest in config["files"].items():
        _check_file(folder, name, digest)
    tensors, _ = load_tensors(folder / WEIGHTS)
    files = {name: (folder / name).read_text(encoding="utf-8") for name in config["files"] if name != WEIGHTS}
    card = folder / CARD
    return Contents(config, tensors, files, card.read_text(encoding="utf-8") if card.is_file() else "")


def read_config(folder: Path) -> dict[str, Any]:
    """A bundle's checked ``config.json``."""
    path = folder / CONFIG
    config = read_json(path)
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise InputError(path, expected="the config of a saccade bundle", found="another JSON document")
    if config.get("version") != VERSION:
        raise InputError(path, expected=f"a bundle of version {VERSION}", found=f"version {config.get('version')!r}")
    stated = config.pop("checksum", None)
    if stated != _checksum(config):
        raise InputError(path, expected="an unaltered config", found="one that does not match its checksum")
    return config


def _check_file(folder: Path, name: str, digest: str) -> None:
    if Path(name).name != name:
        raise InputError(folder / CONFIG, field="files", expected="names of files beside it", found=repr(name))
    path = folder / name
    if not path.is_file():
        raise InputError(path, expected="a file of the bundle", found="no such file")
    content = path.read_bytes()
    if _digest(content) != digest:
        raise InputError(
            path, expected=f"SHA-256 {digest[:12]}…", found=f"{_digest(content)[:12]}… (truncated or altered)"
        )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _checksum(config: Mapping[str, Any]) -> str:
    return _digest(json.dumps(config, sort_keys=True).encode())
