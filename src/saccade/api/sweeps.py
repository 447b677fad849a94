"""Trains one run per combination of settings and ranks the runs by their validation metric, never by the test set.

A sweep is a folder of ordinary runs and ``sweep.json``, which holds the complete recipe of every member. Members are trained
one after another; if one fails, its row says why and the others continue. Runs that differ only in their seed form a group,
which has the mean of their metrics and the standard deviation between seeds.
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
from saccade.api.runs import SWEEP, Run, Status, read_run, refuse_if_running, training_alone
from saccade.api.training import checked_recipe, in_memory, new_folder, refuse_taken, resume_trusted, train_in
from saccade.errors import InputError, Interrupted, SaccadeError
from saccade.plugins import Trust, trusted
from saccade.recipes.grid import Member, read_grid
from saccade.recipes.recipe import RecipeLike, from_plain
from saccade.storage import InUse, now, read_json, write_json
from saccade.training.loop import CHECKPOINTS
from saccade.training.report import Report, progress_report
from saccade.training.state import checkpoints

SEED = "train.seed"
VERSION = 1
Reporting = Callable[[str], Report]  # a member's position and settings → its progress report


@dataclass(frozen=True)
class Group:
    """Members that differ only in their seed: the mean of their metrics, and the standard deviation between seeds.

    ``valid`` and ``valid_deviation`` are of the watched metric; ``test`` and ``test_deviation`` by metric.
    """

    settings: Mapping[str, str]
    runs: int  # all members
    done: int  # members that finished; the metrics are theirs
    valid: float | None
    valid_deviation: float | None
    test: Mapping[str, float]
    test_deviation: Mapping[str, float]
    seconds: float


@dataclass(frozen=True)
class Sweep:
    """The result of a sweep: its members as runs, with their settings, in the order given."""

    folder: Path
    watch: str
    higher_is_better: bool
    members: Sequence[tuple[Mapping[str, str], Run]]

    @property
    def failed(self) -> list[tuple[Mapping[str, str], Run]]:
        return [(settings, run) for settings, run in self.members if run.state != "done"]

    @property
    def ranking(self) -> list[tuple[Mapping[str, str], Run]]:
        """Members, best first by the watched validation metric; those without one last."""
        return sorted(self.members, key=lambda member: self._place(_watched(member[1], self.watch)))

    @property
    def groups(self) -> list[Group]:
        """Settings without the seed, best first by the mean of the watched validation metric."""
        by_settings: dict[str, list[tuple[Mapping[str, str], Run]]] = {}
        for settings, run in self.members:
            others = {key: text for key, text in settings.items() if key != SEED}
            by_settings.setdefault(json.dumps(others), []).append((others, run))
        groups = [_group(same[0][0], [run for _, run in same], self.watch) for same in by_settings.values()]
        return sorted(groups, key=lambda group: self._place(group.valid))

    @property
    def best(self) -> Group | None:
        """The best group, if any member finished."""
        return next((group for group in self.groups if group.valid is not None), None)

    def to_plain(self) -> dict[str, Any]:
        """The sweep as plain data, for JSON."""
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
    recipe: RecipeLike,
    overrides: Sequence[str] | Mapping[str, Any],
    data: Any = None,
    *,
    folder: str | Path | None = None,
    report: Reporting | None = None,
    progress: bool = True,
    trust: Sequence[str] = (),
) -> Sweep:
    """Train one run for each combination of the values in ``overrides``.

    Args:
        overrides: field → value, or a list of values to try: ``{"model.hidden": [128, 256], "train.seed": [1, 2, 3]}``; or
            texts as on the command line, ``["model.hidden=128,256"]``. Every member is checked before any is trained.
        data: as for :func:`saccade.api.training.train`.
        folder: where the runs are written; ``runs/NAME-TIME-sweep`` unless given.
        progress: as for :func:`saccade.api.training.train`. ``report`` receives each run's number and settings, and returns
            what receives its progress instead.
        trust: as for :func:`saccade.api.training.train`.

    >>> # saccade.api.sweep("rnnsearch_dates", {"train.lr": [1e-3, 4e-3]}).best.settings
    """
    grid = read_grid(in_memory(recipe, data), overrides, trust=trust)
    members = [replace(member, recipe=checked_recipe(member.recipe, data, {})) for member in grid]
    home = Path(folder) if folder is not None else new_folder(members[0].recipe.name, "-sweep")
    refuse_taken(home)
    entries = [
        {"folder": name, "settings": dict(member.settings), "recipe": member.recipe.to_plain(),
         "changed": list(member.recipe.changed)}
        for name, member in zip(_names(members), members, strict=True)
    ]  # fmt: skip
    first = members[0].recipe
    about = {"format": "saccade-sweep", "version": VERSION, "name": first.name, "began": now()}
    named = [module for member in members for module in member.recipe.trust.modules]
    with training_alone(home):
        refuse_taken(home)  # another process may have started there meanwhile
        write_json(home / SWEEP, {**about, "folder": str(first.folder.resolve()), "members": entries})
        return _train_all(home, data, report or _reporting(progress), first.trust.also(named))


def resume_sweep(
    folder: str | Path,
    data: Any = None,
    *,
    report: Reporting | None = None,
    progress: bool = True,
    trust: Sequence[str] = (),
) -> Sweep:
    """Continue a sweep: finished runs stay, interrupted runs resume, failed and missing runs are trained.

    Args:
        progress, report: as for :func:`sweep`.
        trust: modules whose parts its recipes may use, as for :func:`saccade.load`.
    """
    if not (Path(folder) / SWEEP).is_file():
        raise InputError(folder, expected="a sweep's folder", found=f"no {SWEEP} in it")
    with training_alone(Path(folder)):
        return _train_all(Path(folder), data, report or _reporting(progress), trusted(trust).of_run(folder))


def _reporting(progress: bool) -> Reporting:
    return lambda place: progress_report(progress, place.partition(" ")[0])


def _train_all(home: Path, data: Any, report: Reporting, trust: Trust) -> Sweep:
    members = list(_read_members(home, trust))
    for name, _ in members:
        refuse_if_running(home / name)
    for number, (name, member) in enumerate(members, start=1):
        if read_run(home / name).state == "done":
            continue
        settings = " ".join(f"{key}={text}" for key, text in member.settings.items())
        place = f"{number}/{len(members)} {settings}".strip()
        progress = report(place)
        progress.say(f"run {number} of {len(members)}: {settings}")
        try:
            _train_member(home / name, member, data, progress)
        except (Interrupted, KeyboardInterrupt):
            raise Interrupted(
                f"stopped in run {number} of {len(members)}; everything is saved. Continue with: saccade train --resume {home}"
            ) from None
        except InUse:  # another process trains it: not a failure of the member
            raise
        except Exception as error:  # a failing member must not stop the others
            progress.say(f"run {number} of {len(members)} failed: {_record_failure(home / name, error)}")
    return _outcome(home, members)


def _train_member(folder: Path, member: Member, data: Any, report: Report) -> None:
    if checkpoints(folder / CHECKPOINTS):
        resume_trusted(folder, data, report, member.recipe.trust.of_run(folder))
    else:
        recipe = checked_recipe(member.recipe, data, {})
        prepared = prepare(recipe, read_splits(recipe, data))
        with training_alone(folder):
            train_in(folder, prepared, report)


def _record_failure(folder: Path, error: Exception) -> str:
    """The reason for a failure, also written to the member's status, which may not exist yet."""
    reason = " ".join((str(error) if isinstance(error, SaccadeError) else f"{type(error).__name__}: {error}").split())
    with suppress(SaccadeError):  # e.g. a full disk
        Status(folder).write("failed", reason=reason)
    return reason


