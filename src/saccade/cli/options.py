"""What several commands share: their options, and how inputs are read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from saccade.cli.completion import module_names, trained_runs
from saccade.errors import InputError, SaccadeError

Run = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="The folder of a trained run, e.g. runs/rnnsearch_dates-….", autocompletion=trained_runs
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Force = Annotated[bool, typer.Option("--force", help="Write over a file that exists.")]
Trust = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        metavar="MODULE",
        help="Import parts that the run names in this module or package; may be repeated. None is, unless named here.",
        autocompletion=module_names,
    ),
]
Beam = Annotated[
    int | None,
    typer.Option(min=1, help="Beam size; the recipe's own unless given. 1 is greedy.", rich_help_panel="Search"),
]
TOLD = 60  # characters of an input in a note


def refuse_existing(out: Path | None, *, force: bool) -> None:
    """Raise where writing ``out`` would cost what stands there: it may be the file that the run was trained on."""
    if out is None and force:
        raise SaccadeError("--force: expected --out FILE beside it, found none")
    if out is not None and out.is_dir():
        raise InputError(out, field="--out", expected="the name of a file to write", found="a folder")
    if out is not None and out.exists() and not force:
        raise InputError(out, field="--out", expected="a new file", found="one that exists", hint="add --force")


def lines() -> list[str]:
    if sys.stdin.isatty():
        raise SaccadeError("expected INPUT texts, or lines on stdin, found neither")
    # Bytes, not text: a terminal's settings may let through what is no UTF-8.
    raw = getattr(sys.stdin, "buffer", None)
    lines = [
        _decoded(line, number) for number, line in enumerate(raw or (line.encode() for line in sys.stdin), start=1)
    ]
    if not lines:
        raise SaccadeError("stdin: expected a text a line, found nothing")
    return lines


def parse_inputs(bundle: Any, texts: Sequence[str]) -> tuple[dict[int, Any], dict[int, InputError]]:
    """Arguments or lines as the model's task takes them, by their place; and why others cannot be predicted."""
    parsed: dict[int, Any] = {}
    refused: dict[int, InputError] = {}
    for number, text in enumerate(texts):
        try:
            parsed[number] = bundle.task.input.from_argument(text, f"input {number + 1}")
            bundle.task.read(parsed[number], f"input {number + 1}", bundle.network)
        except InputError as error:
            parsed.pop(number, None)
            refused[number] = error
    return parsed, refused


def _decoded(line: bytes, number: int) -> str:
    try:
        # A mark of the byte order may stand before the first line, as in files that some editors write.
        return line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        found = f"the byte {line[error.start]:#04x}"
        raise SaccadeError(f"stdin, line {number}: expected UTF-8 text, found {found}") from None


def print_notes(text: str, prediction: Any) -> None:
    """What is to be said of a prediction, on stderr; of a long text its beginning says which one is meant."""
    told = text if len(text) <= TOLD else f"{text[: TOLD - 1].rstrip()}…"
    for note in prediction.notes:
        print(f"note: {told!r}: {note}", file=sys.stderr)
