"""``saccade train``: trains a recipe or a sweep, resumes a run, or plans it (--dry-run)."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.options import Json, Trust, begun_runs, recipe_names
from saccade.cli.printing import print
from saccade.cli.tables import duration, figure, size, table
from saccade.errors import SaccadeError
from saccade.storage import write_bytes
from saccade.training.config import PURPOSES

if TYPE_CHECKING:
    from saccade.api.dry_run import Plan
    from saccade.api.runs import Run
    from saccade.api.sweeps import Sweep


LONGEST_EXAMPLE = 100  # characters of a document in a suggested command


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE",
            help="A recipe's YAML file, or the name of a shipped recipe.",
            autocompletion=recipe_names,
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[key=value]...",
            help="Overrides, e.g. model.hidden=128 train.epochs=2; several values (model.hidden=128,256) make a sweep.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The run's folder; default: runs/NAME-TIME.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Resume the interrupted run or sweep in this folder.", autocompletion=begun_runs
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print counts, memory and time without training. Writes nothing.")
    ] = False,
    trust: Trust = None,
    as_json: Json = False,
) -> None:
    """Train a model from a recipe, test it, and show its attention.

    \b
    saccade train rnnsearch_dates
    saccade train rnnsearch_dates model.hidden=128 train.epochs=2
    saccade train my.yaml --dry-run
    saccade train my.yaml train.from=runs/old
    saccade train my.yaml model.hidden=128,256 train.seed=1,2,3
    saccade train --resume runs/my-20260101-120000
    """
    if (recipe is None) == (resume is None):
        found = "both (a run resumes with the recipe in its folder)" if recipe else "neither"
        raise SaccadeError(f"expected a RECIPE or --resume RUN, found {found}")
    if resume is not None:
        if dry_run or out is not None:
            found = "--dry-run" if dry_run else "--out"
            raise SaccadeError(f"expected --resume RUN alone, found {found} too")
        _resume(resume, trust or [], as_json)
        return
    from saccade.recipes.grid import is_sweep

    several = is_sweep(overrides or [])
    go = {(False, False): _train, (False, True): _plan, (True, False): _sweep, (True, True): _plan_sweep}
    go[several, dry_run](recipe or "", overrides or [], out, trust or [], as_json)


def _train(recipe: str, overrides: list[str], out: Path | None, trust: list[str], as_json: bool) -> None:
    from saccade import api
    from saccade.recipes.recipe import read_recipe

    checked = read_recipe(recipe, overrides, trust=trust)
    report = _reporting(as_json)("")
    _show(api.train(checked, folder=out, report=report), as_json)


def _resume(folder: Path, trust: list[str], as_json: bool) -> None:
    from saccade import api

    if (folder / "sweep.json").is_file():
        _show_sweep(api.resume_sweep(folder, report=_reporting(as_json), trust=trust), as_json)
        return
    report = _reporting(as_json)("")
    _show(api.resume(folder, report=report, trust=trust), as_json)


def _plan(recipe: str, overrides: list[str], out: Path | None, trust: list[str], as_json: bool) -> None:
    from saccade import api
    from saccade.recipes.recipe import read_recipe

    show_plan(api.plan(read_recipe(recipe, overrides, trust=trust), folder=out), as_json=as_json)


def _sweep(recipe: str, overrides: list[str], out: Path | None, trust: list[str], as_json: bool) -> None:
    from saccade import api

    _show_sweep(api.sweep(recipe, overrides, folder=out, report=_reporting(as_json), trust=trust), as_json)


def _plan_sweep(recipe: str, overrides: list[str], out: Path | None, trust: list[str], as_json: bool) -> None:
    from saccade import api
    from saccade.recipes.grid import read_grid

    members = read_grid(recipe, overrides, trust=trust)
    show_plans([(member.settings, api.plan(member.recipe, folder=out)) for member in members], as_json=as_json)


def _reporting(as_json: bool) -> Any:
    """A function from a run's name to its progress report; in a sweep, the name before the first space."""
    from rich.console import Console

    from saccade.training.report import Silence, Terminal

    console = Console()
    return lambda name: Silence() if as_json else Terminal(console, name.partition(" ")[0])


