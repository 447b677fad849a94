"""``saccade calibrate``: probabilities that mean what they say."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.options import Json, Run, Trust
from saccade.cli.tables import table
from saccade.errors import SaccadeError

if TYPE_CHECKING:
    from saccade.api.calibration import Calibrated

METRICS = ("accuracy", "ece", "brier", "nll")


def calibrate(
    run: Run,
    data: Annotated[
        Path | None,
        typer.Argument(metavar="DATA", help="Records to fit by; the run's own validation records unless given."),
    ] = None,
    test: Annotated[
        Path | None, typer.Option(help="Records to say the figures on; the recipe's test set unless given.")
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take an earlier calibration back.")] = False,
    trust: Trust = None,
    as_json: Json = False,
) -> None:
    """Make the probabilities of a classifier mean what they say.

    Of all texts of which it says 80 %, 80 % should be right. The label that is said never changes. The run keeps the
    temperature, every later prediction goes by it, and RUN/reliability.png shows before and after.

    \b
    saccade calibrate runs/my
    saccade calibrate runs/my held-out.tsv
    saccade calibrate runs/my --undo
    """
    from saccade.api.bundle import load
    from saccade.api.calibration import calibrate, undo_calibration

    if undo and (data is not None or test is not None):
        raise SaccadeError("command line: --undo takes a calibration back: it needs no data")
    bundle = load(run, trust=trust or ())
    if undo:
        undo_calibration(bundle)
        print(json.dumps({"run": str(run), "temperature": None}) if as_json else f"{run}: no longer calibrated")
        return
    _print(run, calibrate(bundle, data, test=test), as_json)


def _print(run: Path, found: Calibrated, as_json: bool) -> None:
    if as_json:
        about = {"run": str(run), "temperature": found.temperature, "records": found.records}
        about |= {"fitted_on": found.fitted_on, "figures": found.figures, "notes": found.notes}
        print(json.dumps({**about, "picture": str(found.picture)}))
        return
    print(f"temperature {found.temperature:.4f}, fitted by {found.records:,} records ({found.fitted_on})\n")
    header = ["data", "", *METRICS]
    rows = [
        [where if when == "before" else "", when, *(f"{figures[when][name]:.4f}" for name in METRICS)]
        for where, figures in found.figures.items()
        for when in ("before", "after")
    ]
    print(table(header, rows, right=METRICS))
    print(f"\n{found.picture}")
    for note in found.notes:
        print(f"note: {note}", file=sys.stderr)
