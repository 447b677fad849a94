"""Draws a trace as PNG, SVG or PDF with matplotlib's objects, without its global state.

Source across, target down, from white to dark. The same trace gives the same bytes: no dates, no random names. Each panel
becomes a block that knows its size in inches and draws itself at a place on the page.

Legend: R rows, C columns of a panel.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, Literal, Protocol

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from numpy import ndarray
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.storage import write_bytes
from saccade.trace.axes import WHOLE, Axis, Frames, Grid, Positions, Sentences, Tokens
from saccade.trace.maps import Trace
from saccade.views.colours import needs_white_text, scale
from saccade.views.document import Document
from saccade.views.figure.fonts import Typeface
from saccade.views.figure.page import HAIRLINE, INK, SMALL, TEXT, THIN, UNKNOWN, Labels, Page, colour_map, is_spelled
from saccade.views.panels import Limits, Panel, is_ruled, panels
from saccade.views.picture import seen_at, shrunk, under_veil
from saccade.views.timeline import Timeline

CELLS_WITH_NUMBERS = 12
MOST_PICTURES = 40
LINE, STRIP, SPECTROGRAM, SYMBOLS = 0.22, 0.28, 0.55, 0.16  # inches
MOST_SEGMENTS = 1000
SHARPEST = 480  # pixels along the longer side of an image
BAR, RED = 0.5, "#c8382f"  # the bar of a sentence: inches, and its colour
BLUE, NAMED = "#3b6fb6", 8  # what lowers a logit, and how many codes are named in a picture
Place = Literal["alone", "corner", "top", "left", "inner"]


class Block(Protocol):
    """A part of a picture; sizes in inches."""

    width: float
    height: float
    left: float  # from its left side to the map in it
    notes: tuple[str, ...]
    scaled: bool  # whether its colours are those of the scale

    def draw(self, page: Page, left: float, top: float) -> None: ...


class Heatmap:
    """Source across the top, target down the left; under a map that stands alone the mass that each column received.

    In a group of maps over the same axes only those at the top and left have labels: ``place`` is this one's place.
    """

    scaled = True

    def __init__(
        self, panel: Panel, typeface: Typeface, cell: tuple[float, float], greatest: float, place: Place
    ) -> None:
        self.panel, self.limit, self.cell, self.alone = panel, greatest or 1.0, cell, place == "alone"
        self.map_width, self.map_height = len(panel.columns) * cell[0], len(panel.rows) * cell[1]
        largest = TEXT if self.alone else SMALL
        topmost, leftmost = place in ("alone", "corner", "top"), place in ("alone", "corner", "left")
        self.top_labels = Labels(panel.columns, cell[0], typeface, "top", largest) if topmost else None
        self.left_labels = Labels(panel.rows, cell[1], typeface, "left", largest) if leftmost else None
        heard = isinstance(panel.columns, Frames) and panel.columns.spectrogram is not None
        self.spectrogram = SPECTROGRAM if heard and self.top_labels else 0.0
        self.strip = STRIP if self.alone and len(panel.rows) > 1 and panel.block == (1, 1) else 0.0
        self.rest = 0.0 if panel.residual is None else max(cell[0], 0.12)
        self.left = self.left_labels.depth if self.left_labels else 0.0
        self.known = _known(panel.columns, self.map_width) if self.top_labels else []
        self.symbols = SYMBOLS if self.known else 0.0
        self.above = (self.top_labels.depth if self.top_labels else 0.0) + self.symbols + self.spectrogram
        overhang = self.top_labels.overhang if self.top_labels else 0.0
        self.width = self.left + self.map_width + max(1.6 * self.rest, overhang)
        self.height = self.above + self.map_height + (self.strip + 0.06 if self.strip else 0.0)
        self.notes = self._notes()

    def _notes(self) -> tuple[str, ...]:
        notes = [labels.note for labels in (self.top_labels, self.left_labels) if labels]
        if self.strip:
            notes.append("Σ mass received")
        if self.panel.block != (1, 1):
            notes.append(f"a cell is the greatest of {self.panel.block[0]} × {self.panel.block[1]} weights")
        if self.rest:
            notes.append("hatched: the mass that was not kept")
        if self.known:
            notes.append("red lines: true boundaries")
        if np.isnan(_weights(self.panel)).any():
            notes.append("shaded: not a number")
        return tuple(dict.fromkeys(note for note in notes if note))

    def draw(self, page: Page, left: float, top: float) -> None:
        left, top = left + self.left, top + self.above
        right, bottom = left + self.map_width, top + self.map_height
        self._mesh(page, left, top)
        page.line(left, top, right, top)
        page.line(left, top, left, bottom)
        if self.spectrogram:
            self._sound(page, left, top - self.spectrogram)
        if self.known:
            self._boundaries(page, left, top - self.spectrogram, bottom)
        if self.top_labels:
            self.top_labels.draw(page, left, top - self.spectrogram - self.symbols)
        if self.left_labels:
            self.left_labels.draw(page, top, left)
        if self.rest:
            self._rest(page, right + 0.5 * self.rest, top)
        if self.strip:
            self._received(page, left, bottom + 0.06)

    def _mesh(self, page: Page, left: float, top: float) -> None:
        weights = np.ma.masked_invalid(_weights(self.panel))
        R, C = weights.shape
        place = (left, top, self.map_width, self.map_height)
        # Hairlines between cells, unless cells are too small for them.
        draw = page.mesh if min(self.cell) > 0.07 and R * C <= 20_000 else page.image
        draw(*place, weights, cmap=colour_map(), vmin=0.0, vmax=self.limit)
        if self.alone and max(R, C) <= CELLS_WITH_NUMBERS and self.cell[0] >= 0.3:
            self._numbers(page, left, top, weights.filled(0.0))

    def _numbers(self, page: Page, left: float, top: float, weights: ndarray) -> None:
        for (row, column), weight in np.ndenumerate(weights):
            strength = float(weight) / self.limit
            if weight >= 0.05 or strength >= 0.3:
                middle = (left + (column + 0.5) * self.cell[0], top + (row + 0.5) * self.cell[1])
                number, letters = f"{weight:.2f}".removeprefix("0"), _letters(_colour(strength))
                page.text(*middle, number, SMALL, letters, ha="center", va="center_baseline")

    def _received(self, page: Page, left: float, top: float) -> None:
        received = np.nan_to_num(_weights(self.panel), nan=0.0, posinf=0.0).sum(0)
        heights = received / (received.max(initial=0.0) or 1.0) * self.strip
        page.bars(left, top, self.cell[0], -heights, HAIRLINE)
        page.text(left - 0.06, top + 0.07, "Σ", ha="right")

    def _rest(self, page: Page, left: float, top: float) -> None:
        residual = np.zeros(0) if self.panel.residual is None else self.panel.residual
        greys = 1 - 0.6 * (np.nan_to_num(residual, nan=0.0, posinf=0.0) / self.limit).clip(0, 1)
        place = (left, top, self.rest, self.map_height)
        page.image(*place, greys[:, None], cmap="gray", vmin=0.0, vmax=1.0)
        page.box(*place, fill=False, edgecolor="white", hatch="////////")

    def _boundaries(self, page: Page, left: float, top: float, bottom: float) -> None:
        """The true segments: their symbols above the spectrogram, their ends as lines over it and the map."""
        for symbol, start, end in self.known:
            for across in {start, end}:
                page.box(left + across, top, 0.006, bottom - top, facecolor=RED, alpha=0.55)
            text, relative = page.typeface.write(symbol)
            if symbol.strip() and page.typeface.width(text, SMALL * relative) <= end - start:
                page.text(left + (start + end) / 2, top - SYMBOLS / 2, text, SMALL * relative, INK, ha="center")

    def _sound(self, page: Page, left: float, top: float) -> None:
        axis = self.panel.columns
        if isinstance(axis, Frames) and axis.spectrogram is not None:
            picture = axis.spectrogram.detach().float().cpu().numpy()
            page.image(left, top, self.map_width, self.spectrogram - 0.05, picture[::-1], cmap="Greys")


def _known(axis: Axis, width: float) -> list[tuple[str, float, float]]:
    """The true segments of a sound that lie in an axis: symbol, left and right in inches from its first frame."""
    if not isinstance(axis, Frames) or not axis.seconds or not len(axis):
        return []
    inches, total = width / (len(axis) * axis.seconds), len(axis) * axis.seconds
    within = [(symbol, start - axis.start, end - axis.start) for symbol, start, end in axis.segments]
    shown = [(symbol, max(0.0, start), min(total, end)) for symbol, start, end in within if end > 0 and start < total]
    return [(symbol[:24], start * inches, end * inches) for symbol, start, end in shown[:MOST_SEGMENTS]]


@dataclass(frozen=True)
class _ShadedWord:
    """A piece of text at a place of a block, in inches from its top left corner."""

    left: float
    top: float
    width: float
    text: str
    size: float
    strength: float

    def draw(self, page: Page, left: float, top: float) -> None:
        colour, x, y = _colour(self.strength), left + self.left, top + self.top
        page.box(x, y + 0.02, self.width, LINE - 0.04, facecolor=colour)
        middle = (x + self.width / 2, y + LINE / 2)
        page.text(*middle, self.text, self.size, _letters(colour), ha="center", va="center_baseline")


class Reading:
    """One query over a text: the shaded text."""

    notes: tuple[str, ...] = ()
    left, scaled = 0.0, True

    def __init__(self, panel: Panel, typeface: Typeface, greatest: float, width: float = 6.5) -> None:
        spelled = is_spelled(panel.columns)
        self.words: list[_ShadedWord] = []
        across, row = 0.0, 0
        for label, weight in zip(panel.columns.labels, _weights(panel)[0], strict=True):
            for text, size, wide in _pieces(label, spelled, typeface, width):
                if across and across + wide > width:
                    across, row = 0.0, row + 1
                self.words.append(_ShadedWord(across, row * LINE, wide, text, size, float(weight) / (greatest or 1.0)))
                across += wide
            across += 0.0 if spelled else 0.05
        self.height = (row + 1) * LINE
        self.width = width if row else max(across, 2.0)

    def draw(self, page: Page, left: float, top: float) -> None:
        for word in self.words:
            word.draw(page, left, top)


class Prose:
    """A document: its sentences below one another, each after a bar of its weight, with shaded words."""

    scaled = True

    def __init__(
        self, panel: Panel, document: Document, typeface: Typeface, greatest: float, width: float = 6.2
    ) -> None:
        self.bars: list[tuple[float, float]] = []  # how far down, the weight
        self.words: list[_ShadedWord] = []
        self.left = 0.0 if document.sentences is None else BAR + 0.4
        shares, down = _weights(panel)[0] / (greatest or 1.0), 0.0
        for sentence, words in document.lines():
            if document.sentences is not None:
                self.bars.append((down, float(document.sentences[sentence])))
            across = 0.0
            for word in words:
                before = 0.05 if across and document.spaced(word) else 0.0
                for text, size, wide in _pieces(document.words.labels[word], False, typeface, width):
                    if across and across + before + wide > width:
                        across, down, before = 0.0, down + LINE, 0.0
                    self.words.append(_ShadedWord(across + before, down, wide, text, size, float(shares[word])))
                    across, before = across + before + wide, 0.0
            down += LINE + 0.05
        self.width, self.height = self.left + width, down
        shade = "a word: √(weight of its sentence) · its weight in it"
        alone = "a word: its weight in its sentence"
        both = ("red: the weight of a sentence", shade)
        self.notes: tuple[str, ...] = (alone,) if document.sentences is None else both

    def draw(self, page: Page, left: float, top: float) -> None:
        longest = max((weight for _, weight in self.bars if np.isfinite(weight)), default=0.0) or 1.0
        for down, weight in self.bars:
            known = weight if np.isfinite(weight) else 0.0
            page.box(left, top + down + 0.05, BAR * known / longest, LINE - 0.1, facecolor=RED)
            number = f"{weight:.2f}" if np.isfinite(weight) else "?"
            page.text(left + self.left - 0.08, top + down + LINE / 2, number, ha="right", va="center_baseline")
        for word in self.words:
            word.draw(page, left + self.left, top)


def _pieces(label: str, spelled: bool, typeface: Typeface, width: float) -> list[tuple[str, float, float]]:
    """A label as pieces that fit on a line: (text, size, width). Sentences break between words."""
    parts = [label] if len(label) <= 24 else [f"{word} " for word in label.split()]
    pieces = []
    for part in parts:
        text, relative = (" ", 1.0) if spelled and label == " " else typeface.write(part.strip() or part)
        wide = typeface.width(text, TEXT * relative)
        while wide > width and len(text) > 1:
            text = text[: len(text) * 3 // 4] + "…"
            wide = typeface.width(text, TEXT * relative)
        pieces.append((text, TEXT * relative, wide + (0.0 if spelled else 0.05)))
    return pieces


class Pictures:
    """Patches of an image: the image, then for each query the image under a veil where it did not look.

    Soft attention has a halo around what it looked at, hard attention the patch that it read.
    """

    left, side, gap, head = 0.0, 1.3, 0.15, 0.34

    def __init__(self, panel: Panel, typeface: Typeface, greatest: float, width: float = 8.0) -> None:
        grid = panel.columns
        self.H, self.W = (grid.height, grid.width) if isinstance(grid, Grid) else (1, len(grid))
        self.box = grid.box if isinstance(grid, Grid) else WHOLE
        self.image = _sharp(grid.image) if isinstance(grid, Grid) and grid.image is not None else None
        self.scaled = self.image is None
        self.labels = [typeface.write(label[:24]) for label in panel.rows.labels[:MOST_PICTURES]]
        self.gates = _gates(panel.gate, len(self.labels))
        self.ends = [typeface.width(text, TEXT * relative) + 0.06 for text, relative in self.labels]
        self.chosen = panel.chosen
        self.strengths = np.nan_to_num(_weights(panel) / (greatest or 1.0), nan=0.0, posinf=1.0).clip(0, 1)
        shape = self.H / max(1, self.W) if self.image is None else self.image.shape[0] / self.image.shape[1]
        self.tall = min(max(self.side * shape, 0.4), 2.6)
        self.first = 0 if self.image is None else 1  # the image alone comes first
        count = len(self.labels) + self.first
        self.across = max(1, min(count, int(width / (self.side + self.gap))))
        self.width = self.across * (self.side + self.gap) - self.gap
        self.height = ceil(count / self.across) * (self.tall + self.head) - 0.1
        notes = [] if self.scaled else [self._scale_note(greatest)]
        if any(self.gates):
            notes.append("β: how much of what was seen was let in")
        if len(panel.rows) > len(self.labels):
            notes.append(f"the first {len(self.labels)} of {len(panel.rows)}")
        self.notes = tuple(notes)

    def _scale_note(self, greatest: float) -> str:
        if self.chosen is not None:
            return "clear: the patch that was read"
        return f"faded where the weight is low; not faded: {greatest:.2f}"

    def draw(self, page: Page, left: float, top: float) -> None:
        if self.image is not None:
            self._show(page, (left, top + 0.22), self.image)
        for number, (text, relative) in enumerate(self.labels):
            x = left + (number + self.first) % self.across * (self.side + self.gap)
            y = top + (number + self.first) // self.across * (self.tall + self.head)
            page.text(x, y + 0.09, text, TEXT * relative, INK, va="center_baseline")
            if self.gates[number]:
                page.text(x + self.ends[number], y + 0.09, self.gates[number], SMALL, va="center_baseline")
            strengths = self.strengths[number].reshape(self.H, self.W)
            if self.image is None:
                self._show(page, (x, y + 0.22), strengths, cmap=colour_map(), vmin=0, vmax=1)
            else:
                chosen = None if self.chosen is None else float(self.chosen[number])
                seen = seen_at(strengths, self.image.shape[:2], self.box, chosen=chosen)
                self._show(page, (x, y + 0.22), under_veil(self.image, seen, (1.0, 1.0, 1.0)))

    def _show(self, page: Page, corner: tuple[float, float], pixels: ndarray, **how: Any) -> None:
        place = (*corner, self.side, self.tall)
        page.image(*place, pixels, **how)
        # A hairline keeps the edges where the picture fades into the page.
        page.box(*place, fill=False, edgecolor=HAIRLINE, linewidth=THIN)


def _sharp(image: Tensor) -> ndarray:
    """The pixels of an image, from 0 to 1, neither more than a picture of the page has nor so few that a halo has edges."""
    pixels = shrunk(np.asarray(image.detach().cpu().numpy()), SHARPEST)
    times = max(1, SHARPEST // 2 // max(pixels.shape[:2]))
    return np.asarray(pixels.repeat(times, 0).repeat(times, 1) / 255)


def _gates(gate: ndarray | None, count: int) -> list[str]:
    if gate is None:
        return [""] * count
    return [f"β {value:.2f}" if np.isfinite(value) else "" for value in gate[:count]]


class Statistics:
    """Statistics of a map without weights: the weight that each key received, the entropy of each query."""

    left, tall, scaled = 0.42, 0.9, False

    def __init__(self, panel: Panel, typeface: Typeface) -> None:
        query, key = panel.names
        self.series: list[tuple[str, Axis, ndarray]] = [
            (f"mass that each position of {key} received", panel.columns, panel.statistics["received"]),
            (f"entropy of each position of {query}, in nats", panel.rows, panel.statistics["entropy"]),
        ]
        axes = (axis for _, axis, _ in self.series)
        self.labels = [Labels(axis, min(0.2, 9.0 / max(1, len(axis))), typeface, "bottom") for axis in axes]
        self.width = self.left + max(3.6, *(labels.count * labels.cell for labels in self.labels))
        self.height = sum(self.tall + labels.depth + 0.5 for labels in self.labels) - 0.2
        self.notes = tuple(dict.fromkeys(labels.note for labels in self.labels if labels.note))

    def draw(self, page: Page, left: float, top: float) -> None:
        for (what, _, values), labels in zip(self.series, self.labels, strict=True):
            page.text(left, top + 0.08, page.typeface.write(what)[0])
            width, edge, bottom = labels.count * labels.cell, left + self.left, top + 0.28 + self.tall
            known = np.nan_to_num(np.asarray(values, dtype=float), nan=0.0, posinf=0.0)
            highest = float(known.max(initial=0.0)) or 1.0
            page.bars(edge, bottom, labels.cell, known / highest * self.tall, _colour(0.6))
            page.line(edge, bottom, edge + width, bottom)
            page.text(edge - 0.06, bottom, "0", ha="right")
            page.text(edge - 0.06, top + 0.28, f"{highest:.2f}", ha="right")
            labels.draw(page, edge, bottom)
            top = bottom + labels.depth + 0.22


class Record:
    """Visits from left to right: the risk after each as a line, and under it a bar per code, up where it raises the logit."""

    left, curve, tall, scaled = 0.5, 0.7, 1.9, False

    def __init__(self, timeline: Timeline, typeface: Typeface) -> None:
        self.timeline, count = timeline, len(timeline.visits)
        counts = [len(timeline.inside(visit)) for visit in range(count)]
        self.cell = min(0.9, max(0.16, 9.0 / max(1, count)))
        self.bar = self.cell * 0.84 / max(1, *counts) if count else 0.1
        times = Positions(tuple(timeline.time(visit) for visit in range(count)))
        self.labels = Labels(times, self.cell, typeface, "bottom", SMALL)
        values = np.nan_to_num(timeline.contributions, nan=0.0, posinf=0.0, neginf=0.0)
        self.high, self.low = max(0.0, float(values.max(initial=0.0))), min(0.0, float(values.min(initial=0.0)))
        self.span = (self.high - self.low) or 1.0
        self.above = self.curve + 0.3 if timeline.risk is not None else 0.1
        self.width = self.left + max(3.6, count * self.cell) + 0.9
        self.height = self.above + self.tall + 0.2 + self.labels.depth
        self.notes: tuple[str, ...] = (
            *(("red: the risk after each visit",) if timeline.risk is not None else ()),
            "a bar: what a code adds to the logit",
        )

    def draw(self, page: Page, left: float, top: float) -> None:
        edge, base = left + self.left, top + self.above + 0.1 + self.tall * self.high / self.span
        right = edge + len(self.timeline.visits) * self.cell
        self._risk(page, edge, top, right)
        page.line(edge, base, right, base)
        page.text(edge - 0.06, base, "0", ha="right")
        for value, lowest in ((self.high, False), (self.low, True)):
            if abs(self._inches(value)) > 0.12:  # nearer, it would stand on the 0
                page.text(edge - 0.06, base - self._inches(value) + 0.02 * lowest, f"{value:+.2f}", ha="right")
        named = self.timeline.strongest(NAMED)
        for visit in range(len(self.timeline.visits)):
            places = self.timeline.inside(visit)
            start = edge + visit * self.cell + (self.cell - len(places) * self.bar) / 2
            for number, place in enumerate(places):
                value = float(np.nan_to_num(self.timeline.contributions[place], posinf=0.0, neginf=0.0))
                colour, tall = (RED if value > 0 else BLUE), self._inches(value)
                page.box(start + number * self.bar, base - max(tall, 0.0), 0.86 * self.bar, abs(tall), facecolor=colour)
                if place in named and abs(tall) > 0.08:
                    label = page.typeface.write(self.timeline.codes.labels[place][:24])[0]
                    where = base - tall + (-0.07 if value > 0 else 0.08)
                    page.text(start + number * self.bar, where, label, SMALL, INK)
        self.labels.draw(page, edge, top + self.above + self.tall + 0.2)

    def _inches(self, value: float) -> float:
        return self.tall * value / self.span

    def _risk(self, page: Page, edge: float, top: float, right: float) -> None:
        if self.timeline.risk is None:
            return
        bottom = top + 0.1 + self.curve
        for share in (0.0, 1.0):
            page.line(edge, bottom - share * self.curve, right, bottom - share * self.curve)
            page.text(edge - 0.06, bottom - share * self.curve, f"{share:g}", ha="right")
        across = [edge + (visit + 0.5) * self.cell for visit in range(len(self.timeline.risk))]
        page.curve(across, (bottom - self.timeline.risk * self.curve).tolist(), RED)


def _weights(panel: Panel) -> ndarray:
    return np.zeros((len(panel.rows), len(panel.columns))) if panel.weights is None else panel.weights


def _colour(strength: float) -> str | tuple[float, float, float]:
    if not np.isfinite(strength):
        return UNKNOWN
    red, green, blue = scale(dark=False)[round(min(max(strength, 0.0), 1.0) * 255)]
    return float(red), float(green), float(blue)


def _letters(colour: str | tuple[float, float, float]) -> str:
    return "white" if not isinstance(colour, str) and needs_white_text(colour) else INK


MARGIN = 0.25
GAP = 0.22
SCALE = 1.6
LARGEST = 11.0  # a map's longer side; all in inches
MOST_LABELLED_PANELS = 16
FEW = 15  # tokens on a side that still find room for labels on any number of panels
LIMITS = Limits(maps=256, labelled=(1000, 1000), ruled=(1000, 1000))
# The picture looks the same on every machine; text stays text in SVG and PDF.
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "text.parse_math": False,
    "text.usetex": False,
    "hatch.linewidth": 0.5,
    "hatch.color": "white",
    "svg.fonttype": "none",
    "svg.hashsalt": "saccade",
    "pdf.fonttype": 42,
    "figure.dpi": 100,
}
# Metadata such as dates would change with every run.
METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
# matplotlib's settings are global: one picture at a time changes them.
_SETTINGS = threading.RLock()


@contextmanager
def settings() -> Iterator[None]:
    """Apply our style for the time of one drawing."""
    with _SETTINGS, matplotlib.style.context(["default", STYLE]):
        yield


def picture_format(path: str | Path) -> str:
    """The picture format of a file name (``png``, ``svg`` or ``pdf``); raises for other endings."""
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in METADATA:
        found = Path(path).suffix or "no ending"
        raise SaccadeError(f"{path}: expected a picture ending in .png, .svg or .pdf, found {found!r}")
    return ending


def write_picture(make: Callable[[], Figure], path: str | Path, *, dpi: int = 160) -> None:
    """Write the figure that ``make`` draws, whole or not at all; the same figure gives the same bytes."""
    ending = picture_format(path)
    file = io.BytesIO()
    with settings():
        make().savefig(file, format=ending, dpi=dpi, metadata=METADATA[ending])
    content = file.getvalue()
    if ending == "svg":
        # The viewer may have other fonts: fall back on any sans-serif one.
        content = re.sub(rb'(<text style="[^"]*font-family: [^";]*)', rb"\1, sans-serif", content)
    write_bytes(path, content)


def save(trace: Trace, path: str | Path, *, title: str | None = None, dpi: int = 160) -> None:
    """Write the trace as ``.png``, ``.svg`` or ``.pdf``, whole or not at all."""
    picture_format(path)
    if not 10 <= dpi <= 1200:
        raise SaccadeError(f"dpi must be between 10 and 1200: got {dpi}")
    write_picture(lambda: draw(trace, title=title), path, dpi=dpi)


def draw(trace: Trace, *, title: str | None = None) -> Figure:
    """The trace as a matplotlib figure, which the caller may change."""
    drawn = panels(trace, LIMITS)
    heading = title if title is not None else _title(trace, drawn)
    subtitle = _subtitle(trace, drawn) if title is None else ""
    axes = [axis for panel in drawn for axis in (panel.rows, panel.columns)]
    labels = [label for axis in axes for label in axis.labels]
    labels += [symbol for axis in axes if isinstance(axis, Frames) for symbol, _, _ in axis.segments[:MOST_SEGMENTS]]
    names = [name for panel in drawn for name in (panel.title, *panel.names)]
    with settings():
        typeface = Typeface([*labels, *names, heading, subtitle, "Σ↓→·×…"])
        return _page(drawn, typeface, heading, subtitle)


def _title(trace: Trace, drawn: Sequence[Panel]) -> str:
    model = trace.about.get("model")
    sites = list(dict.fromkeys(panel.site for panel in drawn))
    parts = [model] if isinstance(model, str) else []
    if len(drawn) == 1:
        parts.append(drawn[0].title)
    elif len(sites) == 1:
        parts.append(sites[0])
    if any(len(panel.heads) > 1 for panel in drawn):
        parts.append(f"{len(trace.maps)} maps, the mean over the heads of each site")
    return " · ".join(parts)


def _subtitle(trace: Trace, drawn: Sequence[Panel]) -> str:
    """The input and the output, if they are texts; without the input if a document is drawn."""
    words = [trace.about.get(name) for name in ("input", "output")]
    read, *rest = [" ".join(word.split()) for word in words if isinstance(word, str)] or [""]
    shown = any(panel.document is not None for panel in drawn) and bool(rest)
    return " → ".join(["" if shown else read, *rest]).strip()


# Which block a panel becomes ----------------------------------------------------------------------------------------


def _blocks(drawn: Sequence[Panel], typeface: Typeface, greatest: float) -> tuple[list[Block], int]:
    """A block per panel, and how many blocks are side by side."""
    count = len(drawn)
    if count == 1:
        return [_block(drawn[0], typeface, greatest, 1, "alone")], 1
    # The arrangement depends on the sizes, and which blocks have labels depends on the arrangement.
    labelled = _labelled(drawn)
    blocks = [_block(panel, typeface, greatest, count, "corner" if labelled else "inner") for panel in drawn]
    columns = _columns(blocks, drawn)
    rows_alike = all(_alike(panel, drawn[number - number % columns]) for number, panel in enumerate(drawn))
    if labelled and rows_alike and (_by_site(drawn) or all(_alike(panel, drawn[0]) for panel in drawn)):
        first_over = [number < columns or not _alike(drawn[number], drawn[number - columns]) for number in range(count)]
        places = [_PLACES[first_over[number], number % columns == 0] for number in range(count)]
        blocks = [_block(panel, typeface, greatest, count, place) for panel, place in zip(drawn, places, strict=True)]
    return blocks, columns


def _alike(one: Panel, other: Panel) -> bool:
    return (one.rows, one.columns) == (other.rows, other.columns)


def _labelled(drawn: Sequence[Panel]) -> bool:
    """Whether there is room for labels: always on few panels, on many only if each has few tokens."""
    few = all(len(axis) <= FEW for panel in drawn for axis in (panel.rows, panel.columns))
    return few or len(drawn) <= MOST_LABELLED_PANELS


_PLACES: dict[tuple[bool, bool], Place] = {
    (True, True): "corner", (True, False): "top", (False, True): "left", (False, False): "inner",
}  # fmt: skip


def _block(panel: Panel, typeface: Typeface, greatest: float, count: int, place: Place) -> Block:
    if panel.document is not None:
        return Prose(panel, panel.document, typeface, greatest)
    if panel.timeline is not None:
        return Record(panel.timeline, typeface)
    if panel.statistics:
        return Statistics(panel, typeface)
    if isinstance(panel.columns, Grid) and not panel.is_empty:
        return Pictures(panel, typeface, greatest)
    if len(panel.rows) == 1 and len(panel.columns) > 1 and isinstance(panel.columns, Tokens | Sentences):
        return Reading(panel, typeface, greatest)
    return Heatmap(panel, typeface, _cell(panel, count), greatest, place)


def _cell(panel: Panel, count: int) -> tuple[float, float]:
    """The size of a cell: square for characters, wider for words, smaller for many."""
    R, C = max(1, len(panel.rows)), max(1, len(panel.columns))
    if count > MOST_LABELLED_PANELS:
        # Equal squares; cells with labels are large enough to read them.
        least = 0.09 if max(R, C) <= FEW else 0.0
        return max(least, 0.9 / C), max(least, 0.9 / R)
    wide, tall = (0.2, 0.2) if is_spelled(panel.columns) else (0.36, 0.27)
    if is_ruled(panel.columns):
        wide = min(0.2, max(0.1, 5.0 / C))
    room = LARGEST / (1 if count == 1 else min(count, 4))
    shrink = 1.0 if count == 1 else 0.6
    return min(wide * shrink, room / C), min(tall * shrink, room / R)


def _columns(blocks: Sequence[Block], drawn: Sequence[Panel]) -> int:
    """How many panels are side by side: the heads of a layer in a row, otherwise closest to the shape of a page."""
    if _by_site(drawn):
        return len(drawn) // len({panel.site for panel in drawn})
    wide, tall = max(block.width for block in blocks), max(block.height for block in blocks)

    def odd(columns: int) -> float:
        rows = ceil(len(blocks) / columns)
        return float(abs(np.log(columns * wide / (rows * tall) / 1.4)) + 0.15 * (rows * columns - len(blocks)))

    return min(range(1, len(blocks) + 1), key=odd)


def _by_site(drawn: Sequence[Panel]) -> bool:
    """Whether there are several sites, each with the same number of heads, one site after the other."""
    sites = [panel.site for panel in drawn]
    heads = len(sites) // max(1, len(set(sites)))
    return 1 < len(set(sites)) < len(sites) and sites == [site for site in dict.fromkeys(sites) for _ in range(heads)]


# The page -----------------------------------------------------------------------------------------------------------


def _page(drawn: Sequence[Panel], typeface: Typeface, heading: str, subtitle: str = "") -> Figure:
    # One scale for all panels, so that heads can be compared.
    greatest = max((panel.strong_end for panel in drawn), default=0.0)
    blocks, columns = _blocks(drawn, typeface, greatest) if drawn else ([], 1)
    rows = [range(first, min(first + columns, len(blocks))) for first in range(0, len(blocks), columns)]
    sited, titled = 0.2 if _by_site(drawn) else 0.0, 0.2 if len(blocks) > 1 else 0.0
    names = [_name(drawn, number) if titled else "" for number in range(len(drawn))]
    taken = [
        max(block.width, block.left + typeface.width(typeface.write(name)[0], SMALL) if name else 0.0)
        for block, name in zip(blocks, names, strict=True)
    ]
    widths = [max(taken[column::columns]) for column in range(min(columns, len(blocks)))]
    heights = [max(blocks[number].height for number in row) + titled + sited for row in rows]
    width = max(sum(widths) + GAP * (len(widths) - 1), 3.2)
    scaled = any(block.scaled and not panel.is_empty for block, panel in zip(blocks, drawn, strict=True))
    legend = _wrapped(_legend_parts(blocks, drawn), typeface, width, SCALE if scaled else 0.0)
    above = (0.38 if heading else 0.0) + (0.2 if subtitle else 0.0)
    height = above + sum(heights) + GAP * max(0, len(rows) - 1) + 0.16 + 0.19 * len(legend)
    page = Page(width + 2 * MARGIN, height + 2 * MARGIN, typeface)
    if heading:
        page.text(MARGIN, MARGIN + 0.1, _fitted(typeface, heading, 10.0, width), 10.0, INK)
    if subtitle:
        page.text(MARGIN, MARGIN + above - 0.24, _fitted(typeface, subtitle, SMALL, width), SMALL, INK)
    top = MARGIN + above
    for row, tall in zip(rows, heights, strict=True):
        if sited:
            page.text(MARGIN, top + 0.06, _fitted(typeface, drawn[row[0]].site, SMALL, width), SMALL, INK)
        left = MARGIN
        for number, wide in zip(row, widths, strict=False):
            _place(page, blocks[number], drawn[number], left, top + sited, names[number], wide if titled else 0.0)
            left += wide + GAP
        top += tall + GAP
    _legend(page, legend, top - GAP + 0.26, greatest if scaled else None)
    return page.figure


def _name(drawn: Sequence[Panel], number: int) -> str:
    """The name of a panel: only its head if its site is written above it or is the only one."""
    panel = drawn[number]
    known = _by_site(drawn) or len({each.site for each in drawn}) == 1
    return f"head {panel.heads[0]}" if known and len(panel.heads) == 1 and panel.heads[0] is not None else panel.title


def _place(page: Page, block: Block, panel: Panel, left: float, top: float, name: str, named: float) -> None:
    """Draw a block, below its name if ``named``, the width for it, is not 0."""
    if named:
        page.text(left + block.left, top + 0.06, _fitted(page.typeface, name, SMALL, named - block.left))
        top += 0.2
    if panel.is_empty:
        empty = panel.names[1] if len(panel.rows) else panel.names[0]
        page.text(left, top + 0.08, page.typeface.write(f"nothing to draw: {empty} has no positions")[0])
    else:
        block.draw(page, left, top)


def _legend_parts(blocks: Sequence[Block], drawn: Sequence[Panel]) -> list[str]:
    if not drawn:
        return ["this trace holds no attention maps"]
    maps = (panel for block, panel in zip(blocks, drawn, strict=True) if isinstance(block, Heatmap))
    names = dict.fromkeys(f"{panel.names[0]} ↓  {panel.names[1]} →" for panel in maps if not panel.is_empty)
    bare = [] if _labelled(drawn) else ["for one head with labels: save(…, site=…, head=…) or view --site --head"]
    return [*list(names)[:3], *dict.fromkeys(note for block in blocks for note in block.notes), *bare]


def _wrapped(parts: Sequence[str], typeface: Typeface, width: float, scale: float) -> list[str]:
    """The legend in lines; the first one leaves room for the scale."""
    lines = [""]
    for part in (typeface.write(part)[0] for part in parts):
        longer = f"{lines[-1]}    {part}" if lines[-1] else part
        if typeface.width(longer, SMALL) <= width - (scale if len(lines) == 1 else 0.0):
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


def _legend(page: Page, lines: Sequence[str], top: float, greatest: float | None) -> None:
    left = MARGIN
    if greatest is not None:
        page.text(left, top, "0")
        page.image(left + 0.12, top - 0.035, 0.9, 0.07, np.linspace(0, 1, 256)[None], cmap=colour_map())
        page.text(left + 1.08, top, f"{greatest:.2f}" if greatest >= 0.1 or greatest == 0 else f"{greatest:.2g}")
        left += SCALE
    for number, line in enumerate(lines):
        page.text(left if number == 0 else MARGIN, top + 0.19 * number, line)


def _fitted(typeface: Typeface, text: str, size: float, width: float) -> str:
    """Text shortened with … to ``width`` inches."""
    shown, _ = typeface.write(text)
    if typeface.width(shown, size) <= width:
        return shown
    shortest, longest = 0, len(shown)
    while longest - shortest > 1:
        middle = (shortest + longest) // 2
        fits = typeface.width(shown[:middle] + "…", size) <= width
        shortest, longest = (middle, longest) if fits else (shortest, middle)
    return shown[:shortest].rstrip() + "…"
