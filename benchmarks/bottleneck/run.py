"""The bottleneck itself: rows of 10 to 200 random words are to be copied. How much survives one vector of fixed size, and how
much when the network can look back?

    python benchmarks/bottleneck/run.py --out DIR [--jobs 5] [key=value …]

Every network has the same width, reads the same rows and takes the same number of updates. The figure is the share of words
written at their place, by the length of the row (greedy search), on 2,000 rows that were never trained on. The words are drawn
at random out of 50, so nothing can be guessed (chance: 2 %).
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import saccade

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import device_name

MODELS: dict[str, dict[str, Any]] = {
    "seq2seq (Cho)": {"name": "seq2seq", "maxout": 256},
    "seq2seq (Sutskever)": {"name": "seq2seq", "cell": "lstm", "context": "start", "reverse": True, "layers": 2},
    "RNNsearch": {"name": "rnnsearch", "maxout": 256},
    "Luong, general": {"name": "luong", "score": "general", "bidirectional": True},
    "Luong, local-m": {"name": "luong", "score": "general", "bidirectional": True, "window": "local-m", "radius": 5},
}
EDGES = (20, 40, 60, 80, 100, 120, 140, 160, 180)


def recipe(model: dict[str, Any]) -> dict[str, Any]:
    return {
        "task": "translate",
        "data": {"source": "copies", "tokens": {"kind": "words"}, "max_length": 200},
        "model": {"hidden": 256, "embedding": 128, "init": "torch", **model},  # as the tables were measured
        "train": {"epochs": 1000, "updates": 3000, "batch_tokens": 6400, "lr": 2e-3, "schedule": "cosine", "warmup": 100,
                  "clip": 1.0, "save_every": None},
        "metrics": ["exact_match"],
    }  # fmt: skip


def train_one(name: str, changes: list[str], folder: Path) -> None:
    """Train, copy the test rows, and print the share of words at their place for each row."""
    from saccade.api import train
    from saccade.recipes.recipe import read_recipe
    from saccade.recipes.schema import dump_yaml

    file = folder.with_suffix(".yaml")
    file.write_text(dump_yaml(recipe(MODELS[name])), encoding="utf-8")
    bundle = train(read_recipe(file, changes), folder=folder)
    rows = [pair.target.split() for pair in bundle.task.load(bundle.recipe.data, bundle.recipe.folder, 1).test]
    outputs = [output.split() for output in bundle.evaluation().outputs]
    right = [
        sum(one == other for one, other in zip(row, written, strict=False))
        for row, written in zip(rows, outputs, strict=True)
    ]
    figures = bundle.figures
    about = {
        "name": name,
        "parameters": bundle.parameters,
        "updates": figures["updates"],
        "seconds": figures["seconds"],
    }
    about |= {"exact": figures["test"]["exact_match"], "lengths": [len(row) for row in rows], "right": right}
    print(json.dumps(about))


def start(name: str, changes: list[str], folder: Path) -> dict[str, Any]:
    place = folder / "".join(letter if letter.isalnum() else "-" for letter in name)
    command = [sys.executable, __file__, "--one", name, "--out", str(place), *changes]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name}: exit status {done.returncode}: {done.stderr.strip()[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"{name}: {result['exact']:.3f} of the rows whole, {result['seconds']:.0f} s", flush=True)
    return result


def write(results: list[dict[str, Any]], changes: list[str], jobs: int, folder: Path) -> None:
    import numpy as np
    import torch

    from saccade.metrics.significance import Statistics, buckets, score_by_length
    from saccade.views.charts.by_length import Chart, Line, save

    into = buckets(results[0]["lengths"], edges=EDGES)
    into = [*into[:-1], type(into[-1])(into[-1].least, 200, into[-1].sentences)]
    head = " | ".join(bucket.name for bucket in into)
    command = f"python benchmarks/bottleneck/run.py --jobs {jobs} {' '.join(changes)}".strip()
    lines = [
        "# Copying 10 to 200 random words: the bottleneck",
        "",
        (
            f"{datetime.date.today()}, {device_name()}, {jobs} runs at a time on it. Python {platform.python_version()}, torch "
            f"{torch.__version__}, saccade {saccade.__version__}. One seed. `{command}`"
        ),
        "",
        "Share of words written at their place, by the row's length; *whole*: rows without a fault.",
        "",
        f"| model | parameters | updates | whole | {head} |",
        "|---" * (len(into) + 4) + "|",
    ]
    drawn = []
    for result in results:
        rows = np.array([result["right"], result["lengths"]], dtype=float).T
        scores = score_by_length(Statistics("words", rows, lambda sums: float(sums[0] / sums[1]), True), into)
        cells = " | ".join(f"{score.value:.3f}" for score in scores)
        lines.append(
            f"| {result['name']} | {result['parameters']:,} | {result['updates']:,} | {result['exact']:.3f} | {cells} |"
        )
        part = {key: [getattr(score, key) for score in scores] for key in ("value", "low", "high")}
        drawn.append(Line(result["name"], part["value"], part["low"], part["high"]))
    counts = [len(bucket.sentences) for bucket in into]
    picture = folder / "bottleneck.png"
    save(Chart(drawn, [bucket.name for bucket in into], counts, "words to copy", "share of words right"), picture)
    lines += ["", f"![Share of words right by length]({picture.name})", ""]
    (folder / "bottleneck.md").write_text("\n".join(lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("changes", nargs="*", metavar="key=value")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return train_one(options.one, options.changes, options.out)
    options.out.mkdir(parents=True, exist_ok=True)
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(lambda name: start(name, options.changes, Path(folder)), MODELS):
            results.append(result)  # written one by one: what was done is there even if the rest is cut off
            (options.out / "bottleneck.json").write_text(json.dumps(results), encoding="utf-8")
            write(results, options.changes, options.jobs, options.out)
    print((options.out / "bottleneck.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
