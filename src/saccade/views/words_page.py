"""Words by label as one page of HTML that needs nothing else: a table a label, a bar behind each figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from saccade.storage import write_text
from saccade.views.labels import visible

STYLE = """
:root { color-scheme: light dark; --ink: #20242c; --quiet: #6b7280; --line: #d5d9e0; --bar: #bcd3ea; --page: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --quiet: #9aa3b2; --line: #333a46; --bar: #24496b; --page: #14171c; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 2rem auto; padding: 0 1rem;
  max-width: 76rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin: 0 0 .4rem; } p, small { color: var(--quiet); }
main { display: flex; flex-wrap: wrap; gap: 1.5rem 2.5rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .1rem .6rem; text-align: right; border-bottom: 1px solid var(--line); }
th { font-weight: 500; color: var(--quiet); } td:first-child, th:first-child { text-align: left; min-width: 9rem; }
td:first-child { background: linear-gradient(90deg, var(--bar) var(--share), transparent var(--share)); }
"""


@dataclass(frozen=True)
class Table:
    """The words of one label: a row a word with its figures, and the one that is drawn as a bar."""

    label: str
    note: str
    rows: Sequence[tuple[str, Sequence[str], float]]  # word, figures as written, the figure that is drawn


def save(tables: Sequence[Table], header: Sequence[str], path: str | Path, *, title: str, about: str) -> None:
    """Write the page, whole or not at all."""
    write_text(path, page(tables, header, title=title, about=about))


def page(tables: Sequence[Table], header: Sequence[str], *, title: str, about: str) -> str:
    """The page as text."""
    largest = max((row[2] for table in tables for row in table.rows), default=0.0) or 1.0
    parts = "\n".join(_section(table, header, largest) for table in tables)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{_safe(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{STYLE}</style>\n</head>\n<body>\n'
        f"<h1>{_safe(title)}</h1>\n<p>{_safe(about)}</p>\n<main>\n{parts}\n</main>\n</body>\n</html>\n"
    )


def _section(table: Table, header: Sequence[str], largest: float) -> str:
    head = "".join(f"<th>{_safe(name)}</th>" for name in header)
    rows = "\n".join(
        f'<tr><td style="--share: {max(0.0, 100 * share / largest):.1f}%">{_safe(word)}</td>'
        f"{''.join(f'<td>{_safe(figure)}</td>' for figure in figures)}</tr>"
        for word, figures, share in table.rows
    )
    name = f"<h2>{_safe(table.label)} <small>{_safe(table.note)}</small></h2>"
    return (
        f"<section>\n{name}\n<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n</section>"
    )


def _safe(text: str) -> str:
    return escape(visible(text))
