"""Reads datasets of the Hugging Face hub by name. HF ``datasets`` loads them, once, into its cache.

    hf://OWNER/NAME[/CONFIGURATION][?split=train][&revision=…]       e.g. hf://wmt/wmt14/de-en?split=train[:1%]

It comes with ``pip install "saccade[hub]"``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from saccade.data.files.jsonl import fields_of, keys_of
from saccade.data.files.parquet import named
from saccade.data.files.records import Fault, Fields, Name
from saccade.errors import InputError
from saccade.extras import need

HUB = "hf:/"  # a Path of hf://… has one of its slashes
FORM = "hf://OWNER/NAME[/CONFIGURATION][?split=train]"


def on_hub(path: str | Path) -> bool:
    """Whether this names a dataset of the hub rather than a file."""
    return str(path).startswith(HUB)


def scan_hub(path: str | Path, wanted: Sequence[Name], *, optional: Collection[Name] = ()) -> Iterator[Fields | Fault]:
    """The values of the wanted columns of every row of a dataset; the numbers of a class label become its names."""
    where, dataset = loaded(path)
    top = [str(name) for name in dataset.column_names]
    first: dict[str, Any] = next(iter(dataset), {})
    dotted = [f"{key}.{below}" for key, value in first.items() if isinstance(value, dict) for below in value]
    names = named(wanted, top, [*top, *dotted], where)
    features = getattr(dataset, "features", None) or {}
    classes = [getattr(features.get(name), "names", None) for name in names]
    for number, row in enumerate(dataset, start=1):
        fields = fields_of(row, names, number, where, f"row {number}", optional)
        if isinstance(fields, Fields) and any(classes):
            values = tuple(map(_class_name, fields.values, classes))
            fields = Fields(number, values, fields.place)
        yield fields


def _class_name(value: Any, names: Sequence[str] | None) -> Any:
    return names[value] if names and isinstance(value, int) and 0 <= value < len(names) else value


def header_of_hub(path: str | Path) -> list[str] | None:
    """The columns of a dataset, those of inner records with a dot."""
    _, dataset = loaded(path)
    first = next(iter(dataset), None)
    return list(dataset.column_names) if first is None else keys_of(first)


def loaded(path: str | Path) -> tuple[str, Any]:
    """A dataset's full name, and the dataset."""
    name = "hf://" + str(path).removeprefix(HUB).lstrip("/")
    where, _, query = name.removeprefix("hf://").partition("?")
    parts = where.strip("/").split("/")
    options = dict(parse_qsl(query.replace("+", "%2B"), keep_blank_values=True))  # split=train+test: + is not a blank
    unknown = [key for key in options if key not in ("split", "revision")]
    if not 2 <= len(parts) <= 3 or not all(parts) or unknown:
        found = f"the option {unknown[0]!r}" if unknown else repr(where)
        raise InputError(name, expected=FORM, found=found)
    datasets = need("datasets", extra="hub", for_="reading from the hub")
    owner, title, *configuration = parts
    try:
        return name, datasets.load_dataset(
            f"{owner}/{title}",
            *configuration,
            split=options.get("split", "train"),
            revision=options.get("revision"),
            trust_remote_code=False,  # a dataset is data: its own loading script is not run
        )
    except Exception as error:  # whatever the network, the hub or a dataset's own files raise
        reason = " ".join(str(error).split())[:300] or "no reason given"
        found = f"{type(error).__name__}: {reason}"
        raise InputError(name, expected="a dataset that can be loaded", found=found) from error
