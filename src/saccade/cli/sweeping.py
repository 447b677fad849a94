"""What ``saccade train`` prints at the end of a sweep: who did best on the validation set, and what failed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from saccade.cli.tables import duration, figure, table

if TYPE_CHECKING:
    from saccade.api.runs import Run
    from saccade.api.sweeps import Sweep


def show_sweep(sweep: Sweep, *, as_json: bool) -> None:
    """The table of a sweep, best first, or the sweep as JSON."""
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
        print("\nno run ended well")
        return
    reached = f"{sweep.watch} {figure(best.valid, best.valid_deviation)} on the validation set"
    tested = ", ".join(f"{name} {figure(value, best.test_deviation.get(name))}" for name, value in best.test.items())
    print(f"\nbest: {_words(best.settings) or f'{best.done} seeds'}: {reached}; {tested} on the test set")
    first = sweep.ranking[0][1]
    print(f"try next:\n  saccade runs {first.folder}\n  saccade evaluate {first.folder}")


def _members(sweep: Sweep) -> str:
    keys, tests = _keys(sweep.members), _tests([run for _, run in sweep.members])
    watch, told = f"valid {sweep.watch}", [f"test {name}" for name in tests]
    header = ["", *keys.values(), watch, *told, "parameters", "seconds", "run"]
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
    return table(header, rows, right=["", watch, *told, "parameters", "seconds"])


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
    """Swept fields → their headings: ``hidden`` for ``model.hidden``, where no other one ends alike."""
    keys = list(members[0][0])
    last = [key.rpartition(".")[2] for key in keys]
    return {key: short if last.count(short) == 1 else key for key, short in zip(keys, last, strict=True)}


def _words(settings: Mapping[str, str]) -> str:
    return " ".join(f"{key}={text}" for key, text in settings.items())