def _show_sweep(sweep: Any, as_json: bool) -> None:
    show_sweep(sweep, as_json=as_json)
    if sweep.failed:
        raise typer.Exit(1)


def _show(bundle: Any, as_json: bool) -> None:
    """Print the results; exit status 1 if the recipe's expected figure was missed."""
    from saccade import api

    verdict = api.verdict(bundle)
    if as_json:
        reached = verdict.met if verdict.judged else None
        result = {"run": str(bundle.folder), "figures": bundle.figures, "reached": reached, "notes": bundle.notes}
        print(json.dumps(result))
    else:
        _show_result(bundle, verdict.text)
    if not verdict.met:
        raise typer.Exit(1)


def _show_result(bundle: Any, verdict: str) -> None:
    """Print figures, three predictions with their attention, a picture's path, and commands to try next."""
    from saccade.api.training import CONFUSION
    from saccade.task import Searches

    print("\nheld-out test set: " + ", ".join(f"{name} {value:.4f}" for name, value in bundle.figures["test"].items()))
    print(verdict)
    shown = bundle.examples(3)
    named = [_argument(bundle, example, number) for number, example in enumerate(shown, start=1)]
    picture = _show_attention(bundle, shown, named)
    print(f"\nthe run is in {bundle.folder}" + (f", a picture in {picture}" if picture else ""))
    if (bundle.folder / CONFUSION).is_file():
        print(f"confusion matrix: {bundle.folder / CONFUSION}")
    print("try next:")
    trust, sample = _trust(bundle), " --sample" if _writes_on(bundle) else ""
    sample += " --out samples.png" if bundle.task.output == "image" else ""
    if named:
        print(f"  saccade predict {bundle.folder} {_quoted(bundle, named[0])}{sample}{trust}")
    if picture:
        print(f"  saccade view {bundle.folder} {_quoted(bundle, named[-1])} --out where.html{trust}")
    wider = " --beam 5" if isinstance(bundle.task, Searches) and not _writes_on(bundle) else " --json"
    print(f"  saccade evaluate {bundle.folder}{wider}{trust}")
    print("  saccade recipes")


def _trust(bundle: Any) -> str:
    """The --trust options that a command needs to load this run, if it has parts of the user's own."""
    from saccade.plugins import packages_of

    return "".join(f" --trust {package}" for package in packages_of(bundle.recipe.to_plain()))


def _quoted(bundle: Any, text: str) -> str:
    """An input quoted for a shell; only the beginning of a document."""
    if bundle.task.output == "label" and len(text) > LONGEST_EXAMPLE and "\t" not in text:
        text = text[:LONGEST_EXAMPLE].rpartition(" ")[0] or text[:LONGEST_EXAMPLE]
    return shlex.quote(text) if set(text) & set('"$`\\!') else f'"{text}"'


def _writes_on(bundle: Any) -> bool:
    """Whether the task continues a text: greedy continuations soon repeat themselves, samples do not."""
    return bool(bundle.task.output == "continuation")


def _argument(bundle: Any, example: Any, number: int) -> str:
    """An example as the command line takes it: of a file, the name under which it is written into the run's folder."""
    if not (isinstance(example, Mapping) and set(example) == {"base64"}):
        return str(example)
    path = bundle.folder / f"example-{number}{Path(bundle.task.sample).suffix}"
    write_bytes(path, bundle.task.input.from_json(example, path.name))
    return str(path)


def _show_attention(bundle: Any, shown: Sequence[Any], named: Sequence[str]) -> Path | None:
    """Draw the predictions' attention and save the first as a picture; of many maps only one site of the first."""
    from saccade.trace import Lens
    from saccade.views.terminal.show import MOST_MAPS

    picture: Path | None = None
    for number, (text, prediction) in enumerate(zip(named, bundle.predict(shown, lens=Lens()), strict=True)):
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
            one = f"saccade view {bundle.folder} {_quoted(bundle, text)} --site {next(iter(trace.sites))} --head 0"
            one += _trust(bundle)
            print(f"\nthis is {trace.last_look}, one of {len(trace.sites)} sites; to see another, or one head: {one}")
    return picture


