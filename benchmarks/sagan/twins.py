"""The drawn twins: how far are the pictures of the recipe sagan_twins from real ones, and have both things one colour?

    python benchmarks/sagan/twins.py --runs runs/twins [--seeds 3] [--out TABLE.md] [--figures FOLDER] [--threads 2]

The network is trained with its blocks of self-attention and without. Beside it stand other real pictures, one mean picture for
all, and real pictures whose second thing has a colour by chance. One colour: the share of pictures in which the mean colours of
both things are nearest to the same one of the colours that are drawn. What is trained already is not trained again.
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
from jaxtyping import Int, UInt8
from numpy import ndarray
from torch.nn import functional

import saccade
from saccade.data.images.batch import scaled
from saccade.data.images.pictures import grid_of, png_of
from saccade.data.toy.shapes import COLOURS
from saccade.data.toy.twins import TwinPair, generate
from saccade.metrics.pictures import frechet_distance
from saccade.recipes.recipe import read_recipe
from saccade.tasks.generate import CELLS, noise_of, pixels_from

sys.path.insert(0, str(Path(__file__).parents[1]))
from kept import trained
from machine import device_name

RECIPE = "sagan_twins"
NETWORKS: dict[str, dict[str, Any]] = {"with": {}, "without": {"attention": None}}
DRAWS = 12  # pictures of each class in a grid


def drawn(pairs: list[TwinPair]) -> UInt8[ndarray, "N S S 3"]:
    return np.stack([pair.draw() for pair in pairs])


def distance(ours: UInt8[ndarray, "N S S 3"], theirs: UInt8[ndarray, "N S S 3"]) -> float:
    """pixel_distance of two sets of pictures."""
    cells = [
        functional.adaptive_avg_pool2d(scaled(torch.tensor(pixels).permute(0, 3, 1, 2)), CELLS).flatten(1).numpy()
        for pixels in (ours, theirs)
    ]
    return frechet_distance(*cells)


def colours_of(pixels: UInt8[ndarray, "N S S 3"]) -> Int[ndarray, "N 2"]:
    """The colour of both things, as its number in COLOURS: the one nearest to their mean. They lie in the two halves of the
    axis along which what is not ground varies more."""
    S = pixels.shape[1]
    ground = TwinPair("circle", "red", (0.5, 0.5), (0.5, 0.5), 0.1, S).draw()[0, 0].astype(float)
    known = np.array(list(COLOURS.values()), float)
    places = (np.arange(S) + 0.5) / S - 0.5
    found = []
    for picture in pixels.astype(float):
        weight = np.abs(picture - ground).sum(-1)
        weight *= weight > weight.max() / 2  # neither specks nor soft edges
        weight /= max(weight.sum(), 1e-9)
        down, across = weight.sum(1), weight.sum(0)
        lie_apart_down = (down * places**2).sum() > (across * places**2).sum()
        first = np.broadcast_to(places[:, None] < 0 if lie_apart_down else places[None, :] < 0, (S, S))
        means = [
            (picture[part] * weight[part, None]).sum(0) / max(weight[part].sum(), 1e-9) for part in (first, ~first)
        ]
        found.append([int(np.argmin(((known - mean) ** 2).sum(1))) for mean in means])
    return np.array(found)


def one_colour(pixels: UInt8[ndarray, "N S S 3"]) -> float:
    """The share of pictures whose two things have one colour."""
    first, second = colours_of(pixels).T
    return float((first == second).mean())


def generated(bundle: Any, labels: list[str]) -> UInt8[ndarray, "N S S 3"]:
    """One picture per label."""
    names, parts = bundle.task.labels, []
    with torch.no_grad():
        for start in range(0, len(labels), 64):
            numbers = range(start, min(start + 64, len(labels)))
            noise = noise_of([(0, number) for number in numbers], bundle.network.noise)
            classes = torch.tensor([names.index(labels[number]) for number in numbers])
            parts.append(pixels_from(bundle.network.eval()(noise, classes)).numpy())
    return np.concatenate(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/twins"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--figures", type=Path, help="the folder for the grids of pictures")
    options = parser.parse_args()
    settings = read_recipe(RECIPE).data.twins
    pairs = generate(settings)["test"]
    real, labels = drawn(pairs), [pair.label for pair in pairs]
    others = generate(replace(settings, seed=settings.seed + 1))["test"]
    mixed = [replace(pair, colour=other.colour) for pair, other in zip(pairs, others, strict=True)]
    halves = np.stack([_halves(pair.draw(), other.draw(), pair) for pair, other in zip(pairs, mixed, strict=True)])
    mean = real.mean(0).round().astype(np.uint8)[None].repeat(len(real), 0)
    rows = [
        ("other real pictures", "–", distance(drawn(others), real), f"{one_colour(drawn(others)):.3f}", "–", "–"),
        ("one mean picture", "–", distance(mean, real), "–", "–", "–"),
        ("two colours drawn by chance", "–", distance(halves, real), f"{one_colour(halves):.3f}", "–", "–"),
    ]
    for kind, model in NETWORKS.items():
        for seed in range(1, options.seeds + 1):
            how = {"seed": seed, "device": "cpu", "threads": options.threads}
            bundle = trained(options.runs / f"{kind}-{seed}", RECIPE, model=model, train=how)
            pixels = generated(bundle, labels)
            gamma = bundle.network.monitored().get("gamma_generator")
            rows.append((
                f"{kind} attention", str(seed), distance(pixels, real), f"{one_colour(pixels):.3f}",
                "–" if gamma is None else f"{gamma:+.3f}", f"{bundle.figures['seconds']:.0f} s",
            ))  # fmt: skip
            if options.figures is not None and seed == 1:
                options.figures.mkdir(parents=True, exist_ok=True)
                shown = [np.flatnonzero(np.array(labels) == name)[:DRAWS] for name in bundle.task.labels]
                grid = grid_of([list(pixels[numbers]) for numbers in shown])
                (options.figures / f"{date.today()}-twins-{kind}.png").write_bytes(png_of(grid))
    versions = f"saccade {saccade.__version__}, torch {torch.__version__}, {device_name('cpu')}"
    text = "\n".join([
        "# Drawn twins, with self-attention and without",
        "",
        f"{date.today()}, {versions}, `python benchmarks/sagan/twins.py --seeds {options.seeds}`. {len(real):,} pictures.",
        "",
        "| pictures | seed | pixel_distance | one colour | γ of the generator | training |",
        "|---|---|---|---|---|---|",
        *(f"| {' | '.join([name, seed, f'{far:.2f}', *rest])} |" for name, seed, far, *rest in rows),
        "",
    ])  # fmt: skip
    print(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


def _halves(one: UInt8[ndarray, "S S 3"], other: UInt8[ndarray, "S S 3"], pair: TwinPair) -> UInt8[ndarray, "S S 3"]:
    """The first thing of ``one`` and the second of ``other``, which has the same places."""
    S, whole = len(one), one.copy()
    (left, top), (right, bottom) = pair.first, pair.second
    rows, columns = np.indices((S, S)) / S
    second = rows > (top + bottom) / 2 if bottom - top > right - left else columns > (left + right) / 2
    whole[second] = other[second]
    return whole


if __name__ == "__main__":
    main()
