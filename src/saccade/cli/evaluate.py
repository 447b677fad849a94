"""``saccade evaluate``: computes a model's metrics on held-out data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.options import Json, Run, metric_names
from saccade.cli.printing import print
from saccade.cli.search_options import SearchOptions, with_options
from saccade.cli.tables import figure, table
from saccade.errors import SaccadeError

if TYPE_CHECKING:
    from saccade.metrics.labels import Confusion

MOST_ROWS, MOST_COLUMNS = 40, 12  # labels that are listed, and up to which the confusion matrix is printed


@with_options(SearchOptions)
def evaluate(
    run: Run,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[key=value]...",
            help="Settings for reading records, e.g. data.faults=drop data.too_long=truncate; data.train=FILE if it has moved.",
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
            metavar="FILE",
            help="Also write the records to FILE (.jsonl), for --data where the run's data is missing.",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="A metric to compute; may be repeated.", autocompletion=metric_names)
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the confusion matrix: a .png, .svg or .pdf."),
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
    if picture is not None:
        _draw(evaluation, picture, f"{bundle.recipe.name} · {', '.join(map(str, files)) if files else 'test'}")
    if as_json:
        result = {"figures": evaluation.figures, "signatures": evaluation.signatures, "notes": evaluation.notes}
        baselines = {"baselines": evaluation.baselines} if evaluation.baselines else {}
        print(json.dumps(result | evaluation.parts | baselines))
        return
    width = max(12, *map(len, evaluation.figures))
    for name, value in evaluation.figures.items():
        print(f"{name:<{width}} {value:.4f}  {evaluation.signatures.get(name, '')}".rstrip())
    for note in evaluation.notes:
        print(f"note: {note}")
    if evaluation.details:
        print(f"\n{by_label(evaluation.details)}")
    if evaluation.confusion is not None and len(evaluation.confusion.labels) <= MOST_COLUMNS:
        print(f"\n{confusion_table(evaluation.confusion)}")


def _draw(evaluation: Any, picture: Path, title: str) -> None:
    if evaluation.confusion is None:
        raise SaccadeError("--picture: expected a task with labels, whose confusion can be drawn")
    from saccade.views.charts.confusion import save

    save(evaluation.confusion.labels, evaluation.confusion.counts, picture, title=title)


def by_label(details: Mapping[str, Mapping[str, float]]) -> str:
    """The metrics of each label, a row per label; counts are whole numbers."""
    names = list(dict.fromkeys(name for figures in details.values() for name in figures))
    rows = [
        [label, *(f"{figures[name]:,}" if isinstance(figures[name], int) else figure(figures[name]) for name in names)]
        for label, figures in list(details.items())[:MOST_ROWS]
    ]
    more = len(details) - len(rows)
    heads = [{"count": "true", "said": "predicted"}.get(name, name) for name in names]
    listed = table(["", *heads], rows, right=heads)
    return f"{listed}\n… and {more:,} more (--json has them all)" if more else listed


def confusion_table(confusion: Confusion) -> str:
    """The matrix, a row per true label."""
    labels = list(confusion.labels)
    rows = [[true, *(f"{count:,}" for count in row)] for true, row in zip(labels, confusion.counts, strict=True)]
    return table([f"{confusion.unit}: true ↓ predicted →", *labels], rows, right=labels)
