"""SAGAN on CIFAR-10 with its blocks of self-attention and without: do the pictures come closer to real ones?

    python benchmarks/sagan/prepare.py PACKAGE FOLDER
    python benchmarks/sagan/run.py --data FOLDER --runs runs/sagan --jobs 7 --minutes 5.5 --out TABLE.md --figures FOLDER
        [key=value …]

Both networks train by the recipe sagan_cifar10, with the same seeds and the same number of updates: --updates, or as many as
--minutes allow, by a short training of --jobs networks at a time. Settings such as model.channels=32 change the recipe of both.
A classifier is trained on the same pictures; the Fréchet distance of its features is feature_distance, which compares these
networks with each other and with no published FID. Intervals are by the bootstrap over test pictures. What is trained already
is not trained again.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import saccade
from saccade.data.images.pictures import grid_of, png_of
from saccade.data.images.records import LabelledImageData, LabelledPicture, load_labelled_pictures
from saccade.metrics.labels import label_statistics
from saccade.metrics.pictures import PICTURE_METRICS, frechet_distance
from saccade.metrics.significance import bootstrap, interval
from saccade.recipes.recipe import read_recipe
from saccade.tasks.generate import RESAMPLES, noise_of, pixels_from

sys.path.insert(0, str(Path(__file__).parents[1]))
from machine import device_name

RECIPE, JUDGE = "sagan_cifar10", "judge"
FILES = {"train": "train.png", "test": "test.png", "answers": "labels.json"}  # fields of the recipe's data
NETWORKS: dict[str, list[str]] = {"with": [], "without": ["model.attention=null"]}
JUDGE_RECIPE: dict[str, Any] = {
    "task": "classify_images",
    "data": {"image": {"size": 32}, "augment": {"flip": True, "shift": 0.125}},
    "model": {"name": "image_classifier", "channels": 64, "halvings": 3, "width": 64, "dropout": 0.1},
    "train": {"epochs": 40, "batch_records": 128, "batch_tokens": None, "lr": 2e-3, "schedule": "cosine", "warmup": 60},
    "metrics": ["accuracy"],
}
PASSES = 10  # over the training pictures per epoch, since an epoch ends with a checkpoint
LOOKS = 20  # evaluations of a run, in which γ is written down
TIMED = 120  # updates, the second half of which is timed
USED = 0.85  # of --minutes: the classifier trains at the same time, and evaluations take some
DRAWS = 10  # pictures of each class in a grid


def pictures_of(folder: Path, limit: int | None) -> dict[str, list[LabelledPicture]]:
    """The training, validation and test pictures, the same for every seed; the first ``limit`` of each."""
    files = {field: str(folder / file) for field, file in FILES.items()}
    data = LabelledImageData(**files, hold_out=0.02)
    splits = load_labelled_pictures(data, folder, 1)
    return {name: list(getattr(splits, name))[:limit] for name in ("train", "valid", "test")}


def train_one(name: str, folder: Path, options: argparse.Namespace) -> None:
    """Train the classifier, or the network of a name such as ``with-1``, of seed 1."""
    pictures, threads = pictures_of(options.data, options.limit), max(1, (os.cpu_count() or 1) // options.jobs)
    torch.set_num_threads(threads)
    if name == JUDGE:
        how: dict[str, Any] = {"device": options.device, "threads": threads}
        how |= {} if options.limit is None else {"epochs": 2}
        saccade.train(JUDGE_RECIPE, pictures, folder=folder, progress=False, train=how)
        return
    kind, _, seed = name.rpartition("-")
    files = [f"data.{field}={options.data / file}" for field, file in FILES.items()]
    recipe = read_recipe(RECIPE, [
        *files, *NETWORKS[kind], *options.changes, f"train.seed={seed}", f"train.device={options.device}",
        f"train.threads={threads}", f"train.updates={options.updates}", f"train.minutes={options.minutes}",
        f"train.evaluate_every={max(1, options.updates // LOOKS)}", "train.save_every=null",
    ])  # fmt: skip
    saccade.train(recipe, {**pictures, "train": PASSES * pictures["train"]}, folder=folder, progress=False)


def carried_out(name: str, options: argparse.Namespace, updates: int) -> bool:
    """Train in a process of its own, unless it is there; whether that succeeded."""
    folder = options.runs / name
    if (folder / "metrics.json").is_file():
        return True
    limit = [] if options.limit is None else ["--limit", str(options.limit)]
    command = [
        sys.executable, str(Path(__file__).resolve()), "--one", name, "--data", str(options.data),
        "--runs", str(options.runs), "--jobs", str(options.jobs), "--device", options.device,
        "--minutes", str(options.minutes), "--updates", str(updates), *limit, *options.changes,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    state = "trained" if done.returncode == 0 else f"exit status {done.returncode}: {done.stderr.strip()[-1500:]}"
    print(f"{name}: {state}", flush=True)
    return done.returncode == 0


def updates_within(options: argparse.Namespace, names: Sequence[str]) -> int:
    """How many updates every run can make in --minutes, by the slowest of as many networks as train at a time."""
    if (options.runs / "updates.json").is_file():
        return int(json.loads((options.runs / "updates.json").read_text(encoding="utf-8")))
    timed = [f"timed/{name}" for name in names[: options.jobs]]
    with ThreadPoolExecutor(options.jobs) as pool:
        done = list(pool.map(partial(carried_out, options=options, updates=TIMED), timed))
    if not all(done):
        sys.exit("the timed networks could not be trained")
    seconds = []
    for name in timed:
        rows = rows_of(options.runs / name / "log.csv")
        middle = (len(rows) - 1) // 2  # the first updates are slower
        seconds.append((float(rows[-1]["seconds"]) - float(rows[middle]["seconds"])) / (len(rows) - 1 - middle))
    rounds = -(-len(names) // options.jobs)
    updates = max(1, int(60 * options.minutes * USED / rounds / max(seconds)))
    print(f"{1000 * max(seconds):.1f} ms per update, {options.jobs} at a time: {updates:,} updates each", flush=True)
    (options.runs / "updates.json").write_text(json.dumps(updates), encoding="utf-8")
    return updates


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def samples_of(bundle: Any) -> bytes:
    """A PNG with a row of pictures per class."""
    network, device = bundle.network.eval(), next(bundle.network.parameters()).device
    noise = noise_of([(1, draw) for draw in range(DRAWS)], network.noise).to(device)
    with torch.no_grad():
        rows = [
            pixels_from(network(noise, torch.full((DRAWS,), number, device=device))).numpy()
            for number in range(len(bundle.task.labels))
        ]
    return png_of(grid_of([list(row) for row in rows]))


def gammas(rows: Sequence[dict[str, str]], updates: int) -> list[str]:
    """γ of generator and discriminator after a quarter, a half, three quarters and all of the updates."""
    cells = []
    for quarter in range(1, 5):
        row = min(rows, key=lambda row: abs(int(row["update"]) - quarter * updates / 4))
        cells.append(" / ".join(f"{float(row[f'gamma_{part}']):+.3f}" for part in ("generator", "discriminator")))
    return cells


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]


def over_seeds(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.4f}" + (f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else "")


def report(options: argparse.Namespace, names: Sequence[str]) -> str:
    """Measure every run and write the tables and, with --figures, the pictures of seed 1."""
    pictures = pictures_of(options.data, options.limit)
    test, device = (
        pictures["test"],
        "cuda" if options.device == "auto" and torch.cuda.is_available() else options.device,
    )
    device = "cpu" if device == "auto" else device
    judge = saccade.load(options.runs / JUDGE)
    seen = label_statistics("accuracy", judge.evaluation(test).outputs, [record.target for record in test])
    sure = interval(bootstrap(seen))
    rows, growth, real = [], [], np.zeros((0, 0))
    values: dict[tuple[str, str], list[float]] = {}
    for name in names:
        kind, _, seed = name.rpartition("-")
        bundle = saccade.load(options.runs / name).reading(**{"data.judge": str((options.runs / JUDGE).resolve())})
        bundle.network.to(device)
        found = bundle.task.picture_statistics(bundle.network, bundle.task.corpus(test, "test"), PICTURE_METRICS)
        cells = [kind, seed, f"{bundle.figures['updates']:,}"]
        for metric, of in found.items():
            span = interval(bootstrap(of, samples=RESAMPLES))
            cells.append(f"{of.value:.4f} ({span.low:.4f}–{span.high:.4f})")
            values.setdefault((kind, metric), []).append(of.value)
        rows.append([*cells, f"{bundle.figures['seconds']:.0f} s", f"{bundle.parameters:,}"])
        features = found["feature_distance"].rows
        real = features[:, features.shape[1] // 2 :]
        if not NETWORKS[kind]:
            growth.append([seed, *gammas(rows_of(options.runs / name / "evaluations.csv"), bundle.figures["updates"])])
        if options.figures is not None and seed == "1":
            options.figures.mkdir(parents=True, exist_ok=True)
            (options.figures / f"{date.today()}-sagan-{kind}.png").write_bytes(samples_of(bundle))
    halves = frechet_distance(real[::2], real[1::2])
    means = [[kind, *(over_seeds(values[kind, metric]) for metric in PICTURE_METRICS)] for kind in NETWORKS]
    versions = f"saccade {saccade.__version__}, torch {torch.__version__}, {device_name(device)}"
    settings = f"--seeds {options.seeds} --jobs {options.jobs} --minutes {options.minutes:g}"
    command = " ".join(["python benchmarks/sagan/run.py", settings, *options.changes])
    counts = f"{len(pictures['train']):,} training and {len(test):,} test pictures of CIFAR-10."
    accuracy = f"{seen.value:.4f} ({sure.low:.4f}–{sure.high:.4f})"
    lines = [
        "# SAGAN on CIFAR-10, with self-attention and without",
        "",
        f"{date.today()}, {versions}, {options.jobs} runs at a time on it. `{command}`.",
        "",
        f"{counts} One picture is generated per test picture, of its class.",
        "`feature_distance` is the Fréchet distance of the features of a classifier that was trained on the same training",
        "pictures, so it is no FID. Smaller distances are better; 95 % intervals are by the bootstrap over test pictures.",
        "",
        f"The classifier's accuracy on the test pictures is {accuracy}. The feature_distance of",
        f"the two halves of the test pictures is {halves:.4f}.",
        "",
        *markdown(["attention", "seed", "updates", *PICTURE_METRICS, "training", "parameters"], rows),
        "",
        "Mean and standard deviation over the seeds:",
        "",
        *markdown(["attention", *PICTURE_METRICS], means),
        "",
        "γ of the generator / the discriminator over training:",
        "",
        *markdown(["seed", "25 %", "50 %", "75 %", "100 % of the updates"], growth),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("changes", nargs="*", metavar="key=value", help="changes of the recipe of both networks")
    parser.add_argument("--data", type=Path, required=True, help="a folder that prepare.py wrote")
    parser.add_argument("--runs", type=Path, default=Path("runs/sagan"))
    parser.add_argument("--seeds", type=int, default=3, help="each network is trained with the seeds 1 to so many")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, the classifier's among them")
    parser.add_argument("--minutes", type=float, default=5.5, help="of training of all networks")
    parser.add_argument("--updates", type=int, help="of every network; by default as many as --minutes allow")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--limit", type=int, help="use only so many pictures of each split: does it all run?")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--figures", type=Path, help="the folder for the grids of pictures")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        train_one(Path(options.one).name, options.runs / options.one, options)
        return
    if options.seeds < 1 or options.jobs < 1 or not options.minutes > 0:
        parser.error("--seeds and --jobs: expected whole numbers from 1 on; --minutes: expected a number above 0")
    begun = time.perf_counter()
    (options.runs / "timed").mkdir(parents=True, exist_ok=True)
    names = [f"{kind}-{seed}" for seed in range(1, options.seeds + 1) for kind in NETWORKS]
    updates = options.updates or updates_within(options, names)
    with ThreadPoolExecutor(options.jobs) as pool:
        done = list(pool.map(partial(carried_out, options=options, updates=updates), [JUDGE, *names]))
    if not all(done):
        sys.exit("some runs are missing: the same command goes on")
    text = report(options, names)
    print(text)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text, encoding="utf-8")
    print(f"{time.perf_counter() - begun:.0f} s in all")


if __name__ == "__main__":
    main()
