"""Pairs from wherever a recipe says: the built-in dates, the user's own files, or what a program has in hand.

Imports no torch.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from saccade.data.dates import Dates, generate
from saccade.data.pairs import Columns, Pair, read_pairs, without_header
from saccade.data.text import Tokens
from saccade.errors import InputError
from saccade.splits import Splits, hold_out


@dataclass(frozen=True)
class PairFiles:
    """Two line-aligned text files."""

    source: str
    target: str


@dataclass(frozen=True)
class PairData:
    """The ``data`` part of a recipe for pairs of texts."""

    source: Literal["dates"] | None = None  # a built-in source, or
    train: str | PairFiles | None = None  # files; $VARIABLES are filled in, relative paths start at the recipe's folder
    valid: str | PairFiles | None = None
    test: str | PairFiles | None = None
    hold_out: float = 0.05  # the share of train for each of valid and test that is not given
    columns: Columns = field(default_factory=Columns)
    dates: Dates = field(default_factory=Dates)
    tokens: Tokens = field(default_factory=Tokens)
    target_tokens: Tokens | None = None  # when the two sides are cut differently
    shared: bool = False  # one vocabulary for both sides
    max_length: int = 400  # tokens of a source or target
    too_long: Literal["error", "truncate"] = "error"

    def __post_init__(self) -> None:
        if (self.source is None) == (self.train is None):
            raise ValueError("source or train must be given, and not both: 'source: dates' or 'train: FILE'")
        if not 0 < self.hold_out < 0.5:
            raise ValueError(f"hold_out must be above 0 and below 0.5: got {self.hold_out}")
        if self.max_length < 1:
            raise ValueError(f"max_length must be at least 1: got {self.max_length}")
        if self.shared and self.target_tokens is not None:
            raise ValueError("target_tokens has no meaning with shared: true")


def read_file(path: Path, data: PairData) -> list[Pair]:
    """The pairs of one file, by the recipe's columns."""
    return read_pairs(path, source=data.columns.source, target=data.columns.target)


def load_splits(data: PairData, folder: Path, seed: int) -> Splits:
    """The pairs that ``data`` names; relative paths start at ``folder``."""
    if data.source == "dates":
        made = generate(data.dates)
        train, valid, test = ([Pair(*pair) for pair in made[name]] for name in ("train", "valid", "test"))
        return Splits(train, valid, test)
    given = {name: getattr(data, name) for name in ("train", "valid", "test")}
    pairs = {name: _read(files, data.columns, folder) for name, files in given.items() if files is not None}
    splits = hold_out(pairs, data.hold_out, seed)
    return replace(splits, notes=(*_headless(given, data.columns, folder), *splits.notes))


def _headless(given: Mapping[str, str | PairFiles | None], columns: Columns, folder: Path) -> list[str]:
    """A header by other names looks like a pair: the reader is told that the first line was taken for one."""
    return [
        f"{files}: no header names {columns.source!r} and {columns.target!r}: the first line was read as a pair"
        for files in given.values()
        if isinstance(files, str) and without_header(locate(files, folder), columns.source)
    ]


def pairs_of(data: Any) -> list[Pair]:
    """Pairs from a list of (source, target), of dicts or of pairs, or from a DataFrame with those columns."""
    if hasattr(data, "to_dict") and hasattr(data, "columns"):
        data = data.to_dict("records")
    pairs = []
    for number, item in enumerate(data, start=1):
        parts = (item.source, item.target) if isinstance(item, Pair) else item
        if isinstance(item, Mapping):
            missing = [name for name in ("source", "target") if name not in item]
            if missing:
                raise InputError(
                    "data", line=number, field=missing[0], expected="text", found=f"keys {', '.join(item)}"
                )
            parts = (item["source"], item["target"])
        if not isinstance(parts, tuple | list) or len(parts) != 2 or not all(isinstance(part, str) for part in parts):
            raise InputError("data", line=number, expected="a pair of texts", found=repr(item)[:60])
        if not parts[0].strip() or not parts[1].strip():
            raise InputError("data", line=number, expected="text on both sides", found="an empty side")
        pairs.append(Pair(*parts))
    if not pairs:
        raise InputError("data", expected="pairs of texts", found="none")
    return pairs


def _read(files: str | PairFiles, columns: Columns, folder: Path) -> list[Pair]:
    if isinstance(files, PairFiles):
        return read_pairs((locate(files.source, folder), locate(files.target, folder)))
    return read_pairs(locate(files, folder), source=columns.source, target=columns.target)


def locate(name: str, folder: Path) -> Path:
    """A recipe's path: variables filled in, relative to the recipe's folder."""
    filled = os.path.expanduser(os.path.expandvars(name))
    if "$" in filled:
        variable = filled[filled.index("$") :].split("/")[0]
        raise InputError(name, expected=f"the variable {variable} to be set", found="it is not")
    # What a variable holds was written in the shell, not in the recipe: it starts at the working folder.
    return Path(filled) if name.startswith("$") else folder / filled
