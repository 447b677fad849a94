"""Draws the words with the greatest attention per label: bars, histograms of single words (PNG, SVG, PDF), or an HTML table.

The same numbers give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from saccade.errors import SaccadeError
from saccade.storage import write_text
from saccade.views.charts.by_length import COLOURS
from saccade.views.figure.figure import settings, write_picture
from saccade.views.figure.fonts import Typeface
from saccade.views.figure.page import HAIRLINE, INK, QUIET, SMALL, TEXT, quiet_axes
from saccade.views.labels import visible

ACROSS = 4  # panels side by side at most
BAR, PANEL = 0.17, 2.1  # inches: a bar's height, a panel's width
LONGEST, LABEL, LEAST = 18, 30, 12  # letters: of a word, of a label, of a label that shares its line with a note
BINS = 20


@dataclass(frozen=True)
class Bars:
    """The words of one label with their values, the largest first; ``note`` is shown beside the label."""

    label: str
    words: Sequence[tuple[str, float]]
    note: str = ""


def save_bars(panels: Sequence[Bars], path: str | Path, *, across: str, title: str = "", dpi: int = 160) -> None:
    """One panel per label, one bar per word; ``across`` names what the bars measure."""
    write_picture(lambda: draw_bars(panels, across=across, title=title), path, dpi=dpi)


def draw_bars(panels: Sequence[Bars], *, across: str, title: str = "") -> Figure:
    """The bars as a matplotlib figure."""
    if not any(panel.words for panel in panels):
        raise SaccadeError("expected at least one word to draw, found none")
    most = max(len(panel.words) for panel in panels)
    written = [panel.label for panel in panels] + [word for panel in panels for word, _ in panel.words]
    typeface = Typeface([title, across, *written])
    heads = _heads(panels, typeface)
    listed = [_apart([word for word, _ in panel.words], LONGEST) for panel in panels]
    with settings():
        room = 0.15 + max(typeface.width(typeface.write(word)[0], 8.0) for words in listed for word in words)
        figure, cells = _grid(len(panels), BAR * most + 0.75, typeface, title, room=room)
        longest = max(value for panel in panels for _, value in panel.words)
        for number, (axes, panel) in enumerate(zip(cells, panels, strict=True)):
            words = [typeface.write(word)[0] for word in listed[number]]
            places = np.arange(len(words))
            axes.barh(places, [value for _, value in panel.words], 0.72, color=COLOURS[number % len(COLOURS)])
            axes.set_yticks(places, words)
            axes.set_ylim(most - 0.4, -0.6)
            axes.set_xlim(0, longest * 1.05 or 1)
            axes.xaxis.set_major_locator(MaxNLocator(nbins=3))
            _head(axes, heads[number], panel.note, typeface)
            axes.set_xlabel(across, color=QUIET, fontproperties=typeface.properties(SMALL))
            axes.grid(axis="x", color=HAIRLINE, linewidth=0.6)
            quiet_axes(axes)
            for label in axes.get_yticklabels():
                label.set_fontproperties(typeface.properties(8.0))
    return figure


def save_weights(
    words: Mapping[str, Mapping[str, Sequence[float]]],
    labels: Sequence[str],
    path: str | Path,
    *,
    title: str = "",
    dpi: int = 160,
) -> None:
    """Histograms of the weight of each word in the texts of each label: one panel per label, rows per word."""
    write_picture(lambda: draw_weights(words, labels, title=title), path, dpi=dpi)


def draw_weights(
    words: Mapping[str, Mapping[str, Sequence[float]]], labels: Sequence[str], *, title: str = ""
) -> Figure:
    """The histograms as a matplotlib figure; those of one word share a scale."""
    if not words or not labels:
        raise SaccadeError("expected at least one word and one label to draw, found none")
    typeface = Typeface([title, *words, *labels])
    heads = _apart([f"{word} · {label}" for word in words for label in labels], LABEL)
    rows = ceil(len(labels) / ACROSS)  # of a word
    columns = ceil(len(labels) / rows)
    with settings():
        figure, cells = _grid(len(words) * rows * columns, 1.75, typeface, title, columns=columns)
        for row, by_label in enumerate(words.values()):
            largest = max((max(weights) for weights in by_label.values() if weights), default=0.0) or 1.0
            edges = np.linspace(0, largest, BINS + 1)
            tall = 0.0
            first, following = row * rows * columns, (row + 1) * rows * columns
            of_word = cells[first : first + len(labels)]
            for spare in cells[first + len(labels) : following]:
                spare.remove()
            for number, (axes, label) in enumerate(zip(of_word, labels, strict=True)):
                tall = max(tall, _histogram(axes, by_label.get(label, ()), edges, COLOURS[number % len(COLOURS)]))
                _head(axes, heads[row * len(labels) + number], "", typeface)
                axes.set_xlabel(
                    _axis_name(by_label.get(label, ())), color=QUIET, fontproperties=typeface.properties(SMALL)
                )
                quiet_axes(axes)
            for axes in of_word:
                axes.set_ylim(0, tall * 1.08 or 1)
                axes.set_xlim(0, largest)
                axes.xaxis.set_major_locator(MaxNLocator(nbins=4))
                axes.set_yticks([])
    return figure


def _histogram(axes: Axes, weights: Sequence[float], edges: np.ndarray, colour: str) -> float:
    """Draw the share of occurrences per bin and a line at the mean; return the highest bar."""
    if not weights:
        return 0.0
    counts, _ = np.histogram(weights, edges)
    shares = counts / len(weights)
    axes.bar(edges[:-1], shares, np.diff(edges) * 0.94, align="edge", color=colour, linewidth=0)
    axes.axvline(float(np.mean(weights)), color=INK, linewidth=0.9, linestyle=(0, (4, 2)))
    return float(shares.max())


def _axis_name(weights: Sequence[float]) -> str:
    return (
        f"weight ({len(weights):,} occurrences, mean {np.mean(weights):.3f})" if weights else "weight (no occurrence)"
    )


def _grid(
    count: int, height: float, typeface: Typeface, title: str, columns: int | None = None, room: float = 0.3
) -> tuple[Figure, list[Axes]]:
    """A figure with ``count`` axes in rows, ``room`` inches to the left of each."""
    columns = columns or min(count, ACROSS)
    rows = ceil(count / columns)
    wide, high = 0.35 + (PANEL + room) * columns, height * rows + (0.4 if title else 0.1)
    figure = Figure(figsize=(wide, high), facecolor="white")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False)
    figure.subplots_adjust(
        left=(room + 0.15) / wide, right=1 - 0.2 / wide, bottom=0.42 / high, top=1 - (0.72 if title else 0.42) / high,
        wspace=room / PANEL, hspace=0.75 / (height - 0.75),
    )  # fmt: skip
    if title:
        figure.text(
            0.15 / wide, 1 - 0.2 / high, typeface.write(title)[0], color=INK, va="center",
            fontproperties=typeface.properties(10.0),
        )  # fmt: skip
    cells = [axes for row in grid for axes in row]
    for axes in cells[count:]:
        axes.remove()
    return figure, cells[:count]


def _heads(panels: Sequence[Bars], typeface: Typeface) -> list[str]:
    """The labels, shortened until they fit into their panel beside their notes."""

    def fits(head: str, panel: Bars) -> bool:
        taken = typeface.width(typeface.write(head)[0], TEXT) + typeface.width(panel.note, SMALL)
        return len(head) <= LABEL and taken + 0.1 <= PANEL

    heads = [visible(panel.label) for panel in panels]
    long = [number for number, panel in enumerate(panels) if not fits(heads[number], panel)]
    for longest in range(LABEL, LEAST - 1, -1):
        shorter = dict(zip(long, _apart([panels[number].label for number in long], longest), strict=True))
        if all(fits(head, panels[number]) for number, head in shorter.items()):
            break
    return [shorter.get(number, head) for number, head in enumerate(heads)]


def _head(axes: Axes, name: str, note: str, typeface: Typeface) -> None:
    shown, _ = typeface.write(name)
    axes.set_title(shown, loc="left", color=INK, pad=5, fontproperties=typeface.properties(TEXT))
    axes.set_title(note, loc="right", color=QUIET, pad=5, fontproperties=typeface.properties(SMALL))


def _apart(names: Sequence[str], longest: int) -> list[str]:
    """The names, long ones cut near their middle so that different names stay different; numbered if no cut achieves that."""
    seen = [visible(name) for name in names]
    middle = longest // 2
    for kept in sorted(range(longest), key=lambda letters: abs(letters - middle)):
        shown = [_cut(name, kept, longest) for name in seen]
        if len(set(shown)) == len(set(seen)):
            return shown
    numbers = {name: f" {number}" for number, name in enumerate(dict.fromkeys(seen), start=1)}
    room = longest - max(map(len, numbers.values()))
    return [name if len(name) <= longest else _cut(name, room // 2, room) + numbers[name] for name in seen]


def _cut(name: str, kept: int, longest: int) -> str:
    """The name in ``longest`` letters: its first ``kept``, an ellipsis, its end."""
    return name if len(name) <= longest else f"{name[:kept]}…{name[len(name) - (longest - 1 - kept) :]}"


# As one self-contained HTML page: a table per label, a bar behind each word ----------------------------------------

STYLE = """
:root { color-scheme: light dark; --ink: #20242c; --quiet: #6b7280; --line: #d5d9e0; --bar: #bcd3ea; --page: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --quiet: #9aa3b2; --line: #333a46; --bar: #24496b; --page: #14171c; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 2rem auto; padding: 0 1rem;
  max-width: 76rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin: 0 0 .4rem; } p, small { color: var(--quiet); }
