"""How the columns of a heatmap are named in a terminal: characters or words side by side, words stacked letter by
letter, a ruler, or numbers with a legend, whichever reads best in the room there is."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from saccade.trace.axes import Axis, Tokens
from saccade.views.ink import Ink
from saccade.views.labels import DOTTED_CIRCLE, MARKER, MARKERS, is_character, is_complex, is_marker, words_of
from saccade.views.panels import is_ruled

TALLEST = 12


@dataclass(frozen=True)
class Columns:
    """``header[i][j]`` is line i of the name of column j, ``widths[j]`` its width; ``gap`` stands between columns."""

    header: tuple[tuple[str, ...], ...]
    widths: tuple[int, ...]
    gap: int = 0
    legend: tuple[str, ...] = ()
    every: int = 1  # panels begin at multiples of this column

    @property
    def numbers(self) -> bool:
        """Whether cells are wide enough to hold their number."""
        return self.gap > 0 and min(self.widths) >= 3

    def width(self, first: int, last: int) -> int:
        return sum(self.widths[first:last]) + self.gap * max(0, last - first - 1)


def name_columns(axis: Axis, ink: Ink, room: int, tail: int) -> Columns:
    """The names that read best in ``room``. Rows end in ``tail`` cells of text, unless numbers in the cells say it."""
    if is_ruled(axis) and len(axis) > 10:
        return _ruled(axis.labels, ink)
    markers = [is_marker(axis, position) for position in range(len(axis))]
    if all(marker or is_character(label) for marker, label in zip(markers, axis.labels, strict=True)) and not all(
        markers
    ):
        characters = _characters(axis, markers, ink)
        if characters is not None:
            return characters
    labels = [ink.label(label) for label in axis.labels]
    words = _words(labels, ink)
    if words.width(0, len(labels)) <= room - (tail if ink.colour == "none" else 0):
        return words
    if isinstance(axis, Tokens) and not any(is_complex(label) for label in labels):
        return _stacked([ink.short(label, TALLEST) for label in labels], ink)
    return _numbered(labels, ink)


def _ruled(labels: Sequence[str], ink: Ink) -> Columns:
    """One cell a column, with every so many columns a number."""
    shown = [ink.label(label) for label in labels]
    every = -(-(max(map(cell_len, shown)) + 1) // 5) * 5
    line = "".join(label.ljust(every) for label in shown[::every])
    return Columns((tuple(line[: len(labels)].ljust(len(labels))),), (1,) * len(labels), every=every)


def _characters(axis: Axis, markers: Sequence[bool], ink: Ink) -> Columns | None:
    """One cell a character, two where one is wide. In ASCII, what needs more than a cell is no single character."""
    glyphs, legend = [], []
    for label, marker in zip(axis.labels, markers, strict=True):
        if marker:
            glyph = ink.own(MARKERS.get(label, MARKER))
            legend.append(f"{glyph} {ink.label(label)}")
        else:
            glyph = ink.label(label)
            if cell_len(glyph) > 2:
                if not ink.unicode:
                    return None
                # An invisible character in one cell; the legend spells it out.
                legend.append(f"{DOTTED_CIRCLE} {glyph}")
                glyph = DOTTED_CIRCLE
        glyphs.append(glyph)
    # Terminals do not agree on whether a spacing mark (a Hindi matra) takes a cell of its own: leave it one.
    spacing = any(unicodedata.category(character) == "Mc" for glyph in glyphs for character in glyph)
    width = 2 if spacing else max(cell_len(glyph) for glyph in glyphs)
    header = tuple(ink.fit(glyph, width) for glyph in glyphs)
    return Columns((header,), (width,) * len(glyphs), legend=tuple(dict.fromkeys(legend)))


def _words(labels: Sequence[str], ink: Ink) -> Columns:
    """Side by side, each column as wide as its word and wide enough for a number."""
    widths = tuple(max(3, cell_len(label)) for label in labels)
    header = tuple(ink.fit(label, width, "centre") for label, width in zip(labels, widths, strict=True))
    return Columns((header,), widths, gap=1)


def _stacked(labels: Sequence[str], ink: Ink) -> Columns:
    """Letter by letter from above, ending at the map."""
    tallest = max(len(label) for label in labels)
    lines = [label.rjust(tallest) for label in labels]
    header = tuple(tuple(ink.fit(line[row], 2) for line in lines) for row in range(tallest))
    return Columns(header, (2,) * len(labels))


def _numbered(labels: Sequence[str], ink: Ink) -> Columns:
    width = max(2, len(str(len(labels))))
    header = tuple(str(number + 1).rjust(width) for number in range(len(labels)))
    legend = tuple(f"{number + 1} {ink.fit(label, min(cell_len(label), 48))}" for number, label in enumerate(labels))
    return Columns((header,), (width,) * len(labels), gap=1, legend=legend)


def split(columns: Columns, axis: Axis, room: int) -> list[tuple[int, int]]:
    """The columns as panels that fit in ``room``: about equally wide, broken between words where one ends near."""
    S = len(columns.widths)
    total = columns.width(0, S)
    target = room if total <= room else min(room, total // -(-total // room) + max(columns.widths) + 4)
    words = words_of(axis)
    panels, first = [], 0
    while first < S:
        last = first + 1
        while last < S and columns.width(first, last + 1) <= target:
            last += 1
        if last < S:
            near = range(last, max(first, last - 8), -1)
            last = next((place for place in near if words[place] != words[place - 1]), last)
            last = last - last % columns.every if last - last % columns.every > first else last
        panels.append((first, last))
        first = last
    return panels
