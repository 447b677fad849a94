"""A trace in the terminal: source across, target down, one cell a weight, from the terminal's background to strong.

What is drawn follows from the axes: an alignment heatmap; small pictures where the keys are patches of an image; the
text itself, shaded, where one query reads it all, and with a bar before each sentence where words lie in sentences; bars where
only statistics were kept.

Legend: R rows, C columns of a panel.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence

import numpy as np
from numpy import ndarray
from rich.cells import cell_len

from saccade.trace.axes import Axis, Grid, Tokens
from saccade.trace.maps import Trace
from saccade.views.columns import Columns, name_columns, split
from saccade.views.document import Document, written
from saccade.views.ink import Background, Colour, Ink
from saccade.views.labels import word_at, words_of
from saccade.views.panels import Limits, Panel, panels

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
