"""The parts of a picture: each knows its size in inches and draws itself into a place on the page.

Legend: R rows, C columns of a panel.
"""

from __future__ import annotations

from math import ceil
from typing import Literal, Protocol

import numpy as np
from numpy import ndarray

from saccade.trace.axes import Axis, Frames, Grid, Positions
from saccade.views.colours import needs_white_text, scale
from saccade.views.document import Document
from saccade.views.figure.fonts import Typeface
from saccade.views.figure.page import HAIRLINE, INK, SMALL, TEXT, THIN, UNKNOWN, Labels, Page, colour_map, is_spelled
from saccade.views.panels import Panel
from saccade.views.timeline import Timeline

CELLS_WITH_NUMBERS = 12
MOST_PICTURES = 40
STRIP, SPECTROGRAM = 0.28, 0.55  # inches
BAR, RED = 0.5, "#c8382f"  # the bar of a sentence: inches, and its colour
BLUE, NAMED = "#3b6fb6", 8  # what lowers a logit, and how many codes are named in a picture
Place = Literal["alone", "corner", "top", "left", "inner"]


class Block(Protocol):
    width: float
    height: float
    left: float  # from its left side to the map in it
    notes: tuple[str, ...]
    scaled: bool  # whether its colours are those of the scale

    def draw(self, page: Page, left: float, top: float) -> None: ...


