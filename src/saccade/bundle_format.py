"""Saves and loads a trained model: ``config.json``, ``model.safetensors``, the task's files, ``card.md``. No pickle.

``config.json`` has the SHA-256 of every other file and a checksum of itself, so that a truncated or altered bundle is refused
before any of it is used. All files are replaced together: whoever reads a bundle that is being saved gets the old one or the
new one, also after a kill.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.errors import InputError
from saccade.storage import (
    current_file,
    load_tensors,
    read_json,
    read_together,
    replaced_together,
    save_tensors,
    write_json,
    write_text,
)

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
    """Write a bundle; an existing one is replaced as a whole, or stays."""
    with replaced_together(folder, last=CONFIG) as saving:
        save_tensors(saving / WEIGHTS, contents.tensors, {"format": FORMAT, "version": VERSION})
        for name, text in {**contents.files, CARD: contents.card}.items():
            write_text(saving / name, text)
        config = {
            "format": FORMAT,
            "version": VERSION,
            **contents.config,
            "files": {name: _digest((saving / name).read_bytes()) for name in (WEIGHTS, *contents.files)},
        }
        write_json(saving / CONFIG, {**config, "checksum": _checksum(config)})


def holds_bundle(folder: str | Path) -> bool:
    """Whether a folder holds a bundle, by its ``config.json``."""
    return current_file(folder, CONFIG).is_file()


def load_bundle(folder: str | Path) -> Contents:
    """Read a bundle; raises, naming the file, if anything is missing, damaged or altered."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(folder, expected="a run's folder", found="a file" if folder.exists() else "no such folder")
    if not holds_bundle(folder):
        raise InputError(folder, expected=f"a trained model ({CONFIG}, {WEIGHTS})", found=f"no {CONFIG}")
    return read_together(folder, CONFIG, lambda: _read_bundle(folder))


def _read_bundle(folder: Path) -> Contents:
    config = read_config(folder)
    if not isinstance(config.get("files"), dict):
        found = type(config.get("files")).__name__
        raise InputError(folder / CONFIG, field="files", expected="names and checksums", found=found)
    for name, digest in config["files"].items():
        _check_file(folder, name, digest)
    tensors, _ = load_tensors(current_file(folder, WEIGHTS))
    files = {
        name: current_file(folder, name).read_text(encoding="utf-8") for name in config["files"] if name != WEIGHTS
    }
    card = current_file(folder, CARD)
    return Contents(config, tensors, files, card.read_text(encoding="utf-8") if card.is_file() else "")


def read_config(folder: Path) -> dict[str, Any]:
    """A bundle's checked ``config.json``."""
    path = folder / CONFIG
    config = read_together(folder, CONFIG, lambda: read_json(current_file(folder, CONFIG)))
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
    path = current_file(folder, name)
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
