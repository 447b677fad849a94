"""What several commands share: their options, and how inputs are read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.completion import trained_runs
from saccade.errors import SaccadeError

Run = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="The folder of a trained run, e.g. runs/rnnsearch_dates-….", autocompletion=trained_runs
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Beam = Annotated[
    int | None,
    typer.Option(min=1, help="Beam size; the recipe's own unless given. 1 is greedy.", rich_help_panel="Search"),
]


def lines() -> list[str]:
    if sys.stdin.isatty():
        raise SaccadeError("expected INPUT texts, or lines on stdin, found neither")
    try:
        lines = [line.rstrip("\r\n") for line in sys.stdin]
    except UnicodeDecodeError as error:
        raise SaccadeError(f"stdin: expected UTF-8 text, found byte {error.object[error.start]:#04x}") from None
    if not lines:
        raise SaccadeError("stdin: expected a text a line, found nothing")
    return lines
