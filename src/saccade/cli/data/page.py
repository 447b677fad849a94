"""Prints a survey: plain aligned text that reads the same with and without a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saccade.data.survey.columns import UnknownColumns
    from saccade.data.survey.survey import Survey

BAR, NAMES = 30, 20  # characters of the longest bar, names that are listed
NUMBER = re.compile(r"[<>]? ?[\d.,]+\+?( %)?")
WIDTH = 44  # characters of a sample


def page(survey: Survey, recipe: str | None, saved: Path | None, following: Sequence[str]) -> Iterator[str]:
    """The whole report, line by line; ``saved`` is where the recipe was written."""
    yield safe(survey.headline())
    for section in survey.sections():
        if section.rows or section.bars:
            yield ""
            yield safe(section.title)
            yield from _bars(section.bars)
            yield from _table(section.rows)
    yield ""
    yield "It would train." if not survey.problems else "It would not train:"
    yield from (f"  - {safe(problem)}" for problem in survey.problems)
    yield from (f"  note: {safe(note)}" for note in survey.notes)
    if recipe is not None:
        yield ""
        yield "A recipe for it:" if saved is None else f"A recipe for it, written to {saved}:"
        yield from (f"  {line}" for line in recipe.splitlines())
    if following:
        yield ""
        yield "Next:"
        yield from (f"  {command}" for command in following)


def column_page(file: str, unknown: UnknownColumns, following: Sequence[str]) -> Iterator[str]:
    """What to say when the columns are not known: which there are, and what to type."""
    yield f"{file}: which column holds what is not known"
    yield f"({safe(str(unknown))})"
    yield ""
    rows = [
        (str(name), "no text in the first rows" if text is None else _sample(text)) for name, text in unknown.available
    ]
    yield from _table([("column", "for example"), *rows])
    yield ""
    yield "Say which column has which role, for instance:"
    yield from (f"  {command}" for command in following)


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Aligned columns; those of numbers to the right."""
    if not rows:
        return
    cells = [tuple(map(safe, row)) for row in rows]
    columns = list(zip(*cells, strict=True))
    widths = [max(map(len, column)) for column in columns]
    numeric = [
        any(map(NUMBER.fullmatch, column)) and sum(not NUMBER.fullmatch(c) for c in column if c) < 2
        for column in columns
    ]
    for row in cells:
        aligned = [f"{c:>{w}}" if n else f"{c:<{w}}" for c, w, n in zip(row, widths, numeric, strict=True)]
        yield f"  {'  '.join(aligned)}".rstrip()


def _bars(counts: Mapping[str, int]) -> Iterator[str]:
    """A line per name; of many the most frequent."""
    if not counts:
        return
    total, most = sum(counts.values()), max(counts.values())
    names = list(counts) if len(counts) <= NAMES else sorted(counts, key=lambda name: -counts[name])[:NAMES]
    width = max(len(safe(name)) for name in names)
    for name in names:
        bar = "█" * max(1, round(BAR * counts[name] / most))
        yield f"  {safe(name):<{width}}  {counts[name]:>9,}  {100 * counts[name] / total:5.1f} %  {bar}"
    if len(counts) > NAMES:
        yield f"  … and {len(counts) - NAMES} more"


def _sample(text: str) -> str:
    return f'"{text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"}"'


def safe(text: str) -> str:
    """Spells out what a terminal would obey rather than show."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
