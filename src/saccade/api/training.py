"""Train by a recipe, go on with an interrupted run, and judge what was reached."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from saccade.api.trained import IN_MEMORY, Bundle, load, threads
from saccade.errors import InputError, SaccadeError
from saccade.metrics.text import check_available
from saccade.models import network_class
from saccade.recipes.recipe import Recipe, read_recipe
from saccade.recipes.schema import dump_yaml
from saccade.splits import Splits, hold_out
from saccade.storage import read_json, write_json, write_text
from saccade.task import Evaluation
from saccade.tasks import task_class
from saccade.training.loop import CHECKPOINTS, Job, Outcome, fit
from saccade.training.report import Report, Silence
from saccade.training.state import Progress, checkpoints

RUN = "run.json"


def train(
    recipe: str | Path | Recipe,
    data: Any = None,
    *,
    folder: str | Path | None = None,
    report: Report | None = None,
    **overrides: Any,
) -> Bundle:
    """Train by a recipe (a file, or the name of a shipped one) and return the best network as a bundle.

    Args:
        data: pairs to train on instead of the recipe's: a list of (source, target), of dicts, or a DataFrame; or a dict
            of such with the keys train, valid, test.
        folder: where the run is written; ``runs/NAME-TIME`` unless given.
        overrides: changes of the recipe, e.g. ``model={"hidden": 128}, train={"epochs": 2}``; those of its data are written
            ``**{"data.max_length": 50}``, since ``data`` is the argument above.

    >>> # bundle = saccade.train("rnnsearch_dates", train={"epochs": 2}); bundle.predict("5. Mai 2009")[0].value
    """
    if not isinstance(recipe, Recipe):
        recipe = read_recipe(recipe, changes=overrides)
    if data is not None:
        recipe = replace(recipe, data=replace(recipe.data, source=None, train=IN_MEMORY, valid=None, test=None))
    splits = _splits(recipe, data)
    home = Path(folder) if folder is not None else new_folder(recipe.name)
    if checkpoints(home / CHECKPOINTS):
        raise InputError(home, expected="a new folder", found="a run", hint=f"saccade train --resume {home}")
    write_text(home / "recipe.yaml", dump_yaml(recipe.to_plain()))
    write_json(home / RUN, {"name": recipe.name, "folder": str(recipe.folder.resolve()), "data": _fingerprint(splits),
                            "changed": list(recipe.changed)})  # fmt: skip
    return _run(recipe, splits, home, report or Silence(), again=False)


def resume(folder: str | Path, data: Any = None, *, report: Report | None = None) -> Bundle:
    """Go on with an interrupted run, exactly where its last checkpoint stands."""
    folder = Path(folder)
    run = read_json(folder / RUN)
    recipe = replace(read_recipe(folder / "recipe.yaml"), name=run["name"], folder=Path(run["folder"]))
    recipe = replace(recipe, changed=tuple(run["changed"]))
    splits = _splits(recipe, data)
    if _fingerprint(splits) != run["data"]:
        raise InputError(folder, expected="the data that the run began with", found="other data: train afresh")
    return _run(recipe, splits, folder, report or Silence(), again=True)


@dataclass(frozen=True)
class Verdict:
    """Whether a recipe's expected figure was reached, in words."""

    met: bool
    text: str


def verdict(bundle: Bundle) -> Verdict:
    """Compare the test figure with what the recipe expects. A changed recipe is not held to it."""
    expect, changed = bundle.recipe.expect, bundle.recipe.changed
    if expect is None:
        return Verdict(True, "the recipe expects no figure")
    if changed:
        return Verdict(
            True, f"expected {expect} of the recipe as shipped; not checked, since {', '.join(changed)} changed"
        )
    figure = bundle.figures["test"][expect.metric]
    met = expect.met(figure)
    return Verdict(met, f"expected {expect}: {'reached' if met else 'missed'} with {figure:.4f}")


def new_folder(name: str) -> Path:
    """``runs/NAME-DATE-TIME``, not yet there."""
    first = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    number, folder = 1, first
    while folder.exists():
        number += 1
        folder = Path(f"{first}-{number}")
    return folder


def _run(recipe: Recipe, splits: Splits, folder: Path, report: Report, *, again: bool) -> Bundle:
    check_available([*_wanted(recipe), recipe.train.watch])
    torch.manual_seed(recipe.train.seed)
    task = task_class(recipe.task).learn(recipe.data, splits.train)
    network = task.network(network_class(recipe.model_name), recipe.model)
    corpora = {name: task.corpus(getattr(splits, name), f"data.{name}") for name in ("train", "valid", "test")}
    for note in (*splits.notes, *(corpus.note for corpus in corpora.values() if corpus.note)):
        report.say(note)
    bundle = Bundle(recipe, task, network, folder=folder, figures={})

    def save_best(evaluation: Evaluation, progress: Progress) -> None:
        bundle.figures = {"valid": dict(evaluation.figures), "epoch": progress.best_epoch + 1}
        bundle.threads = progress.threads
        bundle.save(folder)

    job = Job(task, network, corpora["train"], corpora["valid"], recipe.train, folder, recipe.search, report, save_best)
    report.say(
        f"{recipe.name}: {recipe.model_name}, {bundle.parameters:,} parameters; {len(splits.train):,} records to train on, "
        f"{len(splits.valid):,} to choose by, {len(splits.test):,} held out"
    )
    outcome = fit(job, resume=again)
    return _finish(folder, corpora["test"], outcome, report, recipe.changed)


def _finish(folder: Path, test: Any, outcome: Outcome, report: Report, changed: tuple[str, ...]) -> Bundle:
    """The best network's figures on the held-out set go into its bundle."""
    bundle = load(folder)
    bundle.recipe = replace(bundle.recipe, changed=changed)
    progress = outcome.progress
    report.say(
        f"trained for {progress.seconds:.1f} s, {progress.update:,} updates on {outcome.device}; {outcome.reason}"
    )
    with threads(bundle.threads):
        evaluation = bundle.task.evaluate(
            bundle.network, test, how=bundle.recipe.search, metrics=_wanted(bundle.recipe)
        )
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
    write_json(folder / "metrics.json", bundle.figures)
    return bundle


def _wanted(recipe: Recipe) -> list[str]:
    expected = [recipe.expect.metric] if recipe.expect is not None else []
    return list(dict.fromkeys([*recipe.metrics, *expected]))


def _splits(recipe: Recipe, data: Any) -> Splits:
    task = task_class(recipe.task)
    if data is None and recipe.data.train == IN_MEMORY:
        raise SaccadeError("this run was trained on data given in memory: pass the same data= to resume it")
    if data is None:
        splits: Splits = task.load(recipe.data, recipe.folder, recipe.train.seed)
        return splits
    parts = data if isinstance(data, Mapping) and "train" in data else {"train": data}
    unknown = [name for name in parts if name not in ("train", "valid", "test")]
    if unknown:
        raise SaccadeError(f"data: expected train, valid and test, found {unknown[0]!r}")
    return hold_out({name: task.records(part) for name, part in parts.items()}, recipe.data.hold_out, recipe.train.seed)


def _fingerprint(splits: Splits) -> str:
    digest = hashlib.sha256()
    for name in ("train", "valid", "test"):
        digest.update(json.dumps([asdict(record) for record in getattr(splits, name)]).encode())
    return digest.hexdigest()
