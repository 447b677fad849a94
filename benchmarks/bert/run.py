"""What pre-training is worth: BERT begun with it, the same network untrained, and an LSTM, on few labels and on all.

    python benchmarks/bert/run.py --runs runs/bert [--jobs 6] [--pretrained RUN] [--out benchmarks/results/DATE-bert.md]
    python benchmarks/bert/run.py --tiny            # made texts, minutes on a CPU: does it all still run?

Pre-trains by the recipe bert_imdb_pretrain (unless a run is given), then trains each network on 1,000 labelled reviews,
drawn anew for each of five seeds, and on all 25,000, and tests on the other 25,000. Each run is a process and a folder: what
is finished is not trained again. Reads $SACCADE_DATA/imdb.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import saccade
from saccade.api import Bundle, load, train
from saccade.data.labels.records import Labelled, load_labelled
from saccade.data.toy.opinions import Opinions, generate
from saccade.recipes.recipe import Recipe, read_recipe

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import device_name

RESULT = "result.json"
NETWORKS = PRETRAINED, UNTRAINED, LSTM = "BERT, pre-trained", "BERT, untrained", "LSTM"
FEW, FEW_SEEDS = 1000, 5
SMALL = {"layers": 2, "width": 32, "heads": 2, "feed_forward": 64, "positions": 64}  # --tiny


@dataclass
class Row:
    """The runs of one network on so many labels."""

    network: str
    labels: int
    parameters: int = 0
    accuracies: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        spread = f" ± {statistics.stdev(self.accuracies):.2%}" if len(self.accuracies) > 1 else ""
        each = " ".join(f"{accuracy:.4f}" for accuracy in self.accuracies)
        mean = f"{statistics.mean(self.accuracies):.2%}{spread}"
        cells = (self.network, f"{self.labels:,}", f"{self.parameters:,}", len(self.accuracies), mean, each)
        return f"| {' | '.join(map(str, cells))} | {statistics.mean(self.seconds):.0f} |"


def pretrained(options: argparse.Namespace) -> Bundle:
    folder = options.pretrained or options.runs / "pretrained"
    if (folder / "model.safetensors").exists():
        return load(folder)
    if not options.tiny:
        return train("bert_imdb_pretrain", folder=folder, report=told(), train={"device": options.device})
    made = generate(Opinions(train=200, valid=20, test=20))
    changes: dict[str, Any] = {"data.length": 64, "data.tokens": {"size": 300}, "model": SMALL}
    schedule = {"epochs": 2, "batch_records": 16, "batch_tokens": None, "lr": 1e-3, "warmup": 5, "precision": "32"}
    parts = {name: [text for text, _ in part] for name, part in made.items()}
    recipe = read_recipe("bert_topics", changes={**changes, "train": {**schedule, "device": options.device}})
    return train(recipe, parts, folder=folder)


def told() -> Any:
    from saccade.training.report import Silence

    class Lines(Silence):
        def say(self, text: str) -> None:
            print(text, flush=True)

        def evaluated(self, epoch: int, update: int, line: str, shown: str) -> None:
            print(f"epoch {epoch + 1}, update {update:,}: {line}", flush=True)

    return Lines()


def reviews(options: argparse.Namespace) -> tuple[list[Labelled], list[Labelled]]:
    """All labelled records to train on, and those to test on."""
    if options.tiny:
        made = generate(Opinions(train=120, valid=20, test=40))
        return tuple([Labelled(text, label) for text, label in made[name]] for name in ("train", "test"))  # type: ignore[return-value]
    recipe = read_recipe("bert_imdb")
    # Nothing is to be held out here: each run holds out of what it is given.
    splits = load_labelled(recipe.data, recipe.folder, 1)
    return [*splits.train, *splits.valid], list(splits.test)


def recipe_of(network: str, parent: Bundle, labels: int, seed: int, options: argparse.Namespace) -> Recipe:
    few = labels <= 5000
    # As many updates as seem enough for so few records, and the same number for every network.
    lengths = {"epochs": 12, "warmup": 30} if few else {"epochs": 4, "warmup": 200}
    schedule: dict[str, Any] = {"seed": seed, "device": options.device, **lengths}
    if options.tiny:
        schedule |= {"epochs": 1, "precision": "32", "warmup": 2}
    changes: dict[str, Any] = {"train": schedule, "data.hold_out": 0.1}
    if options.tiny:
        changes |= {"data.max_length": 60, "data.tokens": {"size": 300, "vocabulary": None}}
    match network:
        case _ if network == PRETRAINED:
            changes["train"] |= {"from": str(parent.folder)}
            if options.tiny:
                changes |= {"model": SMALL}
        case _ if network == UNTRAINED:
            changes |= {"model": SMALL} if options.tiny else {}
        case _:
            lstm = {"encoder": "lstm", "embedding": 256, "hidden": 256, "pool": "max", "dropout": 0.3}
            small = {"embedding": 16, "hidden": 16} if options.tiny else {}
            changes["train"] |= {"lr": 1e-3}
            return replaced("attentive_classifier", {**lstm, **small}, changes)
    return read_recipe("bert_imdb", changes=changes)


def replaced(name: str, model: dict[str, Any], changes: dict[str, Any]) -> Recipe:
    """The recipe bert_imdb with another network."""
    import tempfile

    import yaml

    from saccade.recipes.recipe import shipped_recipes

    plain = yaml.safe_load(shipped_recipes()["bert_imdb"].read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lstm_imdb.yaml"
        path.write_text(yaml.safe_dump({**plain, "model": {"name": name, **model}}), encoding="utf-8")
        return read_recipe(path, changes=changes)


@dataclass(frozen=True)
class Run:
    """One network, trained once on so many labels."""

    network: str
    labels: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.network.lower().replace(', ', '-')}-{self.labels}-{self.seed}"


def train_one(run: Run, options: argparse.Namespace) -> None:
    """Train, and leave the figures in the run's folder."""
    everything, test = reviews(options)
    drawn = random.Random(run.seed).sample(everything, min(run.labels, len(everything)))
    data = {
        "train": [(each.source, each.target) for each in drawn],
        "test": [(each.source, each.target) for each in test],
    }
    folder: Path = options.runs / run.name
    begun = time.perf_counter()
    parent = load(options.pretrained or options.runs / "pretrained")
    bundle = train(recipe_of(run.network, parent, run.labels, run.seed, options), data, folder=folder)
    about = {
        "accuracy": bundle.figures["test"]["accuracy"],
        "parameters": bundle.parameters,
        "seconds": time.perf_counter() - begun,
    }
    (folder / RESULT).write_text(json.dumps(about), encoding="utf-8")


