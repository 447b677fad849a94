"""Predicts from columns of a table: every row keeps its cells and gets its prediction and score beside them. No torch."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from saccade.cli.options import print_notes
from saccade.cli.printing import print
from saccade.data.files.fields import COLUMNAR, columns_of, first_row, format_of, scan_fields
from saccade.data.files.lines import codec_of, suffix_of
from saccade.data.files.records import Fault, Fields, Name
from saccade.errors import InputError, SaccadeError

TOGETHER = 256  # rows that are predicted and written at a time
ADDED = ("prediction", "score")


class PredictedTable:
    """The rows of a table with their predictions, some at a time; ``faults`` counts the rows that have none.

    Args:
        columns: the inputs, by name or number from 1; those that the recipe names unless given.
        out: its suffix decides between commas and tabs.
    """

    def __init__(self, bundle: Any, file: Path, columns: Sequence[str], out: Path | None, encoding: str) -> None:
        try:
            codec_of(encoding)
        except ValueError as error:
            raise SaccadeError(f"--{error}") from None
        self.bundle, self.file, self.encoding, self.faults = bundle, file, encoding, 0
        hint = "--column reads the inputs from a table"
        kinds = {name: name for name in COLUMNAR}
        kind = format_of(file, suffixes=kinds, expected="a csv, tsv, jsonl or parquet", hint=hint)
        first = first_row(file, kind, encoding) or []
        self.names: list[Name] = columns_of(file, kind, encoding)
        if first and not all(map(str.isdecimal, columns)):  # named, so there is a header, whatever it looks like
            self.names = [name if name.strip() else number for number, name in enumerate(first, start=1)]
        self.columns = tuple(map(self._column, columns)) or bundle.task.input_columns(self.names)
        self._divider = "\t" if suffix_of(out or file) == "tsv" else ","

    def _column(self, name: str) -> Name:
        number = int(name) if name.isdecimal() and name not in self.names else 0
        column = self.names[number - 1] if 1 <= number <= len(self.names) else name
        if column not in self.names:
            there = f"one of the columns {', '.join(map(str, self.names))}"
            raise InputError(self.file, field="--column", expected=there, found=repr(name))
        return column

    def header(self) -> list[str]:
        """The line of names, where the table has one; an added name that the table has already is numbered."""
        if all(isinstance(name, int) for name in self.names):
            return []
        names = ["" if isinstance(name, int) else name for name in self.names]
        for name in ADDED:
            others = (f"{name}_{number}" for number in range(2, len(names) + 3))
            names.append(next(each for each in (name, *others) if each not in names))
        return self._lines([names])

    def chunks(self) -> Iterator[list[bytes]]:
        """The rows, each as bytes that :meth:`lines` reads; a malformed row is reported and left out."""
        chunk: list[bytes] = []
        for item in scan_fields(self.file, self.names, encoding=self.encoding, optional=self.names):
            if isinstance(item, Fault):
                self._refuse(item.error)
                continue
            chunk.append(json.dumps([item.line, item.values], default=str).encode())
            if len(chunk) == TOGETHER:
                yield chunk
                chunk = []
        if chunk:
            yield chunk

    def lines(self, chunk: Sequence[bytes], predict: Callable[[list[Any]], list[Any]]) -> list[str]:
        """The rows with their predictions, as lines of a table; a refused input has none, and is reported."""
        rows = [Fields(line, tuple(values)) for line, values in map(json.loads, chunk)]
        places = [self.names.index(column) for column in self.columns]
        fields = [Fields(row.line, tuple(row.values[place] for place in places)) for row in rows]
        inputs = self.bundle.task.inputs_of_table(self.columns, fields)
        if len(inputs) != len(rows):
            raise SaccadeError(f"--column: the inputs of the task {self.bundle.task.name} are not one per row")
        refused = self.bundle.refusals(inputs)
        for number, error in refused.items():
            self._refuse(error.at(f"{self.file}:{rows[number].line}"))
        kept = [number for number in range(len(rows)) if number not in refused]
        predictions = dict(zip(kept, predict([inputs[number] for number in kept]) if kept else [], strict=True))
        for number, prediction in predictions.items():
            print_notes(str(inputs[number]), prediction)
        added = {number: (one.readable or one.value, f"{one.score:.4f}") for number, one in predictions.items()}
        return self._lines([*map(_cell, row.values), *map(_cell, added.get(n, ("", "")))] for n, row in enumerate(rows))

    def _refuse(self, error: InputError) -> None:
        self.faults += 1
        print(f"error: {error}", file=sys.stderr)

    def _lines(self, rows: Any) -> list[str]:
        lines = []
        for row in rows:
            text = io.StringIO()
            csv.writer(text, delimiter=self._divider, lineterminator="").writerow(row)
            lines.append(text.getvalue())
        return lines


def _cell(value: Any) -> str:
    """A value as a cell: text as it is, lists and the like as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
