"""Draws reliability diagrams, accuracy over confidence, as PNG, SVG or PDF.

One bar per bin of confidence, as high as its accuracy; on the dashed line both are equal. Bars below show how many records
each bin has. The same numbers give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from saccade.errors import SaccadeError
from saccade.views.figure.figure import settings, write_picture
from saccade.views.figure.fonts import Typeface
from saccade.views.figure.page import HAIRLINE, INK, QUIET, SMALL, TEXT, quiet_axes

WIDE, HIGH = 3.3, 4.3  # inches, of one diagram
# Blue: accuracy; light blue: accuracy above confidence; orange: confidence above accuracy.
RIGHT, MORE, LESS = "#2f6ea8", "#8fbbe3", "#eeb182"
FULL, FAINT = 1.0, 0.35  # opacity of a bin's bar, and of one with few records
FEW = 0.01  # share of all records


@dataclass(frozen=True)
class Diagram:
    """Equal bins of confidence from 0 to 1: counts, mean confidence and accuracy (NaN if empty)."""

    name: str
    counts: Sequence[int]
    confidence: Sequence[float]
    accuracy: Sequence[float]
    error: float

    def __post_init__(self) -> None:
        if not self.counts or len({len(self.counts), len(self.confidence), len(self.accuracy)}) > 1:
            raise SaccadeError(f"{self.name}: expected a count, a confidence and an accuracy per bin")


def save(diagrams: Sequence[Diagram], path: str | Path, *, title: str = "", dpi: int = 160) -> None:
    """Write diagrams side by side as ``.png``, ``.svg`` or ``.pdf``, whole or not at all."""
    write_picture(lambda: draw(diagrams, title=title), path, dpi=dpi)


def draw(diagrams: Sequence[Diagram], *, title: str = "") -> Figure:
    """The diagrams as a matplotlib figure."""
    if not diagrams:
        raise SaccadeError("expected at least one diagram to draw, found none")
    with settings():
        typeface = Typeface([title, *(each.name for each in diagrams)])
        figure = Figure(figsize=(0.55 + WIDE * len(diagrams), HIGH), facecolor="white")
        FigureCanvasAgg(figure)
        wide = figure.get_figwidth()
        rows = figure.subplots(
            2, len(diagrams), sharex=True, sharey="row", squeeze=False, height_ratios=(3.4, 1),
            gridspec_kw={"hspace": 0.1, "wspace": 0.12, "left": 0.55 / wide, "right": 1 - 0.15 / wide},
        )  # fmt: skip
        figure.subplots_adjust(top=1 - (0.72 if title else 0.42) / HIGH, bottom=0.66 / HIGH)
        highest = max(max(each.counts) for each in diagrams)
        for number, each in enumerate(diagrams):
            _draw_bins(rows[0][number], each, typeface, first=number == 0)
            _draw_counts(rows[1][number], each, highest, typeface, first=number == 0)
        figure.text(
            1 - 0.15 / wide, 0.12 / HIGH, "orange: overconfident    light blue: underconfident", color=QUIET,
            ha="right", va="center", fontproperties=typeface.properties(SMALL),
        )  # fmt: skip
        if title:
            figure.text(
                0.55 / wide, 1 - 0.2 / HIGH, typeface.write(title)[0], color=INK, va="center",
                fontproperties=typeface.properties(10.0),
            )  # fmt: skip
    return figure


def _draw_bins(axes: Axes, diagram: Diagram, typeface: Typeface, *, first: bool) -> None:
    bins = len(diagram.counts)
    some = sum(diagram.counts) * FEW
    axes.plot((0, 1), (0, 1), color=QUIET, linewidth=0.9, linestyle=(0, (4, 2)), zorder=3)
    for number, count in enumerate(diagram.counts):
        sure, right = diagram.confidence[number], diagram.accuracy[number]
        if not count or isnan(right):
            continue
        left, ink = number / bins, FULL if count >= some else FAINT
        parts = ((0.0, min(right, sure), RIGHT), (sure, right, MORE), (right, sure, LESS))
        for bottom, top, colour in parts:
            tall = max(0.0, top - bottom)
            axes.bar(left, tall, 0.94 / bins, bottom=bottom, align="edge", color=colour, alpha=ink, linewidth=0)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_title(
        f"{typeface.write(diagram.name)[0]}    ECE {diagram.error:.4f}", loc="left", color=INK, pad=6,
        fontproperties=typeface.properties(TEXT),
    )  # fmt: skip
    if first:
        axes.set_ylabel("accuracy", color=INK, fontproperties=typeface.properties(TEXT))
    axes.grid(axis="y", color=HAIRLINE, linewidth=0.6)
    quiet_axes(axes)


def _draw_counts(axes: Axes, diagram: Diagram, highest: int, typeface: Typeface, *, first: bool) -> None:
    bins = len(diagram.counts)
    edges = [number / bins for number in range(bins)]
    axes.bar(edges, diagram.counts, 0.94 / bins, align="edge", color="#c3cad6", linewidth=0)
    most = max(range(bins), key=diagram.counts.__getitem__)
    axes.annotate(
        f"{diagram.counts[most]:,}", (edges[most] + 0.5 / bins, diagram.counts[most]), (0, 2),
        textcoords="offset points", ha="right" if most > bins / 2 else "left", va="bottom", color=QUIET,
        fontproperties=typeface.properties(SMALL),
    )  # fmt: skip
    axes.set_ylim(0, max(1, highest) * 1.3)
    axes.set_yticks([])
    axes.set_xlabel("confidence", color=INK, fontproperties=typeface.properties(TEXT))
    if first:
        axes.set_ylabel("records", color=QUIET, fontproperties=typeface.properties(SMALL))
    quiet_axes(axes)
