"""Small sweeps: one run for each combination of settings, and which did best on the validation set (never on the test set).

A sweep is a folder of ordinary runs and ``sweep.json``, which keeps every member's recipe whole. Members are trained one
after another; one that fails is told in its row and the others go on. Runs that differ in their seed alone are one
group: its figure is the mean, with the standard deviation between seeds.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from saccade.api.prepare import prepare, read_splits
from saccade.api.runs import SWEEP, Run, Status, now, read_run, refuse_if_running
from saccade.api.training import checked_recipe, new_folder, refuse_taken, resume_trusted, train_in
from saccade.errors import InputError, Interrupted, SaccadeError
from saccade.plugins import Trust, trusted
from saccade.recipes.grid import Member, read_grid
from saccade.recipes.recipe import Recipe, from_plain
from saccade.storage import read_json, write_json
from saccade.training.loop import CHECKPOINTS
from saccade.training.report import Report, Silence
from saccade.training.state import checkpoints

SEED = "train.seed"
VERSION = 1
Reporting = Callable[[str], Report]  # a member's place and settings → where its progress is told


@dataclass(frozen=True)
class Group:
    """Members that differ in their seed alone: the mean of their figures, and the deviation between several seeds.

    ``valid`` and ``valid_deviation`` are of the watched figure; ``test`` and ``test_deviation`` by metric.
    """

    settings: Mapping[str, str]
    runs: int  # members in all …
    done: int  # … and those that ended well, which the figures are of
    valid: float | None
    valid_deviation: float | None
    test: Mapping[str, float]
    test_deviation: Mapping[str, float]
    seconds: float


@dataclass(frozen=True)
class Sweep:
    """What became of a sweep: its members as runs, with their settings, in the order they were asked for."""

    folder: Path
    watch: str
    higher_is_better: bool
    members: Sequence[tuple[Mapping[str, str], Run]]

    @property
    def failed(self) -> list[tuple[Mapping[str, str], Run]]:
        return [(settings, run) for settings, run in self.members if run.state != "done"]

    @property
    def ranking(self) -> list[tuple[Mapping[str, str], Run]]:
        """Members, best first by the watched validation figure; those without one last."""
        return sorted(self.members, key=lambda member: self._place(_watched(member[1], self.watch)))

    @property
    def groups(self) -> list[Group]:
        """Settings without the seed, best first by the mean of the watched validation figure."""
        by_settings: dict[str, list[tuple[Mapping[str, str], Run]]] = {}
        for settings, run in self.members:
            others = {key: text for key, text in settings.items() if key != SEED}
            by_settings.setdefault(json.dumps(others), []).append((others, run))
        groups = [_group(same[0][0], [run for _, run in same], self.watch) for same in by_settings.values()]
        return sorted(groups, key=lambda group: self._place(group.valid))

    @property
    def best(self) -> Group | None:
        """The settings that won, if any member ended well."""
        return next((group for group in self.groups if group.valid is not None), None)

    def to_plain(self) -> dict[str, Any]:
        """The sweep as JSON has it."""
        ranking = [{"settings": dict(settings), **run.to_plain()} for settings, run in self.ranking]
        best = None if self.best is None else asdict(self.best)
        return {
            "sweep": str(self.folder),
            "watch": self.watch,
            "higher_is_better": self.higher_is_better,
            "members": ranking,
            "groups": [asdict(group) for group in self.groups],
            "best": best,
            "failed": len(self.failed),
        }

    def _place(self, figure: float | None) -> tuple[bool, float]:
        return figure is None, 0.0 if figure is None else -figure if self.higher_is_better else figure


def sweep(
    recipe: str | Path | Recipe,
    overrides: Sequence[str] | Mapping[str, Any],
    data: Any = None,
    *,
    folder: str | Path | None = None,
    report: Reporting | None = None,
    trust: Sequence[str] = (),
) -> Sweep:
    """Train one run for each combination of the values in ``overrides``.

    Args:
        overrides: field → value, or a list of values to try: ``{"model.hidden": [128, 256], "train.seed": [1, 2, 3]}``; or
            texts as on the command line, ``["model.hidden=128,256"]``. Every member is checked before any is trained.
        data: as for :func:`saccade.api.training.train`.
        folder: where the runs are written; ``runs/NAME-TIME-sweep`` unless given.
        trust: as for :func:`saccade.api.training.train`.

    >>> # saccade.api.sweep("rnnsearch_dates", {"train.lr": [1e-3, 4e-3]}).best.settings
    """
    grid = read_grid(recipe, overrides, trust=trust)
    members = [replace(each, recipe=checked_recipe(each.recipe, data, {})) for each in grid]
    home = Path(folder) if folder is not None else new_folder(members[0].recipe.name, "-sweep")
    refuse_taken(home)
    kept = [
        {"folder": name, "settings": dict(member.settings), "recipe": member.recipe.to_plain(),
         "changed": list(member.recipe.changed)}
        for name, member in zip(_names(members), members, strict=True)
    ]  # fmt: skip
    first = members[0].recipe
    about = {"format": "saccade-sweep", "version": VERSION, "name": first.name, "began": now()}
    write_json(home / SWEEP, {**about, "folder": str(first.folder.resolve()), "members": kept})
    named = [module for member in members for module in member.recipe.trust.modules]
    return _go_through(home, data, report, first.trust.also(named))


def resume_sweep(
    folder: str | Path, data: Any = None, *, report: Reporting | None = None, trust: Sequence[str] = ()
) -> Sweep:
    """Go on with a sweep: what is done is kept, what was interrupted goes on, what failed or is missing is trained.

    Args:
        trust: modules whose parts its recipes may use, as for :func:`saccade.load`.
    """
    return _go_through(Path(folder), data, report, trusted(trust).of_run(folder))


def _go_through(home: Path, data: Any, report: Reporting | None, trust: Trust) -> Sweep:
    members = list(_read_members(home, trust))
    for name, _ in members:
        refuse_if_running(home / name)
    for number, (name, member) in enumerate(members, start=1):
        if read_run(home / name).state == "done":
            continue
        refuse_if_running(home / name)  # that is no failure of the member, which another process trains by now
        settings = " ".join(f"{key}={text}" for key, text in member.settings.items())
        place = f"{number}/{len(members)} {settings}".strip()
        told = Silence() if report is None else report(place)
        told.say(f"run {number} of {len(members)}: {settings}")
        try:
            _train_member(home / name, member, data, told)
        except (Interrupted, KeyboardInterrupt):
            raise Interrupted(
                f"stopped in run {number} of {len(members)}; everything is saved. Go on with: saccade train --resume {home}"
            ) from None
        except Exception as error:  # whatever a member dies of, it must not cost the others
            told.say(f"run {number} of {len(members)} failed: {_keep_failure(home / name, error)}")
    return _outcome(home, members)


def _train_member(folder: Path, member: Member, data: Any, report: Report) -> None:
    if checkpoints(folder / CHECKPOINTS):
        resume_trusted(folder, data, report, member.recipe.trust.of_run(folder))
    else:
        recipe = checked_recipe(member.recipe, data, {})
        train_in(folder, prepare(recipe, read_splits(recipe, data)), report)


def _keep_failure(folder: Path, error: Exception) -> str:
    """What a member failed of, in its status too: one that failed before it began has told nobody yet."""
    reason = " ".join((str(error) if isinstance(error, SaccadeError) else f"{type(error).__name__}: {error}").split())
    with suppress(SaccadeError):  # a full disk, say: the next member will tell
        Status(folder).write("failed", reason=reason)
    return reason


def _read_members(home: Path, trust: Trust) -> Iterator[tuple[str, Member]]:
    """Folder and member, as :func:`sweep` kept them."""
    path = home / SWEEP
    kept = read_json(path)
    if not isinstance(kept, dict) or kept.get("format") != "saccade-sweep" or kept.get("version") != VERSION:
        raise InputError(path, expected=f"a sweep of version {VERSION}", found="another JSON document")
    try:
        for each in kept["members"]:
            name, plain, changed = each["folder"], each["recipe"], tuple(each["changed"])
            if Path(name).name != name:
                raise InputError(path, field="folder", expected="the name of a folder beside it", found=repr(name))
            recipe = from_plain(plain, name=kept["name"], folder=Path(kept["folder"]), where=str(path), trust=trust)
            yield name, Member(dict(each["settings"]), replace(recipe, changed=changed))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(path, expected="a whole sweep", found=f"one that does not fit together: {error}") from None


def _outcome(home: Path, members: Sequence[tuple[str, Member]]) -> Sweep:
    runs = [(member.settings, read_run(home / name)) for name, member in members]
    watch = members[0][1].recipe.train.watch
    higher = next((run.higher_is_better for _, run in runs if run.state == "done"), False)
    return Sweep(home, watch, higher, runs)


def _watched(run: Run, watch: str) -> float | None:
    """The figure that a run is compared by; one that did not end well is not compared."""
    return run.valid.get(watch) if run.state == "done" else None


def _group(settings: Mapping[str, str], runs: Sequence[Run], watch: str) -> Group:
    done = [run for run in runs if run.state == "done"]
    valid, deviation = _mean([figure for run in done if (figure := _watched(run, watch)) is not None])
    tests = {name: _mean([run.test[name] for run in done if name in run.test]) for run in done for name in run.test}
    return Group(
        settings=settings,
        runs=len(runs),
        done=len(done),
        valid=valid,
        valid_deviation=deviation,
        test={name: mean for name, (mean, _) in tests.items() if mean is not None},
        test_deviation={name: deviation for name, (_, deviation) in tests.items() if deviation is not None},
        seconds=sum(run.seconds or 0.0 for run in done),
    )


def _mean(figures: Sequence[float]) -> tuple[float | None, float | None]:
    """The mean, and the sample's standard deviation (n − 1) where there are two or more."""
    mean = statistics.fmean(figures) if figures else None
    return mean, statistics.stdev(figures) if len(figures) > 1 else None


def _names(members: Sequence[Member]) -> list[str]:
    """A folder a member: ``1-hidden=128-lr=1e-3``, numbered so that they stand in order and never meet."""
    digits = len(str(len(members)))
    names = []
    for number, member in enumerate(members, start=1):
        settings = [f"{key.rpartition('.')[2]}={text}" for key, text in member.settings.items()]
        plain = re.sub(r"[^A-Za-z0-9._=+-]+", "_", "-".join(settings))[:80].strip("._-")
        names.append(f"{number:0{digits}}-{plain}" if plain else f"{number:0{digits}}")
    return names
