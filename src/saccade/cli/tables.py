"""Formats plain tables, numbers, sizes and durations."""

from __future__ import annotations

from collections.abc import Sequence

NOTHING = "–"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = (), indent: str = "") -> str:
    """Rows under their header, aligned left; the columns named in ``right`` are aligned right."""
    widths = [max(len(row[place]) for row in (header, *rows)) for place in range(len(header))]
    lines = []
    for row in (header, *rows):
        cells = [
            text.rjust(width) if name in right else text.ljust(width)
            for text, width, name in zip(row, widths, header, strict=True)
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def figure(value: float | None, deviation: float | None = None) -> str:
    """``0.9955``, or ``0.9955 ± 0.0012`` over several seeds."""
    if value is None:
        return NOTHING
    return f"{value:.4f}" if deviation is None else f"{value:.4f} ± {deviation:.4f}"


def size(count: int) -> str:
    """A number of bytes, e.g. ``34 MB``; a kilobyte is 1,000 bytes."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 999.5:
            return f"{amount:.0f} {unit}" if amount >= 10 or unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def duration(seconds: float) -> str:
    """A duration, e.g. ``0.4 s``, ``48 s``, ``12 min``, ``3.5 h``, ``2.1 days``."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 9.5 else f"{seconds:.2g} s"
    for unit, length, most in (("min", 60.0, 90.0), ("h", 3600.0, 48.0)):
        if seconds / length < most:
            return f"{seconds / length:.0f} {unit}" if seconds / length >= 9.5 else f"{seconds / length:.1f} {unit}"
    return f"{seconds / 86400:.1f} days"