class Heatmap:
    """Source across the top, target down the left; under a map that stands alone the mass that each column received.

    Of a group of maps over the same axes only those at its top and left carry labels: ``place`` says which this is.
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
        self.above = (self.top_labels.depth if self.top_labels else 0.0) + self.spectrogram
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
        if self.top_labels:
            self.top_labels.draw(page, left, top - self.spectrogram)
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
        # Hairlines stand between cells until cells are too small for them.
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

    def _sound(self, page: Page, left: float, top: float) -> None:
        axis = self.panel.columns
        if isinstance(axis, Frames) and axis.spectrogram is not None:
            picture = axis.spectrogram.detach().float().cpu().numpy()
            page.image(left, top, self.map_width, self.spectrogram - 0.05, picture[::-1], cmap="Greys")


class Reading:
    """One query over a text: the text itself, shaded."""

    notes: tuple[str, ...] = ()
    left, line, scaled = 0.0, 0.22, True

    def __init__(self, panel: Panel, typeface: Typeface, greatest: float, width: float = 6.5) -> None:
        spelled = is_spelled(panel.columns)
        self.places: list[tuple[float, float, float, str, float, float]] = []
        across, row = 0.0, 0
        for label, weight in zip(panel.columns.labels, _weights(panel)[0], strict=True):
            for text, size, wide in _pieces(label, spelled, typeface, width):
                if across and across + wide > width:
                    across, row = 0.0, row + 1
                self.places.append((across, row * self.line, wide, text, size, float(weight) / (greatest or 1.0)))
                across += wide
            across += 0.0 if spelled else 0.05
        self.height = (row + 1) * self.line
        self.width = width if row else max(across, 2.0)

    def draw(self, page: Page, left: float, top: float) -> None:
        for across, down, wide, text, size, strength in self.places:
            colour = _colour(strength)
            page.box(left + across, top + down + 0.02, wide, self.line - 0.04, facecolor=colour)
            middle = (left + across + wide / 2, top + down + self.line / 2)
            page.text(*middle, text, size, _letters(colour), ha="center", va="center_baseline")


class Prose:
    """A document: its sentences below one another, each behind a bar of its weight, the words on their shades."""

    line, scaled = 0.22, True

    def __init__(
        self, panel: Panel, document: Document, typeface: Typeface, greatest: float, width: float = 6.2
    ) -> None:
        self.bars: list[tuple[float, float]] = []  # how far down, the weight
        self.places: list[tuple[float, float, float, str, float, float]] = []
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
                        across, down, before = 0.0, down + self.line, 0.0
                    self.places.append((across + before, down, wide, text, size, float(shares[word])))
                    across, before = across + before + wide, 0.0
            down += self.line + 0.05
        self.width, self.height = self.left + width, down
        shade = "a word: √(weight of its sentence) · its weight in it"
        alone = "a word: its weight in its sentence"
        both = ("red: the weight of a sentence", shade)
        self.notes: tuple[str, ...] = (alone,) if document.sentences is None else both

    def draw(self, page: Page, left: float, top: float) -> None:
        longest = max((weight for _, weight in self.bars if np.isfinite(weight)), default=0.0) or 1.0
        for down, weight in self.bars:
            known = weight if np.isfinite(weight) else 0.0
            page.box(left, top + down + 0.05, BAR * known / longest, self.line - 0.1, facecolor=RED)
            number = f"{weight:.2f}" if np.isfinite(weight) else "?"
            page.text(left + self.left - 0.08, top + down + self.line / 2, number, ha="right", va="center_baseline")
        for across, down, wide, text, size, strength in self.places:
            colour = _colour(strength)
            x = left + self.left + across
            page.box(x, top + down + 0.02, wide, self.line - 0.04, facecolor=colour)
            middle = (x + wide / 2, top + down + self.line / 2)
            page.text(*middle, text, size, _letters(colour), ha="center", va="center_baseline")


def _pieces(label: str, spelled: bool, typeface: Typeface, width: float) -> list[tuple[str, float, float]]:
    """A label as pieces that fit on a line: (text, size, width). A sentence breaks between its words."""
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
    """Patches of an image: for each query the image, fading into the page where it was not looked at."""

    left, side, gap = 0.0, 1.3, 0.15

    def __init__(self, panel: Panel, typeface: Typeface, greatest: float, width: float = 8.0) -> None:
        grid = panel.columns
        self.H, self.W = (grid.height, grid.width) if isinstance(grid, Grid) else (1, len(grid))
        self.image = grid.image if isinstance(grid, Grid) else None
        self.scaled = self.image is None
        self.labels = [typeface.write(label[:24]) for label in panel.rows.labels[:MOST_PICTURES]]
        self.strengths = np.nan_to_num(_weights(panel) / (greatest or 1.0), nan=0.0, posinf=1.0).clip(0, 1)
        self.tall = min(max(self.side * self.H / max(1, self.W), 0.4), 2.6)
        self.across = max(1, min(len(self.labels), int(width / (self.side + self.gap))))
        self.width = self.across * (self.side + self.gap) - self.gap
        self.height = ceil(len(self.labels) / self.across) * (self.tall + 0.34) - 0.1
        notes = [] if self.scaled else [f"fading where it did not look; in full: {greatest:.2f}"]
        if len(panel.rows) > len(self.labels):
            notes.append(f"the first {len(self.labels)} of {len(panel.rows)}")
        self.notes = tuple(notes)

    def draw(self, page: Page, left: float, top: float) -> None:
        for number, (text, relative) in enumerate(self.labels):
            x = left + number % self.across * (self.side + self.gap)
            y = top + number // self.across * (self.tall + 0.34)
            page.text(x, y + 0.09, text, TEXT * relative, INK, va="center_baseline")
            place = (x, y + 0.22, self.side, self.tall)
            strengths = self.strengths[number].reshape(self.H, self.W)
            if self.image is None:
                page.image(*place, strengths, cmap=colour_map(), vmin=0, vmax=1)
            else:
                page.image(*place, _faded(self.image.float().cpu().numpy() / 255, strengths))
            # Where nothing was seen the page shows; a hairline keeps the picture's edges.
            page.box(*place, fill=False, edgecolor=HAIRLINE, linewidth=THIN)


def _faded(image: ndarray, strengths: ndarray) -> ndarray:
    rows = np.arange(image.shape[0]) * strengths.shape[0] // image.shape[0]
    columns = np.arange(image.shape[1]) * strengths.shape[1] // image.shape[1]
    seen = 0.14 + 0.86 * strengths[rows][:, columns, None]
    return np.asarray(1 - seen + seen * image).clip(0, 1)


class Statistics:
    """What was kept of rows too long to keep: the mass each key received, and the entropy of each query."""

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
            if value:
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
