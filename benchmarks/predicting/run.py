"""How many documents a second a classifier reads on a CPU, as users call it: texts in, labels and probabilities out.

    python benchmarks/predicting/run.py [--cores 2] [--words 200] [--repeats 5] [--out benchmarks/results/DATE-predicting.md]
    python benchmarks/predicting/run.py --tiny

The network has the sizes of the recipe attentive_imdb (BiLSTM of 128 each way, additive attention, 30,000 words) and is not
trained: that takes no part in its speed. Documents are drawn from as many made words, as unevenly as words of a language are.
Times are those of ``bundle.predict``, cutting texts into words counted; the parts are timed apart.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import cpu_name

RECIPE = "attentive_imdb"
TOGETHER = 64
GOAL = 200.0  # documents a second
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def made_words(count: int, draw: random.Random) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(draw.choices(LETTERS, k=draw.randint(3, 9)))] = None
    return list(found)


def documents(count: int, length: int, words: Sequence[str], draw: random.Random) -> list[str]:
    """Texts of so many words; the n-th word is drawn with a probability as 1 / n."""
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    return [" ".join(draw.choices(words, weights, k=length)) for _ in range(count)]


def classifier(words: Sequence[str], tiny: bool) -> Any:
    """A bundle of the recipe's network, untrained, whose vocabulary is these words."""
    import torch

    from saccade.api import Bundle
    from saccade.data.labels.records import Labelled, LabelledData, WordTokens
    from saccade.models import network_class
    from saccade.recipes.recipe import read_recipe
    from saccade.tasks.classify import Classify

    recipe = read_recipe(RECIPE, ["model.embedding=8", "model.hidden=8"] if tiny else [])
    tokens = WordTokens(lower=True, size=30_000)
    recipe = replace(recipe, data=LabelledData(train="made", tokens=tokens, max_length=recipe.data.max_length))
    task = Classify.learn(recipe.data, [Labelled(" ".join(words), "pos"), Labelled("none", "neg")])
    torch.manual_seed(1)
    network = task.network(network_class(recipe.model_name), recipe.model).eval()
    return Bundle(recipe, task, network, folder=Path("made"), figures={})


def rate(read: Callable[[Sequence[str]], Any], texts: Sequence[str], together: int, repeats: int) -> list[float]:
    """Texts a second, so many at a call, once for each repeat."""
    read(texts[:together])  # the first call of all is slower
    found = []
    for _ in range(repeats):
        begun = time.perf_counter()
        for first in range(0, len(texts), together):
            read(texts[first : first + together])
        found.append(len(texts) / (time.perf_counter() - begun))
    return found


def measured(bundle: Any, texts: Sequence[str], repeats: int) -> dict[str, list[float]]:
    import torch

    task, network = bundle.task, bundle.network

    def cut(part: Sequence[str]) -> None:
        for number, text in enumerate(part):
            task.reader.read(text, f"input {number + 1}")

    @torch.no_grad()
    def passed(ready: Sequence[Any]) -> None:
        with task_threads(bundle, len(ready)):
            task.logits(network, task.reader.batch(ready, [0] * len(ready), range(len(ready))))

    ids: list[Any] = [task.reader.read(text, f"input {number + 1}").ids for number, text in enumerate(texts)]
    few = texts[: max(TOGETHER, len(texts) // 4)]
    return {
        f"predict, {TOGETHER} at a call": rate(bundle.predict, texts, TOGETHER, repeats),
        "predict, all at one call": rate(bundle.predict, texts, len(texts), repeats),
        "predict, one at a call": rate(bundle.predict, few, 1, repeats),
        "of that: cutting into words": rate(cut, texts, TOGETHER, repeats),
        f"of that: the network, {TOGETHER} at a call": rate(passed, ids, TOGETHER, repeats),  # type: ignore[arg-type]
    }


def task_threads(bundle: Any, inputs: int) -> Any:
    """The threads that ``predict`` takes for so many inputs."""
    from saccade.api.bundle import threads

    return threads(bundle._threads(inputs, bundle.recipe.search))


def written(found: dict[str, list[float]], options: argparse.Namespace, cores: int) -> str:
    import torch

    import saccade

    versions = f"Python {platform.python_version()}, torch {torch.__version__}, saccade {saccade.__version__}"
    sizes = f"{options.documents} documents of {options.words} words"
    lines = [
        "# Documents read a second" + (" (small network)" if options.tiny else ""),
        "",
        f"{datetime.date.today()}, {cpu_name()}, {cores} of its cores, {versions}. `python {' '.join(sys.argv)}`",
        "",
        f"{sizes}, {options.repeats} times; the network of {RECIPE}.",
        "",
        "| | documents a second (median) | least | most |",
        "|---|---|---|---|",
    ]
    for name, rates in found.items():
        lines.append(f"| {name} | {statistics.median(rates):.0f} | {min(rates):.0f} | {max(rates):.0f} |")
    main = statistics.median(found[f"predict, {TOGETHER} at a call"])
    judged = (
        "" if options.tiny else f"Goal: at least {GOAL:.0f}: {'reached' if main >= GOAL else 'missed'} with {main:.0f}."
    )
    return "\n".join([*lines, "", judged, ""])


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, default=2, help="how many of the machine's cores may be used")
    parser.add_argument("--documents", type=int, default=1024)
    parser.add_argument("--words", type=int, default=200, help="of a document")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tiny", action="store_true", help="few documents, a small network")
    options = parser.parse_args(words)
    if options.tiny:
        options.documents, options.words, options.repeats = 70, 9, 1
    if min(options.cores, options.documents, options.words, options.repeats) < 1:
        sys.exit("--cores, --documents, --words and --repeats: expected whole numbers from 1 on")
    if hasattr(os, "sched_setaffinity") and not options.tiny:  # before torch counts them
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[: options.cores]))
    from saccade.training.devices import cores

    draw = random.Random(1)
    known = made_words(300 if options.tiny else 30_000, draw)
    texts = documents(options.documents, options.words, known, draw)
    text = written(measured(classifier(known, options.tiny), texts, options.repeats), options, cores())
    print(text)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
