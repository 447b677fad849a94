"""Pairs from the datasets of the Hugging Face hub, by name. HF ``datasets`` loads them, once, into its cache.

    hf://OWNER/NAME[/CONFIGURATION][?split=train][&revision=…]       e.g. hf://wmt/wmt14/de-en?split=train[:1%]

It comes with ``pip install "saccade[hub]"``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from saccade.data.files.jsonl import keys_of, pair_of
from saccade.data.files.records import Columns, Fault, Found
from saccade.errors import InputError
from saccade.extras import need

HUB = "hf:/"  # a Path of hf://… has one of its slashes
FORM = "hf://OWNER/NAME[/CONFIGURATION][?split=train]"


def on_hub(path: str | Path) -> bool:
    """Whether this names a dataset of the hub rather than a file."""
    return str(path).startswith(HUB)


def scan_hub(path: str | Path, columns: Columns) -> Iterator[Found | Fault]:
    """The pairs of a dataset."""
    name, dataset = loaded(path)
    names = [str(column) for column in dataset.column_names]
    wanted = []
    for column in columns.wanted:
        known = isinstance(column, str) or column <= len(names)
        if not known or (isinstance(column, str) and column not in names and column.split(".")[0] not in names):
            shown = ", ".join(repr(each[:40]) for each in names[:20])
            raise InputError(name, expected=str(columns), found=f"the columns {shown}", hint=_inner(dataset))
        wanted.append(names[column - 1] if isinstance(column, int) else column)
    columns = replace(columns, **dict(zip(("source", "target", "group"), wanted, strict=False)))
    for number, row in enumerate(dataset, start=1):
        yield pair_of(row, columns, number, name, place=f"row {number}")


def header_of_hub(path: str | Path) -> list[str] | None:
    """The columns of a dataset, those of inner records with a dot."""
    _, dataset = loaded(path)
    first = next(iter(dataset), None)
    return list(dataset.column_names) if first is None else keys_of(first)


def _inner(dataset: Any) -> str | None:
    """What the first row's inner records are called."""
    first = next(iter(dataset), None)
    dotted = [] if first is None else [key for key in keys_of(first) if "." in key]
    return f"there are {', '.join(dotted[:10])}" if dotted else None


def loaded(path: str | Path) -> tuple[str, Any]:
    """The dataset that a name means, and the name in full."""
    name = "hf://" + str(path).removeprefix(HUB).lstrip("/")
    where, _, asked = name.removeprefix("hf://").partition("?")
    parts = where.strip("/").split("/")
    options = dict(parse_qsl(asked.replace("+", "%2B"), keep_blank_values=True))  # split=train+test: no blank
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
    except Exception as error:  # whatever the network, the hub or a dataset's own files throw
        said = " ".join(str(error).split())[:300] or "no reason given"
        found = f"{type(error).__name__}: {said}"
        raise InputError(name, expected="a dataset that can be loaded", found=found) from error
