"""Two dots that lie far apart: have they one colour? A small CNN with a block of self-attention and without, three seeds.

    python benchmarks/dots/run.py --runs runs/dots --out benchmarks/results/DATE-dots.md

Every network reads the same pictures by the schedule of the recipe `dots_attention`. The window is what a place of the last
map sees without attention. Where the block looks: the share of the weight that the cell in one dot's middle gives to the cells
that the other dot touches; beside it an untrained network, the dots of another picture, and equal weights. What is trained
already is not trained again.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

import saccade
from saccade.data.images.batch import scaled
from saccade.data.toy.dots import Dot, DotPair, generate
from saccade.metrics.labels import label_statistics
from saccade.metrics.significance import bootstrap, interval
from saccade.models.image_classifier import window_of
from saccade.recipes.recipe import read_recipe
from saccade.trace import Lens

sys.path.insert(0, str(Path(__file__).parents[1]))
from kept import trained
from machine import device_name

RECIPE = "dots_attention"
NETWORKS: dict[str, dict[str, Any]] = {
    "with the block": {},
    "without": {"attention": None},
}


def cells_of(dot: Dot, rows: int, size: int) -> list[int]:
    """The cells of a grid of so many rows and columns that a dot touches."""
    cells = {
        (row * rows // size) * rows + column * rows // size
        for row in range(dot.row - 1, dot.row + 2)
        for column in range(dot.column - 1, dot.column + 2)
    }
    return sorted(cells)


@torch.no_grad()
def looks(bundle: Any, network: Any, pairs: list[DotPair]) -> dict[str, float]:
    """The mean share of the weight on the other dot, on that of another picture, and that of equal weights."""
    rows, size = bundle.recipe.model.attention, pairs[0].size
    lens = Lens()
    pixels = torch.stack([torch.from_numpy(pair.draw()) for pair in pairs]).permute(0, 3, 1, 2)
    network.eval()(scaled(pixels), lens=lens)
    weights = torch.stack([trace.map("attention").weights for trace in lens.traces])
    found: dict[str, list[float]] = {"other dot": [], "another picture": [], "equal weights": []}
    for number, pair in enumerate(pairs):
        stranger = pairs[(number + 1) % len(pairs)]
        for one, other, elsewhere in (
            (pair.first, pair.second, stranger.second),
            (pair.second, pair.first, stranger.first),
        ):
            row = weights[number, (one.row * rows // size) * rows + one.column * rows // size]
            cells = cells_of(other, rows, size)
            found["other dot"].append(float(row[cells].sum()))
            found["another picture"].append(float(row[cells_of(elsewhere, rows, size)].sum()))
            found["equal weights"].append(len(cells) / rows**2)
    return {name: float(np.mean(shares)) for name, shares in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/dots"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    settings = read_recipe(RECIPE).data.dots
    pairs = generate(settings)["test"]
    truth = [pair.label for pair in pairs]
    head = ("network", "seed", "accuracy", "95 %", "window", "parameters", "γ")
    table = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    eyes = ["| seed | network | other dot | dot of another picture | equal weights |", "|---|---|---|---|---|"]
    for name, model in NETWORKS.items():
        for seed in range(1, options.seeds + 1):
            how = {"seed": seed, "device": options.device, "threads": options.threads}
            bundle = trained(options.runs / f"{name.replace(' ', '-')}-{seed}", RECIPE, model=model, train=how)
            outputs = bundle.evaluation().outputs
            statistics = label_statistics("accuracy", outputs, truth)
            span, config = interval(bootstrap(statistics)), bundle.recipe.model
            gamma = bundle.network.monitored().get("gamma")
            cells = [
                name, str(seed), f"{statistics.value:.4f}", f"{span.low:.4f}–{span.high:.4f}", f"{window_of(config)} pixels",
                f"{bundle.parameters:,}", "–" if gamma is None else f"{gamma:.3f}",
            ]  # fmt: skip
            table.append("| " + " | ".join(cells) + " |")
            if gamma is not None:
                torch.manual_seed(seed)
                fresh = bundle.task.network(type(bundle.network), replace(config))
                for called, network in (("trained", bundle.network), ("untrained", fresh)):
                    shares = looks(bundle, network, pairs[:500])
                    eyes.append(
                        f"| {seed} | {called} | " + " | ".join(f"{share:.4f}" for share in shares.values()) + " |"
                    )
    versions = f"saccade {saccade.__version__}, torch {torch.__version__}, {device_name(options.device)}"
    lines = [
        "# Two dots that lie far apart",
        "",
        f"{date.today()}, {versions}, `python benchmarks/dots/run.py --seeds {options.seeds}`.",
        "",
        f"{settings.train:,} training and {settings.test:,} test pictures, {settings.size} × {settings.size} pixels, each with",
        f"two dots of 3 × 3 pixels, at least {settings.apart} pixels apart in rows or in columns, in {settings.colours}",
        "colours. The label says whether both have one colour. Intervals are by the bootstrap over test pictures.",
        "",
        *table,
        "",
        "## Where the block looks",
        "",
        "The share of the weight that the cell of one dot gives to the cells of the other, over 500 test pictures.",
        "",
        *eyes,
        "",
    ]
    text = "\n".join(lines)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
