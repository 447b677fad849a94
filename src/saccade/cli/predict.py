"""``saccade predict`` and ``saccade view``: what a model writes, and where it looked."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.options import Json, Run, lines
from saccade.cli.searching import SEARCH, Steering, with_options
from saccade.errors import SaccadeError

if TYPE_CHECKING:
    from saccade.trace.maps import Trace


@with_options(Steering)
def predict(
    run: Run,
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="[INPUT]...", help="Texts; lines of stdin unless given.")
    ] = None,
    n_best: Annotated[
        int | None, typer.Option(min=1, help="How many outputs an input, each with its score.", rich_help_panel=SEARCH)
    ] = None,
    as_json: Json = False,
    *,
    options: Steering,
) -> None:
    """Write a model's output for each input.

    \b
    saccade predict runs/my "a text"
    saccade predict runs/my "a text" --beam 5 --n-best 3
    saccade predict runs/my "a text" --prefix "It is" --require "house"
    saccade predict runs/my "a text" --sample --temperature 0.8 --n-best 3
    saccade predict runs/my "a text" --with runs/other
    """
    bundle = options.load(run)
    texts = inputs or lines()
    refused = bundle.refusals(texts)
    if len(refused) == len(texts):
        raise next(iter(refused.values()))
    good = [text for number, text in enumerate(texts) if number not in refused]
    predictions = iter(options.predict(bundle, good, n_best=n_best or 1))
    for number, text in enumerate(texts):
        if number in refused:
            # A line for each input, so that outputs still stand beside them.
            print(json.dumps({"input": text, "error": str(refused[number])}, ensure_ascii=False) if as_json else "")
            print(f"error: {refused[number]}", file=sys.stderr)
            continue
        prediction = next(predictions)
        if as_json:
            print(json.dumps(_as_json(text, prediction), ensure_ascii=False))
            continue
        for each in (prediction, *prediction.alternatives):
            print(each.value if n_best is None else f"{each.score:.4f}\t{each.value}")
        for note in prediction.notes:
            print(f"note: {text!r}: {note}", file=sys.stderr)
    if refused:
        raise typer.Exit(1)


@with_options(Steering)
def view(
    run: Run,
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="[INPUT]...", help="Texts; lines of stdin unless given.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write a .png, .svg, .pdf or .trace instead of drawing here.")
    ] = None,
    site: Annotated[
        str | None, typer.Option(metavar="SITE", help="One place where the model looks, e.g. decoder.1.cross.")
    ] = None,
    head: Annotated[int | None, typer.Option(metavar="N", help="One head of each place, or of --site.")] = None,
    *,
    options: Steering,
) -> None:
    """Show where a model looks, in the terminal or as a picture.

    \b
    saccade view runs/my "a text"
    saccade view runs/my "a text" --out where.png
    saccade view runs/my "a text" "another" --out where.svg
    saccade view runs/my "a text" --out where.trace
    saccade view runs/my "a text" --site decoder.1.cross --head 3

    Of many heads the terminal shows the mean, a picture each one; --site and --head choose. Several texts make where-1.svg,
    where-2.svg. A .trace keeps every weight; saccade.Trace.load reads it.
    """
    from saccade.trace import Lens
    from saccade.views.terminal import MOST_MAPS

    bundle = options.load(run)
    texts = inputs or lines()
    predictions = options.predict(bundle, texts, lens=Lens())
    for number, (text, prediction) in enumerate(zip(texts, predictions, strict=True)):
        for note in prediction.notes:
            print(f"note: {text!r}: {note}", file=sys.stderr)
        if prediction.trace is None or not prediction.trace.maps:
            raise SaccadeError(
                f"{run}: {bundle.recipe.model_name} does not look back at its input: there is nothing to draw"
            )
        chosen = prediction.trace.only(site, head)
        if out is None:
            chosen.show()
            continue
        path = out if len(texts) == 1 else out.with_stem(f"{out.stem}-{number + 1}")
        chosen.save(path)
        print(f"{text} → {prediction.value}  {path}")
    if out is None and len(chosen.maps) > MOST_MAPS:
        print(f"\n{_choices(chosen)}")


def _choices(trace: Trace) -> str:
    """What there is to choose from, where heads are drawn as their mean."""
    sites = trace.sites
    chosen = "--head N" if len(sites) == 1 else "--site SITE [--head N]"
    there = ", ".join(f"{site} ({len(heads)} head{'s' * (len(heads) != 1)})" for site, heads in sites.items())
    return f"one alone: {chosen}; there are {there}"


def _as_json(text: str, prediction: Any) -> dict[str, Any]:
    plain = {"input": text, **_output(prediction)}
    if prediction.alternatives:
        plain["alternatives"] = [_output(each) for each in prediction.alternatives]
    return plain


def _output(prediction: Any) -> dict[str, Any]:
    shares = {"probabilities": dict(prediction.probabilities)} if prediction.probabilities else {}
    return {
        "output": prediction.value,
        **shares,
        **({"choices": [dict(each) for each in prediction.choices]} if prediction.choices else {}),
        "score": prediction.score,
        "log_prob": prediction.log_prob,
        "parts": dict(prediction.parts),
        "stopped": prediction.stopped,
        "notes": list(prediction.notes),
    }
