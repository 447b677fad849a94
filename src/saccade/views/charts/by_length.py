"""Draws scores by length for several systems, as in Bahdanau et al. 2015, fig. 2, as PNG, SVG or PDF.

One line per system with its confidence band; bars below show how many inputs each length has. The same numbers give the same
bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from saccade.errors import SaccadeError
from saccade.views.figure.figure import settings, write_picture
from saccade.views.figure.fonts import Typeface
from saccade.views.figure.page import HAIRLINE, INK, QUIET, SMALL, TEXT, quiet_axes

# Colours for every kind of colour vision (after Okabe & Ito 2008); markers and dashes distinguish lines in grey prints.
COLOURS = ("#0b5394", "#d55e00", "#00856a", "#b0508e", "#8a6d00", "#4a9fd8", "#5a5f6a", "#7a1f1f")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.4, 1.4)), (0, (5, 1.4, 1.4, 1.4)))
WIDTH, HEIGHT, ROW = 6.4, 4.1, 0.16  # inches; a row of the legend
LONGEST_NAME = 40


@dataclass(frozen=True)
class Line:
    """A system's scores, one per bucket, with their bounds; None if the bucket is empty."""

    name: str
    values: Sequence[float | None]
    low: Sequence[float | None]
    high: Sequence[float | None]


@dataclass(frozen=True)
class Chart:
    """Lines over buckets, the names of the two axes, and the number of inputs per bucket."""

    lines: Sequence[Line]
    buckets: Sequence[str]
    counts: Sequence[int]
    across: str
    up: str
    title: str = ""

    def __post_init__(self) -> None:
        if not self.lines:
            raise SaccadeError("expected at least one line to draw, found none")
        for line in self.lines:
            sizes = {len(part) for part in (line.values, line.low, line.high)}
            if sizes != {len(self.buckets)} or len(self.counts) != len(self.buckets):
                raise SaccadeError(
                    f"{line.name}: expected a score and its bounds for each of {len(self.buckets)} buckets"
                )


def save(chart: Chart, path: str | Path, *, dpi: int = 160) -> None:
    """Write the chart as ``.png``, ``.svg`` or ``.pdf``, whole or not at all."""
    write_picture(lambda: draw(chart), path, dpi=dpi)


def draw(chart: Chart) -> Figure:
    """The chart as a matplotlib figure, which the caller may change."""
    with settings():
        typeface = Typeface([chart.title, chart.across, chart.up, *chart.buckets, *(line.name for line in chart.lines)])
        rows = -(-len(chart.lines) // _columns(chart, typeface))
        figure = Figure(figsize=(WIDTH, HEIGHT + ROW * rows), facecolor="white")
        FigureCanvasAgg(figure)
        above, below = figure.subplots(
            2, 1, sharex=True, height_ratios=(3.6, 1), gridspec_kw={"hspace": 0.09, "left": 0.11, "right": 0.975}
        )
        head = ROW * rows + (0.44 if chart.title else 0.18)
        figure.subplots_adjust(top=1 - head / figure.get_figheight(), bottom=0.56 / figure.get_figheight())
        _draw_lines(above, chart, typeface)
        _draw_counts(below, chart, typeface)
        _write_head(figure, above, chart, typeface)
    return figure


def _draw_lines(axes: Axes, chart: Chart, typeface: Typeface) -> None:
    for number, line in enumerate(chart.lines):
        colour = COLOURS[number % len(COLOURS)]
        # Shifted, so that the bars of uncertainty do not overlap.
        places = np.arange(len(line.values)) + _aside(number, len(chart.lines))
        value, low, high = (np.array(part, dtype=float) for part in (line.values, line.low, line.high))
        axes.fill_between(places, low, high, color=colour, alpha=0.26 / max(2, len(chart.lines)), linewidth=0)
        axes.vlines(places, low, high, color=colour, alpha=0.55, linewidth=0.9)
        axes.plot(
            places, value, color=colour, label=_shown(line.name, typeface), linewidth=1.6, clip_on=False,
            marker=MARKERS[number % len(MARKERS)], markersize=4.8, markeredgecolor="white", markeredgewidth=0.6,
            linestyle=DASHES[number // len(COLOURS) % len(DASHES)],
        )  # fmt: skip
    axes.set_ylabel(_shown(chart.up, typeface), color=INK, fontproperties=typeface.properties(TEXT))
    axes.margins(y=0.08)
    lowest, highest = axes.get_ylim()
    # A scale that starts just above 0 exaggerates differences; one that starts far below the lines hides them.
    axes.set_ylim(0.0 if lowest < 0.3 * highest else lowest, highest)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6))
    axes.grid(axis="y", color=HAIRLINE, linewidth=0.6)
    quiet_axes(axes)


def _draw_counts(axes: Axes, chart: Chart, typeface: Typeface) -> None:
    places = np.arange(len(chart.buckets))
    axes.bar(places, chart.counts, width=0.62, color="#dfe3ea", linewidth=0)
    for place, count in zip(places, chart.counts, strict=True):
        axes.annotate(
            f"{count:,}", (place, count), (0, 2), textcoords="offset points", ha="center", va="bottom", color=QUIET,
            fontproperties=typeface.properties(SMALL),
        )  # fmt: skip
    axes.set_ylim(0, max(1, max(chart.counts)) * 1.35)
    axes.set_yticks([])
    axes.set_xlim(-0.6, len(chart.buckets) - 0.4)
    axes.set_xticks(places, [typeface.write(name)[0] for name in chart.buckets])
    axes.set_xlabel(_shown(chart.across, typeface), color=INK, fontproperties=typeface.properties(TEXT))
    axes.set_ylabel("inputs", color=QUIET, fontproperties=typeface.properties(SMALL))
    quiet_axes(axes)


def _write_head(figure: Figure, axes: Axes, chart: Chart, typeface: Typeface) -> None:
    height = figure.get_figheight()
    if chart.title:
        figure.text(
            0.11, 1 - 0.2 / height, _shown(chart.title, typeface, 90), color=INK, va="center",
            fontproperties=typeface.properties(10.0),
        )  # fmt: skip
    figure.text(
        0.975, 0.13 / height, "bands: 95 % of resamples", color=QUIET, ha="right", va="center",
        fontproperties=typeface.properties(SMALL),
    )  # fmt: skip
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.012, 1.0), ncols=_columns(chart, typeface), frameon=False, borderaxespad=0.2,
        columnspacing=1.8, handlelength=2.6, labelspacing=0.35, labelcolor=INK, prop=typeface.properties(8.0),
    )  # fmt: skip


def _columns(chart: Chart, typeface: Typeface) -> int:
    """How many names of the legend fit side by side."""
    widest = max(typeface.width(_shown(line.name, typeface), 8.0) for line in chart.lines)
    return max(1, min(len(chart.lines), int((WIDTH * 0.86) / (widest + 0.62))))


def _aside(number: int, count: int) -> float:
    return 0.0 if count == 1 else 0.12 * (number / (count - 1) - 0.5) * min(1.0, count / 3)


def _shown(text: str, typeface: Typeface, longest: int = LONGEST_NAME) -> str:
    shown, _ = typeface.write(text)
    return shown if len(shown) <= longest else "…" + shown[1 - longest :]
