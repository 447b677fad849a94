"""``saccade runs``: lists runs with their state and figures, or describes one. Imports no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from saccade.cli.options import Json, begun_runs
from saccade.cli.printing import print
from saccade.cli.tables import NOTHING, duration, figure, size, table

EPOCHS_SHOWN = 12


def runs(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER",
            help="A folder of runs (default: runs/), or one run.",
            autocompletion=begun_runs,
            show_default=False,
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="FIGURE",
            help="Sort best first by a validation figure (loss, bleu, …), test.bleu, seconds or parameters; "
            "default: newest first.",
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
    listed = [] if folder is None and not place.exists() else find_runs(place)
    if sort is not None and listed:
        listed = order(listed, sort)
    if as_json:
        print(json.dumps([run.to_plain() for run in listed], ensure_ascii=False))
    elif not listed:
        print(f"no runs in {place} yet: saccade train rnnsearch_dates")
    else:
        _show_all(listed, sort)


def _show_all(listed: list[Any], sort: str | None) -> None:
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
        for run in listed
    ]
    lines = table(header, rows, right=["parameters", "seconds"]).splitlines()
    print(lines[0])
    for run, line in zip(listed, lines[1:], strict=True):
        print(line)
        if run.reason:
            print(f"  {run.reason}")


def _tested(run: Any, sort: str | None) -> dict[str, float]:
    """The test figures, starting with the one to sort by or the watched one."""
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
        facts["started from"] = run["origin"]
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
    """The last evaluations, one per row."""
    shown = evaluations[-EPOCHS_SHOWN:]
    names = list(shown[0])
    whole = ("update", "epoch")
    rows = [
        [f"{row['epoch'] + 1:.0f}" if name == "epoch" else f"{row[name]:,.0f}" if name in whole else figure(row[name])
         for name in names]
        for row in shown
    ]  # fmt: skip
    before = len(evaluations) - len(shown)
    more = f"\n({before:,} earlier evaluations are in evaluations.csv)" if before else ""
    return table(names, rows, right=names) + more
