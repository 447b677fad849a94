"""``saccade predict``: prints a model's outputs."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from saccade.cli.options import Inputs, Json, Run, lines, parse_inputs, print_notes
from saccade.cli.printing import print
from saccade.cli.search_options import SEARCH, Steering, with_options


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
    as_json: Json = False,
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
    """
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
            print(f"{output.score:.4f}\t{output.value}" if scored else output.value)
        print_notes(text, prediction)
    if refused:
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
