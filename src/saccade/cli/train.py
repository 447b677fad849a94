"""``saccade train``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from saccade.cli.completion import begun_runs, recipe_names
from saccade.cli.options import Json
from saccade.errors import SaccadeError

OFFERED = 100  # characters of a document in a command that is offered


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE",
            help="A recipe's YAML file, or the name of a shipped one.",
            autocompletion=recipe_names,
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[key=value]...",
            help="Changes, e.g. model.hidden=128 train.epochs=2; several values, model.hidden=128,256, are a sweep.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The run's folder; runs/NAME-TIME unless given.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Go on with the interrupted run or sweep in this folder.", autocompletion=begun_runs
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done: counts, memory, time. Nothing is written.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a model by a recipe, test it, and show where it looks.

    \b
    saccade train rnnsearch_dates
    saccade train rnnsearch_dates model.hidden=128 train.epochs=2
    saccade train my.yaml --dry-run
    saccade train my.yaml train.from=runs/old
    saccade train my.yaml model.hidden=128,256 train.seed=1,2,3
    saccade train --resume runs/my-20260101-120000
    """
    if (recipe is None) == (resume is None):
        found = "both: a run goes on by the recipe in its folder, without changes" if recipe else "neither"
        raise SaccadeError(f"expected a RECIPE or --resume RUN, found {found}")
    if resume is not None:
        if dry_run or out is not None:
            found = "--dry-run" if dry_run else "--out"
            raise SaccadeError(f"expected --resume RUN alone, found {found} too: a run goes on where it stands")
        _resume(resume, as_json)
        return
    from saccade.recipes.grid import is_sweep

    several = is_sweep(overrides or [])
    go = {(False, False): _train, (False, True): _plan, (True, False): _sweep, (True, True): _plan_sweep}
    go[several, dry_run](recipe or "", overrides or [], out, as_json)


def _train(recipe: str, overrides: list[str], out: Path | None, as_json: bool) -> None:
    from saccade import api
    from saccade.recipes.recipe import read_recipe

    checked = read_recipe(recipe, overrides)
    report = _reporting(as_json)("")
    _show(api.train(checked, folder=out, report=report), report, as_json)


def _resume(folder: Path, as_json: bool) -> None:
    from saccade import api

    if (folder / "sweep.json").is_file():
        _show_sweep(api.resume_sweep(folder, report=_reporting(as_json)), as_json)
        return
    report = _reporting(as_json)("")
    _show(api.resume(folder, report=report), report, as_json)


def _plan(recipe: str, overrides: list[str], out: Path | None, as_json: bool) -> None:
    from saccade import api
    from saccade.cli.planning import show_plan
    from saccade.recipes.recipe import read_recipe

    show_plan(api.plan(read_recipe(recipe, overrides), folder=out), as_json=as_json)


def _sweep(recipe: str, overrides: list[str], out: Path | None, as_json: bool) -> None:
    from saccade import api

    _show_sweep(api.sweep(recipe, overrides, folder=out, report=_reporting(as_json)), as_json)


def _plan_sweep(recipe: str, overrides: list[str], out: Path | None, as_json: bool) -> None:
    from saccade import api
    from saccade.cli.planning import show_plans
    from saccade.recipes.grid import read_grid

    members = read_grid(recipe, overrides)
    show_plans([(member.settings, api.plan(member.recipe, folder=out)) for member in members], as_json=as_json)


def _reporting(as_json: bool) -> Any:
    """What makes the report of a run from its place among several; its settings are too long to stand before a bar."""
    from rich.console import Console

    from saccade.cli.train_notes import Notes
    from saccade.training.report import Terminal

    console = Console()
    return lambda name: Notes() if as_json else Terminal(console, name.partition(" ")[0])


def _show_sweep(sweep: Any, as_json: bool) -> None:
    from saccade.cli.sweeping import show_sweep

    show_sweep(sweep, as_json=as_json)
    if sweep.failed:
        raise typer.Exit(1)


def _show(bundle: Any, report: Any, as_json: bool) -> None:
    """What was reached; a figure that the recipe promises and that was missed is exit status 1."""
    from saccade import api

    verdict = api.verdict(bundle)
    if as_json:
        reached = verdict.met if verdict.judged else None
        told = {"run": str(bundle.folder), "figures": bundle.figures, "reached": reached, "notes": report.notes}
        print(json.dumps(told))
    else:
        _show_result(bundle, verdict.text)
    if not verdict.met:
        raise typer.Exit(1)


def _show_result(bundle: Any, verdict: str) -> None:
    """Figures, three predictions with their alignment, a picture, and what to try next."""
    print("\nheld-out test set: " + ", ".join(f"{name} {value:.4f}" for name, value in bundle.figures["test"].items()))
    print(verdict)
    shown = bundle.examples(3)
    picture = _show_looks(bundle, shown)
    print(f"\nthe run is in {bundle.folder}" + (f", a picture in {picture}" if picture else ""))
    print("try next:")
    print(
        f"  saccade predict {bundle.folder} {_offered(bundle, shown[0])}" + (" --sample" if _writes_on(bundle) else "")
    )
    if picture:
        print(f"  saccade view {bundle.folder} {_offered(bundle, shown[-1])} --out where.html")
    wider = " --beam 5" if getattr(bundle.task, "searches", True) and not _writes_on(bundle) else " --json"
    print(f"  saccade evaluate {bundle.folder}{wider}")
    print("  saccade recipes")


def _offered(bundle: Any, text: str) -> str:
    """An input as a word of a shell; of a document its beginning, which is one too."""
    if bundle.recipe.task == "classify" and len(text) > OFFERED and "\t" not in text:
        text = text[:OFFERED].rpartition(" ")[0] or text[:OFFERED]
    return shlex.quote(text) if set(text) & set('"$`\\!') else f'"{text}"'


def _writes_on(bundle: Any) -> bool:
    """Whether the task is to write on from a text: what is likeliest there soon goes in circles, and samples do not."""
    return bool(bundle.recipe.task == "language")


def _show_looks(bundle: Any, shown: Sequence[str]) -> Path | None:
    """Predictions with where the network looked, and the first one's picture; of many maps one site of the first."""
    from saccade.trace import Lens
    from saccade.views.terminal import MOST_MAPS

    picture: Path | None = None
    for number, (text, prediction) in enumerate(zip(shown, bundle.predict(shown, lens=Lens()), strict=True)):
        print()
        trace = prediction.trace
        many = trace is not None and len(trace.maps) > MOST_MAPS
        if trace is None or not trace.maps or (many and number > 0):
            print(f"{text} → {prediction.value}")
            continue
        chosen = trace.only(trace.last_look) if many else trace
        chosen.show()
        if number == 0:
            picture = chosen.save(bundle.folder / "alignment.png")
        if many:
            one = f"saccade view {bundle.folder} {_offered(bundle, text)} --site {next(iter(trace.sites))} --head 0"
            print(f"\nthis is {trace.last_look}, one of {len(trace.sites)} sites; another, or one head: {one}")
    return picture
