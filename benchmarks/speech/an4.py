"""AN4 (spelled words and numbers, 0.8 hours) from MFCC: content, location and hybrid attention, smoothing and CTC.

    SACCADE_DATA=… python benchmarks/speech/an4.py --runs RUNS --out TABLE.md [--jobs 15] [--minutes 9] [--device cuda]
        [--only hybrid] [--seeds 1,2,3] [key=value …]

Every network is the recipe ``an4`` with one or two settings changed. The split is the corpus' own: 948 utterances to train on,
of which the recipe holds out speakers for validation, and 130 utterances of ten other speakers to test on.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from runs import Network, Result, by_network, heading, main, mean_of, table

NETWORKS = {
    "content": Network("an4", ("model.attention=content",)),
    "location": Network("an4", ("model.attention=location",)),
    "hybrid": Network("an4"),
    "hybrid, smoothed": Network("an4", ("model.normalise=smoothed",)),
    "hybrid, CTC": Network("an4", ("model.ctc=0.3",)),
}
PUBLISHED = "ESPnet, Transformer and CTC, from raw audio with speed perturbation (its own README)"


def measure(bundle: Any, options: argparse.Namespace) -> dict[str, Any]:
    """What a run is measured on beside its test set: with CTC, the test set read with CTC's scores in the beam."""
    if not bundle.recipe.model.ctc:
        return {}
    return {"with_ctc": bundle.evaluate(search=replace(bundle.recipe.search, ctc=0.3))}


def page(options: argparse.Namespace, results: Sequence[Result]) -> list[str]:
    head = [
        "network",
        "seed",
        "test CER, %",
        "test WER, %",
        "validation CER, %",
        "best epoch",
        "updates",
        "training, s",
    ]
    rows: list[list[object]] = []
    for result in results:
        test, valid = result["test"], result["valid"]
        cells = [f"{100 * figures[name]:.1f}" for figures, name in ((test, "cer"), (test, "wer"), (valid, "cer"))]
        times = [result["epoch"], f"{result['updates']:,}", f"{result['seconds']:.0f}"]
        rows.append([result["network"], result["seed"], *cells, *times])
    for name, own in by_network(results).items():
        cells = [mean_of([result["test"][metric] for result in own], 1, 100) for metric in ("cer", "wer")]
        rows.append([f"**{name}**", f"mean of {len(own)}", *cells, "", "", "", ""])
        if "with_ctc" in own[0]:
            cells = [mean_of([result["with_ctc"][metric] for result in own], 1, 100) for metric in ("cer", "wer")]
            rows.append([f"**{name}, also in the beam**", f"mean of {len(own)}", *cells, "", "", "", ""])
    rows.append([PUBLISHED, "–", "3.6", "7.4 – 7.6", "", "", "", ""])
    best = min(mean for mean in _means(results).values())
    verdict = (
        f"Goal: a WER of at most 10 %; the best mean is {100 * best:.1f} %, {'reached' if best <= 0.1 else 'missed'}."
    )
    return [*heading("AN4 from MFCC", options), *table(head, rows), "", verdict]


def _means(results: Sequence[Result]) -> dict[str, float]:
    """The mean WER of each network, with CTC in the beam or without."""
    means = {}
    for name, own in by_network(results).items():
        for key in ("test", "with_ctc"):
            if key in own[0]:
                means[f"{name} {key}"] = sum(result[key]["wer"] for result in own) / len(own)
    return means


if __name__ == "__main__":
    main(__doc__, NETWORKS, measure, page)
