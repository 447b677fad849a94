"""Draws on a page measured in inches from its top left corner: text, lines, meshes, and labels along the sides of a map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import Colormap, ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from numpy import ndarray

from saccade.trace.axes import Axis
from saccade.views.colours import scale
from saccade.views.figure.fonts import Typeface
from saccade.views.labels import is_character, is_marker
from saccade.views.panels import is_ruled

INK, QUIET, HAIRLINE, UNKNOWN = "#20242c", "#7b828e", "#d5d9e0", "#f3d9c9"
SMALLEST, SMALL, TEXT = 4.5, 7.0, 9.0  # points
THIN = 0.5
MOST_LABELS = 120
LONGEST_LABEL = 28

Side = Literal["top", "bottom", "left"]


def colour_map() -> Colormap:
    return ListedColormap(scale(dark=False), name="saccade").with_extremes(bad=UNKNOWN)


def is_spelled(axis: Axis) -> bool:
    """Whether the axis consists of characters, and markers such as ``<eos>``."""
    return all(is_character(label) or is_marker(axis, place) for place, label in enumerate(axis.labels))


class Page:
    """Everything is drawn on one pair of matplotlib axes, whose unit is the inch."""

    def __init__(self, width: float, height: float, typeface: Typeface) -> None:
        self.figure = Figure(figsize=(width, height), facecolor="white")
        FigureCanvasAgg(self.figure)
        self.typeface = typeface
        self.sheet = self.figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0), autoscale_on=False)
        self.sheet.set_axis_off()

    def text(self, left: float, top: float, text: str, size: float = SMALL, colour: str = QUIET, **how: Any) -> None:
        how = {"ha": "left", "va": "center", **how, "parse_math": False}
        self.sheet.text(left, top, text, color=colour, fontproperties=self.typeface.properties(size), **how)

    def line(self, left: float, top: float, right: float, bottom: float) -> None:
        self.sheet.add_artist(Line2D([left, right], [top, bottom], color=HAIRLINE, linewidth=THIN))

    def curve(self, across: Sequence[float], down: Sequence[float], colour: str) -> None:
        """A line with a dot at each point."""
        how = {"color": colour, "linewidth": 1.2, "marker": "o", "markersize": 3}
        self.sheet.add_artist(Line2D(list(across), list(down), **how))  # type: ignore[arg-type]

    def box(self, left: float, top: float, width: float, height: float, **how: Any) -> None:
        self.sheet.add_patch(Rectangle((left, top), width, height, **{"linewidth": 0, **how}))

    def image(self, left: float, top: float, width: float, height: float, pixels: ndarray, **how: Any) -> None:
        place = (left, left + width, top + height, top)
        self.sheet.imshow(pixels, extent=place, aspect="auto", interpolation="nearest", **how)

    def mesh(self, left: float, top: float, width: float, height: float, cells: ndarray, **how: Any) -> None:
        """Cells with white hairlines between them."""
        rows, columns = cells.shape
        edges = (np.linspace(left, left + width, columns + 1), np.linspace(top, top + height, rows + 1))
        self.sheet.pcolormesh(*edges, cells, edgecolors="white", linewidth=0.4, **how)

    def bars(self, left: float, base: float, cell: float, heights: ndarray, colour: Any) -> None:
        """Bars, one per cell, up from ``base`` (down for negative heights); an outline if there are too many."""
        middles = left + (np.arange(len(heights)) + 0.5) * cell
        if cell > 0.03:
            corners = ((-0.3 * cell, 0), (-0.3 * cell, 1), (0.3 * cell, 1), (0.3 * cell, 0))
            bars = [
                [(middle + across, base - height * up) for across, up in corners]
                for middle, height in zip(middles, heights, strict=True)
            ]
            self.sheet.add_collection(PolyCollection(bars, facecolors=[colour], linewidths=0), autolim=False)
        else:
            self.sheet.fill_between(middles, base, base - heights, color=colour, linewidth=0, step="mid")


class Labels:
    """The labels along one side of a map, one per ``cell``: their size, rotation, selection and room."""

    def __init__(self, axis: Axis, cell: float, typeface: Typeface, side: Side, largest: float = TEXT) -> None:
        self.count, self.cell, self.side, self.ruled = len(axis), cell, side, is_ruled(axis)
        self.size = min(largest, max(SMALLEST, cell * 72 * 0.72))
        self.every = self._every(axis, typeface)
        self.places = range(0, len(axis), self.every)
        written = [typeface.write(_shortened(axis.labels[place])) for place in self.places]
        self.texts = [text for text, _ in written]
        self.sizes = [self.size * relative for _, relative in written]
        self.widths = [typeface.width(text, size) for text, size in zip(self.texts, self.sizes, strict=True)]
        self.turns = self._turns(is_spelled(axis))
        line = self.size / 72 * 1.25
        lean = {0: 0.0, 45: 0.71, 90: 1.0}
        turned = list(zip(self.places, self.turns, self.widths, strict=True))
        depths = [line * (0.7 if turn else 1.0) + lean[turn] * width for _, turn, width in turned]
        self.depth = max(self.widths, default=0.0) + 0.08 if side == "left" else max(depths, default=0.0)
        # A turned label may extend beyond the right edge of the map.
        ends = [(place + 0.5) * cell + 0.71 * width for place, turn, width in turned if turn == 45]
        self.overhang = max(0.0, max(ends, default=0.0) - len(axis) * cell) if side == "top" else 0.0

    def _every(self, axis: Axis, typeface: Typeface) -> int:
        """Every how many labels one is drawn: all if they fit, round steps on a ruler."""
        line = self.size / 72 * 1.15
        if not self.ruled:
            return 1 if len(axis) <= MOST_LABELS else max(2, ceil(line / self.cell))
        widest = typeface.width(max(axis.labels, key=len, default=""), self.size)
        needed: float = line if self.side == "left" else widest
        if needed <= self.cell:
            return 1
        steps: Iterator[int] = (step * 10**power for power in range(9) for step in (1, 2, 5))
        return next(step for step in steps if step * self.cell >= max(0.25, needed + 0.15))

    def _turns(self, spelled: bool) -> list[int]:
        """Characters are upright; words are turned, all of them or none."""
        turned = 45 if self.cell >= 0.2 else 90
        if self.side == "left" or self.ruled:
            return [0] * len(self.texts)
        if spelled:
            return [0 if width <= 1.6 * self.cell else turned for width in self.widths]
        return [0 if max(self.widths) <= 0.96 * self.cell else turned] * len(self.texts)

    @property
    def note(self) -> str:
        return f"one label in {self.every}" if self.every > 1 and not self.ruled else ""

    def draw(self, page: Page, along: float, edge: float) -> None:
        """``along`` is the start of the first cell, ``edge`` the edge of the map beside the labels."""
        for number, place in enumerate(self.places):
            middle = along + (place + 0.5) * self.cell
            turn = self.turns[number]
            if self.side == "left":
                self._write(page, number, edge - 0.06, middle, ha="right", va="center_baseline")
            elif turn == 0:
                offset, anchor = (-0.05, "baseline") if self.side == "top" else (0.04, "top")
                self._write(page, number, middle, edge + offset, ha="center", va=anchor)
            else:
                offset, away, across = (-0.04, "left", "baseline") if self.side == "top" else (0.04, "right", "top")
                how = {"rotation": turn, "rotation_mode": "anchor", "va": "center" if turn == 90 else across}
                self._write(page, number, middle, edge + offset, ha=away, **how)

    def _write(self, page: Page, number: int, left: float, top: float, **how: Any) -> None:
        page.text(left, top, self.texts[number], self.sizes[number], INK, **how)


def _shortened(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"


def quiet_axes(axes: Axes) -> None:
    """Style the axes of a chart: a hairline at the bottom, no ticks."""
    axes.set_axisbelow(True)
    axes.tick_params(colors=QUIET, labelcolor=INK, labelsize=8, length=0, pad=4)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(HAIRLINE)
