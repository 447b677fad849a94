"""Defines the errors shown to users: one line that says where, what was expected and what was found."""

from __future__ import annotations

from pathlib import Path


class SaccadeError(Exception):
    """An error whose message is complete by itself; the command line prints it without a traceback."""


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
        self.expected, self.found, self.hint = expected, found, hint

    def at(self, where: str | Path) -> InputError:
        """The same error at another place, for callers that know the file.

        >>> str(InputError("recipe", field="model.name", expected="'bert'", found="'luong'").at("my.yaml"))
        "my.yaml: model.name: expected 'bert', found 'luong'"
        """
        return InputError(
            where, expected=self.expected, found=self.found, line=self.line, field=self.field, hint=self.hint
        )


class DataWarning(UserWarning):
    """Records were dropped, or texts cut, in a call whose result does not say so."""


class Interrupted(SaccadeError):
    """The user interrupted the run; everything was saved."""


def preview(text: str, most: int = 40) -> str:
    """The first characters of a text, quoted, to identify a record: its number may be counted after others were held out.

    >>> preview("a text that goes on for longer than is shown here")
    "'a text that goes on for longer than is s…'"
    """
    shown = " ".join(text[: 4 * most].split())
    return repr(shown if len(shown) <= most else f"{shown[:most].rstrip()}…")
