"""Strings of spoken digits joined from FSDD's recordings, raw sound at 8 kHz, a speaker held out.

    SACCADE_DATA=… python benchmarks/speech/fsdd.py --runs RUNS --out TABLE.md [--jobs 6] [--minutes 9] [--device cuda]

The networks learn four speakers and are tested on strings of another one; a sixth is the validation set. With ``--every``,
each of the six is held out in turn. The character error rate is the digit error rate.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from runs import Network, Result, by_network, heading, main, mean_of, table

SPEAKERS = ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")
# Each is tested once, and validated by the next one.
TURNS = {
    f"{held} held out": Network(
        "fsdd_strings", (f"data.digits.test_speaker={held}", f"data.digits.valid_speaker={SPEAKERS[(n + 1) % 6]}")
    )
    for n, held in enumerate(SPEAKERS)
}
ATTENTIONS = {
    "hybrid": Network("fsdd_strings"),
    "content": Network("fsdd_strings", ("model.attention=content",)),
}


def measure(bundle: Any, options: argparse.Namespace) -> dict[str, Any]:
    """How attention is aligned with the true times of the digits."""
    from pathlib import Path

    from alignments import alignment_of, delay_of

    data = bundle.recipe.data
    splits, seconds = bundle.task.load(data, Path(), 1), data.features.hop * bundle.network.pooling
    delay = delay_of(bundle.task, bundle.network, splits.valid, seconds)
    return alignment_of(bundle.task, bundle.network, splits.test, seconds, delay)


def page(options: argparse.Namespace, results: Sequence[Result]) -> list[str]:
    head = [
        "network",
        "seeds",
        "digit error rate, %",
        "whole strings right, %",
        "digits with their attention on them, %",
    ]
    rows = [
        [
            name, len(own), mean_of([result["test"]["cer"] for result in own], 2, 100),
            mean_of([result["test"]["exact_match"] for result in own], 1, 100),
            mean_of([result["found"] for result in own], 1, 100),
        ]
        for name, own in by_network(results).items()
    ]  # fmt: skip
    return [*heading("FSDD: strings of digits by a speaker who was not trained on", options), *table(head, rows)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--every", action="store_true", help="hold out each of the six speakers in turn")


if __name__ == "__main__":
    main(__doc__, TURNS if "--every" in sys.argv else ATTENTIONS, measure, page, add_arguments=add_arguments)
