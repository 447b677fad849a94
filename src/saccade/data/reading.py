"""Records out of files that may hold faults, for every task whose ``data`` names files and says what a fault is. No torch.

``data`` has ``train``, ``valid``, ``test``, ``hold_out``, ``overlap``, ``encoding`` and ``faults: error | drop``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from saccade.data.files.hub import on_hub
from saccade.data.files.records import NOT_UTF8, Fault
from saccade.data.paths import locate
from saccade.data.splits import Splits, hold_out, settle_overlap
from saccade.errors import InputError

T = TypeVar("T")
Gather = Callable[[str | Path, Any], tuple[list[Any], list[str]]]


def load_parts(data: Any, folder: Path, seed: int, made: dict[str, list[Any]], gather: Gather) -> Splits:
    """What a built-in source ``made`` and what the files of ``data`` hold; relative paths start at ``folder``."""
    parts, notes = dict(made), list[str]()
    for name in ("train", "valid", "test"):
        path = getattr(data, name)
        if path is not None:
            parts[name], said = gather(path if on_hub(path) else locate(path, folder), data)
            notes += said
    splits = settle_overlap(hold_out(parts, data.hold_out, seed), data.overlap)
    return replace(splits, notes=(*notes, *splits.notes))


def valid_records(
    items: Iterable[T | Fault], data: Any, left_out: FaultCounts, *, strict: bool, called: str
) -> Iterator[T]:
    """What is no fault. Faults are counted in ``left_out`` where ``data.faults: drop`` says so or the file itself passes them
    over; else the first is raised, with what a recipe can say to train all the same. ``strict`` reading drops none."""
    for item in items:
        if not isinstance(item, Fault):
            yield item
        elif item.skipped or (data.faults == "drop" and not strict):
            left_out.add(item)
        else:
            raise item.error if strict else _with_remedy(item, data, called)


def _with_remedy(found: Fault, data: Any, called: str) -> InputError:
    remedies = [f"data.faults: drop leaves such {called} out"]
    if found.reason == NOT_UTF8 and data.encoding == "utf-8":
        remedies.insert(0, "data.encoding: latin-1 or windows-1252 reads such files")
    error = found.error
    error.args = (f"{error}; {', '.join(remedies)}",)
    return error


def warnings_about(
    path: str | Path, records: Sequence[Any], left_out: FaultCounts, *, expected: str, called: str = ""
) -> list[str]:
    """What the reader must know of how records were come by; an error where there are none."""
    if not records:
        found = f"none: left out were {left_out}" if left_out else "nothing"
        raise InputError(path, expected=expected, found=found)
    counted = f"{len(left_out):,} {called}".strip()
    return [f"{path}: {counted} left out beside {len(records):,}: {left_out}"] if left_out else []


class FaultCounts:
    """Faults counted by their reasons, with the place of each one's first."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.first: dict[str, int] = {}

    def add(self, fault: Fault) -> None:
        self.counts[fault.reason] = self.counts.get(fault.reason, 0) + 1
        self.first.setdefault(fault.reason, fault.line)

    def __len__(self) -> int:
        return sum(self.counts.values())

    def __str__(self) -> str:
        ordered = sorted(self.counts.items(), key=lambda item: -item[1])
        return ", ".join(f"{count:,} {reason} (first: {self.first[reason]:,})" for reason, count in ordered)
