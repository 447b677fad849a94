"""``saccade predict`` and ``saccade view``: what a model writes, and where it looked."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from saccade.cli.options import Beam, Json, Run, lines
from saccade.errors import SaccadeError


def predict(
    run: Run,
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="[INPUT]...", help="Texts; lines of stdin unless given.")
    ] = None,
    beam: Beam = None,
    n_best: Annotated[int | None, typer.Option(min=1, help="How many outputs an input; needs a beam as large.")] = None,
    as_json: Json = False,
) -> None:
    """Write a model's output for each input."""
    from saccade.api import load

    bundle = load(run)
    texts = inputs or lines()
    for text, prediction in zip(texts, bundle.predict(texts, search=searching(bundle, beam, n_best)), strict=True):
        if as_json:
            print(json.dumps(_as_json(text, prediction), ensure_ascii=False))
            continue
        for each in (prediction, *prediction.alternatives):
            print(each.value if n_best is None else f"{each.score:.4f}\t{each.value}")
        for note in prediction.notes:
            print(f"note: {text!r}: {note}", file=sys.stderr)


def view(
    run: Run,
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="[INPUT]...", help="Texts; lines of stdin unless given.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write a .png, .svg, .pdf or .trace instead of drawing here.")
    ] = None,
    beam: Beam = None,
) -> None:
    """Show where a model looks: an alignment in the terminal, or a picture."""
    from saccade.api import load
    from saccade.trace import Lens

    bundle = load(run)
    texts = inputs or lines()
    predictions = bundle.predict(texts, lens=Lens(), search=searching(bundle, beam, None))
    for number, (text, prediction) in enumerate(zip(texts, predictions, strict=True)):
        for note in prediction.notes:
            print(f"note: {text!r}: {note}", file=sys.stderr)
        if prediction.trace is None or not prediction.trace.maps:
            raise SaccadeError(
                f"{run}: {bundle.recipe.model_name} does not look back at its input: there is nothing to draw"
            )
        if out is None:
            prediction.trace.show()
            continue
        path = out if len(texts) == 1 else out.with_stem(f"{out.stem}-{number + 1}")
        prediction.trace.save(path)
        print(f"{text} → {prediction.value}  {path}")


def searching(bundle: Any, beam: int | None, n_best: int | None) -> Any:
    from dataclasses import replace

    try:
        wanted = {"beam": beam or max(bundle.recipe.search.beam, n_best or 1), "n_best": n_best or 1}
        return replace(bundle.recipe.search, **wanted)
    except ValueError as error:
        raise SaccadeError(f"command line: {error}") from None


def _as_json(text: str, prediction: Any) -> dict[str, Any]:
    plain = {"input": text, "output": prediction.value, "score": prediction.score, "log_prob": prediction.log_prob}
    plain |= {"stopped": prediction.stopped, "notes": list(prediction.notes)}
    if prediction.alternatives:
        plain["alternatives"] = [{"output": each.value, "score": each.score} for each in prediction.alternatives]
    return plain
