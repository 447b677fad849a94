"""Pairs from lines of JSON, one object each: text under both keys. ``translation.en`` is the key ``en`` of an inner object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from saccade.data.files.lines import lines_of
from saccade.data.files.records import NO_KEY, NOT_JSON, Columns, Fault, Found, fault, found, kind_of, text_fault
from saccade.errors import InputError


def scan_jsonl(path: Path, columns: Columns) -> Iterator[Found | Fault]:
    """The pairs of a JSONL file."""
    check_names(columns, path, "keys")
    for line in lines_of(path):
        if line.fault is not None:
            yield line.fault
        elif line.text.strip():
            record = object_of(line.text, path, line.number)
            yield record if isinstance(record, Fault) else pair_of(record, columns, line.number, path)


def check_names(columns: Columns, path: str | Path, kind: str) -> None:
    """Where there are no columns to count, numbers name nothing."""
    number = next((column for column in columns.wanted if isinstance(column, int)), None)
    if number is not None:
        raise InputError(path, field="columns", expected=f"the names of {kind}", found=f"the number {number}")


def pair_of(
    record: Mapping[str, Any], columns: Columns, line: int, where: str | Path, place: str | None = None
) -> Found | Fault:
    """The pair of a record with keys: a JSON object, a row of a dataset."""
    texts: list[str] = []
    for name in (str(columns.source), str(columns.target)):
        value, known = inner(record, name)
        if not known:
            shown = ", ".join(repr(str(key)[:40]) for key in list(record)[:20])
            keys = f"the keys {shown}" if record else "no keys"
            return fault(line, NO_KEY, where, field=name, expected=f"the key {name!r}", found=keys, place=place)
        broken = text_fault(value, name, line, where, place=place)
        if broken is not None:
            return broken
        texts.append(value)
    group = None if columns.group is None else inner(record, str(columns.group))[0]
    sides = (columns.source, columns.target)
    return found(texts[0], texts[1], line, where, sides=sides, group=None if group is None else str(group), place=place)


def inner(record: Mapping[str, Any], name: str) -> tuple[Any, bool]:
    """The value under a key, or under ``outer.inner``, and whether there is one."""
    if name in record:
        return record[name], True
    value: Any = record
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None, False
        value = value[part]
    return value, True


def keys_of(record: Mapping[str, Any]) -> list[str]:
    """The keys of a record as columns name them, those of inner objects with a dot."""
    keys = []
    for key, value in record.items():
        keys += [f"{key}.{below}" for below in value] if isinstance(value, Mapping) and value else [str(key)]
    return keys


def header_of_jsonl(path: Path) -> list[str] | None:
    """The keys of the first line that is an object."""
    for line in lines_of(path):
        record = object_of(line.text, path, line.number)
        if line.fault is None and not isinstance(record, Fault):
            return keys_of(record)
    return None


def object_of(text: str, path: Path, line: int) -> dict[str, Any] | Fault:
    """The object that a line of JSON is."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:  # not JSON, a number of thousands of digits, brackets too deep
        return fault(line, NOT_JSON, path, expected="a JSON object", found=f"no JSON: {error}")
    if not isinstance(record, dict):
        return fault(line, NOT_JSON, path, expected="a JSON object", found=kind_of(record))
    return record
