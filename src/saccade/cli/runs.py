"""``saccade runs``: what was trained, how it stands, what it reached. Loads no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from saccade.cli.options import Json, begun_runs
from saccade.cli.tables import NOTHING, duration, figure, size, table

EPOCHS_SHOWN = 12


def runs(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER",
            help="A folder of runs (runs/ unless given), or one run.",
            autocompletion=begun_runs,
            show_default=False,
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="FIGURE",
            help="Best first by this figure instead of newest first: a validation figure (loss, bleu, …), test.bleu, "
            "seconds or parameters.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the runs in a folder, or describe one.

    \b
    saccade runs
    saccade runs --sort exact_match
    saccade runs runs/my-20260101-120000
    """
    from saccade.api.runs import describe, find_runs, is_run, order

    if folder is not None and is_run(folder):
        described = describe(folder)
        print(json.dumps(described, ensure_ascii=False)) if as_json else _show_one(described)
        return
    place = folder or Path("runs")
    found = [] if folder is None and not place.exists() else find_runs(place)
    if sort is not None and found:
        found = order(found, sort)
    if as_json:
        print(json.dumps([run.to_plain() for run in found], ensure_ascii=False))
    elif not found:
        print(f"no runs in {place} yet: saccade train rnnsearch_dates")
    else:
        _show_all(found, sort)


def _show_all(found: list[Any], sort: str | None) -> None:
    header = ["run", "began", "state", "model", "parameters", "valid", "test", "seconds"]
    rows = [
        [
            str(run.folder),
            run.when[:16].replace("T", " "),
            f"{run.state} at update {run.update:,}" if run.state != "done" and run.update else run.state,
            run.model or NOTHING,
            f"{run.parameters:,}" if run.parameters is not None else NOTHING,
            f"{run.watch} {figure(run.valid[run.watch])}" if run.watch in run.valid else NOTHING,
            next((f"{name} {figure(value)}" for name, value in _tested(run, sort).items()), NOTHING),
            f"{run.seconds:.1f}" if run.seconds is not None else NOTHING,
        ]
        for run in found
    ]
    lines = table(header, rows, right=["parameters", "seconds"]).splitlines()
    print(lines[0])
    for run, line in zip(found, lines[1:], strict=True):
        print(line)
        if run.reason:
            print(f"  {run.reason}")


def _tested(run: Any, sort: str | None) -> dict[str, float]:
    """The test figures, the one that was asked for or watched first."""
    wanted = (sort or "").removeprefix("test.")
    first = [name for name in (wanted, run.watch) if name in run.test]
    return {name: run.test[name] for name in dict.fromkeys([*first, *run.test])}


def _show_one(run: dict[str, Any]) -> None:
    print(f"{run['folder']}: {run['name']}\n")
    for name, text in _facts(run).items():
        print(f"{name:<12}{text}")
    if run["evaluations"]:
        print(f"\n{_epochs(run['evaluations'])}")
    files = [(name, size(count)) for name, count in run["files"].items()]
    print("\n" + table(["file", "size"], [*files, ("together", size(sum(run["files"].values())))], right=["size"]))
    if run["recipe"]:
        from saccade.recipes.schema import dump_yaml

        print(f"\nrecipe\n\n{dump_yaml(run['recipe'])}", end="")


def _facts(run: dict[str, Any]) -> dict[str, str]:
    facts = {"state": run["state"] + (f": {run['reason']}" if run["reason"] else ""), "began": run["when"]}
    facts["model"] = f"{run['model'] or NOTHING} for the task {run['task'] or NOTHING}"
    if run["parameters"] is not None:
        facts["parameters"] = f"{run['parameters']:,}"
    if run["origin"]:
        facts["begun from"] = run["origin"]
    if run["records"]:
        facts["records"] = ", ".join(f"{name} {count:,}" for name, count in run["records"].items())
    if run["changed"]:
        facts["changed"] = ", ".join(run["changed"])
    if run["update"] is not None:
        took = f" in {duration(run['seconds'])}" if run["seconds"] is not None else ""
        facts["updates"] = f"{run['update']:,}{took}"
    for split in ("valid", "test"):
        for name, value in run[split].items():
            signature = run["signatures"].get(name, "") if split == "test" else ""
            facts[f"{split} {name}"] = f"{figure(value)}  {signature}".rstrip()
    width = max(12, *(len(name) + 2 for name in facts))
    return {f"{name:<{width}}": text for name, text in facts.items()}


def _epochs(evaluations: list[dict[str, float]]) -> str:
    """The evaluations, a row each; of many the last."""
    shown = evaluations[-EPOCHS_SHOWN:]
    names = list(shown[0])
    whole = ("update", "epoch")
    rows = [
        [f"{row['epoch'] + 1:.0f}" if name == "epoch" else f"{row[name]:,.0f}" if name in whole else figure(row[name])
         for name in names]
        for row in shown
    ]  # fmt: skip
    before = len(evaluations) - len(shown)
    more = f"\n({before:,} earlier ones are in evaluations.csv)" if before else ""
    return table(names, rows, right=names) + more
