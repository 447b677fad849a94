"""Train by a recipe, go on with an interrupted run, and judge what was reached."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from saccade import __version__
from saccade.api.bundle import Bundle, load_trusted, threads
from saccade.api.calibration import calibrated_in_training
from saccade.api.prepare import PreparedRun, prepare, read_splits, wanted_metrics
from saccade.api.runs import SWEEP, Status, is_run, now, recorded, refuse_if_running
from saccade.bundle_format import CONFIG
from saccade.data.memory import IN_MEMORY
from saccade.data.splits import fingerprint
from saccade.errors import InputError, SaccadeError
from saccade.plugins import Trust, trusted
from saccade.recipes.recipe import Recipe, change, read_recipe, read_written
from saccade.recipes.schema import dump_yaml
from saccade.storage import read_json, write_json, write_text
from saccade.task import Evaluation
from saccade.training.config import PURPOSES
from saccade.training.loop import CHECKPOINTS, Job, Outcome, fit
from saccade.training.report import Report, Silence
from saccade.training.state import Progress, checkpoints

RUN, ORIGIN, RECIPE, FIGURES = "run.json", "origin.json", "recipe.yaml", "metrics.json"
WORDED = "vectors.json"  # of a run that began with word vectors: its vocabulary, and how many words have one


def train(
    recipe: str | Path | Recipe,
    data: Any = None,
    *,
    folder: str | Path | None = None,
    report: Report | None = None,
    trust: Sequence[str] = (),
    **overrides: Any,
) -> Bundle:
    """Train by a recipe (a file, or the name of a shipped one) and return the best network as a bundle.

    With ``train.keep: last`` it is the last one. The recipe may name parts in any module, and those are imported.

    Args:
        data: pairs to train on instead of the recipe's: a list of (source, target), of dicts, or a DataFrame; or a dict
            of such with the keys train, valid, test.
        folder: where the run is written; ``runs/NAME-TIME`` unless given.
        trust: modules whose parts the run that it begins from (``train.from``) may use, beside those that the recipe names.
        overrides: changes of the recipe, e.g. ``model={"hidden": 128}, train={"epochs": 2}``, or
            ``train={"from": "runs/old"}`` to begin with the network and vocabulary of that run; those of its data are
            written ``**{"data.max_length": 50}``, since ``data`` is the argument above.

    >>> # bundle = saccade.train("rnnsearch_dates", train={"epochs": 2}); bundle.predict("5. Mai 2009")[0].value
    """
    recipe = checked_recipe(recipe, data, overrides, trust)
    beginning = prepare(recipe, read_splits(recipe, data))
    home = Path(folder) if folder is not None else new_folder(recipe.name)
    refuse_taken(home)
    return train_in(home, beginning, report or Silence())


def refuse_taken(home: Path) -> None:
    """Raise where a folder holds a run or a sweep, with what can be done about it."""
    if not is_run(home) and not (home / SWEEP).exists():
        return
    found, hint = "a run" if is_run(home) else "a sweep", f"saccade train --resume {home}"
    if (home / RUN).is_file() and not (home / CONFIG).is_file() and not checkpoints(home / CHECKPOINTS):
        refuse_if_running(home)
        found, hint = "a run that never came to a checkpoint", "remove that folder, or name another"
    raise InputError(home, expected="a new folder", found=found, hint=hint)


def train_in(home: Path, beginning: PreparedRun, report: Report) -> Bundle:
    """Train from the beginning in a folder, whatever is there: a member of a sweep that did not come to a checkpoint."""
    _write_beginning(beginning, home)
    return _run(beginning, home, report, again=False)


def checked_recipe(
    recipe: str | Path | Recipe, data: Any, overrides: dict[str, Any], trust: Sequence[str] = ()
) -> Recipe:
    """The recipe with its overrides; data in hand takes the place of its files."""
    if not isinstance(recipe, Recipe):
        recipe = read_recipe(recipe, changes=overrides, trust=trust)
    elif overrides or trust:
        recipe = change(recipe, changes=overrides, trust=trust)
    if data is None:
        return recipe
    try:
        return replace(recipe, data=replace(recipe.data, source=None, train=IN_MEMORY, valid=None, test=None))
    except TypeError:  # a user's own task has data of its own
        raise SaccadeError(
            f"the task {recipe.task!r} takes no data=: its records come from what the recipe says"
        ) from None


def _write_beginning(beginning: PreparedRun, home: Path) -> None:
    recipe = beginning.recipe
    write_text(home / RECIPE, dump_yaml(recipe.to_plain()))
    if beginning.origin is not None:
        write_json(home / ORIGIN, beginning.origin)
    if beginning.vectors:
        write_json(home / WORDED, beginning.worded)
    parameters = sum(parameter.numel() for parameter in beginning.network.parameters())
    # The fingerprint says whether a resumed run still has its data; the rest is what `saccade runs` shows of it.
    about = {
        "name": recipe.name,
        "folder": str(recipe.folder.resolve()),
        "data": fingerprint(beginning.splits),
        "changed": list(recipe.changed),
        "began": now(),
        "saccade": __version__,
        "task": recipe.task,
        "model": recipe.model_name,
        "parameters": parameters,
        "watch": recipe.train.watch,
        "records": {name: len(corpus) for name, corpus in beginning.corpora.items()},
    }
    write_json(home / RUN, about)


def resume(folder: str | Path, data: Any = None, *, report: Report | None = None, trust: Sequence[str] = ()) -> Bundle:
    """Go on with an interrupted run, exactly where its last checkpoint stands. One that is still trained is refused.

    Args:
        data: what the run was given in memory, if it was.
        trust: modules whose parts the run may use, as for :func:`saccade.load`: what is saved imports nothing else.
    """
    return resume_trusted(Path(folder), data, report or Silence(), trusted(trust).of_run(folder))


def resume_trusted(folder: Path, data: Any, report: Report, trust: Trust) -> Bundle:
    """:func:`resume`, for callers that know what the run may import."""
    recipe, data_print = _read_beginning(folder, trust)
    refuse_if_running(folder)
    if not checkpoints(folder / CHECKPOINTS):
        raise SaccadeError(
            f"{folder}: expected a checkpoint to resume from, found none: the run never came to one; remove "
            "that folder and train afresh, or into another"
        )
    splits = read_splits(recipe, data)
    if fingerprint(splits) != data_print:
        raise InputError(folder, expected="the data that the run began with", found="other data: train afresh")
    # A run that began from another one keeps its vocabulary itself: the other may be gone by now.
    origin = None if recipe.train.from_ is None else read_json(folder / ORIGIN)
    worded = read_json(folder / WORDED) if (folder / WORDED).is_file() else None
    return _run(prepare(recipe, splits, origin, worded), folder, report, again=True)


def _read_beginning(folder: Path, trust: Trust) -> tuple[Recipe, str]:
    """What :func:`_write_beginning` kept of the recipe, and the fingerprint of the data."""
    if not (folder / RUN).is_file():
        found = f"no {RUN} in it" if folder.is_dir() else "no such folder"
        raise InputError(folder, expected="a run's folder", found=found)
    run = read_json(folder / RUN)
    try:
        name, home, data, changed = run["name"], Path(run["folder"]), str(run["data"]), tuple(run["changed"])
    except (KeyError, TypeError) as error:
        found = f"one that does not fit: {error}"
        raise InputError(folder / RUN, expected="what a run keeps of its beginning", found=found) from None
    recipe = read_written(folder / RECIPE, name=name, folder=home, trust=trust)
    return replace(recipe, changed=changed), data


@dataclass(frozen=True)
class Verdict:
    """Whether a recipe's expected figure was reached, in words; where none was ``judged`` there is nothing to miss."""

    met: bool
    text: str
    judged: bool = True


