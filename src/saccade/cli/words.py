"""``saccade words``: the words with the greatest attention of a classifier, by label."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from saccade.cli.options import Force, Json, Run, Trust, refuse_existing
from saccade.cli.printing import print, printable
from saccade.errors import SaccadeError

if TYPE_CHECKING:
    from saccade.explain.words import Rank, Whose, Word, Words

PICTURES = (".png", ".svg", ".pdf")
HEADER = ("word", "count", "mean weight", "total weight", "× even")
TOP = 20  # words per label by default
FEW = 12  # labels whose tables are printed


def words(
    run: Run,
    data: Annotated[
        Path | None, typer.Argument(metavar="DATA", help="A file of records; default: the recipe's test set.")
    ] = None,
    top: Annotated[int | None, typer.Option(min=1, help=f"Words per label; default {TOP}, in a .csv all.")] = None,
    rank: Annotated[
        Literal["mean", "total", "lift"],
        typer.Option(help="Rank by mean weight, total weight, or lift (weight relative to uniform attention)."),
    ] = "mean",
    min_count: Annotated[int, typer.Option(min=1, help="Minimum number of occurrences of a word.")] = 5,
    labels: Annotated[
        Literal["predicted", "given"], typer.Option(help="Group by the predicted labels, or by those in the data.")
    ] = "predicted",
    word: Annotated[
        list[str] | None, typer.Option(help="Show the distribution of this word's weight by label; may be repeated.")
    ] = None,
    site: Annotated[
        str | None, typer.Option("--site", metavar="SITE", help="The attention site, if there are several.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Use only the first N records.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write .csv, .html, or a picture (.png, .svg, .pdf) instead of printing tables.")
    ] = None,
    force: Force = False,
    trust: Trust = None,
    as_json: Json = False,
) -> None:
    """Show the words with the most attention, by label.

    \b
    saccade words runs/my
    saccade words runs/my reviews.tsv --labels given --top 30 --out words.html
    saccade words runs/my --word good --word bad --out good-and-bad.png

    With --word: the distribution of that word's weight in the texts of each label. If it differs between labels, the
    weight depends on context.
    """
    _check_ending(out, single=bool(word))
    refuse_existing(out, force=force)
    from saccade.api.bundle import load

    bundle = load(run, trust=trust or ())
    records, where, notes = bundle.records_of(data, instead="saccade words RUN FILE")
    records = records[:limit]
    with _progress(len(records)) as progress:
        found = _looked(bundle, records, labels, site, min_count, word or [], progress)
    found = replace(found, notes=(*notes, *found.notes))
    title = f"{bundle.recipe.name}: {len(records):,} texts of {where}"
    if out is not None:
        _write(found, out, title, top, rank)
    if as_json:
        print(json.dumps({"run": str(run), "data": where, **found.to_plain(top or TOP, rank)}, ensure_ascii=False))
    elif out is not None:
        print(out)
    else:
        _show(found, title, top or TOP, rank)
    for note in found.notes:
        print(f"note: {note}", file=sys.stderr)


def _looked(
    bundle: object,
    records: list[object],
    whose: Whose,
    site: str | None,
    least: int,
    watch: list[str],
    progress: Callable[[int], None],
) -> Words:
    from saccade.explain import words as explain

    return explain.words(bundle, records, whose=whose, site=site, least=least, watch=watch, progress=progress)  # type: ignore[arg-type]


def _check_ending(out: Path | None, *, single: bool) -> None:
    """Raise for an unknown file ending, before a model is loaded."""
    endings = (*PICTURES, ".csv", *(() if single else (".html",)))
    if out is not None and out.suffix.lower() not in endings:
        found = out.suffix or "no ending"
        raise SaccadeError(f"{out}: expected a file ending in one of {', '.join(endings)}, found {found!r}")


@contextmanager
def _progress(count: int) -> Iterator[Callable[[int], None]]:
    """A progress bar if stderr is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading", total=count)
        yield lambda done: bar.advance(task, done)


# Terminal ---------------------------------------------------------------------------------------------------------------


