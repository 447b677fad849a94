"""Two engines, one curve: a model whose queries are known at once, trained through either engine of additive attention.

    SACCADE_DATA=… python benchmarks/kernels/curves.py --out TABLE.md [--epochs 10] [--seeds 3] [--jobs 3] [WAY …] [key=value …]
    python benchmarks/kernels/curves.py --tiny --out TABLE.md

Luong with concat's score and without input feeding learns Multi30k, German to English (``--tiny``: a few dates). A WAY is a
precision (32, tf32, bf16), with ``:ENGINE`` where additive.attention is not to choose: on a GPU 32 goes through the direct
engine, tf32 and bf16 through the separable one. Without a WAY it is 32, tf32 and bf16; on a CPU 32:blocked and 32:separable.
The calls of each engine's gradients are counted while training, and no calls is a failure: the table would say nothing.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import itertools
import json
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

import saccade
from saccade.attention import fast
from saccade.kernels.additive import engines

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import device_name

PRECISIONS = ("32", "tf32", "bf16")
# Recorded updates call an engine when they are recorded and not when they are repeated: live ones can be counted.
SETTINGS = (
    "model.score=concat",
    "model.input_feeding=false",
    "train.graphs=off",
    "train.watch=loss",
    "train.average=0",
)
TINY = (
    "model.window=global",
    "model.hidden=64",
    "data.dates.train=1200",
    "data.dates.valid=100",
    "data.dates.test=100",
)


@dataclass(frozen=True)
class Run:
    """What one way and seed came to."""

    way: str
    seed: int
    calls: dict[str, int]  # of each engine's gradients
    curve: list[float]  # the validation loss after each epoch
    metric: str
    test: float
    seconds: float


# ---- One run, in a process of its own


def count_calls(asked: str | None) -> Counter[str]:
    """Count the engines' gradients from now on; with ``asked``, that engine serves every call."""
    calls: Counter[str] = Counter()
    plain = engines.engine

    def counted(name: str, *rest: Any) -> engines.Engine:
        found = plain(name, *rest)

        def gradients(*args: Any, **options: Any) -> Any:
            calls[name] += 1
            return found.gradients(*args, **options)

        return replace(found, gradients=gradients)

    engines.engine = counted
    if asked is not None:
        fast.additive_attention = partial(fast.additive_attention, engine=asked)
    return calls


def train_one(way: str, seed: int, recipe: str, changes: Sequence[str], folder: Path) -> Run:
    from saccade.api import train
    from saccade.recipes.recipe import read_recipe

    precision, _, engine = way.partition(":")
    torch.set_float32_matmul_precision("highest")  # which train.precision=tf32 changes
    calls = count_calls(engine or None)
    own = [f"train.precision={precision}", f"train.seed={seed}"]
    bundle = train(read_recipe(recipe, [*changes, *own]), folder=folder)
    if not calls.total():
        sys.exit(
            f"{way}, seed {seed}: no gradient went through additive.attention; expected a model with an additive score and "
            "queries that are known at once (model.input_feeding=false), in batches that pay for it"
        )
    with (folder / "evaluations.csv").open(encoding="utf-8") as file:
        curve = [float(row["loss"]) for row in csv.DictReader(file)]
    metric, figures = bundle.recipe.metrics[0], bundle.figures
    return Run(way, seed, dict(calls), curve, metric, figures["test"][metric], figures["seconds"])


