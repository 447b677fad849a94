"""Loads the splits that a recipe's ``data`` names, and handles malformed records, for every kind of data. No torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from saccade.data.config import DataConfig
from saccade.data.files.hub import on_hub
from saccade.data.files.lines import codec_of, suffix_of
from saccade.data.files.records import NOT_UTF8, Fault
from saccade.data.paths import locate
from saccade.data.splits import Splits, hold_out, settle_overlap
from saccade.data.toy import generated
from saccade.errors import InputError

T = TypeVar("T")
Files = str | Path | tuple[str | Path, ...]  # what is read for one split
Read = Callable[[Any, str], tuple[list[Any], list[str]]]  # files, name of the split → records, notes
SPLITS = ("train", "valid", "test")


def load_splits(
    data: DataConfig, folder: Path, seed: int, toy: Callable[[Any], Any], read: Read, *, independent: bool = False
) -> Splits:
    """The records that ``data`` names, those of splits that are not given held out of train; paths start at ``folder``.

    ``toy`` makes a record of each generated value, ``read`` reads the files of a split. With ``independent``, generated splits
    are left as they were drawn: what they have in common is part of their distribution.
    """
    parts: dict[str, list[Any]] = {}
    notes: list[str] = []
    if data.source is not None:
        parts = {name: [toy(value) for value in part] for name, part in generated(data, folder).items()}
        if independent:
            return Splits(parts["train"], parts["valid"], parts["test"])
    else:
        for name in SPLITS:
            files = data.files(name)
            if files is not None:
                parts[name], about = read(located(files, folder), name)
                notes += about
    splits = settle_overlap(hold_out(parts, data.hold_out, seed), data.overlap)
    return replace(splits, notes=(*notes, *splits.notes))


def located(files: str | tuple[str, ...], folder: Path) -> Files:
    """A recipe's paths resolved; names of the hub stay as they are."""
    if isinstance(files, tuple):
        return tuple(file if on_hub(file) else locate(file, folder) for file in files)
    return files if on_hub(files) else locate(files, folder)


def own_format(path: str | Path, data: DataConfig, known: Iterable[str]) -> Any:
    """The recipe's format for one more file; None where the file's own suffix, one of ``known``, tells more of it."""
    return None if on_hub(path) or suffix_of(path) in known else data.format


def read_records(
    path: str | Path,
    items: Iterable[T | Fault],
    data: DataConfig,
    dropped: FaultCounts | None = None,
    *,
    strict: bool,
    expected: str,
    called: str = "records",
) -> tuple[list[T], list[str]]:
    """The records of a file, and warnings about them. The first fault is raised, unless ``data.faults`` is drop; ``strict``
    reading drops none. Dropped ones are also counted in ``dropped``, where it is given."""
    dropped = FaultCounts() if dropped is None else dropped
    records = list(valid_records(items, data, dropped, strict=strict, called=called))
    return records, warnings_about(path, records, dropped, expected=expected, called=called)


def valid_records(
    items: Iterable[T | Fault], data: Any, dropped: FaultCounts, *, strict: bool, called: str
) -> Iterator[T]:
    """The items without their faults. With ``data.faults: drop``, and where the file itself excludes a record, faults are
    counted in ``dropped``; else the first is raised, with the setting that would avoid it. ``strict`` reading drops none."""
    for item in items:
        if not isinstance(item, Fault):
            yield item
        elif item.skipped or (data.faults == "drop" and not strict):
            dropped.add(item)
        else:
            raise item.error if strict else _with_remedy(item, data, called)


def _with_remedy(item: Fault, data: Any, called: str) -> InputError:
    remedies = [f"data.faults: drop leaves such {called} out"]
    if item.reason == NOT_UTF8 and codec_of(data.encoding) == "utf-8":
        remedies.insert(0, "data.encoding: latin-1 or windows-1252 reads such files")
    error = item.error
    error.args = (f"{error}; {', '.join(remedies)}",)
    return error


def warnings_about(
    path: str | Path, records: Sequence[Any], dropped: FaultCounts, *, expected: str, called: str = "records"
) -> list[str]:
    """Warnings about the records that were read; raises if there are none."""
    if not records:
        found = f"none: dropped were {dropped}" if dropped else "nothing"
        raise InputError(path, expected=expected, found=found)
    total = f"{len(dropped) + len(records):,}"
    return [f"{path}: dropped {len(dropped):,} of {total} {called}: {dropped}"] if dropped else []


class FaultCounts:
    """Faults counted by their reasons, with the place of the first of each. With ``skipped_only``, only records
    that the data itself excludes are dropped; other faults are errors."""

    def __init__(self, *, skipped_only: bool = False) -> None:
        self.skipped_only = skipped_only
        self.counts: dict[str, int] = {}
        self.first: dict[str, int | str] = {}  # lines; of folders files

    def add(self, fault: Fault) -> None:
        self.counts[fault.reason] = self.counts.get(fault.reason, 0) + 1
        self.first.setdefault(fault.reason, fault.name or fault.line)

    def __len__(self) -> int:
        return sum(self.counts.values())

    def __str__(self) -> str:
        ordered = sorted(self.counts.items(), key=lambda item: -item[1])
        return ", ".join(f"{count:,} {reason} (first: {self.place(reason)})" for reason, count in ordered)

    def place(self, reason: str) -> str:
        """Where the first fault of a reason is: the number of a line, or a file's name."""
        first = self.first[reason]
        return first if isinstance(first, str) else f"{first:,}"
