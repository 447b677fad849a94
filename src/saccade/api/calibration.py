"""Calibrates a classifier's probabilities on held-out records (temperature scaling), and undoes it.

result = saccade.api.calibrate(saccade.load("runs/my"))
result.temperature, result.figures["test"]["after"]["ece"]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from saccade.api.bundle import Bundle, threads
from saccade.api.finetune import sources_trained_on
from saccade.api.runs import FIGURES
from saccade.data.memory import IN_MEMORY
from saccade.errors import InputError, SaccadeError
from saccade.metrics.calibration import PROBABILITY_METRICS, Bins
from saccade.nn.temperature import HOTTEST
from saccade.storage import write_json
from saccade.task import Calibrates
from saccade.tasks.calibration import AFTER, BEFORE, CALIBRATION, Calibration, Figures, differences, fitted
from saccade.training.devices import cores

PICTURE = "reliability.png"
VALID, TEST = "valid", "test"
UNCALIBRATED = "not calibrated"  # followed by the reason


@dataclass(frozen=True)
class Calibrated:
    """The result of a calibration: the temperature, and metrics ``before`` and ``after``, by data set.

    Attributes:
        temperature: what the logits are divided by.
        records, fitted_on: the number and name of the records that it was fitted on.
        figures: data set → ``before`` or ``after`` → accuracy, ece, brier, nll.
        picture: the reliability diagram, where one was written.
        notes: warnings.
    """

    temperature: float
    records: int
    fitted_on: str
    figures: Figures
    picture: Path | None = None
    notes: tuple[str, ...] = ()


def calibrate(bundle: Bundle, data: Any = None, *, test: Any = None) -> Calibrated:
    """Fit the temperature T that maximises the likelihood of softmax(logits / T), and save it in the bundle's folder.

    The predicted labels, and so accuracy, stay as they are; the probabilities change.

    Args:
        data: records to fit on, as a file or in memory; the run's own validation records unless given.
        test: records to report metrics on; the recipe's own test set unless given.

    >>> # saccade.api.calibrate(saccade.load("runs/my")).temperature
    """
    _calibrates(bundle)
    held, where, dropped = _validation(bundle) if data is None else bundle.records_of(data)
    tested, notes = _tested(bundle, test, needed=data is None)
    notes = [*dropped, *notes]
    if tested is not None and data is not None:
        notes += _shared(held, tested[0])
    if data is not None:
        notes += _seen(bundle, held)
    calibration, bins = _fitted(bundle, held, where, tested)
    result = _store(bundle, calibration)
    path = bundle.folder / PICTURE
    _draw(calibration, bins, tested[1] if tested is not None else where, bundle.recipe.name, path)
    if calibration.temperature >= HOTTEST:
        notes.append("on these records the network is no better than chance: all labels are now about equally likely")
    return replace(result, picture=path, notes=tuple(notes))


def undo_calibration(bundle: Bundle) -> None:
    """Remove the temperature from the bundle and its diagram from the folder; probabilities are uncalibrated again."""
    task = _calibrates(bundle)
    calibration = task.calibration
    if calibration is None:
        raise InputError(bundle.folder, expected="a calibrated run", found="one that is not")
    task.calibration = None
    _save(bundle, calibration.figures.get(TEST, {}).get(BEFORE, {}))
    for name in (CALIBRATION, PICTURE):
        with suppress(FileNotFoundError):
            (bundle.folder / name).unlink()


def calibrated_in_training(bundle: Bundle, valid: Any, test: Any) -> str:
    """Calibrate a network that was just trained; returns the message to print. The caller saves the bundle."""
    task = _calibrates(bundle)
    try:
        logits = task.logits_of(bundle.network, valid)
        targets = task.targets_of(valid)
        calibration = fitted(logits, targets, VALID)
    except SaccadeError as error:
        return f"{UNCALIBRATED}: {error}"
    figures = {VALID: differences(calibration, logits, targets)[0]}
    tested = task.logits_of(bundle.network, test)
    figures[TEST], bins = differences(calibration, tested, task.targets_of(test))
    task.calibration = replace(calibration, figures=figures)
    _draw(task.calibration, bins, TEST, bundle.recipe.name, bundle.folder / PICTURE)
    return (
        f"calibrated on {calibration.records:,} validation records: temperature {calibration.temperature:.4f}, ece on them "
        f"{figures[VALID][BEFORE]['ece']:.4f} before, {figures[VALID][AFTER]['ece']:.4f} after"
    )


def _calibrates(bundle: Bundle) -> Calibrates:
    """The bundle's task; raises unless it can be calibrated."""
    if not isinstance(bundle.task, Calibrates):
        expected = "calibration needs a task that gives every label a probability, such as classify"
        raise SaccadeError(f"{expected}: found {bundle.recipe.task!r}")
    return bundle.task


