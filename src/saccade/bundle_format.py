"""Saves and loads a trained model: ``config.json``, ``model.safetensors``, the task's files, ``card.md``. No pickle.

``config.json`` has the SHA-256 of every other file and a checksum of itself, so that a truncated or altered bundle is refused
before any of it is used. All files are replaced together: whoever reads a bundle that is being saved gets the old one or the
new one, also after a kill.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.documents import Count, checked, quote
from saccade.errors import InputError
from saccade.storage import (
    StoredTensor,
    current_file,
    decoded,
    load_tensors,
    read_bytes,
    read_json,
    read_together,
    replaced_together,
    save_tensors,
    stored_tensors,
    write_json,
    write_text,
)

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "saccade-bundle"
VERSION = 1
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "card.md"
SMALL = 2**30  # bytes


@dataclass(frozen=True)
class Contents:
    """A bundle: ``config`` is plain data, ``tensors`` the network's state, ``files`` the task's files by name."""

    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    files: Mapping[str, str]
    card: str = ""


Check = Callable[[Contents, Mapping[str, StoredTensor]], None]


@dataclass(frozen=True)
class Figures:
    """What a run reached, as ``config.json`` and ``metrics.json`` hold it."""

    valid: dict[str, float | None] = field(default_factory=dict)
    test: dict[str, float | None] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    epoch: int | None = None
    updates: Count | None = None
    tokens: Count | None = None
    seconds: float | None = None
    vectors: str = ""
    averaged: tuple[int, ...] = ()
    taken: tuple[str, ...] = ()
    anew: tuple[str, ...] = ()
    frozen_anew: tuple[str, ...] = ()


@dataclass(frozen=True)
class Config:
    """The schema of ``config.json``; the recipe in it is checked by its own."""

    files: dict[str, str]
    name: str = ""
    folder: str = ""
    recipe: dict[str, Any] = field(default_factory=dict)
    figures: Figures = field(default_factory=Figures)
    parameters: Count = 0
    threads: int = 1


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
    # Both places: a file may move from one to the other after it was looked up.
    return current_file(folder, CONFIG).is_file() or (Path(folder) / CONFIG).is_file()


def load_bundle(folder: str | Path, check: Check | None = None) -> Contents:
    """Read a bundle; raises, naming the file, if anything is missing, damaged or altered.

    ``check`` gets all but the tensors, and what the file of weights says of these, before they are read: it may raise.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(folder, expected="a run's folder", found="a file" if folder.exists() else "no such folder")
    if not holds_bundle(folder):
        raise InputError(folder, expected=f"a trained model ({CONFIG}, {WEIGHTS})", found=f"no {CONFIG}")
    return read_together(folder, CONFIG, lambda: _read_bundle(folder, check))


def _read_bundle(folder: Path, check: Check | None) -> Contents:
    config = read_config(folder)
    files = {name: _read_file(folder, name, digest) for name, digest in config["files"].items() if name != WEIGHTS}
    card = current_file(folder, CARD)
    text = decoded(read_bytes(card), card) if card.exists() else ""
    weights = current_file(folder, WEIGHTS)
    stored = _stored(weights, config["files"].get(WEIGHTS, ""))
    if check is not None:
        check(Contents(config, {}, files, text), stored)
    _check_weights(weights, config["files"].get(WEIGHTS, ""))
    tensors, _ = load_tensors(weights)
    return Contents(config, tensors, files, text)


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
    checked(Config, config, path)
    for name in config["files"]:
        if Path(name).name != name or "\0" in name:
            raise InputError(path, field="files", expected="names of files beside it", found=quote(name))
    return config


def _read_file(folder: Path, name: str, digest: str) -> str:
    """The text of a file of the task, if it is the one that was saved."""
    path = current_file(folder, name)
    content = read_bytes(path, "a file of the bundle")
    _check_digest(path, _digest(content), digest)
    return decoded(content, path)


def _stored(path: Path, digest: str) -> dict[str, StoredTensor]:
    """What the file of weights says of its tensors."""
    if not path.exists():
        raise InputError(path, expected="a file of the bundle", found="no such file")
    try:
        return stored_tensors(path)
    except InputError:
        if path.is_file() and path.stat().st_size < SMALL:  # a truncated file is told as any other
            _check_weights(path, digest)
        raise


def _check_weights(path: Path, digest: str) -> None:
    with open(path, "rb") as file:
        _check_digest(path, hashlib.file_digest(file, "sha256").hexdigest(), digest)


def _check_digest(path: Path, found: str, expected: str) -> None:
    if found != expected:
        raise InputError(path, expected=f"SHA-256 {expected:.12}…", found=f"{found:.12}… (truncated or altered)")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _checksum(config: Mapping[str, Any]) -> str:
    return _digest(json.dumps(config, sort_keys=True).encode())
