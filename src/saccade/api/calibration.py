"""Make a classifier's probabilities mean what they say, by records that it was not trained on; and take that back.

found = saccade.api.calibrate(saccade.load("runs/my"))
found.temperature, found.figures["test"]["after"]["ece"]
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
UNCALIBRATED = "not calibrated"  # how a sentence begins that says why


@dataclass(frozen=True)
class Calibrated:
    """What calibration found: the temperature, and figures by data set, ``before`` and ``after``.

    Attributes:
        temperature: what the logits are divided by from now on.
        records, fitted_on: how many records it was fitted by, and which.
        figures: data set → ``before`` or ``after`` → accuracy, ece, brier, nll.
        picture: the reliability plot, where one was written.
        notes: what the reader must know.
    """

    temperature: float
    records: int
    fitted_on: str
    figures: Figures
    picture: Path | None = None
    notes: tuple[str, ...] = ()


def calibrate(bundle: Bundle, data: Any = None, *, test: Any = None) -> Calibrated:
    """Fit a temperature T so that softmax(logits / T) is as likely as can be, and keep it in the bundle's folder.

    The label that is said does not change, and so accuracy does not; probabilities do.

    Args:
        data: records to fit by, a file or in hand; the run's own validation records unless given.
        test: records to say the figures on; the recipe's own test set unless given.

    >>> # saccade.api.calibrate(saccade.load("runs/my")).temperature
    """
    _calibrates(bundle)
    held, where = _validation(bundle) if data is None else bundle.records_of(data)
    tested, notes = _tested(bundle, test, needed=data is None)
    if tested is not None and data is not None:
        notes += _shared(held, tested[0])
    if data is not None:
        notes += _seen(bundle, held)
    calibration, bins = _fitted(bundle, held, where, tested)
    found = _kept(bundle, calibration)
    path = bundle.folder / PICTURE
    _draw(calibration, bins, tested[1] if tested is not None else where, bundle.recipe.name, path)
    if calibration.temperature >= HOTTEST:
        notes.append("by these records the network knows no more than chance: all labels are now about as likely")
    return replace(found, picture=path, notes=tuple(notes))


def undo_calibration(bundle: Bundle) -> None:
    """Take the temperature out of the bundle, and its picture out of the folder: probabilities are those of training."""
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
    """Calibrate a network that was just trained by the corpora in hand; return what to say of it. The caller saves."""
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
        f"calibrated by {calibration.records:,} validation records: temperature {calibration.temperature:.4f}, ece on them "
        f"{figures[VALID][BEFORE]['ece']:.4f} before, {figures[VALID][AFTER]['ece']:.4f} after"
    )


def _calibrates(bundle: Bundle) -> Calibrates:
    """The bundle's task; raises unless it can be calibrated."""
    if not isinstance(bundle.task, Calibrates):
        expected = "calibration needs a task that gives every label a probability, such as classify"
        raise SaccadeError(f"{expected}: found {bundle.recipe.task!r}")
    return bundle.task


def _validation(bundle: Bundle) -> tuple[Sequence[Any], str]:
    recipe = bundle.recipe
    if getattr(recipe.data, "train", None) == IN_MEMORY:
        raise SaccadeError("this model was trained on data given in memory: pass records to calibrate it by")
    return bundle.held_out(VALID, "saccade calibrate RUN FILE, or data= in Python"), VALID


def _tested(bundle: Bundle, test: Any, *, needed: bool) -> tuple[tuple[Sequence[Any], str] | None, list[str]]:
    """The records to say figures on. Where others than the run's own are fitted by, its own may be out of reach."""
    try:
        return bundle.records_of(test, instead="--test FILE, or test= in Python"), []
    except SaccadeError as error:
        if test is not None or needed:
            raise
        return None, [f"no figures on a test set: {error}"]


def _shared(held: Sequence[Any], tested: Sequence[Any]) -> list[str]:
    known = {record.source for record in held}
    common = sum(record.source in known for record in tested)
    if not common:
        return []
    return [f"{common:,} of the {len(tested):,} test records are among those it was fitted by: that flatters it"]


def _seen(bundle: Bundle, held: Sequence[Any]) -> list[str]:
    """What must be known where the records to fit by are the run's own, or of a run that it was begun from."""
    try:
        trained_on = sources_trained_on(bundle.recipe, bundle.folder)
    except (SaccadeError, KeyError, TypeError) as error:
        return [f"whether the network was trained on some of the records it was fitted by cannot be checked: {error}"]
    seen = sum(record.source in trained_on for record in held)
    if not seen:
        return []
    told = f"{seen:,} of the {len(held):,} records that it was fitted by were trained on"
    return [f"{told}: the network is surer of them than of others"]


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


def _kept(bundle: Bundle, calibration: Calibration) -> Calibrated:
    _calibrates(bundle).calibration = calibration
    _save(bundle, calibration.figures.get(TEST, {}).get(AFTER, {}))
    return Calibrated(calibration.temperature, calibration.records, calibration.fitted_on, calibration.figures)


def _save(bundle: Bundle, measured: Mapping[str, float]) -> None:
    """Write the bundle; of its test figures those of probabilities are what they are now, or gone where that is unknown."""
    old = bundle.figures.get(TEST, {})
    # What an earlier calibration left unknown may be known again.
    names = dict.fromkeys((*old, *bundle.recipe.metrics))
    kept = {name: (measured if name in PROBABILITY_METRICS else old).get(name) for name in names}
    if old:
        bundle.figures[TEST] = {name: value for name, value in kept.items() if value is not None}
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
