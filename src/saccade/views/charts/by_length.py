"""Figures by length for several systems: the picture of Bahdanau et al. 2015, fig. 2, as PNG, SVG or PDF.

A line a system with its band of uncertainty, and below it in faint bars how many inputs each length has: where they
are few, a line means little. The same numbers give the same bytes.
"""

from __future__ import annotations

import io
import re
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
from saccade.storage import write_bytes
from saccade.views.figure.figure import METADATA, settings
from saccade.views.figure.fonts import Typeface
from saccade.views.figure.page import HAIRLINE, INK, QUIET, SMALL, TEXT

# Colours that people with any colour vision tell apart (after Okabe & Ito 2008), a marker and a dash each: grey prints too.
COLOURS = ("#0b5394", "#d55e00", "#00856a", "#b0508e", "#8a6d00", "#4a9fd8", "#5a5f6a", "#7a1f1f")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.4, 1.4)), (0, (5, 1.4, 1.4, 1.4)))
WIDTH, HEIGHT, ROW = 6.4, 4.1, 0.16  # inches; a row of the legend
LONGEST_NAME = 40


@dataclass(frozen=True)
class Line:
    """A system's figures, one a bucket; None where the bucket is empty. ``low`` and ``high`` bound them."""

    name: str
    values: Sequence[float | None]
    low: Sequence[float | None]
    high: Sequence[float | None]


@dataclass(frozen=True)
class Chart:
    """Lines over buckets, what the two axes are called, and how many inputs each bucket holds."""

    lines: Sequence[Line]
    buckets: Sequence[str]
    counts: Sequence[int]
    across: str
    up: str
    title: str = ""

    def __post_init__(self) -> None:
        if not self.lines:
            raise SaccadeError("there is nothing to draw: expected at least one line")
        for line in self.lines:
            sizes = {len(part) for part in (line.values, line.low, line.high)}
            if sizes != {len(self.buckets)} or len(self.counts) != len(self.buckets):
                raise SaccadeError(f"{line.name}: expected a figure for each of {len(self.buckets)} buckets")


def check_ending(path: str | Path) -> str:
    """The kind of picture that a file's name asks for; an error where it is none of ours."""
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in METADATA:
        found = Path(path).suffix or "no ending"
        raise SaccadeError(f"{path}: expected a picture ending in .png, .svg or .pdf, found {found!r}")
    return kind


def save(chart: Chart, path: str | Path, *, dpi: int = 160) -> None:
    """Write the chart as ``.png``, ``.svg`` or ``.pdf``, whole or not at all."""
    check_ending(path)
    with settings():
        write(draw(chart), path, dpi=dpi)


def write(figure: Figure, path: str | Path, *, dpi: int) -> None:
    """Write a figure of matplotlib's so that the same one gives the same bytes."""
    kind = check_ending(path)
    file = io.BytesIO()
    figure.savefig(file, format=kind, dpi=dpi, metadata=METADATA[kind])
    content = file.getvalue()
    if kind == "svg":
        content = re.sub(rb'(<text style="[^"]*font-family: [^";]*)', rb"\1, sans-serif", content)
    write_bytes(path, content)


def draw(chart: Chart) -> Figure:
    """The chart as a matplotlib figure, to be placed or changed by the caller."""
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
        # Beside each other, so that bars of uncertainty do not hide one another.
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
    # A scale that begins just above 0 exaggerates; one that begins far below the lines hides how they differ.
    axes.set_ylim(0.0 if lowest < 0.3 * highest else lowest, highest)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6))
    axes.grid(axis="y", color=HAIRLINE, linewidth=0.6)
    settle(axes)


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
    settle(axes)


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
    """As many names side by side as there is room for."""
    widest = max(typeface.width(_shown(line.name, typeface), 8.0) for line in chart.lines)
    return max(1, min(len(chart.lines), int((WIDTH * 0.86) / (widest + 0.62))))


def _aside(number: int, count: int) -> float:
    return 0.0 if count == 1 else 0.12 * (number / (count - 1) - 0.5) * min(1.0, count / 3)


def _shown(text: str, typeface: Typeface, longest: int = LONGEST_NAME) -> str:
    shown, _ = typeface.write(text)
    return shown if len(shown) <= longest else "…" + shown[1 - longest :]


def settle(axes: Axes) -> None:
    """Quiet axes: a hairline below, no marks."""
    axes.set_axisbelow(True)
    axes.tick_params(colors=QUIET, labelcolor=INK, labelsize=8, length=0, pad=4)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(HAIRLINE)
