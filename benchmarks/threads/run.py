"""How many CPU threads does a recurrent training step want? Measures RNNsearch at several sizes on 1 … all cores.

    python benchmarks/threads/run.py [--out benchmarks/results/DATE-threads.md]

The rule in ``saccade.training.devices`` (work of one recurrent step: records × the widest gate matrix) is read off this
table; its choice is the last column.
"""

from __future__ import annotations

import argparse
import datetime
import os
import statistics
import sys
import time
from pathlib import Path

import torch

from saccade.models.rnnsearch import Config, RNNSearch
from saccade.training.config import Train
from saccade.training.devices import choose_threads

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import cpu_name

SIZES = [(64, 32), (96, 64), (128, 128), (256, 64), (256, 256), (512, 64), (512, 256)]
SOURCE, TARGET, WORDS = 20, 11, 400


def step_seconds(network: RNNSearch, batch: int, repeats: int) -> float:
    source, lengths = torch.randint(4, WORDS, (batch, SOURCE)), torch.full((batch,), SOURCE)
    target = torch.randint(4, WORDS, (batch, TARGET))
    taken = []
    for _ in range(repeats + 2):
        begun = time.perf_counter()
        network.zero_grad()
        network(source, lengths, target).logsumexp(-1).mean().backward()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken[2:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    counts = [count for count in (1, 2, 4, 8, 16) if count <= cores]
    lines = [
        "# Threads for a recurrent training step",
        "",
        (
            f"{datetime.date.today()}, {cpu_name()}, {cores} cores, torch {torch.__version__}; RNNsearch, source {SOURCE}, "
            f"target {TARGET}, median of {options.repeats}. `python benchmarks/threads/run.py`"
        ),
        "",
        "| hidden | batch | "
        + " | ".join(f"{count} thread{'s' * (count > 1)}, ms" for count in counts)
        + " | the rule takes |",
        "|---|---|" + "---|" * (len(counts) + 1),
    ]
    for hidden, batch in SIZES:
        network = RNNSearch(Config(hidden=hidden, embedding=hidden // 2, maxout=hidden // 2), WORDS, WORDS)
        taken = []
        for count in counts:
            torch.set_num_threads(count)
            taken.append(1000 * step_seconds(network, batch, options.repeats))
        rule = choose_threads(Train(), network, batch)
        lines.append(f"| {hidden} | {batch} | " + " | ".join(f"{each:.1f}" for each in taken) + f" | {rule} |")
        print(lines[-1], flush=True)
    text = "\n".join(lines) + "\n"
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
