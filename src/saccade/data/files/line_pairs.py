"""Pairs from two text files: line i of one belongs to line i of the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from saccade.data.files.lines import lines_of, without_end
from saccade.data.files.records import Columns, Fault, Found, found
from saccade.data.files.tables import lone_return
from saccade.errors import InputError


def scan_aligned(first: Path, second: Path, columns: Columns) -> Iterator[Found | Fault]:
    """The pairs of two files whose lines belong together; lines that are blank in both are passed over."""
    if columns.group is not None:
        raise InputError(first, field="columns.group", expected="a file with columns", found="plain lines")
    pairs = zip_longest(lines_of(first), lines_of(second))
    for number, (source, target) in enumerate(pairs, start=1):
        if source is None or target is None:
            shorter, longer = (first, second) if source is None else (second, first)
            expected, end = f"as many lines as in {longer}", f"the end after {number - 1} lines"
            raise InputError(shorter, line=number, expected=expected, found=end)
        broken = source.fault or target.fault
        if broken is not None:
            yield broken
            continue
        texts = without_end(source.text), without_end(target.text)
        returned = next((path for path, text in zip((first, second), texts, strict=True) if "\r" in text), None)
        if returned is not None:
            yield lone_return(number, returned)
        elif texts[0].strip() or texts[1].strip():
            where = first if not texts[0].strip() else second
            yield found(*texts, number, where, sides=(first.name, second.name))
