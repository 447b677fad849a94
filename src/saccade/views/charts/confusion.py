"""Draws confusion matrices: which label was predicted for each true label, as PNG, SVG or PDF.

A row per true label, coloured by the share of its records; a cell holds the count. The same numbers give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int
from matplotlib.figure import Figure
from numpy import ndarray

from saccade.errors import SaccadeError
from saccade.views.colours import needs_white_text
from saccade.views.figure.figure import settings, write_picture
from saccade.views.figure.fonts import Typeface
from saccade.views.figure.page import INK, QUIET, SMALL, SMALLEST, TEXT, Page, colour_map

CELL, LEAST = 0.42, 0.16  # inches, of a cell where labels are few, and where they are many
WIDEST = 12.0  # inches, of the cells together
MOST = 100  # labels; the others are taken together
NUMBERED = 0.28  # inches: smaller cells hold no counts
EDGE, LONGEST = 0.2, 24  # inches; characters of a label


def save(
    labels: Sequence[str], counts: Sequence[Sequence[int]], path: str | Path, *, title: str = "", dpi: int = 160
) -> None:
    """Write the matrix ``counts[true][predicted]`` as ``.png``, ``.svg`` or ``.pdf``, whole or not at all."""
    write_picture(lambda: draw(labels, counts, title=title), path, dpi=dpi)


def draw(labels: Sequence[str], counts: Sequence[Sequence[int]], *, title: str = "") -> Figure:
    """The matrix as a matplotlib figure."""
    size = len(labels)
    if not labels or len(counts) != size or any(len(row) != size for row in counts):
        raise SaccadeError(f"expected a row and a column of counts for each of {size} labels")
    labels, numbers = _fewer(labels, np.array(counts))
    size = len(labels)
    shares = numbers / np.maximum(numbers.sum(1, keepdims=True), 1)
    cell = min(CELL, max(LEAST, WIDEST / size))
    font = SMALL if cell >= NUMBERED else SMALLEST
    with settings():
        typeface = Typeface([title, *labels])
        shown = [typeface.write(label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…")[0] for label in labels]
        margin = max(typeface.width(label, font) for label in shown) + 0.12
        left, top = EDGE + 0.2 + margin, EDGE + (0.3 if title else 0.0) + 0.2 + margin
        page = Page(
            max(left + cell * size, left + typeface.width(title, TEXT)) + EDGE, top + cell * size + EDGE, typeface
        )
        if title:
            page.text(EDGE, EDGE, typeface.write(title)[0], size=TEXT, colour=INK)
        page.text(EDGE, top + cell * size / 2, "true", rotation=90, ha="center")
        page.text(left + cell * size / 2, top - margin - 0.1, "predicted", ha="center")
        page.mesh(left, top, cell * size, cell * size, shares, cmap=colour_map(), vmin=0.0, vmax=1.0)
        for place, label in enumerate(shown):
            middle = (place + 0.5) * cell
            page.text(left - 0.06, top + middle, label, size=font, colour=INK, ha="right")
            page.text(left + middle, top - 0.06, label, size=font, colour=INK, ha="center", va="bottom", rotation=90)
        for (row, column), count in np.ndenumerate(numbers):
            if count and cell >= NUMBERED:
                red, green, blue, _ = colour_map()(float(shares[row, column]))
                ink = "white" if needs_white_text((red, green, blue)) else INK if row == column else QUIET
                where = left + (column + 0.5) * cell, top + (row + 0.5) * cell
                page.text(*where, f"{count:,}", size=SMALL if count < 10_000 else SMALLEST, colour=ink, ha="center")
    return page.figure


def _fewer(labels: Sequence[str], counts: Int[ndarray, "C C"]) -> tuple[Sequence[str], Int[ndarray, "L L"]]:
    """The labels with the most records, in their order, and one for all the others."""
    if len(labels) <= MOST:
        return labels, counts
    frequent = np.sort(np.argsort(-(counts.sum(0) + counts.sum(1)), kind="stable")[: MOST - 1])
    others = np.setdiff1d(np.arange(len(labels)), frequent)
    part = np.zeros((len(labels), MOST), dtype=counts.dtype)
    part[frequent, np.arange(MOST - 1)] = 1
    part[others, -1] = 1
    return [*(labels[number] for number in frequent), f"{len(others):,} others"], part.T @ counts @ part