# --dry-run ----------------------------------------------------------------------------------------------------------


def show_plan(plan: Plan, *, as_json: bool) -> None:
    """Print one plan, as text or as JSON."""
    if as_json:
        print(json.dumps(plan.to_plain(), ensure_ascii=False))
        return
    print(f"{plan.name}: {plan.model} for the task {plan.task}, on {plan.device}; a dry run, nothing is written\n")
    for name, lines in _page(plan).items():
        for number, line in enumerate(lines):
            print(f"{name if number == 0 else '':<12}{line}")


def _page(plan: Plan) -> dict[str, list[str]]:
    counts = [plan.records[name] for name in ("train", "valid", "test")]
    data = [f"{counts[0]:,} records to train on, {counts[1]:,} {PURPOSES[plan.keep]}, {counts[2]:,} held out"]
    if plan.tokens:
        data.append(
            ", ".join(f"{count:,} {side} tokens" for side, count in plan.tokens["train"].items()) + " to train on"
        )
    about = "" if plan.exact else "about "
    page = {"begins from": [plan.origin]} if plan.origin else {}
    page["data"] = [*data, *plan.notes]
    if plan.vocabulary:
        page["vocabulary"] = [", ".join(f"{count:,} {side} tokens" for side, count in plan.vocabulary.items())]
    epochs, looks = _many(plan.epochs, "epoch"), _many(plan.looks, "look")
    most = "at most " if plan.stop_after is not None else ""
    steps = f"{epochs} of {_many(plan.batches, 'batch', 'es')}: {most}{about}{_many(plan.updates, 'update')}"
    page["training"] = [f"{steps}, {looks} at the validation {plan.watch}; {_kept(plan)}"]
    page["parameters"] = _parameters(plan)
    page["memory"] = _memory(plan)
    spent = f"{duration(plan.time.least)} to {duration(plan.time.most)}"
    timed = f"{plan.time.timed} updates took {duration(plan.time.update)} each"
    limit = "" if plan.minutes is None else f"; training stops after {duration(60 * plan.minutes)} (train.minutes)"
    page["time"] = [f"{spent}, estimated ({timed}){limit}; plus evaluation on the test set"]
    return page | {"expected": [plan.expect], "folder": [str(plan.folder)]}


def _kept(plan: Plan) -> str:
    """Which network is kept: one, or the mean of several."""
    if plan.average < 2:
        return f"the {plan.keep} network is kept"
    mean = f"the mean of the {plan.average_of} {plan.average}"
    return f"{mean} is kept" if plan.keep == "last" else f"the best network is kept, or {mean} if as good"


def _many(count: int, noun: str, ending: str = "s") -> str:
    return f"{count:,} {noun}{'' if count == 1 else ending}"


def _parameters(plan: Plan) -> list[str]:
    rows = [(part.name, f"{part.parameters:,}", "frozen" if part.frozen else "") for part in plan.parts]
    frozen = sum(part.frozen for part in plan.parts)
    total = f"{plan.parameters:,}" + (f", {frozen:,} of them frozen" if frozen else "")
    width = max(len(name) for name, _, _ in rows)
    return [total, *(f"  {name:<{width}}  {count:>12}  {state}".rstrip() for name, count, state in rows)]


def _memory(plan: Plan) -> list[str]:
    memory = plan.memory
    parts = {"weights": memory.weights, "gradients": memory.gradients, "optimiser": memory.optimiser}
    known = ", ".join(f"{name} {size(count)}" for name, count in parts.items())
    return [
        f"about {size(memory.total)}: {known},",
        f"  and {size(memory.activations)} for the largest batch (estimated)",
    ]


def show_plans(plans: Sequence[tuple[Mapping[str, str], Plan]], *, as_json: bool) -> None:
    """Print the plans of a sweep's runs, one per line, and their total time."""
    if as_json:
        print(json.dumps([{"settings": dict(settings), **plan.to_plain()} for settings, plan in plans]))
        return
    names = list(plans[0][0])
    header = ["run", *names, "parameters", "updates", "memory", "time (estimated)"]
    rows = [
        [str(number), *settings.values(), f"{plan.parameters:,}", f"{plan.updates:,}", size(plan.memory.total),
         f"{duration(plan.time.least)} to {duration(plan.time.most)}"]
        for number, (settings, plan) in enumerate(plans, start=1)
    ]  # fmt: skip
    print(f"a sweep of {len(plans)} runs; a dry run, nothing is written\n")
    print(table(header, rows, right=["parameters", "updates", "memory"]))
    least, most = sum(plan.time.least for _, plan in plans), sum(plan.time.most for _, plan in plans)
    print(f"\ntogether {duration(least)} to {duration(most)}, estimated")