def result_of(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """What a run reached; it is trained, in a process of its own, unless it is there."""
    folder: Path = options.runs / run.name
    if not (folder / RESULT).exists():
        shutil.rmtree(folder, ignore_errors=True)  # it was cut off
        command = [sys.executable, __file__, "--one", run.network, str(run.labels), str(run.seed)]
        command += ["--runs", str(options.runs), "--device", options.device, *(["--tiny"] if options.tiny else [])]
        command += ["--pretrained", str(options.pretrained)] if options.pretrained else []
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{run.name}: exit status {done.returncode}: {done.stderr.strip()[-2000:]}")
    found: dict[str, Any] = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    print(f"{run.network}, {run.labels:,} labels, seed {run.seed}: {found['accuracy']:.4f}", flush=True)
    return found


def measure(options: argparse.Namespace) -> list[Row]:
    every = len(reviews(options)[0])
    sizes = ((every, options.seeds), (min(FEW, every // 2), 2 if options.tiny else FEW_SEEDS))  # the longest runs first
    runs = [
        Run(network, labels, seed) for labels, seeds in sizes for network in NETWORKS for seed in range(1, seeds + 1)
    ]
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda run: result_of(run, options), runs))
    rows: dict[tuple[int, str], Row] = {}
    for run, found in zip(runs, results, strict=True):
        row = rows.setdefault((run.labels, run.network), Row(run.network, run.labels, found["parameters"]))
        row.accuracies.append(found["accuracy"])
        row.seconds.append(found["seconds"])
    return sorted(rows.values(), key=lambda row: row.labels)


def written(parent: Bundle, rows: list[Row], jobs: int) -> str:
    device = device_name()
    figures, config = parent.figures, parent.recipe.model
    reached = ", ".join(f"{name} {value:.4f}" for name, value in figures["test"].items())
    about = f"{datetime.date.today()}, {device}, torch {torch.__version__}, saccade {saccade.__version__}."
    taught = f"{figures.get('updates', 0):,} updates in {figures.get('seconds', 0):.0f} s; on held-out text {reached}."
    held = "A tenth of the labels is held out to choose the epoch by."
    spread = "± is the deviation over the seeds, each of which also draws other reviews."
    lines = [
        "# What pre-training is worth: labelled film reviews",
        "",
        f"{about} `python {' '.join(sys.argv)}`",
        "",
        f"Pre-trained: {config.layers} layers of {config.width}, {parent.parameters:,} parameters, {taught}",
        "",
        "| network | labels | parameters | seeds | accuracy on test | each | s a run, test and reading included |",
        "|---|---|---|---|---|---|---|",
        *map(str, rows),
        "",
        f"{held} {spread} All networks read the same pieces, the last 254 of each text. {jobs} run(s) at a time.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/bert"), help="where the runs are written; a new folder")
    parser.add_argument("--pretrained", type=Path, help="a run of bert_imdb_pretrain to begin from")
    parser.add_argument("--seeds", type=int, default=1, help="runs on all labels (few labels: always five)")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tiny", action="store_true", help="made texts, small networks")
    parser.add_argument("--one", nargs=3, metavar=("NETWORK", "LABELS", "SEED"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        network, labels, seed = options.one
        return train_one(Run(network, int(labels), int(seed)), options)
    parent = pretrained(options)
    text = written(parent, measure(options), options.jobs)
    print(text)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
