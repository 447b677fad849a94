"""What recording as CUDA graphs gives on Multi30k: training with and without it, and beam search in a process that is warm.

    SACCADE_DATA=… python benchmarks/recorded/run.py --out TABLE.md [key=value …]

Each shipped recipe trains two epochs with ``train.graphs=auto`` and with ``off``; the speed is real target tokens a second of
the second epoch, in which few new shapes are still recorded. Then the test sentences are searched twice with beam 5.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import platform
import sys
import tempfile
import time
from pathlib import Path

import torch

import saccade
from saccade.api import train
from saccade.recipes.recipe import read_recipe

RECIPES = ("rnnsearch_multi30k", "luong_multi30k")


def second_epoch(folder: Path) -> tuple[float, float]:
    """Target tokens a second, and the last loss."""
    with (folder / "log.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    first = next(number for number, row in enumerate(rows) if row["epoch"] == "1")
    seconds = float(rows[-1]["seconds"]) - float(rows[first]["seconds"])
    return sum(int(row["tokens"]) for row in rows[first + 1 :]) / seconds, float(rows[-1]["loss"])


def rows_of(recipe: str, changes: list[str], folder: Path) -> str:
    speeds, losses = {}, {}
    for way in ("off", "auto"):
        short = ["train.epochs=2", "train.watch=loss", "train.average=0", f"train.graphs={way}"]
        bundle = train(read_recipe(recipe, [*short, *changes]), folder=folder / f"{recipe}-{way}")
        speeds[way], losses[way] = second_epoch(folder / f"{recipe}-{way}")
    texts = [pair.source for pair in bundle.task.load(bundle.recipe.data, bundle.recipe.folder, 1).test]
    searches = []
    for _ in range(2):
        begin = time.perf_counter()
        bundle.predict(texts)
        searches.append(len(texts) / (time.perf_counter() - begin))
    found = " | ".join(f"{number:,.0f}" for number in (speeds["auto"], speeds["off"], *searches))
    return f"| {recipe} | {found} | {losses['auto']:.3f} / {losses['off']:.3f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("changes", nargs="*", metavar="key=value")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this benchmark measures a GPU, and PyTorch finds none")
    with tempfile.TemporaryDirectory() as folder:
        rows = [rows_of(recipe, options.changes, Path(folder)) for recipe in RECIPES]
    head = (
        f"{datetime.date.today()}, {torch.cuda.get_device_name()}. Python {platform.python_version()}, torch "
        f"{torch.__version__}, saccade {saccade.__version__}. `{' '.join(['python', *sys.argv])}`"
    )
    columns = ("recipe", "recorded, tokens/s", "live", "beam 5, sentences/s", "again", "loss, recorded / live")
    table = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *rows]
    text = "\n".join(["# Recorded as CUDA graphs", "", head, "", *table]) + "\n"
    print(text)
    options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
