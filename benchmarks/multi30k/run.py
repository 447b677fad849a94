"""Multi30k German → English: train the shipped recipes and put their test-2016 figures in one table.

    SACCADE_DATA=… python benchmarks/multi30k/run.py --out benchmarks/results/DATE-multi30k.md [--together] [RECIPE …]

The text is lower-cased and split by ``\\w+|[^\\w\\s]``; BLEU is sacrebleu's with ``tokenize=none`` (the signature is in the
table), beam 5. ``--together`` trains the recipes side by side on one GPU: figures are the same, times are then not those
of a GPU of one's own, and the table says so.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import saccade

RECIPES = ["rnnsearch_multi30k", "luong_multi30k"]


def start(recipe: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "saccade", "train", recipe, "--json", "--out", str(folder / recipe)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(recipe: str, process: subprocess.Popen[str]) -> dict[str, object]:
    out, err = process.communicate()
    if not out.strip():
        sys.exit(f"{recipe} failed with exit status {process.returncode}: {err.strip()[-2000:]}")
    result = json.loads(out.strip().splitlines()[-1])
    print(recipe, json.dumps(result), flush=True)
    return result


def table(results: dict[str, dict[str, object]], together: bool) -> str:
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or "CPU"
    shared = "; trained side by side on this one GPU, so times are shared" if together and len(results) > 1 else ""
    lines = [
        "# Multi30k German → English, test 2016",
        "",
        (
            f"{datetime.date.today()}, {device}{shared}. Python {platform.python_version()}, torch {torch.__version__}, "
            f"saccade {saccade.__version__}. `python benchmarks/multi30k/run.py`"
        ),
        "",
        "| recipe | BLEU | chrF | perplexity | updates | training, s | target tokens/s | expected figure |",
        "|---|---|---|---|---|---|---|---|",
    ]
    signatures = {}
    for recipe, result in results.items():
        figures: dict = result["figures"]  # type: ignore[type-arg,assignment]
        test, seconds = figures["test"], figures["seconds"]
        signatures |= figures["signatures"]
        lines.append(
            f"| {recipe} | {test['bleu']:.2f} | {test['chrf']:.2f} | {test['perplexity']:.2f} | {figures['updates']:,} | "
            f"{seconds:.0f} | {figures['tokens'] / seconds:,.0f} | {'reached' if result['reached'] else 'missed'} |"
        )
    lines += [
        "",
        "Training time includes the validation after each epoch (loss, and BLEU with beam 5 on 1,014 pairs).",
        "",
    ]
    lines += [f"{name}: `{signature}`  " for name, signature in signatures.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", default=RECIPES)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--together", action="store_true")
    options = parser.parse_args()
    if "SACCADE_DATA" not in os.environ:
        sys.exit("SACCADE_DATA must name the folder that holds multi30k/")
    with tempfile.TemporaryDirectory() as folder:
        results = {}
        running = {recipe: start(recipe, Path(folder)) for recipe in options.recipes} if options.together else {}
        for recipe in options.recipes:
            results[recipe] = finish(recipe, running.get(recipe) or start(recipe, Path(folder)))
    text = table(results, options.together)
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