def _read_members(home: Path, trust: Trust) -> Iterator[tuple[str, Member]]:
    """Folder and member, as :func:`sweep` saved them."""
    path = home / SWEEP
    saved = read_json(path)
    if not isinstance(saved, dict) or saved.get("format") != "saccade-sweep" or saved.get("version") != VERSION:
        raise InputError(path, expected=f"a sweep of version {VERSION}", found="another JSON document")
    try:
        for entry in saved["members"]:
            name, plain, changed = entry["folder"], entry["recipe"], tuple(entry["changed"])
            if Path(name).name != name:
                raise InputError(path, field="folder", expected="the name of a folder beside it", found=repr(name))
            recipe = from_plain(plain, name=saved["name"], folder=Path(saved["folder"]), where=str(path), trust=trust)
            yield name, Member(dict(entry["settings"]), replace(recipe, changed=changed))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(path, expected="a whole sweep", found=f"one that does not fit together: {error}") from None


def _outcome(home: Path, members: Sequence[tuple[str, Member]]) -> Sweep:
    runs = [(member.settings, read_run(home / name)) for name, member in members]
    watch = members[0][1].recipe.train.watch
    higher = next((run.higher_is_better for _, run in runs if run.state == "done"), False)
    return Sweep(home, watch, higher, runs)


def _watched(run: Run, watch: str) -> float | None:
    """The metric by which a run is ranked; None if it did not finish."""
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
    """The mean, and the sample standard deviation (n − 1) of two or more values."""
    mean = statistics.fmean(figures) if figures else None
    return mean, statistics.stdev(figures) if len(figures) > 1 else None


def _names(members: Sequence[Member]) -> list[str]:
    """One folder name per member: ``1-hidden=128-lr=1e-3``; the number keeps them in order and distinct."""
    digits = len(str(len(members)))
    names = []
    for number, member in enumerate(members, start=1):
        settings = [f"{key.rpartition('.')[2]}={text}" for key, text in member.settings.items()]
        plain = re.sub(r"[^A-Za-z0-9._=+-]+", "_", "-".join(settings))[:80].strip("._-")
        names.append(f"{number:0{digits}}-{plain}" if plain else f"{number:0{digits}}")
    return names