def start(way: str, seed: int, options: argparse.Namespace, folder: Path) -> Run | None:
    words = [
        way,
        f"--seed={seed}",
        f"--epochs={options.epochs}",
        *options.changes,
        *(["--tiny"] if options.tiny else []),
    ]
    command = [sys.executable, __file__, "--one", "--out", str(folder / f"{way.replace(':', '-')}-{seed}"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{way}, seed {seed}: exit status {done.returncode}: {done.stderr.strip()[-2000:]}", flush=True)
        return None
    run = Run(**json.loads(done.stdout.strip().splitlines()[-1]))
    print(f"{way}, seed {seed}: {run.calls}, last loss {run.curve[-1]:.4f}, {run.metric} {run.test:.4g}", flush=True)
    return run


# ---- The table


def apart(numbers: Iterable[float]) -> float:
    numbers = list(numbers)
    return max(numbers) - min(numbers)


def mean(numbers: Iterable[float]) -> float:
    numbers = list(numbers)
    return sum(numbers) / len(numbers)


@dataclass(frozen=True)
class Apart:
    """How far apart numbers of several ways and seeds are."""

    ways: float  # their means over the seeds
    same_seed: float  # two ways from one seed
    seeds: float  # two seeds of one way

    @classmethod
    def of(cls, by_way: dict[str, dict[int, float]]) -> Apart:
        seeds = set.intersection(*(set(each) for each in by_way.values()))
        return cls(
            apart(mean(each[seed] for seed in seeds) for each in by_way.values()),
            max(apart(each[seed] for each in by_way.values()) for seed in seeds),
            max(apart(each.values()) for each in by_way.values()),
        )


def table(runs: Sequence[Run], changes: Sequence[str], recipe: str, jobs: int) -> str:
    ways = list(dict.fromkeys(run.way for run in runs))
    metric, epochs = runs[0].metric, len(runs[0].curve)
    lines = [
        "# Additive attention through either engine: one curve",
        "",
        (
            f"{datetime.date.today()}, {device_name()}, {jobs} runs at a time on it. Python {platform.python_version()}, torch "
            f"{torch.__version__}, saccade {saccade.__version__}. {recipe} with {' '.join(changes)}. `{' '.join(sys.argv)}`"
        ),
        "",
        f"| way | seed | engine: calls of its gradients | last validation loss | {metric} on test | s |",
        "|---|---|---|---|---|---|",
    ]
    for run in runs:
        calls = ", ".join(f"{name}: {count:,}" for name, count in run.calls.items())
        lines.append(f"| {run.way} | {run.seed} | {calls} | {run.curve[-1]:.4f} | {run.test:.4g} | {run.seconds:.0f} |")
    heads = [f"{run.way}, {run.seed}" for run in runs]
    lines += [
        "",
        (
            "Validation loss of each way and seed, and the most that they are apart: two ways' means over the seeds, two ways "
            "from the same seed, two seeds of one way."
        ),
        "",
        f"| epoch | {' | '.join(heads)} | means | same seed | seeds |",
        "|---" * (len(heads) + 4) + "|",
    ]
    found = []
    for epoch in range(epochs):
        here = Apart.of({way: {run.seed: run.curve[epoch] for run in runs if run.way == way} for way in ways})
        found.append(here)
        losses = " | ".join(f"{run.curve[epoch]:.4f}" for run in runs)
        lines.append(f"| {epoch + 1} | {losses} | {here.ways:.2g} | {here.same_seed:.2g} | {here.seeds:.2g} |")
    of_test = Apart.of({way: {run.seed: run.test for run in runs if run.way == way} for way in ways})
    lines += [
        "",
        (
            f"The ways' mean losses are at most {max(each.ways for each in found):.2g} apart at any epoch, seeds of one way "
            f"{max(each.seeds for each in found):.2g}; after the last epoch {found[-1].ways:.2g} and {found[-1].seeds:.2g}. "
            f"Of {metric} on test: {of_test.ways:.2g} and {of_test.seeds:.2g}."
        ),
    ]
    return "\n".join(lines) + "\n"


# ---- The command


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WAY | key=value")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3, help="seeds 1 to this")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time on the device")
    parser.add_argument("--tiny", action="store_true", help="a few dates: a trial that a CPU finishes in a minute")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    on_gpu = torch.cuda.is_available()
    options.changes = [word for word in options.words if "=" in word]
    ways = [word for word in options.words if "=" not in word]
    ways = ways or (list(PRECISIONS) if on_gpu else ["32:blocked", "32:separable"])
    for way in ways:
        precision, _, engine = way.partition(":")
        if precision not in PRECISIONS or engine not in ("", *engines.NAMES):
            names = ", ".join(engines.NAMES)
            sys.exit(f"WAY: expected {', '.join(PRECISIONS)}, and behind a colon one of {names}, found {way!r}")
    recipe = "luong_dates" if options.tiny else "luong_multi30k"
    changes = [*SETTINGS, *(TINY if options.tiny else ()), f"train.epochs={options.epochs}", *options.changes]
    if options.one:
        print(json.dumps(asdict(train_one(ways[0], options.seed, recipe, changes, options.out))))
        return
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        asked = list(itertools.product(ways, range(1, options.seeds + 1)))
        made = list(pool.map(lambda pair: start(*pair, options, Path(folder)), asked))
    runs = [run for run in made if run is not None]
    if len(runs) < len(made):
        sys.exit(f"{len(made) - len(runs)} of {len(made)} runs failed; no table was written")
    text = table(runs, changes, recipe, options.jobs)
    print(text)
    options.out.write_text(text, encoding="utf-8")
    used = {max(run.calls, key=lambda name: run.calls[name]) for run in runs}
    if len(used) < 2:
        sys.exit(
            f"every run went through {', '.join(used)}: nothing was compared; name the engines, as in 32:separable"
        )


if __name__ == "__main__":
    main()
