"""Trains one tiny recipe per task and prints the SHA-256 of each network's final weights.

A refactoring that must not change training is checked by running this before and after it, on one machine:

    python scripts/weight_digests.py runs/before
    python scripts/weight_digests.py runs/after     # the same digests

Digests depend on the processor and on the PyTorch release, so they are compared, not kept. `--full` adds the whole
`rnnsearch_dates` recipe (a minute).
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

import saccade

SHORT = {"train.updates": 40, "train.device": "cpu"}
RECIPES = (  # every task, and the two kinds of batches and networks that a task may have
    "rnnsearch_dates", "transformer_dates", "pointer_sorting", "attentive_opinions", "han_needles", "tagger_repeats",
    "siamese_facts", "lstmn_language_agreement", "bert_topics", "skipgram_topics",
)  # fmt: skip


def digest(run: Path) -> str:
    """The SHA-256 of the weights that a run kept."""
    return hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the runs go")
    parser.add_argument("--full", action="store_true", help="also train rnnsearch_dates whole")
    options = parser.parse_args()
    for name in RECIPES:
        out = options.folder / name
        bundle = saccade.train(name, folder=out, **SHORT)
        print(json.dumps({"recipe": name, "task": bundle.task.name, "sha256": digest(out)}), flush=True)
    if options.full:
        out = options.folder / "rnnsearch_dates_full"
        saccade.train("rnnsearch_dates", folder=out, **{"train.device": "cpu"})
        print(json.dumps({"recipe": "rnnsearch_dates (whole)", "sha256": digest(out)}), flush=True)


if __name__ == "__main__":
    main()
