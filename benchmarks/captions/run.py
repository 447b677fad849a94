"""Captions of drawn scenes by soft and by hard attention: are they right, and does a noun look at the thing that it names?

    python benchmarks/captions/run.py --runs runs/captions --out benchmarks/results/DATE-captions-shapes.md

Trains the recipes `captions_shapes` and `captions_shapes_hard`, each with several seeds, and the same decoder with the mean of
the cells in place of attention. What is trained already is not trained again. On the test scenes, for each noun of the true
caption:

    mass      the share of the weight that lies in the box of the thing: Σ over cells, each by the part of it in the box
    pointing  whether the middle of the cell with the largest weight (with hard attention: of the cell that was read) lies in it

beside the same of an untrained network, of the word before (the colour), of another word of the same caption, drawn at random,
and of equal weights.
``moves`` is the share of steps whose likeliest cell differs from that of the step before.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray

from saccade.data.images.pictures import Framing, framing_of
from saccade.data.images.records import Captioned
from saccade.metrics.captions import caption_statistics
from saccade.metrics.significance import bootstrap, interval
from saccade.trace import Lens

sys.path.insert(0, str(Path(__file__).parents[1]))
from kept import trained
from machine import device_name

NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "soft": ("captions_shapes", {}),
    "hard": ("captions_shapes_hard", {}),
    "mean of the cells": ("captions_shapes", {"attention": "mean"}),
}
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Look:
    """What one noun looked at: its map [h, w] with the thing's box, and the maps of the word before it and of another."""

    own: Float[ndarray, "h w"]
    before: Float[ndarray, "h w"]
    other: Float[ndarray, "h w"]
    box: Box


def inside(weights: Float[ndarray, "h w"], box: Box, framing: Framing) -> float:
    """The share of the weight in a box, each cell by the part of it that lies there."""
    return float((weights * framing.cover(box, *weights.shape)).sum())


def points_at(weights: Float[ndarray, "h w"], box: Box, framing: Framing) -> bool:
    """Whether the middle of the cell with the largest weight lies in a box."""
    row, column = divmod(int(weights.argmax()), weights.shape[1])
    left, top, right, bottom = framing.cell(row, column, *weights.shape)
    (height, width), (x, y) = framing.original, ((left + right) / 2, (top + bottom) / 2)
    return box[0] * width <= x <= box[2] * width and box[1] * height <= y <= box[3] * height


def looks_of(task: Any, network: Any, records: Sequence[Captioned], draw: random.Random) -> tuple[list[Look], float]:
    """The looks of all nouns when the true captions are written, and how often the likeliest cell moves."""
    looks, moves, steps = [], 0, 0
    for record in records:
        lens = Lens()
        task.scorer(network, record.source, record.target[0])(lens)
        trace, words = lens.trace, record.target[0].split()
        height, width = network.grid
        maps = trace.map("decoder.attention").weights
        if "decoder.chosen" in trace.signals:  # what was read is one cell
            chosen = trace.signals["decoder.chosen"].values.flatten().long()
            maps = torch.nn.functional.one_hot(chosen, height * width).float()
        grids = maps.numpy().reshape(-1, height, width)
        places = maps.argmax(-1)
        moves, steps = moves + int((places[1:] != places[:-1]).sum()), steps + len(places) - 1
        start = 0
        for word, box in record.places:
            step = words.index(word, start)
            start = step + 1
            other = draw.choice([number for number in range(len(words)) if number != step])
            looks.append(Look(grids[step], grids[step - 1], grids[other], box))
    return looks, moves / max(steps, 1)


def figures(looks: Sequence[Look], framing: Framing) -> dict[str, tuple[float, float]]:
    """(mass, pointing) of the nouns' own maps, of another word's, and of equal weights."""

    def of(maps: Sequence[Float[ndarray, "h w"]]) -> tuple[float, float]:
        pairs = list(zip(maps, looks, strict=True))
        mass = np.mean([inside(weights, look.box, framing) for weights, look in pairs])
        return float(mass), float(np.mean([points_at(weights, look.box, framing) for weights, look in pairs]))

    even = np.full_like(looks[0].own, 1 / looks[0].own.size)
    equal = float(np.mean([inside(even, look.box, framing) for look in looks]))
    before = of([look.before for look in looks])
    return {
        "word before": before,
        "own": of([look.own for look in looks]),
        "another word": of([look.other for look in looks]),
        "equal": (equal, equal),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/captions"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=list(NETWORKS), action="append")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    head = ("attention", "seed", "exact match", "95 %", "parameters", "updates", "training")
    table = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    columns = (
        "mass | pointing | of the word before | its pointing | of another word | its pointing | equal weights | moves"
    )
    eyes = [f"| attention | seed | network | {columns} |"]
    eyes.append("|" + "---|" * 11)
    for name in options.only or NETWORKS:
        for seed in range(1, options.seeds + 1):
            source, model = NETWORKS[name]
            how = {"seed": seed, "device": options.device, "threads": options.threads}
            bundle = trained(options.runs / f"{name.replace(' ', '-')}-{seed}", source, model=model, train=how)
            records = bundle.task.load(bundle.recipe.data, Path(), 1).test
            outputs = bundle.evaluation().outputs
            statistics = caption_statistics("exact_match", outputs, [list(record.target) for record in records])
            span, spent = interval(bootstrap(statistics)), bundle.figures["seconds"]
            cells = [name, str(seed), f"{statistics.value:.4f}", f"{span.low:.4f}–{span.high:.4f}",
                     f"{bundle.parameters:,}", f"{bundle.figures['updates']:,}", f"{spent:.0f} s"]  # fmt: skip
            table.append("| " + " | ".join(cells) + " |")
            print(table[-1], flush=True)
            if not bundle.network.sites:
                continue
            torch.manual_seed(seed)
            fresh = bundle.task.network(type(bundle.network), bundle.recipe.model).eval()
            size = bundle.recipe.data.shapes.size
            framing = framing_of(size, size, bundle.recipe.data.image)
            for called, network in (("trained", bundle.network), ("untrained", fresh)):
                looks, moves = looks_of(bundle.task, network, records, random.Random(seed))
                found = figures(looks, framing)
                shown = [*found["own"], *found["word before"], *found["another word"], found["equal"][0], moves]
                eyes.append(f"| {name} | {seed} | {called} | " + " | ".join(f"{number:.3f}" for number in shown) + " |")
                print(eyes[-1], flush=True)
    if options.out is not None:
        threads = options.threads or "as many as the recipe chooses"
        settled = f"Measured {date.today()} on {device_name(options.device)}, CPU threads: {threads}."
        page = ["# Captions of drawn scenes", "", settled, "Script: `benchmarks/captions/run.py`.", "", *table, ""]
        options.out.write_text("\n".join([*page, *eyes, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
