"""``saccade predict``: prints a model's outputs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from saccade.cli.options import Force, Inputs, Json, Run, lines, parse_inputs, print_notes, refuse_existing
from saccade.cli.predicted_table import PredictedTable
from saccade.cli.search_options import SEARCH, Steering, with_options
from saccade.errors import SaccadeError


@with_options(Steering)
def predict(
    run: Run,
    inputs: Inputs = None,
    n_best: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of outputs per input, with scores. Default: the recipe's.",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="INPUT is a table (csv, tsv, jsonl, parquet): predict from this column of it, and write its rows with their "
            "predictions. May be repeated, for pairs.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="With --column: write to this file.")] = None,
    encoding: Annotated[str, typer.Option(help="With --column: of the table, as Python names it.")] = "utf-8",
    as_json: Json = False,
    force: Force = False,
    *,
    options: Steering,
) -> None:
    """Print a model's output for each input.

    \b
    saccade predict runs/my "a text"
    saccade predict runs/my "a text" --beam 5 --n-best 3
    saccade predict runs/my "a text" --prefix "It is" --require "house"
    saccade predict runs/my "a text" --sample --temperature 0.8 --n-best 3
    saccade predict runs/my "a text" --with runs/other
    saccade predict runs/my texts.csv --column text --out labelled.csv
    """
    if column:
        if len(inputs or ()) != 1 or as_json:
            found = "--json, which prints inputs without their rows" if as_json else f"{len(inputs or ())} of them"
            raise SaccadeError(f"--column: expected one table as INPUT, found {found}")
        refuse_existing(out, force=force)
        bundle = options.load(run)
        table = PredictedTable(bundle, Path((inputs or [])[0]), column, out, encoding)
        _write(table, lambda rows: options.predict(bundle, rows), out)
        return
    if out is not None or force:
        raise SaccadeError(f"{'--out' if out is not None else '--force'}: expected --column NAME beside it, found none")
    bundle = options.load(run)
    texts = inputs or lines()
    parsed, refused = parse_inputs(bundle, texts)
    if len(refused) == len(texts):
        raise next(iter(refused.values()))
    wanted = n_best or _default_n_best(bundle, options)
    scored = n_best is not None or wanted > 1
    predictions = iter(options.predict(bundle, list(parsed.values()), n_best=wanted))
    for number, text in enumerate(texts):
        if number in refused:
            # An empty line, so that lines of inputs and outputs still correspond.
            print(json.dumps({"input": text, "error": str(refused[number])}, ensure_ascii=False) if as_json else "")
            print(f"error: {refused[number]}", file=sys.stderr)
            continue
        prediction = next(predictions)
        if as_json:
            print(json.dumps(_as_json(text, prediction), ensure_ascii=False))
            continue
        printed = prediction.detail.lines()
        if printed is not None:  # several lines per input: a blank line between inputs
            print("\n".join(["", *printed] if number else printed))
        for output in (prediction, *prediction.alternatives) if printed is None else ():
            written = output.readable or output.value
            print(f"{output.score:.4f}\t{written}" if scored else written)
        print_notes(text, prediction)
    if refused:
        raise typer.Exit(1)


def _write(table: PredictedTable, predictor: Callable[[list[Any]], list[Any]], out: Path | None) -> None:
    """Write the rows of a table with their predictions, in order and as they are made."""
    with nullcontext(sys.stdout) if out is None else open(out, "w", encoding="utf-8", newline="") as file:
        file.writelines(f"{line}\n" for line in table.header())
        for chunk in table.chunks():
            file.writelines(f"{line}\n" for line in table.lines(chunk, predictor))
            file.flush()
    if table.faults:
        raise typer.Exit(1)


def _default_n_best(bundle: Any, options: Steering) -> int:
    """The number of outputs of the recipe's search, at most the given beam."""
    own: int = bundle.recipe.search.n_best
    return own if options.beam is None else min(own, options.beam)


def _as_json(text: str, prediction: Any) -> dict[str, Any]:
    plain = {"input": text, **_output(prediction)}
    if prediction.alternatives:
        plain["alternatives"] = [_output(each) for each in prediction.alternatives]
    return plain


def _output(prediction: Any) -> dict[str, Any]:
    return {**prediction.to_json(), "parts": dict(prediction.parts), "notes": list(prediction.notes)}
