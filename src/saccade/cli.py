"""The command line: it parses, calls the api, and prints. Heavy imports happen inside the commands, so ``--help`` is quick."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from saccade.errors import Interrupted, SaccadeError

app = typer.Typer(
    name="saccade",
    help="Train, see and ship neural networks that pay attention.",
    epilog="Start here: saccade train rnnsearch_dates · saccade recipes · saccade COMMAND --help",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a trained run, e.g. runs/rnnsearch_dates-….")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Beam = Annotated[int | None, typer.Option(min=1, help="Beam size; the recipe's own unless given. 1 is greedy.")]


@app.command()
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


@app.command()
def evaluate(
    run: Run,
    data: Annotated[Path | None, typer.Option(help="A file of pairs; the recipe's test set unless given.")] = None,
    metric: Annotated[list[str] | None, typer.Option(help="A metric to compute; may be repeated.")] = None,
    beam: Beam = None,
    as_json: Json = False,
) -> None:
    """Compute a model's figures on held-out data."""
    from saccade.api import load

    bundle = load(run)
    evaluation = bundle.evaluation(data, metrics=metric, search=_search(bundle, beam, None))
    if as_json:
        print(
            json.dumps({"figures": evaluation.figures, "signatures": evaluation.signatures, "notes": evaluation.notes})
        )
        return
    for name, figure in evaluation.figures.items():
        print(f"{name:<12} {figure:.4f}  {evaluation.signatures.get(name, '')}".rstrip())
    for note in evaluation.notes:
        print(f"note: {note}")


@app.command()
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
    texts = inputs or _lines()
    for text, prediction in zip(texts, bundle.predict(texts, search=_search(bundle, beam, n_best)), strict=True):
        if as_json:
            print(json.dumps(_as_json(text, prediction), ensure_ascii=False))
            continue
        for each in (prediction, *prediction.alternatives):
            print(each.value if n_best is None else f"{each.score:.4f}\t{each.value}")
        for note in prediction.notes:
            print(f"note: {text!r}: {note}", file=sys.stderr)


@app.command()
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
    texts = inputs or _lines()
    predictions = bundle.predict(texts, lens=Lens(), search=_search(bundle, beam, None))
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


@app.command()
def recipes(as_json: Json = False) -> None:
    """List the recipes that come with saccade."""
    import yaml

    from saccade.recipes.recipe import shipped_recipes

    found = {name: yaml.safe_load(path.read_text(encoding="utf-8")) for name, path in shipped_recipes().items()}
    if as_json:
        print(json.dumps(found, ensure_ascii=False))
        return
    width = max(len(name) for name in found)
    for name, recipe in found.items():
        expect = recipe.get("expect") or {}
        bound = f"≥ {expect['at_least']}" if "at_least" in expect else f"≤ {expect.get('at_most')}"
        figure = f"  [{expect['metric']} {bound}]" if expect else ""
        print(f"{name:<{width}}  {recipe.get('about', '')}{figure}")


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if show:
        from saccade import __version__

        print(__version__)
        raise typer.Exit


def main() -> None:
    """The command's entry: an error meant for a person is one line on stderr and exit status 1; Ctrl-C is 130."""
    try:
        app()
    except SaccadeError as error:
        interrupted = isinstance(error, Interrupted)
        print(str(error) if interrupted else f"error: {error}", file=sys.stderr)
        sys.exit(130 if interrupted else 1)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)


def _lines() -> list[str]:
    if sys.stdin.isatty():
        raise SaccadeError("expected INPUT texts, or lines on stdin, found neither")
    try:
        lines = [line.rstrip("\r\n") for line in sys.stdin]
    except UnicodeDecodeError as error:
        raise SaccadeError(f"stdin: expected UTF-8 text, found byte {error.object[error.start]:#04x}") from None
    if not lines:
        raise SaccadeError("stdin: expected a text a line, found nothing")
    return lines


def _search(bundle: Any, beam: int | None, n_best: int | None) -> Any:
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