main { display: flex; flex-wrap: wrap; gap: 1.5rem 2.5rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .1rem .6rem; text-align: right; border-bottom: 1px solid var(--line); }
th { font-weight: 500; color: var(--quiet); } td:first-child, th:first-child { text-align: left; min-width: 9rem; }
td:first-child { background: linear-gradient(90deg, var(--bar) var(--share), transparent var(--share)); }
"""


@dataclass(frozen=True)
class Table:
    """The words of one label: one row per word with its figures, and the value that is drawn as a bar."""

    label: str
    note: str
    rows: Sequence[tuple[str, Sequence[str], float]]  # word, formatted figures, value of the bar


def save(tables: Sequence[Table], header: Sequence[str], path: str | Path, *, title: str, about: str) -> None:
    """Write the page, whole or not at all."""
    write_text(path, page(tables, header, title=title, about=about))


def page(tables: Sequence[Table], header: Sequence[str], *, title: str, about: str) -> str:
    """The page as text."""
    largest = max((row[2] for table in tables for row in table.rows), default=0.0) or 1.0
    parts = "\n".join(_section(table, header, largest) for table in tables)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{_safe(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{STYLE}</style>\n</head>\n<body>\n'
        f"<h1>{_safe(title)}</h1>\n<p>{_safe(about)}</p>\n<main>\n{parts}\n</main>\n</body>\n</html>\n"
    )


def _section(table: Table, header: Sequence[str], largest: float) -> str:
    head = "".join(f"<th>{_safe(name)}</th>" for name in header)
    rows = "\n".join(
        f'<tr><td style="--share: {max(0.0, 100 * share / largest):.1f}%">{_safe(word)}</td>'
        f"{''.join(f'<td>{_safe(figure)}</td>' for figure in figures)}</tr>"
        for word, figures, share in table.rows
    )
    name = f"<h2>{_safe(table.label)} <small>{_safe(table.note)}</small></h2>"
    return (
        f"<section>\n{name}\n<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n</section>"
    )


def _safe(text: str) -> str:
    return escape(visible(text))
