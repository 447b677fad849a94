"""Reads Parquet in batches of rows, with PyArrow (``pip install "saccade[parquet]"``).

A file of some kilobytes may unpack to gigabytes, so the size that the metadata give for a group of rows is checked before it is
unpacked, and each record afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from saccade.data.files.jsonl import fields_of
from saccade.data.files.limits import MAX_RECORD, TIGHT, Total, max_record, raised
from saccade.data.files.lines import opened
from saccade.data.files.records import (
    LONG,
    NOT_UTF8,
    Fault,
    Fields,
    Name,
    choose_columns,
    column_names,
    fault,
    shown_names,
)
from saccade.errors import InputError
from saccade.extras import need

BATCH = 1024  # rows
SMALL = 1 << 20  # bytes: larger columns that are TIGHT are unpacked with care
VALUE = 8  # bytes of memory per value of a list, at least


def scan_parquet(path: Path, wanted: Sequence[Name], *, texts: Collection[Name] = ()) -> Iterator[Fields | Fault]:
    """The values of the wanted columns of every row; those of ``texts`` must be columns of text."""
    with table_of(path) as table:
        leaves = leaves_of(table.schema_arrow)
        names = named(wanted, list(table.schema_arrow.names), leaves, path)
        for name, column in zip(names, wanted, strict=True):
            kind = str(leaves.get(name, "string"))
            if column in texts and "string" not in kind:  # string, large_string, string_view, and dictionaries of them
                raise InputError(path, field=name, expected="a column of text", found=f"one of {kind}")
        total, longest, number = Total(path), max_record(), 0
        for batch in _batches(table, list(dict.fromkeys(names)), path):
            total.add(batch.nbytes, entries=batch.num_rows)
            for row in rows_of(batch, longest):
                number += 1
                place = f"row {number}"
                if row is None:
                    yield fault(number, NOT_UTF8, path, expected="UTF-8 text", found="other bytes", place=place)
                elif isinstance(row, int):
                    yield fault(number, LONG, path, place=place, **_too_long(row))
                else:
                    yield fields_of(row, names, number, path, place)


def _batches(table: Any, names: Sequence[str], path: Path) -> Iterator[Any]:
    """The rows in batches, none of which unpacks to more than records may hold together."""
    number = 0
    for group in range(table.metadata.num_row_groups):
        about = table.metadata.row_group(group)
        chunks = [about.column(i) for i in range(about.num_columns)]
        chunks = [chunk for chunk in chunks if any(f"{chunk.path_in_schema}.".startswith(f"{name}.") for name in names)]
        size, packed = (
            sum(getattr(chunk, f"total_{kind}_size") for chunk in chunks) for kind in ("uncompressed", "compressed")
        )
        Total(path).add(size + sum(VALUE * chunk.num_values for chunk in chunks), entries=0)
        tight = size > TIGHT * packed  # text as a person writes it is not
        if size > max_record() and (tight or size > max_record() * about.num_rows):
            place = f"rows {number + 1} to {number + about.num_rows}"
            raise InputError(path, field=place, **_too_long(size))
        number += about.num_rows
        # A column may refer to one long value from every row.
        rows = min(BATCH, max(1, max_record() // size)) if tight and size > SMALL else BATCH
        for batch in table.iter_batches(rows, row_groups=[group], columns=list(names), use_threads=False):
            columns = [each.dictionary_decode() if hasattr(each, "dictionary") else each for each in batch.columns]
            yield type(batch).from_arrays(columns, names=batch.schema.names)


def _too_long(size: int) -> dict[str, Any]:
    most = max_record()
    found = f"{size:,} bytes"
    return {"expected": f"records of at most {most:,} bytes", "found": found, "hint": raised(MAX_RECORD, size)}


def named(wanted: Sequence[Name], top: Sequence[str], known: Collection[str], where: str | Path) -> list[str]:
    """The wanted columns by their names; numbers count the outer columns from 1."""
    names = [top[name - 1] if isinstance(name, int) and name <= len(top) else name for name in wanted]
    if any(name not in known for name in names):
        found, hint = f"the columns {shown_names(known)}", choose_columns(wanted)
        raise InputError(where, expected=column_names(wanted), found=found, hint=hint)
    return [str(name) for name in names]


def header_of_parquet(path: Path) -> list[str] | None:
    """The columns of a Parquet file, those of a struct with a dot."""
    with table_of(path) as table:
        return list(leaves_of(table.schema_arrow)) or None


@contextmanager
def table_of(path: Path) -> Iterator[Any]:
    """A Parquet file, opened; PyArrow's errors become an InputError."""
    arrow, parquet = (need(name, extra="parquet", for_="reading Parquet") for name in ("pyarrow", "pyarrow.parquet"))
    with opened(path) as file:
        try:
            yield parquet.ParquetFile(file)
        except (arrow.ArrowException, OSError, OverflowError, MemoryError, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise InputError(path, expected="a whole Parquet file", found=f"none: {reason}") from error


def leaves_of(schema: Any) -> dict[str, Any]:
    """The columns and their types; a struct's fields by ``outer.inner``."""
    leaves: dict[str, Any] = {}
    for field in schema:
        inner = [field.type.field(i) for i in range(field.type.num_fields)] if str(field.type)[:6] == "struct" else []
        leaves |= {f"{field.name}.{each.name}": each.type for each in inner} or {field.name: field.type}
    return leaves


def rows_of(batch: Any, longest: int) -> Iterator[dict[str, Any] | int | None]:
    """The rows of a batch; the size of one of more than ``longest`` bytes, and None for one whose text is not UTF-8."""
    if batch.nbytes > longest:
        for number in range(batch.num_rows):
            row = batch.slice(number, 1)
            yield from [row.nbytes] if row.nbytes > longest else rows_of(row, longest)
        return
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError:
        for number in range(batch.num_rows):
            try:
                yield batch.slice(number, 1).to_pylist()[0]
            except UnicodeDecodeError:
                yield None
