"""Reads lines of JSON, one object per record. ``translation.en`` names the key ``en`` of an inner object."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from saccade.data.files.lines import Encoding, lines_of
from saccade.data.files.records import NO_KEY, NOT_JSON, Fault, Fields, Name, fault, kind_of, shown_names
from saccade.errors import InputError

FIRST_LINES = 50  # from which the keys are known


def scan_jsonl(
    path: Path, wanted: Sequence[Name], *, optional: Collection[Name] = (), encoding: Encoding = "utf-8"
) -> Iterator[Fields | Fault]:
    """The values of the wanted keys of every line."""
    number = next((name for name in wanted if isinstance(name, int)), None)
    if number is not None:
        raise InputError(path, field="columns", expected="the names of keys", found=f"the number {number}")
    for line in lines_of(path, encoding):
        if line.fault is not None:
            yield line.fault
        elif line.text.strip():
            record = object_of(line.text, path, line.number)
            yield record if isinstance(record, Fault) else fields_of(record, wanted, line.number, path, None, optional)


def fields_of(
    record: Mapping[str, Any],
    wanted: Sequence[Name],
    line: int,
    where: str | Path,
    place: str | None = None,
    optional: Collection[Name] = (),
) -> Fields | Fault:
    """The values of the wanted keys of a record: a JSON object, a row of a dataset; a missing ``optional`` one is None."""
    values = []
    for name in wanted:
        value, known = inner(record, str(name))
        if not known and name not in optional:
            keys = f"the keys {shown_names(record)}" if record else "no keys"
            return fault(line, NO_KEY, where, field=str(name), expected=f"the key {name!r}", found=keys, place=place)
        values.append(value)
    return Fields(line, tuple(values), place)


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


def header_of_jsonl(path: Path, encoding: Encoding = "utf-8") -> list[str] | None:
    """The keys of the first lines, in the order in which they come: a record may lack some."""
    keys: dict[str, None] = {}
    for line in islice(lines_of(path, encoding), FIRST_LINES):
        record = object_of(line.text, path, line.number)
        if line.fault is None and not isinstance(record, Fault):
            keys |= dict.fromkeys(keys_of(record))
    return list(keys) or None


def object_of(text: str, path: Path, line: int) -> dict[str, Any] | Fault:
    """The object in a line of JSON."""
    try:
        record = parse_json(text, path, line=line, expected="a JSON object")
    except InputError as error:
        return Fault(line, NOT_JSON, error)
    if not isinstance(record, dict):
        return fault(line, NOT_JSON, path, expected="a JSON object", found=kind_of(record))
    return record


def parse_json(text: str, where: str | Path, *, expected: str, line: int | None = None) -> Any:
    """The value of a JSON text; an InputError where it is not JSON."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        # The module's own message counts lines within the text, which is one line.
        found = f"no JSON: {error.msg} (character {error.pos + 1})"
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets nested too deep
        found = f"no JSON: {error}"
    raise InputError(where, line=line, expected=expected, found=found)
