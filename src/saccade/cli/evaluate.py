"""``saccade evaluate``: computes a model's metrics on held-out data."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.options import Json, Run, metric_names
from saccade.cli.search_options import SearchOptions, with_options
from saccade.errors import SaccadeError


@with_options(SearchOptions)
def evaluate(
    run: Run,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[key=value]...",
            help="How records are read, e.g. data.faults=drop data.too_long=truncate, or data.train=FILE if it has moved.",
        ),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Records like the training data; twice for two line-aligned files. Default: the recipe's test set.",
        ),
    ] = None,
    save_records: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write the records to FILE (.jsonl), for --data where the run's data is not."
        ),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="A metric to compute; may be repeated.", autocompletion=metric_names)
    ] = None,
    as_json: Json = False,
    *,
    options: SearchOptions,
) -> None:
    """Compute a model's metrics on held-out data.

    \b
    saccade evaluate runs/my
    saccade evaluate runs/my --data more.tsv data.faults=drop
    saccade evaluate runs/my --data test.de --data test.en
    saccade evaluate runs/my --save-records test.jsonl
    """
    file = next((text for text in settings or [] if "=" not in text), None)
    if file is not None:
        raise SaccadeError(f"command line: expected key=value, such as data.faults=drop, found {file!r} (--data FILE?)")
    bundle = options.load(run)
    files = tuple(data) if data else None
    try:
        bundle = bundle.reading(settings) if settings else bundle
        if save_records is not None:
            bundle.save_records(save_records, files)
        evaluation = bundle.evaluation(files, metrics=metric, search=options.search(bundle))
    except SaccadeError as error:  # settings as they are written here
        error.args = (re.sub(r"\b(data\.[\w.]+): (?!expected)", r"\1=", str(error)),)
        raise
    if as_json:
        result = {"figures": evaluation.figures, "signatures": evaluation.signatures, "notes": evaluation.notes}
        print(json.dumps(result | ({"details": evaluation.details} if evaluation.details else {})))
        return
    width = max(12, *map(len, evaluation.figures))
    for name, figure in evaluation.figures.items():
        print(f"{name:<{width}} {figure:.4f}  {evaluation.signatures.get(name, '')}".rstrip())
    for note in evaluation.notes:
        print(f"note: {note}")
