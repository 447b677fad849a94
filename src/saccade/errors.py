"""Errors meant for the person at the keyboard: one line that says where, what was expected and what was found."""

from __future__ import annotations

from pathlib import Path


class SaccadeError(Exception):
    """Its message is complete as it stands; the command line prints it without a traceback."""


class InputError(SaccadeError):
    """Bad input: names the file, the line or field, what was expected and what was found.

    >>> str(InputError("pairs.tsv", expected="2 columns", found="3 columns", line=17))
    'pairs.tsv:17: expected 2 columns, found 3 columns'
    """

    def __init__(
        self,
        where: str | Path,
        *,
        expected: str,
        found: str,
        line: int | None = None,
        field: str | None = None,
        hint: str | None = None,
    ) -> None:
        place = str(where) if line is None else f"{where}:{line}"
        parts = [place] if field is None else [place, field]
        message = ": ".join([*parts, f"expected {expected}, found {found}"])
        super().__init__(message if hint is None else f"{message} ({hint})")
        self.where, self.line, self.field = where, line, field
        self.expected, self.found = expected, found


class Interrupted(SaccadeError):
    """The person asked to stop; everything was saved."""
