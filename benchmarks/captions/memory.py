"""Peak memory of training a captioner on the pixels of pictures on disk, by the number of pictures.

    python benchmarks/captions/memory.py [--pictures 500 4000 8000] [--out benchmarks/results/DATE-captions-memory.md]
    python benchmarks/captions/memory.py --tiny

Drawn scenes are written as PNG files, with a table of their captions. A process trains a small show_attend_tell for two epochs
on the pictures of a table, so that every picture is read twice, and says its peak. A picture store keeps framed pictures up to
a limit (``saccade.data.images.batch.HELD``) and reads the others anew in each epoch: the peak grows until that is full, and not
beyond. Besides, the records take some hundred bytes per picture.
"""

from __future__ import annotations

import argparse
import csv
import resource
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import machine
import torch

import saccade
from saccade.data.images.batch import HELD
from saccade.data.images.pictures import png_of
from saccade.data.toy.shapes import Shapes, generate

MIB = 2**20
HELD_OUT = 20  # pictures of the validation and of the test set


def write(folder: Path, count: int, pixels: int) -> None:
    """Tables train, valid and test of drawn scenes, and their pictures."""
    settings = Shapes(train=count, valid=HELD_OUT, test=HELD_OUT, size=pixels)
    for split, scenes in generate(settings).items():
        with open(folder / f"{split}.csv", "w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(["image", "caption"])
            for number, scene in enumerate(scenes):
                name = f"{split}-{number}.png"
                (folder / name).write_bytes(png_of(scene.draw(pixels)))
                table.writerow([name, scene.captions[0]])


def recipe(folder: Path, pixels: int) -> dict[str, Any]:
    tables = {split: str(folder / f"{split}.csv") for split in ("train", "valid", "test")}
    return {
        "task": "caption",
        "data": {**tables, "image": {"size": pixels}, "max_length": 12},
        "model": {"name": "show_attend_tell", "channels": [4, 8, 8, 8], "hidden": 16, "embedding": 8},
        "train": {"epochs": 2, "batch_records": 16, "batch_tokens": None, "device": "cpu", "threads": 1,
                  "save_every": None},
        "metrics": ["perplexity"],
    }  # fmt: skip


def train(folder: Path, pixels: int) -> None:
    """Train, and print this process's peak memory in MiB."""
    torch.set_num_threads(1)
    saccade.train(recipe(folder, pixels), folder=folder / "run", progress=False)
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}")


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, nargs="+", default=[500, 4000, 8000])
    parser.add_argument("--pixels", type=int, default=224, help="across and down; sixteenths must be whole")
    parser.add_argument("--tiny", action="store_true", help="few and small pictures, to see that it runs")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(words)
    if options.tiny:
        options.pictures, options.pixels = [21, 43], 16
    if options.train is not None:
        train(options.train, options.pixels)
        return
    lines = [
        "| pictures | MiB of framed pictures | of these kept | peak MiB of the process |",
        "|---|---|---|---|",
    ]
    for count in options.pictures:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), count, options.pixels)
            command = [sys.executable, __file__, "--train", folder, "--pixels", str(options.pixels)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"training on {count:,} pictures failed:\n{done.stderr}")
        size = 3 * options.pixels**2 * count
        peak = done.stdout.split()[-1]
        lines.append(f"| {count:,} | {size / MIB:.0f} | {min(size, HELD) / MIB:.0f} | {peak} |")
        print(lines[-1], flush=True)
    page = [
        "# Captions: memory of training on pixels" + (" (tiny)" if options.tiny else ""),
        "",
        f"Measured {date.today()} on {machine.cpu_name()}, one thread, torch {torch.__version__}.",
        f"`python {' '.join(['benchmarks/captions/memory.py', *(sys.argv[1:] if words is None else words)])}`",
        "",
        f"Two epochs on drawn pictures of {options.pixels} × {options.pixels} pixels on disk, batches of 16.",
        "",
        *lines,
        "",
        f"Framed pictures are kept up to {HELD // MIB} MiB; the others are read again in every epoch.",
        "",
    ]
    print("\n".join(page))
    if options.out is not None:
        options.out.write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
