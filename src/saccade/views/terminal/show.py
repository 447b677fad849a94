"""A trace in the terminal: source across, target down, one cell a weight, from the terminal's background to strong.

What is drawn follows from the axes: an alignment heatmap; small pictures where the keys are patches of an image; the
text itself, shaded, where one query reads it all, and with a bar before each sentence where words lie in sentences; what each
code of a visit contributes, where that is known; bars where only statistics were kept.

Legend: R rows, C columns of a panel.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy import ndarray
from rich.cells import cell_len

from saccade.trace.axes import Axis, Grid, Tokens
from saccade.trace.maps import Trace
from saccade.views import timeline
from saccade.views.document import Document, written
from saccade.views.labels import DOTTED_CIRCLE, MARKER, MARKERS, is_character, is_complex, is_marker, word_at, words_of
from saccade.views.panels import Limits, Panel, is_ruled, panels
from saccade.views.terminal.style import Background, Colour, Ink

MOST_MAPS = 4
MOST_BARS = MOST_PICTURES = 24
MARGIN = "  "
LONGEST_END = 16


def show(trace: Trace) -> None:
    """Draw the trace on standard output, with the colours and characters that it can show."""
    sys.stdout.write(render(trace) + "\n")
    sys.stdout.flush()


def render(
    trace: Trace,
    *,
    width: int | None = None,
    colour: Colour | None = None,
    unicode: bool | None = None,
    background: Background | None = None,
) -> str:
    """The trace as lines of text. What is None is found out about standard output."""
    ink = Ink.of(width, colour, unicode, background)
    drawn = panels(trace, Limits(MOST_MAPS, labelled=(200, 400), ruled=(64, max(10, ink.width - 16))))
    parts = [_heading(trace, ink)]
    if not drawn:
        parts.append(_wrap(["This trace holds no attention maps."], " ", ink))
    if any(len(panel.heads) > 1 for panel in drawn):
        sites = len({panel.site for panel in drawn})
        many = f"{len(trace.maps)} maps at {sites} site{'s' * (sites != 1)}: the mean over the heads of each"
        parts.append(_wrap([many], " ", ink))
    parts += [_draw(panel, ink) for panel in drawn]
    return "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts if part)


def _heading(trace: Trace, ink: Ink) -> list[str]:
    about = trace.about
    lines = []
    if isinstance(about.get("model"), str):
        lines.append(ink.strong(ink.fit(ink.label(about["model"]), ink.width).rstrip()))
    if isinstance(about.get("input"), str) and isinstance(about.get("output"), str):
        arrow = ink.own("→ ")
        read, wrote = (ink.short(ink.label(about[name]), ink.width - 3) for name in ("input", "output"))
        read, wrote = (ink.fit(text, cell_len(text)) for text in (read, wrote))
        together = f"{read} {arrow}{wrote}"
        lines += [together] if cell_len(together) <= ink.width else [read, arrow + wrote]
    return lines


def _draw(panel: Panel, ink: Ink) -> list[str]:
    title = ink.quiet(ink.fit(ink.label(panel.title), ink.width).rstrip())
    query, key = (ink.label(name) for name in panel.names)
    if not len(panel.rows):
        return [title, *_wrap([f"Nothing was asked: {query} has no positions here."], " ", ink)]
    if not len(panel.columns):
        return [title, *_wrap([f"There was nothing to look at: {key} has no positions."], " ", ink)]
    if panel.document is not None:
        return [title, *written(panel.document, ink), "", *_document_legend(panel, panel.document, ink)]
    if panel.timeline is not None:
        return [title, *timeline.written(panel.timeline, ink)]
    if panel.statistics:
        return [title, *_statistics(panel, ink)]
    if isinstance(panel.columns, Grid):
        return [title, *_pictures(panel, ink)]
    if len(panel.rows) == 1 and len(panel.columns) > 1:
        return [title, *_reading(panel, ink)]
    return [title, *_heatmap(panel, ink)]


# The alignment ----------------------------------------------------------------------------------------------------


def _heatmap(panel: Panel, ink: Ink) -> list[str]:
    weights, strengths = _strengths(panel)
    names = [ink.label(label) for label in panel.rows.labels]
    stub = min(max(map(cell_len, names)), max(8, ink.width // 4))
    rest = 0 if panel.residual is None else len(MARGIN) + 1
    room = max(1, ink.width - stub - 1 - rest)
    tail = _longest_end(panel.columns, ink)
    columns = name_columns(panel.columns, ink, room, tail)
    # Numbers in the cells say it already; blocks say it vaguely; and where room is short, the map comes first.
    told = (columns.numbers and ink.colour != "none") or panel.block != (1, 1)
    crowded = room - tail < 24 or room - tail < columns.width(0, len(panel.columns)) <= room
    ends = [MARGIN + _looked_at(panel.columns, row, ink) for row in weights] if not (told or crowded) else []
    pieces = split(columns, panel.columns, room - tail if ends else room)
    lines: list[str] = []
    for first, last in pieces:
        final = last == len(panel.columns)
        for header in columns.header:
            line = (" " * columns.gap).join(header[first:last])
            if line.strip():  # words stacked beside longer ones leave empty lines
                lines.append(" " * (stub + 1) + line + (MARGIN + ink.own("…") if final and rest else ""))
        for row, name in enumerate(names):
            cells = _cells(strengths[row], weights[row], columns, range(first, last), ink)
            cells += [(0.0, MARGIN), (float(strengths[row, -1]), " ")] if final and rest else []
            lines.append(
                f"{ink.fit(name, stub, 'right')} {ink.row(cells)}{ink.quiet(ends[row]) if ends and final else ''}"
            )
        lines += [*(_received(weights, columns, (first, last), stub, ink) if _adds_up(panel, ink) else []), ""]
    return lines + _legend(panel, columns.legend, ink)


def _strengths(panel: Panel) -> tuple[ndarray, ndarray]:
    """The weights [R, C], and weights (and residual, as one column more) over the greatest, between 0 and 1."""
    weights = np.zeros((len(panel.rows), len(panel.columns))) if panel.weights is None else panel.weights
    shown = weights if panel.residual is None else np.concatenate([weights, panel.residual[:, None]], axis=1)
    greatest = panel.greatest
    return weights, shown / greatest if greatest > 0 else np.where(np.isnan(shown), np.nan, 0.0)


def _cells(strengths: ndarray, weights: ndarray, columns: Columns, places: range, ink: Ink) -> list[tuple[float, str]]:
    """The cells of a row; where they are wide enough and coloured, with their number."""
    cells: list[tuple[float, str]] = []
    for place in places:
        text = " " * columns.widths[place]
        if columns.numbers and ink.colour != "none" and np.isfinite(weights[place]) and weights[place] >= 0.095:
            text = f"{weights[place]:.2f}".removeprefix("0")[:3].center(columns.widths[place])
        if columns.gap and cells:
            cells.append((0.0, " " * columns.gap))
        cells.append((float(strengths[place]), text))
    return cells


def _looked_at(axis: Axis, weights: ndarray, ink: Ink) -> str:
    """Where a row looked most: the word there, and the mass on all of it."""
    known = np.nan_to_num(weights, nan=0.0, posinf=0.0).astype(float)
    if not (known > 0).any():
        return ink.own("← ?" if np.isnan(weights).any() else "← nothing")
    words = words_of(axis)
    mass: dict[int, float] = {}
    for word, weight in zip(words, known, strict=True):
        mass[word] = mass.get(word, 0.0) + weight
    best = max(mass, key=lambda word: mass[word])
    place = max((position for position, word in enumerate(words) if word == best), key=lambda position: known[position])
    text, places = word_at(axis, words, place)
    label = ink.short(ink.label(text), LONGEST_END)
    return ink.own("← ") + ink.fit(label, cell_len(label)) + f" {known[places].sum():.2f}"


def _longest_end(axis: Axis, ink: Ink) -> int:
    """The room that ends need, however the rows look: maps over the same axis are laid out alike."""
    words = words_of(axis)
    starts = [place for place in range(len(words)) if place == 0 or words[place] != words[place - 1]]
    longest = max(cell_len(ink.label(word_at(axis, words, place)[0])) for place in starts)
    return len(MARGIN) + len("← ") + min(longest, LONGEST_END) + len(" 0.00")


def _received(weights: ndarray, columns: Columns, part: tuple[int, int], stub: int, ink: Ink) -> list[str]:
    """The mass each column received, as a line of small bars under the map."""
    received = np.nan_to_num(weights, nan=0.0, posinf=0.0).sum(0)
    greatest = received.max(initial=0.0) or 1.0
    bars = (ink.height(received[place] / greatest) * columns.widths[place] for place in range(*part))
    return [ink.fit("Σ", stub, "right") + " " + ink.quiet((" " * columns.gap).join(bars))]


def _adds_up(panel: Panel, ink: Ink) -> bool:
    """Whether the sum of a column says something: not of one row, nor of blocks of which only the greatest is shown."""
    return ink.unicode and len(panel.rows) > 1 and panel.block == (1, 1) and not isinstance(panel.columns, Grid)


def _legend(panel: Panel, entries: Sequence[str], ink: Ink) -> list[str]:
    """What the axes are, the scale, and what the signs stand for."""
    query, key = (ink.label(name) for name in panel.names)
    parts = [f"{query} ↓ {key} →" if ink.unicode else f"{query} down, {key} across"]
    parts.append(f"0 {ink.scale(8)} {_number(panel.greatest)}")
    if _adds_up(panel, ink):
        parts.append("Σ mass received")
    if panel.block != (1, 1):
        parts.append(ink.own(f"a cell is the greatest of {panel.block[0]} × {panel.block[1]} weights"))
    if panel.residual is not None:
        parts.append(ink.own("… the mass that was not kept"))
    return _wrap([*parts, *entries], "   ", ink)


def _number(value: float) -> str:
    """Two digits that say something: 0.93, 0.042, 0.0017."""
    return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.2g}" if value >= 1e-4 else f"{value:.0e}"


def _wrap(parts: Sequence[str], between: str, ink: Ink) -> list[str]:
    """Parts after each other in as few lines as they need."""
    lines: list[str] = []
    used = ink.width + 1
    for part in parts:
        size = cell_len(re.sub("\x1b\\[[0-9;]*m", "", part))
        if size > ink.width:
            lines += _wrap(part.split(), " ", ink) if " " in part else [ink.short(part, ink.width)]
            used = ink.width + 1
        elif used + len(between) + size > ink.width:
            lines.append(part)
            used = size
        else:
            lines[-1] += between + part
            used += len(between) + size
    return lines


# Other axes, other pictures -----------------------------------------------------------------------------------------


def _pictures(panel: Panel, ink: Ink) -> list[str]:
    """Patches of an image: each query as a small picture, side by side."""
    grid = panel.columns
    _, strengths = _strengths(panel)
    H, W = (grid.height, grid.width) if isinstance(grid, Grid) else (1, len(grid))
    wide = max(2 * W, 8)
    across = max(1, (ink.width + len(MARGIN)) // (wide + len(MARGIN)))
    lines: list[str] = []
    count = min(len(panel.rows), MOST_PICTURES)
    for first in range(0, count, across):
        shown = range(first, min(first + across, count))
        lines.append(MARGIN.join(ink.fit(ink.label(panel.rows.labels[row]), wide) for row in shown))
        for line in range(H):
            patches = [strengths[row, line * W : (line + 1) * W] for row in shown]
            pictures = (ink.row([_patch(patch, ink) for patch in row]) + " " * (wide - 2 * W) for row in patches)
            lines.append(MARGIN.join(pictures))
        lines.append("")
    more = [f"the first {count} of {len(panel.rows)}"] if count < len(panel.rows) else []
    return lines + _legend(panel, more, ink)


def _patch(strength: float, ink: Ink) -> tuple[float, str]:
    """A cell of a picture; a dot where it is empty shows how far the picture goes."""
    empty = ink.row([(float(strength), "  ")]) == "  "
    return (0.0, ink.own("· ")) if empty else (float(strength), "  ")


def _reading(panel: Panel, ink: Ink) -> list[str]:
    """One query over a text: the text itself, shaded; without colours, bars for what weighs most."""
    weights, strengths = _strengths(panel)
    if ink.colour == "none":
        return _bars(panel.columns, weights[0], "weight", ink)
    spelled = (
        isinstance(panel.columns, Tokens)
        and sum(len(label) == 1 for label in panel.columns.labels) > len(weights[0]) / 2
    )
    apart = "" if spelled else " "
    lines, used = [""], 0
    for place, label in enumerate(panel.columns.labels):
        text = ink.short(" " if spelled and label == " " else ink.label(label), ink.width - 1)
        size = cell_len(text) + len(apart)
        if used + size > ink.width:
            lines.append("")
            used = 0
        lines[-1] += ink.row([(float(strengths[0, place]), ink.fit(text, cell_len(text)))]) + apart
        used += size
    return [*lines, "", *_legend(panel, (), ink)]


def _document_legend(panel: Panel, document: Document, ink: Ink) -> list[str]:
    if document.sentences is None:
        parts = ["a word: its weight in its sentence"]
    else:
        parts = ["a bar: the weight of the sentence", "a word: √(weight of the sentence) · its weight in it"]
    shaded = [f"0 {ink.scale(8)} {_number(panel.greatest)}"] if ink.colour != "none" else []
    named = parts if ink.colour != "none" else [*parts[:-1], "behind a sentence its word that weighs most"]
    return _wrap([*shaded, *map(ink.own, named)], "   ", ink)


def _statistics(panel: Panel, ink: Ink) -> list[str]:
    received, entropy = panel.statistics["received"], panel.statistics["entropy"]
    maximum, argmax = panel.statistics["maximum"], panel.statistics.get("argmax")

    def end(row: int) -> str:
        place = (
            "" if argmax is None else ink.short(ink.label(panel.columns.labels[int(argmax[row])]), LONGEST_END) + " "
        )
        return ink.own("← ") + ink.fit(place, cell_len(place)) + f"{maximum[row]:.2f}"

    return [
        *_bars(panel.columns, received, f"mass that each position of {ink.label(panel.names[1])} received", ink),
        "",
        *_bars(panel.rows, entropy, f"entropy of each position of {ink.label(panel.names[0])}, in nats", ink, end),
    ]


def _bars(axis: Axis, sizes: ndarray, what: str, ink: Ink, end: Callable[[int], str] | None = None) -> list[str]:
    """A line a position: its label, a bar, a number. Of many, those with the longest bars, in their order."""
    known = np.nan_to_num(sizes, nan=0.0, posinf=0.0)
    chosen = sorted(np.argsort(-known, kind="stable")[:MOST_BARS])
    if len(chosen) < len(axis):
        what += f": the greatest {len(chosen)} of {len(axis):,}"
    longest = float(known.max(initial=0.0)) or 1.0
    decimals = len(_number(longest).partition(".")[2]) if longest < 1 else 2
    labels = [ink.label(axis.labels[place]) for place in chosen]
    stub = min(max(map(cell_len, labels)), ink.width // 3)
    ends = [MARGIN + end(place) if end else "" for place in chosen]
    tail = max(map(cell_len, ends))
    tail = tail if ink.width - stub - 9 - tail >= 8 else 0
    room = max(1, min(40, ink.width - stub - 9 - tail))
    lines = [ink.quiet(ink.fit(what, ink.width).rstrip())]
    for place, label, last in zip(chosen, labels, ends, strict=True):
        number = "?" if np.isnan(sizes[place]) else f"{sizes[place]:.{decimals}f}"
        bar = ink.bar(float(sizes[place]) / longest, room)
        lines.append(f"{ink.fit(label, stub, 'right')} {bar} {number:>6}{ink.quiet(last) if tail else ''}")
    return lines


# ----------------------------------------------------------------------------------------------------
# How the columns of a heatmap are named in a terminal: characters or words side by side, words stacked letter by
# letter, a ruler, or numbers with a legend, whichever reads best in the room there is.

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
