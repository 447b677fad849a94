"""A trace as a picture: PNG, SVG or PDF, drawn with matplotlib's objects and never with its global state.

Source across, target down, from white to dark. The same trace gives the same bytes: no dates, no random names.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

from saccade.errors import SaccadeError
from saccade.storage import write_bytes
from saccade.trace.axes import Grid, Sentences, Tokens
from saccade.trace.maps import Trace
from saccade.views.figure.blocks import Block, Heatmap, Pictures, Place, Prose, Reading, Record, Statistics
from saccade.views.figure.fonts import Typeface
from saccade.views.figure.page import INK, SMALL, Page, colour_map, is_spelled
from saccade.views.panels import Limits, Panel, is_ruled, panels

MARGIN = 0.25
GAP = 0.22
SCALE = 1.6
LARGEST = 11.0  # a map's longer side; all in inches
MOST_LABELLED_PANELS = 16
FEW = 15  # tokens on a side that still find room for labels on any number of panels
LIMITS = Limits(maps=256, labelled=(1000, 1000), ruled=(1000, 1000))
# Wherever the picture is drawn it looks the same; text stays text in SVG and PDF.
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
# What files say about their making would change with every run.
METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
# matplotlib's settings belong to the whole process: one picture at a time may borrow them.
_SETTINGS = threading.RLock()


@contextmanager
def settings() -> Iterator[None]:
    with _SETTINGS, matplotlib.style.context(["default", STYLE]):
        yield


def save(trace: Trace, path: str | Path, *, title: str | None = None, dpi: int = 160) -> None:
    """Write the trace as ``.png``, ``.svg`` or ``.pdf``, whole or not at all."""
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in METADATA:
        found = Path(path).suffix or "no ending"
        raise SaccadeError(f"{path}: expected a picture ending in .png, .svg or .pdf, found {found!r}")
    if not 10 <= dpi <= 1200:
        raise SaccadeError(f"dpi must be between 10 and 1200: got {dpi}")
    file = io.BytesIO()
    with settings():
        draw(trace, title=title).savefig(file, format=kind, dpi=dpi, metadata=METADATA[kind])
    content = file.getvalue()
    if kind == "svg":
        # Where the picture is looked at, other fonts are installed: any without serifs will do.
        content = re.sub(rb'(<text style="[^"]*font-family: [^";]*)', rb"\1, sans-serif", content)
    write_bytes(path, content)


def draw(trace: Trace, *, title: str | None = None) -> Figure:
    """The trace as a matplotlib figure, to be placed or changed by the caller."""
    drawn = panels(trace, LIMITS)
    heading = title if title is not None else _title(trace, drawn)
    told = _told(trace, drawn) if title is None else ""
    labels = [label for panel in drawn for axis in (panel.rows, panel.columns) for label in axis.labels]
    names = [name for panel in drawn for name in (panel.title, *panel.names)]
    with settings():
        typeface = Typeface([*labels, *names, heading, told, "Σ↓→·×…"])
        return _page(drawn, typeface, heading, told)


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


def _told(trace: Trace, drawn: Sequence[Panel]) -> str:
    """What was read and what was written, where the trace says so in words; a document is read below."""
    words = [trace.about.get(name) for name in ("input", "output")]
    read, *rest = [" ".join(word.split()) for word in words if isinstance(word, str)] or [""]
    shown = any(panel.document is not None for panel in drawn) and bool(rest)
    return " → ".join(["" if shown else read, *rest]).strip()


# Which block a panel becomes ----------------------------------------------------------------------------------------


def _blocks(drawn: Sequence[Panel], typeface: Typeface, greatest: float) -> tuple[list[Block], int]:
    """A block for each panel, and how many of them stand side by side."""
    count = len(drawn)
    if count == 1:
        return [_block(drawn[0], typeface, greatest, 1, "alone")], 1
    # How they are arranged depends on their size, and who carries the labels on how they are arranged.
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
    """Whether labels find room: on few panels always, on many where each has few tokens."""
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
    """The size of a cell: square for characters, wider for words, smaller the more there are."""
    R, C = max(1, len(panel.rows)), max(1, len(panel.columns))
    if count > MOST_LABELLED_PANELS:
        # Squares of one size, but cells that have labels are no smaller than these can be read.
        least = 0.09 if max(R, C) <= FEW else 0.0
        return max(least, 0.9 / C), max(least, 0.9 / R)
    wide, tall = (0.2, 0.2) if is_spelled(panel.columns) else (0.36, 0.27)
    if is_ruled(panel.columns):
        wide = min(0.2, max(0.1, 5.0 / C))
    room = LARGEST / (1 if count == 1 else min(count, 4))
    shrink = 1.0 if count == 1 else 0.6
    return min(wide * shrink, room / C), min(tall * shrink, room / R)


def _columns(blocks: Sequence[Block], drawn: Sequence[Panel]) -> int:
    """How many panels stand side by side: a layer's heads in a row, else what comes nearest to a page's shape."""
    if _by_site(drawn):
        return len(drawn) // len({panel.site for panel in drawn})
    wide, tall = max(block.width for block in blocks), max(block.height for block in blocks)

    def odd(columns: int) -> float:
        rows = ceil(len(blocks) / columns)
        return float(abs(np.log(columns * wide / (rows * tall) / 1.4)) + 0.15 * (rows * columns - len(blocks)))

    return min(range(1, len(blocks) + 1), key=odd)


def _by_site(drawn: Sequence[Panel]) -> bool:
    """Whether there are several sites with equally many heads, more than one, one site after the other."""
    sites = [panel.site for panel in drawn]
    heads = len(sites) // max(1, len(set(sites)))
    return 1 < len(set(sites)) < len(sites) and sites == [site for site in dict.fromkeys(sites) for _ in range(heads)]


# The page -----------------------------------------------------------------------------------------------------------


def _page(drawn: Sequence[Panel], typeface: Typeface, heading: str, told: str = "") -> Figure:
    # One scale for all: heads can be compared.
    greatest = max((panel.greatest for panel in drawn), default=0.0)
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
    above = (0.38 if heading else 0.0) + (0.2 if told else 0.0)
    height = above + sum(heights) + GAP * max(0, len(rows) - 1) + 0.16 + 0.19 * len(legend)
    page = Page(width + 2 * MARGIN, height + 2 * MARGIN, typeface)
    if heading:
        page.text(MARGIN, MARGIN + 0.1, _fitted(typeface, heading, 10.0, width), 10.0, INK)
    if told:
        page.text(MARGIN, MARGIN + above - 0.24, _fitted(typeface, told, SMALL, width), SMALL, INK)
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
    """What a panel is called: by its head alone where its site is written above it, or is the only one."""
    panel = drawn[number]
    told = _by_site(drawn) or len({each.site for each in drawn}) == 1
    return f"head {panel.heads[0]}" if told and len(panel.heads) == 1 and panel.heads[0] is not None else panel.title


def _place(page: Page, block: Block, panel: Panel, left: float, top: float, name: str, named: float) -> None:
    """Draw a block, under its name where ``named`` says how wide that may be."""
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
    bare = [] if _labelled(drawn) else ["one head with its labels: save(…, site=…, head=…) or view --site --head"]
    return [*list(names)[:3], *dict.fromkeys(note for block in blocks for note in block.notes), *bare]


def _wrapped(parts: Sequence[str], typeface: Typeface, width: float, scale: float) -> list[str]:
    """The legend in lines; the first leaves room for the scale before it."""
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
    """Text as it can be set, cut with … where it is wider than its place."""
    shown, _ = typeface.write(text)
    if typeface.width(shown, size) <= width:
        return shown
    shortest, longest = 0, len(shown)
    while longest - shortest > 1:
        middle = (shortest + longest) // 2
        fits = typeface.width(shown[:middle] + "…", size) <= width
        shortest, longest = (middle, longest) if fits else (shortest, middle)
    return shown[:shortest].rstrip() + "…"
