"""Writes a recipe for records in memory, as ``saccade data`` writes one for a file."""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from saccade.data.files.fields import Name
from saccade.data.memory import WHERE, names_of, rows_of_table
from saccade.data.survey import surveys
from saccade.errors import InputError, SaccadeError
from saccade.recipes.located import locate
from saccade.recipes.schema import build
from saccade.tasks import data_class

ACCEPTED = "a DataFrame, a dict of columns or a list of dicts"


def recipe_for(data: Any, columns: Mapping[str, Name] | None = None) -> dict[str, Any]:
    """A recipe for records in memory: what ``saccade data`` recommends for a file of them, to change and to train.

    Args:
        data: a DataFrame or another table, a dict of columns, or a list of dicts; or a dict of these with the keys train, valid
            and test, of which the recipe is for ``train``.
        columns: which column has which role, as ``saccade data --column`` takes it: ``{"text": "review", "label": "stars"}``.
            Guessed unless given.

    >>> # recipe = saccade.recipe_for(frame); recipe["model"]["hidden"] = 64; bundle = saccade.train(recipe, frame)
    """
    if columns is not None and not isinstance(columns, Mapping):
        expected = "a dict, role → column, as in {'text': 'review', 'label': 'stars'}"
        raise InputError("columns", expected=expected, found=f"a {type(columns).__name__}")
    names, rows = _table(data)
    with tempfile.TemporaryDirectory() as folder:
        file = _written(Path(folder), names, rows)
        try:
            return _recommended(file, columns or {})
        except SaccadeError as error:
            message = str(error).replace(str(file), WHERE).replace("data.columns names", "columns={role: name} names")
            raise SaccadeError(message) from None


def _recommended(file: Path, columns: Mapping[str, Name]) -> dict[str, Any]:
    kind = next((kind for kind in surveys() if kind.recognises([str(file)], columns, None, "utf-8")), None)
    if kind is None:
        roles = "; ".join(f"{kind.kind}: {', '.join(kind.roles)}" for kind in surveys() if kind.roles)
        raise InputError("columns", expected=f"roles of one kind ({roles})", found=", ".join(columns))
    section = data_class(kind.task)
    plain = {"train": str(file)} | ({"columns": kind.columns(columns)} if columns else {})
    folders = {"images", "recordings"} & {field.name for field in fields(section)}
    plain |= {name: str(Path.cwd()) for name in folders}  # where names of files in memory start
    survey = kind(build(section, locate(plain, "columns"), "data"), named=bool(columns)).read()
    if survey.problems:
        raise SaccadeError(f"{WHERE}: the data would not train: {'; '.join(survey.problems)}")
    recipe = survey.recipe() | {"about": f"{survey.kind.capitalize()} given in memory."}
    for name in ("train", *folders):
        recipe["data"].pop(name, None)
    return recipe


def _table(data: Any) -> tuple[list[Any], list[tuple[Any, ...]]]:
    """The names and the rows of a table."""
    if (
        isinstance(data, Mapping)
        and "train" in data
        and {*data} <= {"train", "valid", "test"}
        and _is_table(data["train"])
    ):
        data = data["train"]
    names = names_of(data)
    if names is None and isinstance(data, Iterable) and not isinstance(data, str | bytes | Path):
        records = list(data)
        if records and all(isinstance(record, Mapping) for record in records):
            names = list(dict.fromkeys(name for record in records for name in record))
            data = {name: [record.get(name) for record in records] for name in names}
    if names is None:
        hint = "saccade data FILE --recipe my.yaml writes one for a file" if isinstance(data, str | Path) else None
        found = "nothing" if isinstance(data, list) and not data else f"a {type(data).__name__}"
        raise InputError(WHERE, expected=ACCEPTED, found=found, hint=hint)
    if not all(isinstance(name, str) for name in names):
        found = f"the columns {', '.join(map(repr, names))}"
        raise InputError(WHERE, expected="texts as names of columns", found=found)
    return names, [fields.values for fields in rows_of_table(data, names, names)]


def _is_table(data: Any) -> bool:
    """Whether it is records rather than a column of them."""
    return names_of(data) is not None or (isinstance(data, list) and all(isinstance(each, Mapping) for each in data))


def _written(folder: Path, names: list[Any], rows: list[tuple[Any, ...]]) -> Path:
    """The table as a file: JSONL where cells hold lists or the like, else CSV."""
    nested = any(isinstance(value, list | tuple | dict) or hasattr(value, "tolist") for row in rows for value in row)
    path = folder / ("data.jsonl" if nested else "data.csv")
    with open(path, "w", encoding="utf-8", newline="") as file:
        if nested:
            for row in rows:
                record = dict(zip(names, row, strict=True))
                file.write(json.dumps(record, default=_plain, ensure_ascii=False) + "\n")
        else:
            csv.writer(file).writerows([names, *rows])
    return path


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)
