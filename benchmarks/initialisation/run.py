"""Initialisations of the recurrent networks, compared by the validation sets of shipped recipes over several seeds.

    SACCADE_DATA=… python benchmarks/initialisation/run.py --runs RUNS --out TABLE.md [--jobs 12] [--cpu-jobs 4] [--minutes 9]
        [--rows "Luong;RNNsearch"] [--ways "U(±0.1)"] [--seeds 1,2,3]

Every run is the recipe of its row, cut as ``ROWS`` says, with its parameters drawn anew before training:

    N(0, 1)              embeddings standard normal, the rest as PyTorch draws it (uniform in ±1/√n)
    embeddings U(±0.1)   embeddings uniform in ±0.1, the rest as PyTorch draws it
    U(±0.1)              every parameter uniform in ±0.1, biases too
    orthogonal           embeddings uniform in ±0.1, recurrent matrices orthogonal, the rest as PyTorch draws it
    shipped              as the package draws it

Without ``--ways`` each row is drawn in the ways that it lists, seed by seed. ``--jobs`` runs share the device and
``--cpu-jobs`` one CPU thread each, so times are not compared. What is finished is not trained again, and after ``--minutes``
nothing new starts and what runs is stopped: the table has what there is. ``key=value`` changes every recipe.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import cpu_name, device_name

CUT = ("train.epochs=7", "train.average=3", "train.watch=loss", "train.precision=tf32")
WAYS = ("N(0, 1)", "embeddings U(±0.1)", "U(±0.1)", "orthogonal", "shipped")
UNIFORM = ("U(±0.1)",)
RECURRENT = ("weight_hh", "from_state", "candidate")  # how the matrices of states are called
STOPPING = 5.0  # seconds


@dataclass(frozen=True)
class Row:
    """A recipe with some fields changed, the validation metric that judges it, and where it is trained."""

    recipe: str
    changes: tuple[str, ...]
    metric: str
    ways: tuple[str, ...]
    cpu: bool = False


ROWS = {
    "Luong, general": Row("luong_multi30k", CUT, "bleu", WAYS[:3]),
    "Luong, local-p": Row("luong_multi30k", ("model.window=local-p", *CUT), "bleu", UNIFORM),
    "RNNsearch": Row("rnnsearch_multi30k", CUT, "bleu", WAYS[:4]),
    "seq2seq (Cho)": Row("seq2seq_cho_multi30k", CUT, "bleu", WAYS[:4]),
    "seq2seq (Sutskever)": Row("seq2seq_sutskever_multi30k", CUT, "bleu", WAYS[:3]),
    "Luong, dot": Row("luong_multi30k", ("model.score=dot", *CUT), "bleu", UNIFORM),
    "Luong, concat": Row("luong_multi30k", ("model.score=concat", *CUT), "bleu", UNIFORM),
    "Luong, location": Row("luong_multi30k", ("model.score=location", *CUT), "bleu", UNIFORM),
    "Luong, local-m": Row("luong_multi30k", ("model.window=local-m", *CUT), "bleu", UNIFORM),
    "RNNsearch, dates": Row("rnnsearch_dates", (), "exact_match", ("N(0, 1)", "U(±0.1)"), cpu=True),
    "Luong, local-p, dates": Row("luong_dates", (), "exact_match", ("N(0, 1)", "U(±0.1)"), cpu=True),
    "seq2seq (Cho), dates": Row("seq2seq_cho_dates", (), "exact_match", ("N(0, 1)", "U(±0.1)"), cpu=True),
    "BiLSTM, additive": Row("attentive_trec", (), "accuracy", WAYS[:4], cpu=True),
    "LSTMN": Row("lstmn_trec", (), "accuracy", WAYS[:4], cpu=True),
    "BiLSTM, CRF": Row("tagger_bosque", ("train.epochs=4",), "accuracy", WAYS[:4], cpu=True),
}


def redraw(network: Any, way: str) -> None:
    """Draw the parameters of a network anew."""
    from torch import nn

    if way == "shipped":
        return
    if way == "U(±0.1)":
        for parameter in network.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)
        return
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.RNNBase | nn.Embedding | nn.Conv1d):
            module.reset_parameters()
    attention = getattr(network, "attention", None)
    if getattr(network.config, "score", "") == "general" and attention is not None:
        nn.init.eye_(attention.weight)  # W_a = I: the dot score
    if hasattr(network, "position_vector"):
        bound = network.position_vector.numel() ** -0.5
        nn.init.uniform_(network.position_vector, -bound, bound)
    for module in network.modules():
        if isinstance(module, nn.Embedding) and way != "N(0, 1)":
            nn.init.uniform_(module.weight, -0.1, 0.1)
    for name, parameter in network.named_parameters():
        if way == "orthogonal" and parameter.dim() == 2 and any(part.startswith(RECURRENT) for part in name.split(".")):
            for block in parameter.split(parameter.shape[1]):
                nn.init.orthogonal_(block)


def train_one(name: str, way: str, seed: int, folder: Path, others: list[str]) -> dict[str, Any]:
    from saccade.api import train
    from saccade.models import network_class
    from saccade.recipes.recipe import read_recipe

    row = ROWS[name]
    changes = [*row.changes, f"train.seed={seed}", f"metrics=[{row.metric}]"]
    changes += ["train.device=cpu", "train.threads=1"] if row.cpu else []
    recipe = read_recipe(row.recipe, [*changes, *others])
    if way not in ("U(±0.1)", "shipped") and hasattr(recipe.model, "init"):
        # What redraw() passes over is drawn as without U(±0.1).
        recipe = read_recipe(row.recipe, [*changes, "model.init=torch", *others])
    network = network_class(recipe.model_name)
    shipped = network.__init__

    @wraps(shipped)
    def drawn(self: Any, *sizes: Any, **options: Any) -> None:
        shipped(self, *sizes, **options)
        redraw(self, way)

    network.__init__ = drawn
    bundle = train(recipe, folder=folder, progress=False)
    valid = bundle.evaluate(list(bundle.held_out("valid")[0]), metrics=[row.metric])
    figures = bundle.figures
    return {
        "row": name, "way": way, "seed": seed, "valid": valid[row.metric], "test": figures["test"][row.metric],
        "seconds": figures["seconds"],
    }  # fmt: skip


def key_of(name: str, way: str, seed: int) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in f"{name} {way} {seed}")


def carry_out(
    work: Iterator[tuple[str, str, int]], runs: Path, deadline: float, taking: threading.Lock, others: list[str]
) -> None:
    """Train what comes next until nothing is left or the time is over."""
    while time.monotonic() < deadline:
        with taking:
            name, way, seed = next(work, ("", "", 0))
        if not name:
            return
        result = runs / f"{key_of(name, way, seed)}.json"
        if result.exists():
            continue
        command = [
            sys.executable,
            __file__,
            "--one",
            name,
            "--ways",
            way,
            "--seeds",
            str(seed),
            "--runs",
            str(runs),
            *others,
        ]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            _, errors = process.communicate(timeout=max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate(timeout=STOPPING)
            print(f"{name}, {way}, seed {seed}: stopped, the time is over", flush=True)
            return
        if process.returncode:
            print(f"{name}, {way}, seed {seed}: exit status {process.returncode}: {errors[-1500:]}", flush=True)
        else:
            print(result.read_text(encoding="utf-8"), flush=True)


def spread(values: list[float], factor: float) -> str:
    shown = [value * factor for value in values]
    both = f"{statistics.mean(shown):.2f}" + (f" ± {statistics.stdev(shown):.2f}" if len(shown) > 1 else "")
    return f"{both} ({', '.join(f'{value:.1f}' for value in shown)})"


def table(runs: Path, command: str, jobs: int) -> str:
    import torch

    import saccade

    results = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(runs.glob("*.json"))]
    device = device_name()
    lines = [
        "# Initialisation of the recurrent networks",
        "",
        (
            f"{datetime.date.today()}, {device}, up to {jobs} runs at a time on it; rows marked CPU: one thread each of an "
            f"{cpu_name()}. Python {platform.python_version()}, torch {torch.__version__}, saccade {saccade.__version__}."
        ),
        "",
        f"`{command}`",
        "",
        "| network | recipe | initialisation | seeds | validation | test |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in ROWS.items():
        for way in WAYS:
            mine = sorted((r for r in results if (r["row"], r["way"]) == (name, way)), key=lambda r: r["seed"])
            if not mine:
                continue
            factor = 1.0 if row.metric == "bleu" else 100.0
            figures = [spread([r[split] for r in mine], factor) for split in ("valid", "test")]
            place = f"{row.recipe}{' (CPU)' if row.cpu else ''}"
            lines.append(f"| {name} | {place} | {way} | {len(mine)} | {' | '.join(figures)} |")
    metrics = (
        "BLEU (beam 5) of the translators, accuracy in per cent of the others; mean ± standard deviation (each seed)."
    )
    return "\n".join([*lines, "", metrics, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="where finished runs are kept")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rows", help="the beginnings of rows, separated by ;")
    parser.add_argument("--ways", help="initialisations, separated by ;")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cpu-jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("changes", nargs="*", metavar="key=value")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    deadline = time.monotonic() + 60 * options.minutes
    options.runs.mkdir(parents=True, exist_ok=True)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    if options.one:
        key = key_of(options.one, options.ways, seeds[0])
        result = train_one(options.one, options.ways, seeds[0], options.runs / key, options.changes)
        (options.runs / f"{key}.json").write_text(json.dumps(result), encoding="utf-8")
        return
    ways = options.ways.split(";") if options.ways else None
    rows = [name for name in ROWS if not options.rows or name.startswith(tuple(options.rows.split(";")))]
    taking, works = threading.Lock(), []
    for cpu in (False, True):
        works.append(
            iter([(r, way, seed) for seed in seeds for r in rows for way in ways or ROWS[r].ways if ROWS[r].cpu == cpu])
        )
    with ThreadPoolExecutor(options.jobs + options.cpu_jobs) as pool:
        for work, jobs in zip(works, (options.jobs, options.cpu_jobs), strict=True):
            for _ in range(jobs):
                pool.submit(carry_out, work, options.runs, deadline, taking, options.changes)
    text = table(options.runs, f"python benchmarks/initialisation/run.py {' '.join(sys.argv[1:])}", options.jobs)
    print(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
