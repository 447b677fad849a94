"""Pairs from wherever a recipe says: a built-in source, the user's own files, or what a program has in hand.

Imports no torch.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from saccade.data.copies import Copies
from saccade.data.dates import Dates
from saccade.data.files.hub import on_hub
from saccade.data.files.lines import unpacked
from saccade.data.made import Made, make
from saccade.data.memory import pairs_of
from saccade.data.pairs import FORMATS, Columns, Files, Pair, gather, without_header
from saccade.data.phonemes import Phonemes
from saccade.data.spelling import Spelling
from saccade.data.text import Tokens
from saccade.errors import InputError
from saccade.splits import Overlap, Splits, hold_out, settle_overlap

__all__ = ["PairData", "PairFiles", "load_splits", "locate", "pairs_of", "read_file"]


@dataclass(frozen=True)
class PairFiles:
    """Two line-aligned text files."""

    source: str
    target: str


@dataclass(frozen=True)
class PairData:
    """The ``data`` part of a recipe for pairs of texts."""

    source: Made | None = None  # a built-in source, or
    # Files, or hf://OWNER/NAME; $VARIABLES are filled in, relative paths start at the recipe's folder.
    train: str | PairFiles | None = None
    valid: str | PairFiles | None = None
    test: str | PairFiles | None = None
    hold_out: float = 0.05  # the share of train for valid where it is not given, then of what is left for test
    format: Literal["tsv", "csv", "jsonl", "parquet", "po", "tmx"] | None = (
        None  # where a file's suffix does not say it
    )
    columns: Columns = field(default_factory=Columns)
    faults: Literal["error", "drop"] = "error"  # what a line that is no pair is; dropped ones are counted and reported
    overlap: Overlap = "keep"  # what becomes of sources that train has in common with valid or test
    dates: Dates = field(default_factory=Dates)
    spelling: Spelling = field(default_factory=Spelling)
    phonemes: Phonemes = field(default_factory=Phonemes)
    copies: Copies = field(default_factory=Copies)
    tokens: Tokens = field(default_factory=Tokens)
    target_tokens: Tokens | None = None  # when the two sides are cut differently
    shared: bool = False  # one vocabulary for both sides
    max_length: int = 400  # tokens of a source or target
    too_long: Literal["error", "truncate"] = "error"

    def __post_init__(self) -> None:
        if (self.source is None) == (self.train is None):
            raise ValueError("source or train must be given, and not both: 'source: dates' or 'train: FILE'")
        files = [file for file in (self.train, self.valid, self.test) if isinstance(file, str)]
        if self.format is not None and not files:
            raise ValueError(f"format must be left out where there is no single file of pairs: got {self.format}")
        if not 0 < self.hold_out < 0.5:
            raise ValueError(f"hold_out must be above 0 and below 0.5: got {self.hold_out}")
        if self.max_length < 1:
            raise ValueError(f"max_length must be at least 1: got {self.max_length}")
        if self.shared and self.target_tokens is not None:
            raise ValueError("target_tokens has no meaning with shared: true")


def read_file(path: Path, data: PairData) -> list[Pair]:
    """The pairs of one more file, by the recipe's columns, and by its format where the suffix says none.

    Read strictly whatever ``data.faults`` says: a figure on what happens to be left of a file would mean nothing.
    """
    columns = replace(data.columns, group=None)
    format = None if on_hub(path) or _suffix(path) in FORMATS else data.format
    return gather(path, columns=columns, format=format)[0]


def _suffix(path: Path) -> str:
    return unpacked(path).suffix.lower().removeprefix(".")


def load_splits(data: PairData, folder: Path, seed: int) -> Splits:
    """The pairs that ``data`` names; relative paths start at ``folder``."""
    if data.source is not None:
        made = make(data, lambda name: locate(name, folder))
        parts = {name: [Pair(*pair) for pair in part] for name, part in made.items()}
        return settle_overlap(hold_out(parts, data.hold_out, seed), data.overlap)
    pairs: dict[str, list[Pair]] = {}
    notes: list[str] = []
    for name in ("train", "valid", "test"):
        files = getattr(data, name)
        if files is not None:
            pairs[name], said = _read(files, data, folder, grouped=name == "train")
            notes += said
    splits = settle_overlap(hold_out(pairs, data.hold_out, seed), data.overlap)
    return replace(splits, notes=(*notes, *splits.notes))


def _read(files: str | PairFiles, data: PairData, folder: Path, *, grouped: bool) -> tuple[list[Pair], list[str]]:
    """The pairs of a split, and what the reader must know of how they were come by."""
    # A split that is given is not held out of anything: its groups do not matter.
    columns = data.columns if grouped else replace(data.columns, group=None)
    path: Files
    if isinstance(files, PairFiles):
        path, format, name = (locate(files.source, folder), locate(files.target, folder)), None, files.source
    else:
        path, format, name = files if on_hub(files) else locate(files, folder), data.format, files
    pairs, left_out = gather(path, columns=columns, format=format, faults=data.faults)
    notes = []
    if not isinstance(path, tuple) and without_header(path, columns.source, format):
        # A header by other names looks like a pair.
        headless = f"no header names {columns.source!r} and {columns.target!r}: the first line was read as a pair"
        notes.append(f"{name}: {headless}")
    if left_out:
        notes.append(f"{name}: {len(left_out):,} left out beside {len(pairs):,} pairs: {left_out}")
    return pairs, notes


def locate(name: str, folder: Path) -> Path:
    """A recipe's path: variables filled in, relative to the recipe's folder."""
    filled = os.path.expanduser(os.path.expandvars(name))
    if "$" in filled:
        variable = filled[filled.index("$") :].split("/")[0]
        hint = f"a folder of your own: export {variable[1:]}=FOLDER"
        raise InputError(name, expected=f"the variable {variable} to be set", found="it is not", hint=hint)
    # What a variable holds was written in the shell, not in the recipe: it starts at the working folder.
    return Path(filled) if name.startswith("$") else folder / filled