def verdict(bundle: Bundle) -> Verdict:
    """Compare the test figure with what the recipe expects. A changed recipe is not held to it."""
    expect, changed = bundle.recipe.expect, bundle.recipe.changed
    if expect is None:
        return Verdict(True, "the recipe expects no figure", judged=False)
    if changed:
        text = f"expected {expect} of the recipe as shipped; not checked, since {', '.join(changed)} changed"
        return Verdict(True, text, judged=False)
    figure = bundle.figures["test"][expect.metric]
    met = expect.met(figure)
    return Verdict(met, f"expected {expect}: {'reached' if met else 'missed'} with {figure:.4f}")


def new_folder(name: str, ending: str = "") -> Path:
    """``runs/NAME-DATE-TIME``, not yet there."""
    first = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}{ending}"
    number, folder = 1, first
    while folder.exists():
        number += 1
        folder = Path(f"{first}-{number}")
    return folder


def _run(beginning: PreparedRun, folder: Path, report: Report, *, again: bool) -> Bundle:
    refuse_if_running(folder)  # another process may have begun while this one read its data
    with recorded(folder) as status:
        for note in beginning.notes:
            report.say(note)
        report.say(_headline(beginning))
        outcome = fit(_job(beginning, folder, report, status), resume=again)
        return _finish(beginning, folder, outcome, report)


