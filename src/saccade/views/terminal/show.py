"""Draws a trace in the terminal: source across, target down, one cell per weight.

The axes decide what is drawn: an alignment heatmap; small pictures if the keys are patches of an image; the shaded text if
a single query reads it, with a bar before each sentence if words lie in sentences; bars if only statistics were kept.

Legend: R rows, C columns of a panel.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy import ndarray
from rich.cells import cell_len

from saccade.trace.axes import Axis, Frames, Grid, Tokens
from saccade.trace.maps import Trace
from saccade.views.colours import shade
from saccade.views.document import Document, document_lines
from saccade.views.labels import DOTTED_CIRCLE, MARKER, MARKERS, is_character, is_complex, is_marker, word_at, words_of
from saccade.views.panels import Limits, Panel, is_ruled, panels, tick_step
from saccade.views.picture import resampled, seen_at, under_veil
from saccade.views.terminal.style import Background, Colour, Style
from saccade.views.timeline import timeline_lines

MOST_MAPS = 4
MOST_BARS = MOST_PICTURES = 24
MOST_PATCHES = 5  # of an image that looks at itself
OWN = "[]"  # marks the patch that looks
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
    """The trace as lines of text. None means as standard output allows."""
    style = Style.of(width, colour, unicode, background)
    fine = 16 * style.width if style.unicode else None  # a staircase cuts its own cells
    limits = Limits(MOST_MAPS, labelled=(200, 400), ruled=(64, max(10, style.width - 16)), heard=fine)
    drawn = panels(trace, limits)
    parts = [_heading(trace, style)]
    if not drawn:
        parts.append(_wrap(["This trace holds no attention maps."], " ", style))
    if any(len(panel.heads) > 1 for panel in drawn):
        sites = len({panel.site for panel in drawn})
        many = f"{len(trace.maps)} maps at {sites} site{'s' * (sites != 1)}: the mean over the heads of each"
        parts.append(_wrap([many], " ", style))
    parts += [_draw(panel, style) for panel in drawn]
    return "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts if part)


def _heading(trace: Trace, style: Style) -> list[str]:
    about = trace.about
    lines = []
    if isinstance(about.get("model"), str):
        lines.append(style.strong(style.fit(style.label(about["model"]), style.width).rstrip()))
    if isinstance(about.get("input"), str) and isinstance(about.get("output"), str):
        arrow = style.own("→ ")
        read, wrote = (style.short(style.label(about[name]), style.width - 3) for name in ("input", "output"))
        read, wrote = (style.fit(text, cell_len(text)) for text in (read, wrote))
        together = f"{read} {arrow}{wrote}"
        lines += [together] if cell_len(together) <= style.width else [read, arrow + wrote]
    return lines


def _draw(panel: Panel, style: Style) -> list[str]:
    title = style.quiet(style.fit(style.label(panel.title), style.width).rstrip())
    query, key = (style.label(name) for name in panel.names)
    if not len(panel.rows):
        return [title, *_wrap([f"Nothing to draw: {query} has no positions."], " ", style)]
    if not len(panel.columns):
        return [title, *_wrap([f"Nothing to draw: {key} has no positions."], " ", style)]
    if panel.document is not None:
        return [title, *document_lines(panel.document, style), "", *_document_legend(panel, panel.document, style)]
    if panel.timeline is not None:
        return [title, *timeline_lines(panel.timeline, style)]
    if panel.statistics:
        return [title, *_statistics(panel, style)]
    if isinstance(panel.columns, Grid):
        return [title, *_pictures(panel, style)]
    if isinstance(panel.columns, Frames) and panel.columns.seconds and style.unicode:
        return [title, *_staircase(panel, panel.columns, style)]
    if len(panel.rows) == 1 and len(panel.columns) > 1:
        return [title, *_reading(panel, style)]
    return [title, *_heatmap(panel, style)]


# The alignment ----------------------------------------------------------------------------------------------------


def _heatmap(panel: Panel, style: Style) -> list[str]:
    weights, strengths = _strengths(panel)
    names = [style.label(label) for label in panel.rows.labels]
    stub = min(max(map(cell_len, names)), max(8, style.width // 4))
    rest = 0 if panel.residual is None else len(MARGIN) + 1
    room = max(1, style.width - stub - 1 - rest)
    tail = _longest_end(panel.columns, style)
    columns = name_columns(panel.columns, style, room, tail)
    # Row ends are left out if cells show numbers, if cells are blocks, and if the map needs the room.
    redundant = (columns.numbers and style.colour != "none") or panel.block != (1, 1)
    crowded = room - tail < 24 or room - tail < columns.width(0, len(panel.columns)) <= room
    ends = [MARGIN + _looked_at(panel.columns, row, style) for row in weights] if not (redundant or crowded) else []
    pieces = split(columns, panel.columns, room - tail if ends else room)
    lines: list[str] = []
    for first, last in pieces:
        final = last == len(panel.columns)
        for header in columns.header:
            line = (" " * columns.gap).join(header[first:last])
            if line.strip():  # short stacked words leave empty lines
                lines.append(" " * (stub + 1) + line + (MARGIN + style.own("…") if final and rest else ""))
        for row, name in enumerate(names):
            cells = _cells(strengths[row], weights[row], columns, range(first, last), style)
            cells += [(0.0, MARGIN), (float(strengths[row, -1]), " ")] if final and rest else []
            lines.append(
                f"{style.fit(name, stub, 'right')} {style.row(cells)}{style.quiet(ends[row]) if ends and final else ''}"
            )
        lines += [*(_received(weights, columns, (first, last), stub, style) if _adds_up(panel, style) else []), ""]
    return lines + _legend(panel, columns.legend, style)


def _strengths(panel: Panel) -> tuple[ndarray, ndarray]:
    """The weights [R, C], and the weights (with the residual as a last column) divided by the greatest."""
    weights = np.zeros((len(panel.rows), len(panel.columns))) if panel.weights is None else panel.weights
    shown = weights if panel.residual is None else np.concatenate([weights, panel.residual[:, None]], axis=1)
    greatest = panel.strong_end
    return weights, shown / greatest if greatest > 0 else np.where(np.isnan(shown), np.nan, 0.0)


def _cells(
    strengths: ndarray, weights: ndarray, columns: Columns, places: range, style: Style
) -> list[tuple[float, str]]:
    """The cells of a row, with their number if they are coloured and wide enough."""
    cells: list[tuple[float, str]] = []
    for place in places:
        text = " " * columns.widths[place]
        if columns.numbers and style.colour != "none" and np.isfinite(weights[place]) and weights[place] >= 0.095:
            text = f"{weights[place]:.2f}".removeprefix("0")[:3].center(columns.widths[place])
        if columns.gap and cells:
            cells.append((0.0, " " * columns.gap))
        cells.append((float(strengths[place]), text))
    return cells


def _looked_at(axis: Axis, weights: ndarray, style: Style) -> str:
    """The word with the greatest weight in a row, and its total weight."""
    known = np.nan_to_num(weights, nan=0.0, posinf=0.0).astype(float)
    if not (known > 0).any():
        return style.own("← ?" if np.isnan(weights).any() else "← nothing")
    words = words_of(axis)
    mass: dict[int, float] = {}
    for word, weight in zip(words, known, strict=True):
        mass[word] = mass.get(word, 0.0) + weight
    best = max(mass, key=lambda word: mass[word])
    place = max((position for position, word in enumerate(words) if word == best), key=lambda position: known[position])
    text, places = word_at(axis, words, place)
    label = style.short(style.label(text), LONGEST_END)
    return style.own("← ") + style.fit(label, cell_len(label)) + f" {known[places].sum():.2f}"


def _longest_end(axis: Axis, style: Style) -> int:
    """The width of the longest possible row end, so that maps over the same axis have the same layout."""
    words = words_of(axis)
    starts = [place for place in range(len(words)) if place == 0 or words[place] != words[place - 1]]
    longest = max(cell_len(style.label(word_at(axis, words, place)[0])) for place in starts)
    return len(MARGIN) + len("← ") + min(longest, LONGEST_END) + len(" 0.00")


def _received(weights: ndarray, columns: Columns, part: tuple[int, int], stub: int, style: Style) -> list[str]:
    """The weight that each column receives, as a line of small bars under the map."""
    received = np.nan_to_num(weights, nan=0.0, posinf=0.0).sum(0)
    greatest = received.max(initial=0.0) or 1.0
    bars = (style.height(received[place] / greatest) * columns.widths[place] for place in range(*part))
    return [style.fit("Σ", stub, "right") + " " + style.quiet((" " * columns.gap).join(bars))]


def _adds_up(panel: Panel, style: Style) -> bool:
    """Whether column sums are meaningful: not of a single row, nor of blocks that show only their greatest weight."""
    return style.unicode and len(panel.rows) > 1 and panel.block == (1, 1) and not isinstance(panel.columns, Grid)


def _legend(panel: Panel, entries: Sequence[str], style: Style) -> list[str]:
    """The names of the axes, the scale, and the meaning of the signs."""
    query, key = (style.label(name) for name in panel.names)
    parts = [f"{query} ↓ {key} →" if style.unicode else f"{query} down, {key} across"]
    parts.append(f"0 {style.scale(8)} {_number(panel.strong_end)}")
    if _adds_up(panel, style):
        parts.append("Σ mass received")
    if panel.block != (1, 1):
        parts.append(style.own(f"a cell is the greatest of {panel.block[0]} × {panel.block[1]} weights"))
    if panel.residual is not None:
        parts.append(style.own("… the mass that was not kept"))
    return _wrap([*parts, *entries], "   ", style)


def _number(value: float) -> str:
    """Two significant digits: 0.93, 0.042, 0.0017."""
    return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.2g}" if value >= 1e-4 else f"{value:.0e}"


def _wrap(parts: Sequence[str], between: str, style: Style) -> list[str]:
    """Parts joined into as few lines as possible."""
    lines: list[str] = []
    used = style.width + 1
    for part in parts:
        size = cell_len(re.sub("\x1b\\[[0-9;]*m", "", part))
        if size > style.width:
            lines += _wrap(part.split(), " ", style) if " " in part else [style.short(part, style.width)]
            used = style.width + 1
        elif used + len(between) + size > style.width:
            lines.append(part)
            used = size
        else:
            lines[-1] += between + part
            used += len(between) + size
    return lines


# Sound ------------------------------------------------------------------------------------------------------------

BANDS = 8  # pixels of a spectrogram, two per line
MARKED = 0.5  # of a row's greatest weight: what is marked without colours


def _staircase(panel: Panel, axis: Frames, style: Style) -> list[str]:
    """Seconds across, two outputs per line in half blocks, the spectrogram above; ends: when each was heard most."""
    _, strengths = _strengths(panel)
    strengths = np.nan_to_num(strengths[:, : len(axis)], nan=0.0, posinf=1.0).clip(0, 1)
    R, C = strengths.shape
    names = [style.short(style.label(label), max(4, style.width // 8)) for label in panel.rows.labels]
    names += [""] * (R % 2)
    pairs = [f"{above} {below}".rstrip() for above, below in zip(names[::2], names[1::2], strict=True)]
    ends = _heard_at(strengths, axis)
    stub, tail = max(map(cell_len, pairs)), max(map(cell_len, ends))
    room = style.width - stub - 1
    tail = tail if room - tail - 1 >= 24 else 0
    room = max(1, room - (tail + 1 if tail else 0))
    wide = C * (room // C) if room >= C else room
    cells = _stretched(strengths, wide)
    cells = np.concatenate([cells, np.zeros((R % 2, wide))])
    before = " " * (stub + 1)
    lines = [before + style.quiet(_ruler(axis, wide, style))]
    if axis.segments:
        lines.append(before + _segment_names(axis, wide, style))
    if style.colour != "none" and axis.spectrogram is not None and axis.spectrogram.numel():
        bands = axis.spectrogram.detach().cpu().float()[None]
        picture = np.asarray(torch.nn.functional.adaptive_avg_pool2d(bands, (BANDS, wide))[0].numpy())[::-1]
        low, high = float(picture.min()), float(picture.max())
        grey = 0.85 * (picture - low) / ((high - low) or 1.0)
        grey = grey if style.background == "dark" else 1 - grey
        lines += [before + line for line in style.pixels(grey[..., None].repeat(3, -1))]
    drawn = _half_blocks(cells, style)
    for number, (name, line) in enumerate(zip(pairs, drawn, strict=True)):
        end = f" {style.quiet(ends[number])}" if tail else ""
        lines.append(f"{style.fit(name, stub, 'right')} {line}{end}")
    query, key = (style.label(name) for name in panel.names)
    parts = [
        f"{query} ↓ {key} →",
        "two outputs per line, and when each was heard most" if tail else "two outputs per line",
    ]
    if style.colour == "none":
        parts.append(f"a mark: at least {MARKED:g} of the output's greatest weight")
    else:
        parts.insert(1, f"0 {style.scale(8)} {_number(panel.strong_end)}")
    if panel.block[0] > 1:
        parts.append(f"an output: the greatest of {panel.block[0]}")
    return [*lines, "", *_wrap(parts, "   ", style)]


def _stretched(rows: ndarray, wide: int) -> ndarray:
    """Rows in this many cells: each the greatest of what it covers."""
    edges = np.arange(wide) * rows.shape[1] // wide
    return np.asarray(np.maximum.reduceat(rows, edges, axis=1))


def _heard_at(strengths: ndarray, axis: Frames) -> list[str]:
    """When each pair of outputs was heard most."""
    times = [f"{axis.start + (int(row.argmax()) + 0.5) * axis.seconds:.2f}" if row.any() else "–" for row in strengths]
    return [f"{' '.join(times[place : place + 2])} s" for place in range(0, len(times), 2)]


def _ruler(axis: Frames, wide: int, style: Style) -> str:
    """Seconds, at round numbers of them."""
    total = len(axis) * axis.seconds
    step = tick_step(total, wide / 8)
    digits = max(0, -int(np.floor(np.log10(step) + 1e-9)))
    line = [" "] * wide
    for tick in range(int(np.ceil(axis.start / step - 1e-9)), int((axis.start + total) / step + 1e-9) + 1):
        place = int((tick * step - axis.start) / total * wide)
        text = f"{tick * step:.{digits}f} s"
        if place + len(text) <= wide:
            line[place : place + len(text)] = text
    return "".join(line)


def _segment_names(axis: Frames, wide: int, style: Style) -> str:
    """The true segments: a line where each begins, and its symbol where there is room."""
    scale = wide / (len(axis) * axis.seconds)
    line = [" "] * wide
    for symbol, start, end in axis.segments:
        first, last = (int((second - axis.start) * scale) for second in (start, end))
        if not 0 <= first < wide:
            continue
        line[first] = "│"
        name = style.label(symbol)
        if symbol.strip() and len(name) == cell_len(name) < min(last, wide) - first:
            line[first + 1 : first + 1 + len(name)] = name
    return style.red("".join(line))


def _half_blocks(cells: ndarray, style: Style) -> list[str]:
    """Strengths [2 R, C] in R lines: colours of the scale, or without colours marks where a row is strong."""
    if style.colour != "none":
        ramp = np.array([shade(step / 255, style.background == "dark") for step in range(256)]) / 255
        ramp[:7] = style.paper  # as faint as cells that other maps leave empty
        return style.pixels(ramp[np.rint(cells * 255).astype(int)])
    marked = (cells >= MARKED * cells.max(1, keepdims=True)) & (cells > 0)
    kinds = marked[0::2] + 2 * marked[1::2]
    return ["".join(" ▀▄█"[kind] for kind in line) for line in kinds.astype(int)]


# Other axes -------------------------------------------------------------------------------------------------------


def _pictures(panel: Panel, style: Style) -> list[str]:
    """Patches of an image: one small picture per query, side by side; the image itself where it can be shown.

    Where the queries are patches too, the mean of all queries and a few of them, each marked in its own picture.
    """
    grid = panel.columns
    _, strengths = _strengths(panel)
    strengths = strengths[:, : len(grid)]
    H, W = (grid.height, grid.width) if isinstance(grid, Grid) else (1, len(grid))
    photo = grid if isinstance(grid, Grid) and grid.image is not None and grid.image.numel() else None
    if style.colour == "none" or not style.unicode:
        photo = None  # shades of a photo cannot be told from shades of weights
    least = 8 if panel.gate is None else 16  # cells for a word, and for its gate
    wide = max(2 * W, least) if photo is None else PHOTO
    across = max(1, (style.width + len(MARGIN)) // (wide + len(MARGIN)))
    queries = _queries(panel)

    def picture(strengths: ndarray, chosen: float | None, own: int | None) -> list[str]:
        if photo is not None:
            return _photo(photo, strengths, chosen, own, style)
        return _patches(strengths, H, W, own, style, wide)

    drawn = [(style.fit("mean", wide), picture(strengths.mean(axis=0), None, None))] * isinstance(panel.rows, Grid)
    for row in queries:
        chosen = None if panel.chosen is None else float(panel.chosen[row])
        named = _picture_name(panel, row, wide, style)
        drawn.append((named, picture(strengths[row], chosen, _own_patch(panel, row, H, W))))
    lines: list[str] = []
    for first in range(0, len(drawn), across):
        shown = drawn[first : first + across]
        lines.append(MARGIN.join(name for name, _ in shown))
        lines += [MARGIN.join(parts) for parts in zip(*(picture for _, picture in shown), strict=True)]
        lines.append("")
    notes = []
    if isinstance(panel.rows, Grid):
        notes.append(style.own(f"mean: of all {len(panel.rows)} patches"))
        if len(queries) < len(panel.rows):
            notes.append(style.own(f"then {len(queries)} of them with the greatest weights, by row,column"))
        notes.append(style.own(f"{OWN if photo is None else 'pink:'} the patch that looks"))
    elif len(queries) < len(panel.rows):
        notes.append(f"the first {len(queries)} of {len(panel.rows)}")
    if panel.gate is not None:
        notes.append(style.own("β how much of what was seen was let in"))
    if photo is None:
        return lines + _legend(panel, notes, style)
    clear = "clear: the patch that was read" if panel.chosen is not None else "clear: looked at; veiled: not"
    return lines + _wrap([style.own(clear), *notes], "   ", style)


def _queries(panel: Panel) -> list[int]:
    """The rows that are drawn: the first ones; of many patches those with the greatest weights that lie apart, in their
    order."""
    rows = panel.rows
    if not isinstance(rows, Grid) or len(rows) <= MOST_PATCHES or panel.weights is None:
        return list(range(min(len(rows), MOST_PICTURES)))
    apart = max(1, min(rows.height, rows.width) // 3)
    chosen: list[int] = []
    for row in np.argsort(-np.nan_to_num(panel.weights).max(axis=1), kind="stable").tolist():
        down, across = divmod(row, rows.width)
        if all(max(abs(down - other // rows.width), abs(across - other % rows.width)) > apart for other in chosen):
            chosen.append(row)
        if len(chosen) == MOST_PATCHES:
            break
    return sorted(chosen)


def _own_patch(panel: Panel, row: int, height: int, width: int) -> int | None:
    """The patch, among height × width, in which a query lies that is a patch itself."""
    rows = panel.rows
    if not isinstance(rows, Grid):
        return None
    down, across = divmod(row, rows.width)
    return down * height // rows.height * width + across * width // rows.width


def _patches(strengths: ndarray, height: int, width: int, own: int | None, style: Style, wide: int) -> list[str]:
    """A picture of shaded cells, two characters per patch."""
    cells = [_patch(strength, style) for strength in strengths]
    if own is not None:
        cells[own] = (cells[own][0], OWN)
    rows = (cells[line * width : (line + 1) * width] for line in range(height))
    return [style.row(row) + " " * (wide - 2 * width) for row in rows]


def _picture_name(panel: Panel, row: int, wide: int, style: Style) -> str:
    label = style.label(panel.rows.labels[row])
    if panel.gate is None or not np.isfinite(panel.gate[row]):
        return style.fit(label, wide)
    gate = style.own(f" β {panel.gate[row]:.2f}")
    return style.fit(style.short(label, wide - cell_len(gate)) + gate, wide)


PINK = (1.0, 0.25, 0.6)
PHOTO = 28  # cells across; a cell is two pixels high


def _photo(grid: Grid, strengths: ndarray, chosen: float | None, own: int | None, style: Style) -> list[str]:
    """The image of a grid in half blocks, under a veil where it was not looked at; the patch ``own`` in one colour."""
    assert grid.image is not None
    rows = max(2, round(PHOTO * grid.image.shape[0] / max(1, grid.image.shape[1]) / 2) * 2)
    map = strengths.reshape(grid.height, grid.width)
    seen = seen_at(map, (rows, PHOTO), grid.box, chosen=chosen)
    drawn = under_veil(resampled(grid.image, rows, PHOTO), seen, style.paper)
    if own is not None:
        left, top, right, bottom = grid.box
        down, across = divmod(own, grid.width)
        x = (left + (across + 0.5) / grid.width * (right - left)) * PHOTO
        y = (top + (down + 0.5) / grid.height * (bottom - top)) * rows
        high, wide = (bottom - top) * rows / grid.height / 2, (right - left) * PHOTO / grid.width / 2
        drawn[max(0, round(y - high)) : max(0, round(y + high)), max(0, round(x - wide)) : max(0, round(x + wide))] = (
            PINK
        )
    return style.pixels(drawn)


def _patch(strength: float, style: Style) -> tuple[float, str]:
    """A cell of a picture; a dot if it is empty, so that the edges of the picture show."""
    empty = style.row([(float(strength), "  ")]) == "  "
    return (0.0, style.own("· ")) if empty else (float(strength), "  ")


def _reading(panel: Panel, style: Style) -> list[str]:
    """One query over a text: the shaded text; without colours, bars for the greatest weights."""
    weights, strengths = _strengths(panel)
    if style.colour == "none":
        return _bars(panel.columns, weights[0], "weight", style)
    spelled = (
        isinstance(panel.columns, Tokens)
        and sum(len(label) == 1 for label in panel.columns.labels) > len(weights[0]) / 2
    )
    apart = "" if spelled else " "
    lines, used = [""], 0
    for place, label in enumerate(panel.columns.labels):
        text = style.short(" " if spelled and label == " " else style.label(label), style.width - 1)
        size = cell_len(text) + len(apart)
        if used + size > style.width:
            lines.append("")
            used = 0
        lines[-1] += style.row([(float(strengths[0, place]), style.fit(text, cell_len(text)))]) + apart
        used += size
    return [*lines, "", *_legend(panel, (), style)]


def _document_legend(panel: Panel, document: Document, style: Style) -> list[str]:
    if document.sentences is None:
        parts = ["a word: its weight in its sentence"]
    else:
        parts = ["a bar: the weight of the sentence", "a word: √(weight of the sentence) · its weight in it"]
    shaded = [f"0 {style.scale(8)} {_number(panel.greatest)}"] if style.colour != "none" else []
    named = parts if style.colour != "none" else [*parts[:-1], "behind a sentence its word that weighs most"]
    return _wrap([*shaded, *map(style.own, named)], "   ", style)


def _statistics(panel: Panel, style: Style) -> list[str]:
    received, entropy = panel.statistics["received"], panel.statistics["entropy"]
    maximum, argmax = panel.statistics["maximum"], panel.statistics.get("argmax")

    def end(row: int) -> str:
        place = (
            ""
            if argmax is None
            else style.short(style.label(panel.columns.labels[int(argmax[row])]), LONGEST_END) + " "
        )
        return style.own("← ") + style.fit(place, cell_len(place)) + f"{maximum[row]:.2f}"

    return [
        *_bars(panel.columns, received, f"mass that each position of {style.label(panel.names[1])} received", style),
        "",
        *_bars(panel.rows, entropy, f"entropy of each position of {style.label(panel.names[0])}, in nats", style, end),
    ]


def _bars(axis: Axis, sizes: ndarray, what: str, style: Style, end: Callable[[int], str] | None = None) -> list[str]:
    """One line per position: its label, a bar, a number. Of many positions those with the longest bars, in order."""
    known = np.nan_to_num(sizes, nan=0.0, posinf=0.0)
    chosen = sorted(np.argsort(-known, kind="stable")[:MOST_BARS])
    if len(chosen) < len(axis):
        what += f": the greatest {len(chosen)} of {len(axis):,}"
    longest = float(known.max(initial=0.0)) or 1.0
    decimals = len(_number(longest).partition(".")[2]) if longest < 1 else 2
    labels = [style.label(axis.labels[place]) for place in chosen]
    stub = min(max(map(cell_len, labels)), style.width // 3)
    ends = [MARGIN + end(place) if end else "" for place in chosen]
    tail = max(map(cell_len, ends))
    tail = tail if style.width - stub - 9 - tail >= 8 else 0
    room = max(1, min(40, style.width - stub - 9 - tail))
    lines = [style.quiet(style.fit(what, style.width).rstrip())]
    for place, label, last in zip(chosen, labels, ends, strict=True):
        number = "?" if np.isnan(sizes[place]) else f"{sizes[place]:.{decimals}f}"
        bar = style.bar(float(sizes[place]) / longest, room)
        lines.append(f"{style.fit(label, stub, 'right')} {bar} {number:>6}{style.quiet(last) if tail else ''}")
    return lines


# Names of columns ---------------------------------------------------------------------------------------------------
# Characters or words side by side, words stacked letter by letter, a ruler, or numbers with a legend: whichever fits best.

TALLEST = 12


@dataclass(frozen=True)
class Columns:
    """``header[i][j]`` is line i of the name of column j, ``widths[j]`` its width; ``gap`` is between columns."""

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


def name_columns(axis: Axis, style: Style, room: int, tail: int) -> Columns:
    """The layout that fits best into ``room``. Rows end in ``tail`` cells of text unless cells show numbers."""
    if is_ruled(axis) and len(axis) > 10:
        return _ruled(axis.labels, style)
    markers = [is_marker(axis, position) for position in range(len(axis))]
    if all(marker or is_character(label) for marker, label in zip(markers, axis.labels, strict=True)) and not all(
        markers
    ):
        characters = _characters(axis, markers, style)
        if characters is not None:
            return characters
    labels = [style.label(label) for label in axis.labels]
    words = _words(labels, style)
    if words.width(0, len(labels)) <= room - (tail if style.colour == "none" else 0):
        return words
    if isinstance(axis, Tokens) and not any(is_complex(label) for label in labels):
        return _stacked([style.short(label, TALLEST) for label in labels], style)
    return _numbered(labels, style)


def _ruled(labels: Sequence[str], style: Style) -> Columns:
    """One cell per column, and a number every few columns."""
    shown = [style.label(label) for label in labels]
    every = -(-(max(map(cell_len, shown)) + 1) // 5) * 5
    line = "".join(label.ljust(every) for label in shown[::every])
    return Columns((tuple(line[: len(labels)].ljust(len(labels))),), (1,) * len(labels), every=every)


def _characters(axis: Axis, markers: Sequence[bool], style: Style) -> Columns | None:
    """One cell per character, two if any is wide. None in ASCII if a character needs several letters."""
    glyphs, legend = [], []
    for label, marker in zip(axis.labels, markers, strict=True):
        if marker:
            glyph = style.own(MARKERS.get(label, MARKER))
            legend.append(f"{glyph} {style.label(label)}")
        else:
            glyph = style.label(label)
            if cell_len(glyph) > 2:
                if not style.unicode:
                    return None
                # An invisible character gets one cell; the legend spells it out.
                legend.append(f"{DOTTED_CIRCLE} {glyph}")
                glyph = DOTTED_CIRCLE
        glyphs.append(glyph)
    # Terminals disagree on whether a spacing mark (a Hindi matra) takes a cell of its own: leave room for one.
    spacing = any(unicodedata.category(character) == "Mc" for glyph in glyphs for character in glyph)
    width = 2 if spacing else max(cell_len(glyph) for glyph in glyphs)
    header = tuple(style.fit(glyph, width) for glyph in glyphs)
    return Columns((header,), (width,) * len(glyphs), legend=tuple(dict.fromkeys(legend)))


def _words(labels: Sequence[str], style: Style) -> Columns:
    """Side by side, each column as wide as its word, and at least as a number."""
    widths = tuple(max(3, cell_len(label)) for label in labels)
    header = tuple(style.fit(label, width, "centre") for label, width in zip(labels, widths, strict=True))
    return Columns((header,), widths, gap=1)


def _stacked(labels: Sequence[str], style: Style) -> Columns:
    """Letter by letter, downwards, ending at the map."""
    tallest = max(len(label) for label in labels)
    lines = [label.rjust(tallest) for label in labels]
    header = tuple(tuple(style.fit(line[row], 2) for line in lines) for row in range(tallest))
    return Columns(header, (2,) * len(labels))


def _numbered(labels: Sequence[str], style: Style) -> Columns:
    width = max(2, len(str(len(labels))))
    header = tuple(str(number + 1).rjust(width) for number in range(len(labels)))
    legend = tuple(f"{number + 1} {style.fit(label, min(cell_len(label), 48))}" for number, label in enumerate(labels))
    return Columns((header,), (width,) * len(labels), gap=1, legend=legend)


def split(columns: Columns, axis: Axis, room: int) -> list[tuple[int, int]]:
    """Ranges of columns that fit in ``room``: about equally wide, broken between words if possible."""
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
