"""Writes records to a file and reads them back exactly, so that a run can be evaluated where its data is not.

    {"saccade_records": 1, "task": "classify", "records": 17, "checksum": "…"}
    {"source": "a text", "target": "good", "group": null}                        a record as the task has it, per line

Such a file needs no columns or formats. Its checksum tells whether it holds the records that a run was tested on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields, is_dataclass
from itertools import islice
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from saccade.data.files.hub import on_hub
from saccade.data.files.jsonl import object_of
from saccade.data.files.limits import max_record
from saccade.data.files.lines import lines_of, suffix_of
from saccade.data.files.records import Fault
from saccade.data.splits import checksum
from saccade.errors import InputError, SaccadeError
from saccade.storage import write_text
from saccade.task import Task

MARK, VERSION = "saccade_records", 1
ESCAPED = 12  # bytes of JSON per character, at most


def write_saved(path: Path, records: Sequence[Any], task: Task) -> Path:
    """Write records to a new file."""
    if not task.record_types:
        raise SaccadeError(f"the task {task.name!r} does not define record_types, so its records cannot be saved")
    if path.suffix != ".jsonl":
        raise InputError(path, expected="a name that ends in .jsonl", found=repr(path.suffix))
    if path.exists():
        raise InputError(path, expected="a new file", found="an existing one")
    head = {MARK: VERSION, "task": task.name, "records": len(records), "checksum": checksum(records)}
    write_text(path, "".join(f"{json.dumps(row)}\n" for row in (head, *map(asdict, records))))
    return path


def is_saved(path: Path) -> bool:
    """Whether a file is one that :func:`write_saved` wrote."""
    if on_hub(path) or suffix_of(path) != "jsonl":
        return False
    first = next(islice(lines_of(path), 1), None)
    head = None if first is None or first.fault is not None else object_of(first.text, path, 1)
    return isinstance(head, dict) and MARK in head


def read_saved(path: Path, task: Task, data: Any) -> tuple[list[Any], str]:
    """The records of a file that :func:`write_saved` wrote, and their checksum."""
    rows = []
    for line in lines_of(path, longest=ESCAPED * max_record()):
        row = line.fault or object_of(line.text, path, line.number)
        if isinstance(row, Fault):
            raise row.error
        rows.append(row)
    head = rows[0]
    if head.get(MARK) != VERSION or head.get("task") != task.name:
        found = f"those of {head.get('task')!r} in version {head.get(MARK)!r}"
        raise InputError(path, line=1, expected=f"records of the task {task.name!r}, version {VERSION}", found=found)
    records = [_record(row, task, path, number) for number, row in enumerate(rows[1:], start=2)]
    if head.get("records") != len(records) or head.get("checksum") != checksum(records):
        raise InputError(path, expected="the records that were saved", found="other records: the file was changed")
    return task.records(records, data), str(head["checksum"])


def _record(row: dict[str, Any], task: Task, path: Path, line: int) -> Any:
    kind = next((kind for kind in task.record_types if {field.name for field in fields(kind)} == row.keys()), None)
    if kind is None:
        known = " or ".join(", ".join(field.name for field in fields(kind)) for kind in task.record_types)
        raise InputError(path, line=line, expected=f"a record with {known}", found=", ".join(row)[:80] or "nothing")
    return _restored(kind, row)


def _restored(kind: Any, value: Any) -> Any:
    """A value of JSON as a record has it: lists are tuples, and objects the dataclasses that the types name; of several that a
    type allows, the first."""
    if get_origin(kind) in (Union, UnionType):
        parts = (part for part in get_args(kind) if is_dataclass(part) == isinstance(value, dict))
        kind = next((part for part in parts if is_dataclass(part) or get_origin(part) is tuple), Any)
    if isinstance(value, dict) and is_dataclass(kind):
        hints = get_type_hints(kind)
        known = {name: entry for name, entry in value.items() if name in hints}
        return kind(**{name: _restored(hints[name], entry) for name, entry in known.items()})  # type: ignore[operator]
    if isinstance(value, list):
        inner = get_args(kind)[0] if get_origin(kind) is tuple else Any
        return tuple(_restored(inner, entry) for entry in value)
    return value
