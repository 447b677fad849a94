"""``saccade train``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from saccade.cli.options import Json
from saccade.errors import SaccadeError


def train(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A recipe's YAML file, or the name of a shipped one.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value]...", help="Changes, e.g. model.hidden=128 train.epochs=2."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; runs/NAME-TIME unless given.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the interrupted run in this folder.")] = None,
    as_json: Json = False,
) -> None:
    """Train a model by a recipe, evaluate it on held-out data, and show where it looks.

    \b
    saccade train rnnsearch_dates
    saccade train rnnsearch_dates model.hidden=128 train.epochs=2
    saccade train my.yaml
    saccade train --resume runs/my-20260101-120000
    """
    from rich.console import Console

    from saccade import api
    from saccade.recipes.recipe import read_recipe
    from saccade.training.report import Silence, Terminal

    if (recipe is None) == (resume is None):
        raise SaccadeError("expected a RECIPE or --resume RUN, found " + ("both" if recipe else "neither"))
    if resume is not None:
        epochs = read_recipe(resume / "recipe.yaml").train.epochs if resume.is_dir() else 0
        report: Any = Silence() if as_json else Terminal(Console(), epochs)
        bundle = api.resume(resume, report=report)
    else:
        checked = read_recipe(recipe or "", overrides or [])
        report = Silence() if as_json else Terminal(Console(), checked.train.epochs)
        bundle = api.train(checked, folder=out, report=report)
    verdict = api.verdict(bundle)
    if as_json:
        print(json.dumps({"run": str(bundle.folder), "figures": bundle.figures, "reached": verdict.met}))
    else:
        _show_result(bundle, verdict.text)
    if not verdict.met:
        raise typer.Exit(1)


def _show_result(bundle: Any, verdict: str) -> None:
    """Figures, three predictions with their alignment, a picture, and what to try next."""
    from saccade.trace import Lens

    print("\nheld-out test set: " + ", ".join(f"{name} {value:.4f}" for name, value in bundle.figures["test"].items()))
    print(verdict)
    shown = bundle.examples(3)
    for number, prediction in enumerate(bundle.predict(shown, lens=Lens())):
        print()
        if prediction.trace is None or not prediction.trace.maps:
            print(f"{shown[number]} → {prediction.value}")
            continue
        prediction.trace.show()
        if number == 0:
            prediction.trace.save(bundle.folder / "alignment.png")
    picture = bundle.folder / "alignment.png"
    print(f"\nthe run is in {bundle.folder}" + (f", a picture in {picture}" if picture.exists() else ""))
    print("try next:")
    print(f'  saccade predict {bundle.folder} "{shown[0]}"')
    if picture.exists():
        print(f'  saccade view {bundle.folder} "{shown[-1]}" --out alignment.svg')
    print(f"  saccade evaluate {bundle.folder} --beam 5")
    print("  saccade recipes")
