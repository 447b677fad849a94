"""Reads Parquet in batches of rows, with PyArrow (``pip install "saccade[parquet]"``)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from saccade.data.files.jsonl import fields_of
from saccade.data.files.lines import opened
from saccade.data.files.records import NOT_UTF8, Fault, Fields, Name, choose_columns, column_names, fault, shown_names
from saccade.errors import InputError
from saccade.extras import need

BATCH = 1024  # rows


def scan_parquet(path: Path, wanted: Sequence[Name], *, texts: Collection[Name] = ()) -> Iterator[Fields | Fault]:
    """The values of the wanted columns of every row; those of ``texts`` must be columns of text."""
    with table_of(path) as table:
        leaves = leaves_of(table.schema_arrow)
        names = named(wanted, list(table.schema_arrow.names), leaves, path)
        for name, column in zip(names, wanted, strict=True):
            kind = str(leaves.get(name, "string"))
            if column in texts and "string" not in kind:  # string, large_string, string_view, and dictionaries of them
                raise InputError(path, field=name, expected="a column of text", found=f"one of {kind}")
        number = 0
        for batch in table.iter_batches(BATCH, columns=list(dict.fromkeys(names)), use_threads=False):
            for row in rows_of(batch):
                number += 1
                place = f"row {number}"
                if row is None:
                    yield fault(number, NOT_UTF8, path, expected="UTF-8 text", found="other bytes", place=place)
                else:
                    yield fields_of(row, names, number, path, place)


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
