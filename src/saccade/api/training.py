"""Trains a recipe into a run's folder, resumes an interrupted run, and checks the result against the recipe's expectation."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from saccade import __version__
from saccade.api.bundle import Bundle, load_trusted, threads
from saccade.api.calibration import UNCALIBRATED, calibrated_in_training
from saccade.api.prepare import SPLITS, PreparedRun, prepare, read_splits, wanted_metrics
from saccade.api.runs import SWEEP, Status, is_run, recorded, refuse_if_running, training_alone
from saccade.bundle_format import holds_bundle
from saccade.data.memory import IN_MEMORY
from saccade.data.splits import checksum, fingerprint
from saccade.errors import InputError, Interrupted, SaccadeError
from saccade.plugins import Trust, trusted
from saccade.recipes.recipe import Recipe, RecipeLike, change, read_recipe, read_written
from saccade.recipes.schema import dump_yaml
from saccade.storage import now, read_json, write_json, write_text
from saccade.task import Evaluation
from saccade.training.config import PURPOSES
from saccade.training.loop import CHECKPOINTS, Job, Outcome, fit
from saccade.training.report import Report, progress_report
from saccade.training.state import Progress, checkpoints

RUN, ORIGIN, RECIPE, FIGURES = "run.json", "origin.json", "recipe.yaml", "metrics.json"
BY_LABEL, CONFUSION = "by-label.json", "confusion.png"  # of a task with labels, on the test set
VECTORS = "vectors.json"  # of a run that started from word vectors: its vocabulary, and how many words have one


def train(
    recipe: RecipeLike,
    data: Any = None,
    *,
    folder: str | Path | None = None,
    report: Report | None = None,
    progress: bool = True,
    trust: Sequence[str] = (),
    **overrides: Any,
) -> Bundle:
    """Train a recipe (a file, or the name of a shipped one) and return the best network as a bundle.

    With ``train.keep: last`` it is the last network. The recipe may name parts in any module; these modules are imported.

    Args:
        recipe: also a dict with the sections of a recipe, as its file would have them.
        data: records to train on instead of the recipe's: a list of (source, target), of dicts, or a DataFrame; or a dict
            of these with the keys train, valid, test.
        folder: where the run is written; ``runs/NAME-TIME`` unless given.
        progress: show the progress and the notes, on standard error or in the notebook; ``bundle.notes`` has the notes too.
        report: receives the progress instead.
        trust: modules whose parts the run that it starts from (``train.from``) may use, beside those that the recipe names.
        overrides: changes of the recipe, e.g. ``model={"hidden": 128}, train={"epochs": 2}``, or
            ``train={"from": "runs/old"}`` to start from the network and vocabulary of that run; changes of the data section
            are written ``**{"data.max_length": 50}``, since ``data`` is the argument above.

    >>> # bundle = saccade.train("rnnsearch_dates", train={"epochs": 2}); bundle.predict("5. Mai 2009")[0].value
    """
    if not isinstance(folder, str | Path | None):
        raise InputError("folder", expected="the path of a new folder", found=f"a {type(folder).__name__}")
    recipe = checked_recipe(recipe, data, overrides, trust)
    if folder is not None:
        refuse_taken(Path(folder))
    prepared = prepare(recipe, read_splits(recipe, data))
    home = Path(folder) if folder is not None else _claim(recipe.name)
    with training_alone(home):
        refuse_taken(home)  # another process may have trained there meanwhile
        return train_in(home, prepared, report or progress_report(progress))


def refuse_taken(home: Path) -> None:
    """Raise if a folder holds a run or a sweep, with a hint on what to do."""
    if not is_run(home) and not (home / SWEEP).exists():
        return
    found, hint = "a run" if is_run(home) else "a sweep", f"saccade train --resume {home}"
    if (home / RUN).is_file() and not holds_bundle(home) and not checkpoints(home / CHECKPOINTS):
        refuse_if_running(home)
        found, hint = "a run that stopped before its first checkpoint", "remove that folder, or name another"
    raise InputError(home, expected="a new folder", found=found, hint=hint)


def train_in(home: Path, prepared: PreparedRun, report: Report) -> Bundle:
    """Train from the start in a locked folder, whatever it contains, such as a sweep member that has no checkpoint."""
    _write_start(prepared, home)
    return _run(prepared, home, report, again=False)


def checked_recipe(recipe: RecipeLike, data: Any, overrides: dict[str, Any], trust: Sequence[str] = ()) -> Recipe:
    """The recipe with its overrides; ``data`` replaces its files."""
    recipe = in_memory(recipe, data)
    if not isinstance(recipe, Recipe):
        recipe = read_recipe(recipe, changes=overrides, trust=trust)
    elif overrides or trust:
        recipe = change(recipe, changes=overrides, trust=trust)
    if data is None:
        return recipe
    try:
        return replace(recipe, data=replace(recipe.data, source=None, train=IN_MEMORY, valid=None, test=None))
    except TypeError:  # a custom task has its own data section
        raise SaccadeError(
            f"the task {recipe.task!r} does not take data=: its records come from the recipe's data section"
        ) from None


def in_memory(recipe: RecipeLike, data: Any) -> RecipeLike:
    """The recipe as it was given; one that is a dict needs to name no files beside ``data``."""
    if not isinstance(recipe, Mapping):
        return recipe
    section = recipe.get("data")
    section = {} if section is None else section
    if not isinstance(section, Mapping):
        found, hint = f"a {type(section).__name__}", "records in memory are given beside it: train(recipe, data)"
        raise InputError("recipe", field="data", expected="a section of the recipe", found=found, hint=hint)
    for name in SPLITS:
        if not isinstance(section.get(name), str | Path | Mapping | int | None):
            found, hint = (
                f"a {type(section[name]).__name__}",
                "records in memory are given beside it: train(recipe, data)",
            )
            raise InputError("recipe", field=f"data.{name}", expected="a file", found=found, hint=hint)
    if data is None or {"train", "source"} & {*section}:
        return recipe
    return {**recipe, "data": {**section, "train": IN_MEMORY}}


def _write_start(prepared: PreparedRun, home: Path) -> None:
    recipe = prepared.recipe
    write_text(home / RECIPE, dump_yaml(recipe.to_plain()))
    if prepared.origin is not None:
        write_json(home / ORIGIN, prepared.origin)
    if prepared.vectors:
        write_json(home / VECTORS, prepared.saved_vectors)
    parameters = sum(parameter.numel() for parameter in prepared.network.parameters())
    # Resuming compares the fingerprint of the data; `saccade runs` shows the rest.
    about = {
        "name": recipe.name,
        "folder": str(recipe.folder.resolve()),
        "data": fingerprint(prepared.splits),
        "held_out": {name: checksum(getattr(prepared.splits, name)) for name in ("valid", "test")},
        "changed": list(recipe.changed),
        "began": now(),
        "saccade": __version__,
        "task": recipe.task,
        "model": recipe.model_name,
        "parameters": parameters,
        "watch": recipe.train.watch,
        "records": {name: len(corpus) for name, corpus in prepared.corpora.items()},
        "notes": list(prepared.notes),
    }
    write_json(home / RUN, about)


def resume(
    folder: str | Path,
    data: Any = None,
    *,
    report: Report | None = None,
    progress: bool = True,
    trust: Sequence[str] = (),
) -> Bundle:
    """Resume an interrupted run from its last checkpoint. A run that another process is training is refused.

    Args:
        data: the data that were given in memory, if they were.
        progress, report: as for :func:`train`.
        trust: modules whose parts the run may use, as for :func:`saccade.load`.
    """
    return resume_trusted(Path(folder), data, report or progress_report(progress), trusted(trust).of_run(folder))


def resume_trusted(folder: Path, data: Any, report: Report, trust: Trust) -> Bundle:
    """:func:`resume`, for callers that know what the run may import."""
    recipe, data_print = _read_start(folder, trust)
    with training_alone(folder):
        return _resume_locked(folder, recipe, data_print, data, report)


def _resume_locked(folder: Path, recipe: Recipe, data_print: str, data: Any, report: Report) -> Bundle:
    if not checkpoints(folder / CHECKPOINTS):
        raise SaccadeError(
            f"{folder}: expected a checkpoint to resume from, found none: the run stopped before its first; remove that "
            "folder and train again, or train into another"
        )
    splits = read_splits(recipe, data)
    if fingerprint(splits) != data_print:
        raise InputError(folder, expected="the data that the run started with", found="other data", hint="train again")
    # A run that started from another one has its own copy of the vocabulary: the other may be gone by now.
    origin = None if recipe.train.from_ is None else read_json(folder / ORIGIN)
    saved_vectors = read_json(folder / VECTORS) if (folder / VECTORS).is_file() else None
    return _run(prepare(recipe, splits, origin, saved_vectors), folder, report, again=True)


def _read_start(folder: Path, trust: Trust) -> tuple[Recipe, str]:
    """The recipe and the fingerprint of the data, as :func:`_write_start` saved them."""
    if not (folder / RUN).is_file():
        found = f"no {RUN} in it" if folder.is_dir() else "no such folder"
        raise InputError(folder, expected="a run's folder", found=found)
    run = read_json(folder / RUN)
    try:
        name, home, data, changed = run["name"], Path(run["folder"]), str(run["data"]), tuple(run["changed"])
    except (KeyError, TypeError) as error:
        found = f"one that does not fit: {error}"
        raise InputError(folder / RUN, expected="the record of a run's start", found=found) from None
    recipe = read_written(folder / RECIPE, name=name, folder=home, trust=trust)
    return replace(recipe, changed=changed), data


@dataclass(frozen=True)
class Verdict:
    """Whether a run reached the metric that its recipe expects; ``judged`` is False if there was nothing to check."""

    met: bool
    text: str
    judged: bool = True


def verdict(bundle: Bundle) -> Verdict:
    """Compare the test metric with what the recipe expects. A changed recipe is not checked."""
    expect, changed = bundle.recipe.expect, bundle.recipe.changed
    if expect is None:
        return Verdict(True, "the recipe expects no metric", judged=False)
    if changed:
        text = f"expected {expect} of the recipe as shipped; not checked, since {', '.join(changed)} changed"
        return Verdict(True, text, judged=False)
    figure = bundle.figures["test"][expect.metric]
    met = expect.met(figure)
    return Verdict(met, f"expected {expect}: {'reached' if met else 'missed'} with {figure:.4f}")


def new_folder(name: str, ending: str = "") -> Path:
    """``runs/NAME-DATE-TIME``, a folder that does not exist yet."""
    first = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}{ending}"
    number, folder = 1, first
    while folder.exists():
        number += 1
        folder = Path(f"{first}-{number}")
    return folder


def _claim(name: str) -> Path:
    """A new folder for a run, created: two processes that start at the same time get two."""
    while True:
        folder = new_folder(name)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise SaccadeError(f"{folder}: could not create the run's folder: {error.strerror}") from error
        return folder


def _run(prepared: PreparedRun, folder: Path, report: Report, *, again: bool) -> Bundle:
    with recorded(folder) as status:
        try:
            for note in prepared.notes:
                report.say(note)
            report.say(_headline(prepared))
            outcome = fit(_job(prepared, folder, report, status), resume=again)
            status.reason = "" if outcome.progress.finished else outcome.reason
            return _finish(prepared, folder, outcome, report)
        except KeyboardInterrupt:
            raise Interrupted(_how_to_continue(folder)) from None


def _how_to_continue(folder: Path) -> str:
    saved = checkpoints(folder / CHECKPOINTS)
    if not saved:
        return f"stopped before the first checkpoint; remove {folder} and train again"
    return f"stopped; the checkpoint of {saved[-1].name} is whole. Continue with: saccade train --resume {folder}"


def _headline(prepared: PreparedRun) -> str:
    recipe, sizes = prepared.recipe, [len(corpus) for corpus in prepared.corpora.values()]
    learning = [parameter.numel() for parameter in prepared.network.parameters() if parameter.requires_grad]
    parameters = sum(parameter.numel() for parameter in prepared.network.parameters())
    frozen = f" ({parameters - sum(learning):,} of them frozen)" if sum(learning) < parameters else ""
    return (
        f"{recipe.name}: {recipe.model_name}, {parameters:,} parameters{frozen}; {sizes[0]:,} records to train on, "
        f"{sizes[1]:,} {PURPOSES[recipe.train.keep]}, {sizes[2]:,} held out"
    )


def _job(prepared: PreparedRun, folder: Path, report: Report, status: Status) -> Job:
    recipe = prepared.recipe
    untrained = prepared.untrained.figures
    bundle = Bundle(recipe, prepared.task, prepared.network, folder=folder, figures=untrained)

    def save_network(evaluation: Evaluation, progress: Progress) -> None:
        bundle.figures = {"valid": dict(evaluation.figures), "epoch": progress.best_epoch + 1, **untrained}
        if prepared.vectors:
            bundle.figures["vectors"] = prepared.vectors
        if prepared.origin is not None and prepared.origin.get("taken"):
            bundle.figures["taken"] = list(prepared.origin["taken"])
        if progress.averaged:
            bundle.figures["averaged"] = list(progress.averaged)
        bundle.threads = progress.threads
        bundle.save(folder)
        watch = recipe.train.watch
        higher = evaluation.higher_is_better.get(watch, False)
        place = {"epoch": progress.best_epoch + 1, "update": progress.update}
        status.best(watch, evaluation.figures[watch], higher_is_better=higher, **place)

    train, valid = prepared.corpora["train"], prepared.corpora["valid"]
    return Job(prepared.task, prepared.network, train, valid, recipe.train, folder, recipe.search, report, save_network)


def _finish(prepared: PreparedRun, folder: Path, outcome: Outcome, report: Report) -> Bundle:
    """Evaluate the saved network on the test set and write the metrics into its bundle."""
    bundle = load_trusted(folder, prepared.recipe.train.device, prepared.recipe.trust)
    bundle.recipe = replace(bundle.recipe, changed=prepared.recipe.changed)
    bundle.test_records = prepared.splits.test
    progress = outcome.progress
    report.say(
        f"trained for {progress.seconds:.1f} s, {progress.update:,} updates on {outcome.device}; {outcome.reason}"
    )
    test = prepared.corpora["test"]
    try:
        report.testing(0, len(test))
        notes = [*prepared.notes, *outcome.notes]
        with threads(bundle.threads):
            if bundle.recipe.train.calibrate:
                calibrated = calibrated_in_training(bundle, prepared.corpora["valid"], test)
                report.say(calibrated)
                notes += [calibrated] if calibrated.startswith(UNCALIBRATED) else []
            metrics, how = wanted_metrics(bundle.recipe), bundle.recipe.search
            evaluation = bundle.task.evaluate(bundle.network, test, how=how, metrics=metrics, progress=report.testing)
            if bundle.task.baseline_names:
                splits = prepared.splits
                evaluation = evaluation.beside(bundle.task.baselines(splits.train, splits.test, metrics))
    finally:
        report.end()
    bundle.figures |= {
        "test": dict(evaluation.figures),
        "signatures": dict(evaluation.signatures),
        "updates": progress.update,
        "seconds": round(progress.seconds, 1),
        "tokens": progress.tokens,
    }
    if evaluation.baselines:
        bundle.figures["baselines"] = evaluation.baselines
    for note in evaluation.notes:
        report.say(note)
    bundle.notes = tuple(dict.fromkeys((*notes, *evaluation.notes)))
    bundle.save(folder)
    _write_parts(evaluation, folder, f"{bundle.recipe.name} · test")
    write_json(folder / FIGURES, bundle.figures)
    return bundle


def _write_parts(evaluation: Evaluation, folder: Path, title: str) -> None:
    """Write the metrics of each label and the confusion matrix, where the task has labels."""
    if evaluation.parts:
        write_json(folder / BY_LABEL, evaluation.parts)
    if evaluation.confusion is not None and evaluation.confusion.labels:  # of spans there may be none
        from saccade.views.charts.confusion import save

        save(evaluation.confusion.labels, evaluation.confusion.counts, folder / CONFUSION, title=title)
