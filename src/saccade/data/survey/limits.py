"""What a recipe's own rules have against surveyed records: texts beyond ``data.max_length``, and what ``data.overlap`` makes of
records that train has in common with valid or test. The same for every task whose records are surveyed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saccade.data.splits import Overlap
from saccade.data.survey.tallies import Lengths


def drawn(data: Any, *, beside: bool) -> list[str]:
    """The splits that training will hold out: those ``data`` does not name. ``beside`` a file without a recipe a test set may
    stand, which its recipe will name."""
    given = {name for name in ("valid", "test") if getattr(data, name) is not None}
    given = given or ({"test"} if beside else set())
    return [name for name in ("valid", "test") if name not in given]


def beyond(lengths: Lengths, limit: int, *, texts: str, tokens: str, remedy: str) -> list[str]:
    """That ``texts`` are longer than ``limit`` tokens, which training refuses; nothing where none is."""
    count = lengths.above(limit)
    if not count:
        return []
    longest = f"the longest {lengths.longest:,}"
    return [f"{texts} of more than data.max_length, {limit} {tokens}: {count:,}, {longest}: raise it, or set {remedy}"]


def overlapping(overlap: Overlap, shared: Mapping[str, tuple[int, int]], left: int, *, records: str) -> list[str]:
    """Why training refuses what splits have in common. ``shared`` has of each held-out file how many of its ``records`` are
    trained on, and how many it has; ``left`` is how many different ones train has that are in none of these files."""
    if overlap == "drop_train" and not left:
        return [
            f"all training {records} are in valid or test: with data.overlap: drop_train nothing is left to train on"
        ]
    if overlap not in ("error", "drop_test"):
        return []
    found = []
    for name, (met, count) in shared.items():
        said = f"{met:,} of {count:,} {records} of {name} are in the training records too"
        if met and overlap == "error":
            found.append(f"{said}, and data.overlap is error")
        elif met and met == count and overlap == "drop_test":
            found.append(f"{said}: with data.overlap: drop_test nothing is left of it")
    return found
