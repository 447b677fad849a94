"""Train shipped recipes as they are and put their test figures in one table.

    SACCADE_DATA=… python benchmarks/recipes/run.py --out TABLE.md [--jobs 4] RECIPE … [key=value …]

``--jobs`` runs share the device, so their times are not those of a device of one's own. ``key=value`` changes every recipe, and
the table says so. Below the table stand the first outputs of each on its test set.
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

SHOWN = 6


def train_one(recipe: str, changes: list[str], folder: str) -> None:
    from saccade.api import train, verdict
    from saccade.recipes.recipe import read_recipe

    bundle = train(read_recipe(recipe, changes), folder=folder)
    pairs = bundle.task.load(bundle.recipe.data, bundle.recipe.folder, bundle.recipe.train.seed)
    shown = pairs.test[:SHOWN]
    outputs = [prediction.value for prediction in bundle.predict([pair.source for pair in shown])]
    judged = verdict(bundle)
    print(json.dumps({
        "recipe": recipe, "figures": dict(bundle.figures), "parameters": bundle.parameters, "verdict": judged.text,
        "met": judged.met, "sizes": [len(pairs.train), len(pairs.valid), len(pairs.test)], "notes": list(pairs.notes),
        "shown": [[pair.source, pair.target, output] for pair, output in zip(shown, outputs, strict=True)],
    }))  # fmt: skip


def start(recipe: str, changes: list[str], folder: Path) -> dict[str, Any] | None:
    command = [sys.executable, __file__, "--one", "--out", str(folder / recipe), recipe, *changes]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{recipe}: exit status {done.returncode}: {done.stderr.strip()[-2000:]}", flush=True)
        return None
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    print(recipe, json.dumps(result["figures"]), flush=True)
    return result


def table(results: list[dict[str, Any]], changes: list[str], jobs: int) -> str:
    import torch

    names = " ".join(each["recipe"] for each in results)
    command = f"python benchmarks/recipes/run.py --jobs {jobs} {names} {' '.join(changes)}"
    lines = [
        "# Recipes and their figures",
        "",
        (
            f"{datetime.date.today()}, {device_name()}, {jobs} runs at a time on it. Python {platform.python_version()}, torch "
            f"{torch.__version__}, saccade {saccade.__version__}. One seed. `{command.strip()}`"
        ),
        "",
        "| recipe | train / valid / test | parameters | figures on test | updates | s | expected |",
        "|---|---|---|---|---|---|---|",
    ]
    signatures: dict[str, str] = {}
    for each in results:
        figures = each["figures"]
        signatures |= figures["signatures"]
        test = ", ".join(f"{name} {value:.4g}" for name, value in figures["test"].items())
        sizes = " / ".join(f"{size:,}" for size in each["sizes"])
        lines.append(
            f"| {each['recipe']} | {sizes} | {each['parameters']:,} | {test} | {figures['updates']:,} | "
            f"{figures['seconds']:.0f} | {each['verdict']} |"
        )
    lines += ["", *(f"{name}: `{signature}`  " for name, signature in signatures.items())]
    for each in results:
        lines += ["", f"## {each['recipe']}", "", *(f"- {note}" for note in each["notes"]), ""]
        lines += ["| source | reference | output |", "|---|---|---|"]
        lines += [f"| {' | '.join(text.replace('|', '¦') for text in row)} |" for row in each["shown"]]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="+", metavar="RECIPE | key=value")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    recipes = [word for word in options.words if "=" not in word]
    changes = [word for word in options.words if "=" in word]
    if options.one:
        return train_one(recipes[0], changes, str(options.out))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        made = list(pool.map(lambda recipe: start(recipe, changes, Path(folder)), recipes))
    results = [each for each in made if each is not None]
    text = table(results, changes, options.jobs)
    print(text)
    options.out.write_text(text, encoding="utf-8")
    if len(results) < len(recipes) or not all(each["met"] for each in results):
        sys.exit(1)


if __name__ == "__main__":
    main()
