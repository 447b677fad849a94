"""What ``saccade train --dry-run`` prints: one plan, or the plans of a sweep's members."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from saccade.cli.tables import duration, size, table
from saccade.training.config import PURPOSES

if TYPE_CHECKING:
    from saccade.api.plans import Plan


def show_plan(plan: Plan, *, as_json: bool) -> None:
    """One plan, as a page or as JSON."""
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
    page["time"] = [f"{spent}, estimated ({timed}); the test set comes on top"]
    return page | {"expected": [plan.expect], "folder": [str(plan.folder)]}


def _kept(plan: Plan) -> str:
    """Which network is kept in the end: one, or the mean of several."""
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
    """The plans of a sweep's members, a line each, and what they come to together."""
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