def _show(found: Words, title: str, top: int, rank: Rank) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    marks = f"; {found.marks:.1%} of the weight is on marks" if found.marks >= 0.0005 else ""
    console.print(printable(f"{title}; labels as {found.whose}; weights of {found.site}{marks}"))
    if found.weights:
        for word, by_label in found.weights.items():
            console.print(_spread(word, by_label))
        return
    for label in list(found.labels)[:FEW]:
        console.print(_table(label, found, top, rank))
    if len(found.labels) > FEW:
        console.print(f"{len(found.labels) - FEW} more labels: --json or --out words.html")


def _table(label: str, found: Words, top: int, rank: Rank) -> object:
    from rich.table import Table
    from rich.text import Text

    from saccade.views.labels import visible

    table = Table(title=Text(f"{visible(label)} ({_texts(found, label)})"), title_justify="left")
    for name in HEADER:
        table.add_column(name, justify="left" if name == "word" else "right")
    for word in found.top(label, top, rank):
        table.add_row(Text(visible(word.word)), *_figures(word))
    return table


def _texts(found: Words, label: str) -> str:
    count = found.texts[label]
    return f"{count:,} text{'s' * (count != 1)}"


def _figures(word: Word) -> list[str]:
    return [f"{word.count:,}", f"{word.mean:.4f}", f"{word.total:,.2f}", f"{word.lift:.2f}"]


def _spread(word: str, by_label: dict[str, tuple[float, ...]]) -> object:
    from statistics import fmean, quantiles

    from rich.table import Table
    from rich.text import Text

    from saccade.views.labels import visible

    table = Table(title=Text(f"the weight of {visible(word)}"), title_justify="left")
    for name in ("label", "count", "mean", "10 %", "median", "90 %", "largest"):
        table.add_column(name, justify="left" if name == "label" else "right")
    for label, weights in by_label.items():
        tenths = quantiles(weights, n=10, method="inclusive") if len(weights) > 1 else [weights[0]] * 9
        figures = (fmean(weights), tenths[0], tenths[4], tenths[8], max(weights))
        table.add_row(Text(visible(label)), f"{len(weights):,}", *(f"{each:.4f}" for each in figures))
    return table


# Files ------------------------------------------------------------------------------------------------------------------


def _write(found: Words, out: Path, title: str, top: int | None, rank: Rank) -> None:
    ending = out.suffix.lower()
    if ending == ".csv":
        _write_csv(found, out, top, rank)
    elif ending == ".html":
        _write_page(found, out, title, top or TOP, rank)
    elif found.weights:
        from saccade.views.charts.words import save_weights

        save_weights(found.weights, list(found.labels), out, title=title)
    else:
        from saccade.views.charts.words import Bars, save_bars

        panels = [
            Bars(
                label,
                [(word.word, getattr(word, rank)) for word in found.top(label, top or TOP, rank)],
                _texts(found, label),
            )
            for label in found.labels
        ]
        across = {"mean": "mean weight", "total": "total weight", "lift": "× an even look"}[rank]
        save_bars(panels, out, across=across, title=title)


def _write_csv(found: Words, out: Path, top: int | None, rank: Rank) -> None:
    """Every word with enough occurrences, or the first per label; with --word every occurrence."""
    from saccade.storage import write_text

    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    if found.weights:
        rows.writerow(("word", "label", "weight"))
        rows.writerows(
            (word, label, f"{weight:.6g}")
            for word, by_label in found.weights.items()
            for label, weights in by_label.items()
            for weight in weights
        )
    else:
        rows.writerow(("label", "word", "count", "mean", "total", "lift"))
        rows.writerows(
            (label, each.word, each.count, f"{each.mean:.6g}", f"{each.total:.6g}", f"{each.lift:.6g}")
            for label, part in found.labels.items()
            for each in found.top(label, top or len(part), rank)
        )
    write_text(out, text.getvalue())


def _write_page(found: Words, out: Path, title: str, top: int, rank: Rank) -> None:
    from saccade.views.charts.words import Table, save

    tables = [
        Table(
            label,
            _texts(found, label),
            [(word.word, _figures(word), getattr(word, rank)) for word in found.top(label, top, rank)],
        )
        for label in found.labels
    ]
    about = (
        f"Labels as {found.whose}; weights of {found.site}; words with at least {found.least} occurrences, by {rank}."
    )
    save(tables, HEADER, out, title=title, about=about)
