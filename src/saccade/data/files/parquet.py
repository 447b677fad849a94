"""Pairs from Parquet, in batches of rows. PyArrow does the work; it comes with ``pip install "saccade[parquet]"``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from saccade.data.files.jsonl import pair_of
from saccade.data.files.lines import opened
from saccade.data.files.records import NOT_UTF8, Columns, Fault, Found, fault
from saccade.errors import InputError
from saccade.extras import need

BATCH = 1024  # rows


def scan_parquet(path: Path, columns: Columns) -> Iterator[Found | Fault]:
    """The pairs of a Parquet file."""
    with table_of(path) as table:
        names = leaves_of(table.schema_arrow)
        columns = _named(columns, list(table.schema_arrow.names), names, path)
        number = 0
        for batch in table.iter_batches(BATCH, columns=[str(name) for name in columns.wanted], use_threads=False):
            for row in rows_of(batch):
                number += 1
                if row is None:
                    expected, found, place = "UTF-8 text", "other bytes", f"row {number}"
                    yield fault(number, NOT_UTF8, path, expected=expected, found=found, place=place)
                else:
                    yield pair_of(row, columns, number, path, place=f"row {number}")


def header_of_parquet(path: Path) -> list[str] | None:
    """The columns of a Parquet file, those of a struct with a dot."""
    with table_of(path) as table:
        return list(leaves_of(table.schema_arrow)) or None


@contextmanager
def table_of(path: Path) -> Iterator[Any]:
    """A Parquet file, opened; what PyArrow has against it becomes an InputError."""
    arrow, parquet = (need(name, extra="parquet", for_="reading Parquet") for name in ("pyarrow", "pyarrow.parquet"))
    with opened(path) as file:
        try:
            yield parquet.ParquetFile(file)
        except (arrow.ArrowException, OSError, OverflowError, MemoryError, UnicodeDecodeError) as error:
            said = " ".join(str(error).split())[:200] or type(error).__name__
            raise InputError(path, expected="a whole Parquet file", found=f"none: {said}") from error


def leaves_of(schema: Any) -> dict[str, Any]:
    """The columns and their types; a struct's fields by ``outer.inner``."""
    leaves: dict[str, Any] = {}
    for field in schema:
        inner = [field.type.field(i) for i in range(field.type.num_fields)] if str(field.type)[:6] == "struct" else []
        leaves |= {f"{field.name}.{each.name}": each.type for each in inner} or {field.name: field.type}
    return leaves


def _named(columns: Columns, top: list[str], leaves: dict[str, Any], path: Path) -> Columns:
    """The columns by their names, looked up and of text."""
    wanted = []
    for column in columns.wanted:
        name = top[column - 1] if isinstance(column, int) and column <= len(top) else column
        if name not in leaves:
            shown = ", ".join(repr(leaf[:40]) for leaf in list(leaves)[:20])
            raise InputError(path, expected=str(columns), found=f"the columns {shown}")
        wanted.append(str(name))
    for name in wanted[:2]:
        if "string" not in str(leaves[name]):  # string, large_string, string_view, and dictionaries of them
            raise InputError(path, field=name, expected="a column of text", found=f"one of {leaves[name]}")
    group = None if columns.group is None else wanted[2]
    return replace(columns, source=wanted[0], target=wanted[1], group=group)


def rows_of(batch: Any) -> Iterator[dict[str, Any] | None]:
    """The rows of a batch; None for one whose text is not UTF-8."""
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError:
        for number in range(batch.num_rows):
            try:
                yield batch.slice(number, 1).to_pylist()[0]
            except UnicodeDecodeError:
                yield None
