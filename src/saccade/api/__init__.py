"""Trains, loads, evaluates and compares models: the Python interface, on which the command line is built. Names load lazily."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saccade.api.alignment import Alignment, align, align_both_ways, alignment_error
    from saccade.api.bundle import Bundle, load
    from saccade.api.calibration import Calibrated, calibrate, undo_calibration
    from saccade.api.comparison import Comparison, compare
    from saccade.api.dry_run import Plan, plan
    from saccade.api.huggingface import from_huggingface, import_huggingface, to_huggingface
    from saccade.api.runs import Run, find_runs, read_run
    from saccade.api.surveying import recipe_for
    from saccade.api.sweeps import Sweep, resume_sweep, sweep
    from saccade.api.training import Verdict, new_folder, resume, train, verdict
    from saccade.api.transcripts import transcribe
    from saccade.api.vectors import save_vectors
    from saccade.data.memory import IN_MEMORY
    from saccade.task import Prediction

_HOMES = {
    "saccade.api.alignment": ("Alignment", "align", "align_both_ways", "alignment_error"),
    "saccade.api.calibration": ("Calibrated", "calibrate", "undo_calibration"),
    "saccade.api.comparison": ("Comparison", "compare"),
    "saccade.api.huggingface": ("from_huggingface", "import_huggingface", "to_huggingface"),
    "saccade.api.dry_run": ("Plan", "plan"),
    "saccade.api.runs": ("Run", "find_runs", "read_run"),
    "saccade.api.surveying": ("recipe_for",),
    "saccade.api.sweeps": ("Sweep", "resume_sweep", "sweep"),
    "saccade.api.bundle": ("Bundle", "load"),
    "saccade.data.memory": ("IN_MEMORY",),
    "saccade.api.training": ("Verdict", "new_folder", "resume", "train", "verdict"),
    "saccade.api.transcripts": ("transcribe",),
    "saccade.api.vectors": ("save_vectors",),
    "saccade.task": ("Prediction",),
}

__all__ = [
    "IN_MEMORY", "Alignment", "Bundle", "Calibrated", "Comparison", "Plan", "Prediction", "Run", "Sweep", "Verdict",
    "align", "align_both_ways", "alignment_error", "calibrate", "compare", "find_runs", "from_huggingface",
    "import_huggingface", "load", "new_folder", "plan", "read_run", "recipe_for", "resume", "resume_sweep", "save_vectors",
    "sweep", "to_huggingface", "train", "transcribe", "undo_calibration", "verdict",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'saccade.api' has no attribute {name!r}")