def _headline(beginning: PreparedRun) -> str:
    recipe, sizes = beginning.recipe, [len(corpus) for corpus in beginning.corpora.values()]
    learning = [parameter.numel() for parameter in beginning.network.parameters() if parameter.requires_grad]
    parameters = sum(parameter.numel() for parameter in beginning.network.parameters())
    frozen = f" ({parameters - sum(learning):,} of them frozen)" if sum(learning) < parameters else ""
    return (
        f"{recipe.name}: {recipe.model_name}, {parameters:,} parameters{frozen}; {sizes[0]:,} records to train on, "
        f"{sizes[1]:,} {PURPOSES[recipe.train.keep]}, {sizes[2]:,} held out"
    )


def _job(beginning: PreparedRun, folder: Path, report: Report, status: Status) -> Job:
    recipe = beginning.recipe
    untrained = beginning.untrained.figures
    bundle = Bundle(recipe, beginning.task, beginning.network, folder=folder, figures=untrained)

    def save_kept(evaluation: Evaluation, progress: Progress) -> None:
        bundle.figures = {"valid": dict(evaluation.figures), "epoch": progress.best_epoch + 1, **untrained}
        if beginning.vectors:
            bundle.figures["vectors"] = beginning.vectors
        if beginning.origin is not None and beginning.origin.get("taken"):
            bundle.figures["taken"] = list(beginning.origin["taken"])
        if progress.averaged:
            bundle.figures["averaged"] = list(progress.averaged)
        bundle.threads = progress.threads
        bundle.save(folder)
        watch = recipe.train.watch
        higher = evaluation.higher_is_better.get(watch, False)
        place = {"epoch": progress.best_epoch + 1, "update": progress.update}
        status.best(watch, evaluation.figures[watch], higher_is_better=higher, **place)

    train, valid = beginning.corpora["train"], beginning.corpora["valid"]
    return Job(beginning.task, beginning.network, train, valid, recipe.train, folder, recipe.search, report, save_kept)


def _finish(beginning: PreparedRun, folder: Path, outcome: Outcome, report: Report) -> Bundle:
    """The kept network's figures on the held-out set go into its bundle."""
    bundle = load_trusted(folder, "auto", beginning.recipe.trust)
    bundle.recipe = replace(bundle.recipe, changed=beginning.recipe.changed)
    bundle.test_records = beginning.splits.test
    progress = outcome.progress
    report.say(
        f"trained for {progress.seconds:.1f} s, {progress.update:,} updates on {outcome.device}; {outcome.reason}"
    )
    test = beginning.corpora["test"]
    try:
        report.testing(0, len(test))
        with threads(bundle.threads):
            if bundle.recipe.train.calibrate:
                report.say(calibrated_in_training(bundle, beginning.corpora["valid"], test))
            metrics, how = wanted_metrics(bundle.recipe), bundle.recipe.search
            evaluation = bundle.task.evaluate(bundle.network, test, how=how, metrics=metrics, progress=report.testing)
    finally:
        report.end()
    bundle.figures |= {
        "test": dict(evaluation.figures),
        "signatures": dict(evaluation.signatures),
        "updates": progress.update,
        "seconds": round(progress.seconds, 1),
        "tokens": progress.tokens,
    }
    for note in evaluation.notes:
        report.say(note)
    bundle.save(folder)
    write_json(folder / FIGURES, bundle.figures)
    return bundle
