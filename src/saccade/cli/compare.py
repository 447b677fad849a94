"""``saccade compare``: compares runs on one test set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.options import Beam, Json, Trust, metric_names, trained_runs
from saccade.cli.printing import print
from saccade.cli.tables import NOTHING, size, table
from saccade.errors import SaccadeError

if TYPE_CHECKING:
    from saccade.api.comparison import Comparison

Runs = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN", help="Folders of trained runs; the others are compared with the first.",
        autocompletion=trained_runs,
    ),
]  # fmt: skip

Metrics = Annotated[
    list[str] | None,
    typer.Option(help="A metric; may be repeated, the first is plotted.", autocompletion=metric_names),
]
Plot = Annotated[
    Path | None, typer.Option(help="Plot the first metric by length, one line per run: .png, .svg or .pdf.")
]


def compare(
    runs: Runs,
    data: Annotated[
        Path | None, typer.Option(help="A data file as the task reads it; default: the first run's test set.")
    ] = None,
    metric: Metrics = None,
    beam: Beam = None,
    plot: Plot = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="LENGTH",
            help="source_words (default), source_tokens or reference_words; of visits visits or codes.",
        ),
    ] = None,
    buckets: Annotated[
        str, typer.Option(metavar="EDGES", help="The greatest length of each bucket, or quantiles.")
    ] = "10,20,30,40,50",
    text: Annotated[
        str,
        typer.Option(metavar="FORM", help="own: runs must have the same text form; common: convert all to one form."),
    ] = "own",
    show: Annotated[int, typer.Option(min=0, help="Number of inputs to show whose outputs differ most.")] = 3,
    samples: Annotated[int, typer.Option(min=1, help="Resamples for intervals and p-values.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the resampling.")] = 0,
    repeats: Annotated[int, typer.Option(min=0, help="Number of speed measurements; 0: none.")] = 3,
    trust: Trust = None,
    as_json: Json = False,
) -> None:
    """Compare runs on one test set. Figures with intervals, p-values, size, speed, figures by length.

    \b
    saccade compare runs/rnnsearch runs/seq2seq
    saccade compare runs/rnnsearch runs/seq2seq --metric bleu --plot lengths.png
    saccade compare runs/a runs/b --data news.tsv --text common --json
    """
    from rich.console import Console

    from saccade.api import comparison as comparisons

    if plot is not None:
        from saccade.views.figure.figure import picture_format

        picture_format(plot)  # fail before an hour of decoding, not after it
    edges: Any = buckets if buckets == "quantiles" else _edges(buckets)
    with Console(stderr=True).status("loading") as status:
        comparison = comparisons.compare(
            runs, data, metrics=metric, beam=beam, text=text, by=by, edges=edges, samples=samples, seed=seed,  # type: ignore[arg-type]
            repeats=repeats, say=status.update, trust=trust or (),
        )  # fmt: skip
    if plot is not None:
        comparison.plot(plot)
    if as_json:
        print(json.dumps(comparison.to_plain(show), ensure_ascii=False))
        return
    print(report(comparison, show))
    if plot is not None:
        print(f"\nplot: {plot}")


def _edges(text: str) -> list[int]:
    try:
        return [int(edge) for edge in text.split(",")]
    except ValueError:
        raise SaccadeError(f"--buckets: expected lengths such as 10,20,30, or quantiles, found {text!r}") from None


def report(comparison: Comparison, show: int) -> str:
    """The comparison as text."""
    where = f"the test set of {comparison.systems[0].name}" if comparison.where == "test" else comparison.where
    head = f"{len(comparison):,} inputs of {where}, text {comparison.text}; "
    head += f"in brackets 95 % of {comparison.samples:,} resamples"
    parts = [head, _figures(comparison), _against(comparison), _by_length(comparison), _examples(comparison, show)]
    speed = comparison.systems[0].speed
    if speed is not None:
        devices = dict.fromkeys(system.speed.device for system in comparison.systems if system.speed is not None)
        parts.insert(2, f"inputs/s: median of {speed.repeats} times {speed.inputs} inputs on {'; '.join(devices)}")
    figures = comparison.systems[0].figures
    signatures = [f"{name}: {figure.signature}" for name, figure in figures.items() if figure.signature]
    notes = [f"note: {note}" for note in comparison.notes]
    return "\n\n".join(part for part in [*parts, "\n".join([*signatures, *notes])] if part)


def _figures(comparison: Comparison) -> str:
    header, rows = ["run", *comparison.metrics, "parameters", "on disk", "inputs/s", "search"], []
    for system in comparison.systems:
        figures = [
            f"{_number(name, each.value)} [{_number(name, each.low)}, {_number(name, each.high)}]"
            for name, each in system.figures.items()
        ]
        speed = NOTHING if system.speed is None else f"{system.speed.per_second:,.1f}"
        bytes, beam = NOTHING if system.bytes is None else size(system.bytes), system.search.get("beam")
        search = NOTHING if beam is None else f"beam {beam}" if beam > 1 else "greedy"
        rows.append([system.name, *figures, f"{system.parameters:,}", bytes, speed, search])
    return table(header, rows, right=header[1:])


def _against(comparison: Comparison) -> str:
    if len(comparison.systems) < 2:
        return ""
    header, rows = [f"against {comparison.systems[0].name}", "metric", "difference"], []
    header += ["p bootstrap", "p randomisation", "better in"]
    for system in comparison.systems[1:]:
        for name, pair in system.against.items():
            low, high = (_number(name, bound, signed=True) for bound in (pair.low, pair.high))
            difference = f"{_number(name, pair.difference, signed=True)} [{low}, {high}]"
            tests = [f"{pair.bootstrap_p:.3f}", f"{pair.randomisation_p:.3f}", f"{pair.better:.1%}"]
            rows.append([system.name, name, difference, *tests])
    return table(header, rows, right=header[2:])


def _by_length(comparison: Comparison) -> str:
    first, metric = comparison.systems[0].by_length, comparison.metrics[0]
    header = [f"{metric} by {comparison.by}", *(each.name for each in first)]
    rows = [["inputs", *(f"{each.count:,}" for each in first)]]
    for system in comparison.systems:
        values = [NOTHING if each.value is None else _number(metric, each.value) for each in system.by_length]
        rows.append([system.name, *values])
    return table(header, rows, right=header[1:])


def _examples(comparison: Comparison, show: int) -> str:
    if len(comparison.systems) < 2 or not show:
        return ""
    shown = comparison.examples(show)
    if not shown:
        return "all outputs are the same"
    width = max(len(name) for name in ("reference", *shown[0]["outputs"]))
    blocks = []
    for each in shown:
        lines = {"source": each["source"], "reference": each["reference"], **each["outputs"]}
        blocks.append("\n".join(f"{name:<{width}}  {text}" for name, text in lines.items()))
    apart = f"{len(comparison.apart):,} of {len(comparison):,} outputs differ, most in:"
    return "\n\n".join([apart, *blocks])


def _number(metric: str, value: float, *, signed: bool = False) -> str:
    decimals = 2 if metric in ("bleu", "chrf", "ter") else 4
    return f"{value:{'+' if signed else ''}.{decimals}f}".replace("-", "−")
