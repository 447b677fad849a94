"""``saccade evaluate``: computes a model's metrics on held-out data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.options import Json, Run, metric_names
from saccade.cli.search_options import SearchOptions, with_options


@with_options(SearchOptions)
def evaluate(
    run: Run,
    data: Annotated[
        Path | None,
        typer.Option(help="A file of records like the training data; default: the recipe's test set."),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="A metric to compute; may be repeated.", autocompletion=metric_names)
    ] = None,
    as_json: Json = False,
    *,
    options: SearchOptions,
) -> None:
    """Compute a model's metrics on held-out data."""
    bundle = options.load(run)
    evaluation = bundle.evaluation(data, metrics=metric, search=options.search(bundle))
    if as_json:
        result = {"figures": evaluation.figures, "signatures": evaluation.signatures, "notes": evaluation.notes}
        more = {"details": evaluation.details, "baselines": evaluation.baselines}
        print(json.dumps(result | {name: value for name, value in more.items() if value}))
        return
    width = max(12, *map(len, evaluation.figures))
    for name, figure in evaluation.figures.items():
        print(f"{name:<{width}} {figure:.4f}  {evaluation.signatures.get(name, '')}".rstrip())
    for note in evaluation.notes:
        print(f"note: {note}")