# Sweeps -------------------------------------------------------------------------------------------------------------


def show_sweep(sweep: Sweep, *, as_json: bool) -> None:
    """Print the runs of a sweep, best first, and what failed; or the sweep as JSON."""
    if as_json:
        print(json.dumps(sweep.to_plain(), ensure_ascii=False))
        return
    direction = "higher" if sweep.higher_is_better else "lower"
    print(
        f"\n{len(sweep.members)} runs in {sweep.folder}, by {sweep.watch} on the validation set ({direction} is better)\n"
    )
    print(_members(sweep))
    for settings, run in sweep.failed:
        print(f"\n{run.state}: {_words(settings)}: {run.reason}")
    if any(group.runs > 1 for group in sweep.groups) and any(group.settings for group in sweep.groups):
        print(f"\nover seeds, mean ± standard deviation:\n\n{_groups(sweep)}")
    _show_best(sweep)


def _show_best(sweep: Sweep) -> None:
    best = sweep.best
    if best is None:
        print("\nno run succeeded")
        return
    reached = f"{sweep.watch} {figure(best.valid, best.valid_deviation)} on the validation set"
    tested = ", ".join(f"{name} {figure(value, best.test_deviation.get(name))}" for name, value in best.test.items())
    print(f"\nbest: {_words(best.settings) or f'{best.done} seeds'}: {reached}; {tested} on the test set")
    first = sweep.ranking[0][1]
    print(f"try next:\n  saccade runs {first.folder}\n  saccade evaluate {first.folder}")


def _members(sweep: Sweep) -> str:
    keys, tests = _keys(sweep.members), _tests([run for _, run in sweep.members])
    watch, tested = f"valid {sweep.watch}", [f"test {name}" for name in tests]
    header = ["", *keys.values(), watch, *tested, "parameters", "seconds", "run"]
    rows = []
    for place, (settings, run) in enumerate(sweep.ranking, start=1):
        done = run.state == "done"
        rows.append([
            str(place) if done else "",
            *(settings[key] for key in keys),
            figure(run.valid.get(sweep.watch)) if done else run.state,
            *(figure(run.test.get(name)) for name in tests),
            f"{run.parameters:,}" if run.parameters is not None else "",
            f"{run.seconds:.1f}" if run.seconds is not None else "",
            run.folder.name,
        ])  # fmt: skip
    return table(header, rows, right=["", watch, *tested, "parameters", "seconds"])


def _groups(sweep: Sweep) -> str:
    groups = sweep.groups
    keys, tests = _keys([(group.settings, None) for group in groups]), list(groups[0].test)
    header = [*keys.values(), f"valid {sweep.watch}", *(f"test {name}" for name in tests), "seeds", "time"]
    rows = [
        [*(group.settings[key] for key in keys), figure(group.valid, group.valid_deviation),
         *(figure(group.test.get(name), group.test_deviation.get(name)) for name in tests),
         str(group.done) if group.done == group.runs else f"{group.done} of {group.runs}", duration(group.seconds)]
        for group in groups
    ]  # fmt: skip
    return table(header, rows)


def _tests(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in run.test))


def _keys(members: Sequence[tuple[Mapping[str, str], Run | None]]) -> dict[str, str]:
    """Swept fields → column headings: ``hidden`` for ``model.hidden`` if that is unambiguous."""
    keys = list(members[0][0])
    last = [key.rpartition(".")[2] for key in keys]
    return {key: short if last.count(short) == 1 else key for key, short in zip(keys, last, strict=True)}


def _words(settings: Mapping[str, str]) -> str:
    return " ".join(f"{key}={text}" for key, text in settings.items())
