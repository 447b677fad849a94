"""Phonemes of sentences that espeak-ng says, by voices that were not trained on: error rate, and alignment with true times.

saccade data FOLDER --make espeak
python benchmarks/speech/espeak.py --data FOLDER --runs RUNS --out TABLE.md [--jobs 6] [--minutes 9] [--device cuda]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runs import Network, Result, by_network, heading, main, mean_of, table

SPLITS = ("train", "valid", "test")


def networks(folder: Path) -> dict[str, Network]:
    data = tuple(f"data.{split}={folder.resolve() / split}.jsonl" for split in SPLITS)
    return {
        "content": Network("listen_phonemes", (*data, "model.attention=content")),
        "hybrid": Network("listen_phonemes", data),
        "hybrid, smoothed": Network("listen_phonemes", (*data, "model.normalise=smoothed")),
    }


def measure(bundle: Any, options: argparse.Namespace) -> dict[str, Any]:
    from alignments import alignment_of, delay_of

    data = bundle.recipe.data
    splits, seconds = bundle.task.load(data, Path(), 1), data.features.hop * bundle.network.pooling
    delay = delay_of(bundle.task, bundle.network, splits.valid, seconds)
    return alignment_of(bundle.task, bundle.network, splits.test, seconds, delay)


def page(options: argparse.Namespace, results: Sequence[Result]) -> list[str]:
    head = ["network", "seeds", "test PER, %", "phonemes with their attention on them (± 2 frames), %",
            "starts within 2 frames, %", "delay, ms"]  # fmt: skip
    rows = [
        [
            name, len(own), mean_of([result["test"]["per"] for result in own], 2, 100),
            *(mean_of([result[key] for result in own], 1, 100) for key in ("found", "starts")),
            mean_of([result["delay"] for result in own], 0, 1000),
        ]
        for name, own in by_network(results).items()
    ]  # fmt: skip
    note = (
        "Synthetic speech is far more regular than a person's: these figures say nothing of recordings. For those, the paper "
        "has 18.7 % (content), 18.0 % (hybrid) and 17.6 % (smoothed) on TIMIT."
    )
    return [
        *heading("Phonemes of synthetic speech, by voices that were not trained on", options),
        *table(head, rows),
        "",
        note,
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="what saccade data FOLDER --make espeak has written")


if __name__ == "__main__":
    words = argparse.ArgumentParser(add_help=False)
    words.add_argument("--data", type=Path, default=Path())
    folder = words.parse_known_args(sys.argv[1:])[0].data
    main(__doc__, networks(folder), measure, page, add_arguments=add_arguments)