def _validation(bundle: Bundle) -> tuple[Sequence[Any], str, list[str]]:
    recipe = bundle.recipe
    if getattr(recipe.data, "train", None) == IN_MEMORY:
        raise SaccadeError("this model was trained on data given in memory: pass records to calibrate it on")
    records, notes = bundle.held_out(VALID, "saccade calibrate RUN FILE, or data= in Python")
    return records, VALID, notes


def _tested(bundle: Bundle, test: Any, *, needed: bool) -> tuple[tuple[Sequence[Any], str] | None, list[str]]:
    """The records to report metrics on. The run's own test set may be missing unless it is ``needed``."""
    try:
        records, where, notes = bundle.records_of(test, instead="--test FILE, or test= in Python")
        return (records, where), notes
    except SaccadeError as error:
        if test is not None or needed:
            raise
        return None, [f"no figures on a test set: {error}"]


def _shared(held: Sequence[Any], tested: Sequence[Any]) -> list[str]:
    known = {record.source for record in held}
    common = sum(record.source in known for record in tested)
    if not common:
        return []
    return [
        f"{common:,} of the {len(tested):,} test records are among those it was fitted on: metrics are too optimistic"
    ]


def _seen(bundle: Bundle, held: Sequence[Any]) -> list[str]:
    """Warns if the network, or the run that it was fine-tuned from, was trained on the records to fit on."""
    try:
        trained_on = sources_trained_on(bundle.recipe, bundle.folder)
    except (SaccadeError, KeyError, TypeError) as error:
        return [f"cannot check whether the network was trained on some of the records it was fitted on: {error}"]
    seen = sum(record.source in trained_on for record in held)
    if not seen:
        return []
    count = f"{seen:,} of the {len(held):,} records that it was fitted on"
    return [f"{count} were trained on: the network is more confident on them than on others"]


def _fitted(
    bundle: Bundle, held: Sequence[Any], where: str, tested: tuple[Sequence[Any], str] | None
) -> tuple[Calibration, Mapping[str, Bins]]:
    task = _calibrates(bundle)
    with threads(max(1, min(bundle.threads, cores()))), torch.no_grad():
        corpus = bundle.task.corpus(held, where)
        logits = task.logits_of(bundle.network, corpus)
        targets = task.targets_of(corpus)
        calibration = fitted(logits, targets, where)
        changed, bins = differences(calibration, logits, targets)
        figures = {where: changed}
        if tested is not None:
            corpus = bundle.task.corpus(*tested)
            logits = task.logits_of(bundle.network, corpus)
            changed, bins = differences(calibration, logits, task.targets_of(corpus))
            figures[tested[1]] = changed
    return replace(calibration, figures=figures), bins


def _store(bundle: Bundle, calibration: Calibration) -> Calibrated:
    _calibrates(bundle).calibration = calibration
    _save(bundle, calibration.figures.get(TEST, {}).get(AFTER, {}))
    return Calibrated(calibration.temperature, calibration.records, calibration.fitted_on, calibration.figures)


def _save(bundle: Bundle, measured: Mapping[str, float]) -> None:
    """Write the bundle; its probability metrics on the test set become those ``measured`` and are removed where unknown."""
    old = bundle.figures.get(TEST, {})
    # A metric that an earlier calibration removed may be known again.
    names = dict.fromkeys((*old, *bundle.recipe.metrics))
    updated = {name: (measured if name in PROBABILITY_METRICS else old).get(name) for name in names}
    if old:
        bundle.figures[TEST] = {name: value for name, value in updated.items() if value is not None}
    bundle.save(bundle.folder)
    if (bundle.folder / FIGURES).is_file():
        write_json(bundle.folder / FIGURES, bundle.figures)


def _draw(calibration: Calibration, bins: Mapping[str, Bins], where: str, name: str, path: Path) -> None:
    from saccade.views.charts.reliability import Diagram, save

    heads = {BEFORE: BEFORE, AFTER: f"{AFTER}: T = {calibration.temperature:.3g}"}
    diagrams = [
        Diagram(heads[when], part.counts.tolist(), part.confidence.tolist(), part.accuracy.tolist(), part.error)
        for when, part in bins.items()
    ]
    save(diagrams, path, title=f"{name} · {where}")
