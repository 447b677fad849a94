"""Longer strings than those of training: content-based and hybrid attention, and remedies for the former.

    python benchmarks/speech/lengths.py --runs RUNS --out TABLE.md [--figure LENGTHS.png] [--jobs 2] [--minutes 60]

Both networks of ``listen_tones`` learn strings of 5 to 10 tones. Strings of 1, 2, 5 and 10 times as many, symbols repeated,
are then decoded greedily: the experiment of Chorowski et al. (2015), section 4.2. Remedies at prediction, as the paper's:
sharpened weights (β = 2), the ten largest weights alone, and a window of 75 annotations to each side of the last weights'
median.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from runs import Network, Result, by_network, heading, main, mean_of, table

NETWORKS = {"content": Network("listen_tones", ("model.attention=content",)), "hybrid": Network("listen_tones")}
REMEDIES: dict[str, dict[str, Any]] = {
    "": {}, "β = 2": {"sharpen": 2.0}, "top 10": {"top": 10}, "window ± 75": {"window": 75},
    "β = 2, window ± 75": {"sharpen": 2.0, "window": 75},
}  # fmt: skip
TIMES = (1, 2, 5, 10)
STRINGS = {1: 200, 2: 100, 5: 40, 10: 20}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--figure", type=Path, help="PNG, SVG or PDF")


def measure(bundle: Any, options: argparse.Namespace) -> dict[str, Any]:
    """The error rate and the alignment at every length, with each remedy."""
    from alignments import alignment_of, delay_of

    from saccade.nn.listener import Focus
    from saccade.nn.search.beam_search import Search

    task, network, data = bundle.task, bundle.network, bundle.recipe.data
    seconds, found = data.features.hop * network.pooling, {}
    delay = delay_of(task, network, task.load(data, Path(), 1).valid, seconds)
    for times in TIMES:
        least, most = data.tones.symbols
        tones = replace(data.tones, train=1, valid=1, test=STRINGS[times], symbols=(times * least, times * most))
        records = task.load(replace(data, tones=tones), Path(), 1).test
        for remedy, settings in REMEDIES.items():
            focus = Focus(**settings)
            figures = bundle.evaluate(records, metrics="cer", search=Search(focus=focus))
            aligned = alignment_of(task, network.focused(focus), records, seconds, delay)
            found[f"{remedy}|{times}"] = {"cer": figures["cer"], **aligned}
    return {"lengths": found}


def page(options: argparse.Namespace, results: Sequence[Result]) -> list[str]:
    lines = heading("Tones: strings longer than those of training", options)
    groups = by_network(results)
    for title, name in (
        ("Error rate, %", "cer"), ("Symbols with their attention on them (± 2 frames), %", "found"),
        ("Symbols whose start is found within 2 frames, %", "starts"),
    ):  # fmt: skip
        rows = [
            [
                named(network, remedy),
                *(mean_of(values(own, remedy, times, name), 1, 100) for times in TIMES),
            ]
            for network, own in groups.items()
            for remedy in REMEDIES
        ]  # fmt: skip
        lines += [f"## {title}", "", *table(["attention", *(f"{times} ×" for times in TIMES)], rows), ""]
    seeds = {name: len(own) for name, own in groups.items()}
    lines.append(
        f"Mean ± standard deviation over seeds ({', '.join(f'{name}: {count}' for name, count in seeds.items())}). Trained on "
        "strings of 5 to 10 tones, each of 5 to 15 frames. Alignments are those of the true string, decoded by force; "
        "see `benchmarks/speech/alignments.py`. Decoding is greedy, up to 400 symbols: a network that loses its place may "
        "write on to that limit, so that error rates are above 100 %."
    )
    if options.figure is not None:
        draw(options.figure, groups)
        start = options.figure.parent if options.out is None else options.out.parent
        lines += ["", f"![Error rate and alignment by length]({os.path.relpath(options.figure, start)})"]
    return lines


def named(network: str, remedy: str) -> str:
    return ", ".join(filter(None, (network, remedy)))


def values(own: Sequence[Result], remedy: str, times: int, name: str) -> list[float]:
    return [result["lengths"][f"{remedy}|{times}"][name] for result in own]


def draw(file: Path, groups: dict[str, list[Result]]) -> None:
    """Error rates and aligned symbols by length, a line per network and remedy with the range over seeds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    styles = {"content": "--", "hybrid": "-"}
    for network, own in groups.items():
        for number, remedy in enumerate(REMEDIES):
            for axes, name in ((left, "cer"), (right, "starts")):
                columns = [[100 * value for value in values(own, remedy, times, name)] for times in TIMES]
                means = [sum(column) / len(column) for column in columns]
                axes.plot(
                    TIMES,
                    means,
                    styles.get(network, ":"),
                    color=f"C{number}",
                    marker="o",
                    ms=3,
                    label=named(network, remedy),
                )
                axes.fill_between(TIMES, [*map(min, columns)], [*map(max, columns)], color=f"C{number}", alpha=0.12)
    for axes, title in ((left, "characters wrong, %"), (right, "starts of symbols within 2 frames, %")):
        axes.set_xscale("log", base=2)
        axes.set_xticks(TIMES, [f"{times}×" for times in TIMES])
        axes.set_xlabel("length of the strings, of those of training")
        axes.set_title(title, fontsize=10)
        axes.set_ylim(0, 105)
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*left.get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=130)


if __name__ == "__main__":
    main(__doc__, NETWORKS, measure, page, add_arguments=add_arguments, testing=240.0)
