"""Shipped recipes trained several times: each run is a process and a folder, and what is finished is not trained again.

    python benchmarks/reading/trained.py FOLDER RECIPE [key=value …]      # one run: its figures go to FOLDER/result.json

A run that was cut off, by hand or because the time was over, goes on where its last checkpoint stands.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import device_name

RESULT = "result.json"
STOPPING = 60.0  # seconds that a run has to save itself when the time is over


@dataclass(frozen=True)
class Run:
    """A recipe with some fields changed; ``name`` is its folder's."""

    name: str
    recipe: str
    changes: tuple[str, ...]


@dataclass(frozen=True)
class Limits:
    """How many runs at a time, and when no more is begun and those at work are stopped (of time.monotonic)."""

    jobs: int = 1
    deadline: float = float("inf")


def train_one(folder: Path, recipe: str, changes: Sequence[str]) -> None:
    """Train, or go on, and leave the figures in the run's folder."""
    from saccade.api import resume, train
    from saccade.recipes.recipe import read_recipe
    from saccade.training.loop import CHECKPOINTS
    from saccade.training.state import checkpoints

    begun = time.perf_counter()
    if checkpoints(folder / CHECKPOINTS):
        bundle = resume(folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)  # it did not come to a checkpoint
        bundle = train(read_recipe(recipe, changes), folder=folder)
    figures, plain = bundle.figures, bundle.recipe
    metric = plain.expect.metric if plain.expect is not None else plain.metrics[0]
    about = {"recipe": recipe, "metric": metric, "test": figures["test"], "valid": figures["valid"]}
    about |= {"watch": plain.train.watch, "seed": plain.train.seed, "parameters": bundle.parameters}
    about |= {"updates": figures["updates"], "seconds": figures["seconds"], "wall": time.perf_counter() - begun}
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)  # they are the larger part of a run, and no longer needed
    (folder / RESULT).write_text(json.dumps(about), encoding="utf-8")


def result_of(run: Run, runs: Path, limits: Limits) -> dict[str, Any] | None:
    """What a run reached; it is trained, in a process of its own, unless it is there. None: it failed, or time was over."""
    folder = runs / run.name
    if not (folder / RESULT).exists():
        left = limits.deadline - time.monotonic()
        if left <= 0:
            return None
        command = [sys.executable, str(Path(__file__).resolve()), str(folder), run.recipe, *run.changes]
        if not _carried_out(command, run.name, left):
            return None
    found: dict[str, Any] = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    print(f"{run.name}: {found['metric']} {found['test'][found['metric']]:.4f}, {found['seconds']:.0f} s", flush=True)
    return found


def _carried_out(command: list[str], name: str, seconds: float) -> bool:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _, said = process.communicate(timeout=None if seconds == float("inf") else seconds)
    except subprocess.TimeoutExpired:
        process.terminate()  # it saves itself after the update at hand
        try:
            process.communicate(timeout=STOPPING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        print(f"{name}: stopped, the time is over", flush=True)
        return False
    if process.returncode:
        print(f"{name}: exit status {process.returncode}: {said.strip()[-1500:]}", file=sys.stderr, flush=True)
    return process.returncode == 0


def results_of(runs: Sequence[Run], folder: Path, limits: Limits) -> dict[Run, dict[str, Any] | None]:
    """All of them, ``limits.jobs`` at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(limits.jobs) as pool:
        return dict(zip(runs, pool.map(lambda run: result_of(run, folder, limits), runs), strict=True))


# Words for tables ---------------------------------------------------------------------------------------------------------


def spread(values: Sequence[float]) -> str:
    """``0.9012 ± 0.0031``: the mean and the deviation over the seeds."""
    if not values:
        return "–"
    return f"{statistics.mean(values):.4f}" + (f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else "")


def where_and_when(jobs: int) -> str:
    """The date, the hardware and the versions, in a line."""
    import torch

    import saccade

    device = device_name()
    at_a_time = "1 run" if jobs == 1 else f"{jobs} runs"
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, saccade {saccade.__version__}"
    return f"{datetime.date.today()}, {device}, {at_a_time} at a time on it, {versions}. `python {' '.join(sys.argv)}`"


def options_of(parser: argparse.ArgumentParser) -> None:
    """The options that these benchmarks share."""
    parser.add_argument("--runs", type=Path, help="where the runs are; finished ones are not trained again")
    parser.add_argument("--seeds", type=int, default=5, help="each is trained with the seeds 1 to so many")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--minutes", type=float, help="stop then; the same command goes on")
    parser.add_argument("--out", type=Path, help="where the table is written")
    parser.add_argument("--tiny", action="store_true", help="made texts, small networks: does it all still run?")


def limits_of(options: argparse.Namespace) -> Limits:
    if options.seeds < 1 or options.jobs < 1:
        sys.exit("--seeds and --jobs: expected whole numbers from 1 on")
    seconds = float("inf") if options.minutes is None else 60 * options.minutes
    return Limits(options.jobs, time.monotonic() + seconds)


def finish(text: str, left: int, out: Path | None) -> None:
    """Print the table, write it, and end with 1 where runs are missing."""
    print(text)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
    if left:
        sys.exit(f"{left} runs are missing: the same command goes on")


if __name__ == "__main__":
    train_one(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
