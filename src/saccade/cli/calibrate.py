"""``saccade calibrate``: fits a temperature so that a classifier's probabilities match its accuracy."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.options import Json, Run, Trust
from saccade.cli.printing import print
from saccade.cli.tables import table
from saccade.errors import SaccadeError

if TYPE_CHECKING:
    from saccade.api.calibration import Calibrated

METRICS = ("accuracy", "ece", "brier", "nll")


def calibrate(
    run: Run,
    data: Annotated[
        Path | None,
        typer.Argument(metavar="DATA", help="Records to fit on; default: the run's validation records."),
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Records to evaluate on; default: the recipe's test set.")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Remove an earlier calibration.")] = False,
    trust: Trust = None,
    as_json: Json = False,
) -> None:
    """Calibrate a classifier by temperature scaling.

    Of all predictions with a probability of 80 %, 80 % should be right. Predicted labels never change. The run keeps the
    temperature for all later predictions, and RUN/reliability.png shows the calibration before and after.

    \b
    saccade calibrate runs/my
    saccade calibrate runs/my held-out.tsv
    saccade calibrate runs/my --undo
    """
    from saccade.api.bundle import load
    from saccade.api.calibration import calibrate, undo_calibration

    if undo and (data is not None or test is not None):
        raise SaccadeError("command line: --undo removes a calibration: expected no data, found some")
    bundle = load(run, trust=trust or ())
    if undo:
        undo_calibration(bundle)
        print(json.dumps({"run": str(run), "temperature": None}) if as_json else f"{run}: no longer calibrated")
        return
    _print(run, calibrate(bundle, data, test=test), as_json)


def _print(run: Path, result: Calibrated, as_json: bool) -> None:
    if as_json:
        about = {"run": str(run), "temperature": result.temperature, "records": result.records}
        about |= {"fitted_on": result.fitted_on, "figures": result.figures, "notes": result.notes}
        print(json.dumps({**about, "picture": str(result.picture)}))
        return
    print(f"temperature {result.temperature:.4f}, fitted by {result.records:,} records ({result.fitted_on})\n")
    header = ["data", "", *METRICS]
    rows = [
        [where if when == "before" else "", when, *(f"{figures[when][name]:.4f}" for name in METRICS)]
        for where, figures in result.figures.items()
        for when in ("before", "after")
    ]
    print(table(header, rows, right=METRICS))
    print(f"\n{result.picture}")
    for note in result.notes:
        print(f"note: {note}", file=sys.stderr)
