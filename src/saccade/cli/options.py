"""Options that several commands share, their shell completion, and reading inputs. Imports no torch."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Any

import typer

from saccade.cli.printing import print
from saccade.errors import InputError, SaccadeError

DEPTH = 3  # folders below the typed one: runs/NAME, and runs/SWEEP/NAME
MOST = 200  # completions
LINE = 44  # characters of a recipe's description: a shell wraps longer ones


def recipe_names(incomplete: str) -> list[tuple[str, str]]:
    """Shipped recipes with their descriptions, and recipe files, that start with the typed text."""
    import yaml

    from saccade.recipes.recipe import shipped_recipes

    offers = [
        (name, shorten(str(yaml.safe_load(path.read_text(encoding="utf-8")).get("about", "")), LINE, placeholder=" …"))
        for name, path in shipped_recipes().items()
        if name.startswith(incomplete)
    ]
    typed, here, _ = _split(incomplete)
    files = [(typed + path.name, "a file") for path in sorted(_inside(here)) if path.suffix in (".yaml", ".yml")]
    return offers + [file for file in files if file[0].startswith(incomplete)]


def trained_runs(incomplete: str) -> list[str]:
    """Folders with a trained model that start with the typed text."""
    return _holding("model.safetensors", incomplete)


def begun_runs(incomplete: str) -> list[str]:
    """Folders of runs and sweeps, finished or not, that start with the typed text."""
    return sorted({*_holding("run.json", incomplete), *_holding("sweep.json", incomplete)})[:MOST]


def module_names(incomplete: str) -> list[str]:
    """Modules and packages in the current folder."""
    modules = [path.stem for path in _inside(Path()) if path.suffix == ".py"]
    modules += [path.name for path in _inside(Path()) if (path / "__init__.py").is_file()]
    return sorted(name for name in modules if name.isidentifier() and name.startswith(incomplete))


def metric_names(incomplete: str) -> list[str]:
    from saccade.tasks import TASKS, metrics_of

    known = dict.fromkeys(name for task in TASKS for name in metrics_of(task))
    return [name for name in known if name.startswith(incomplete)]


def _holding(file: str, incomplete: str) -> list[str]:
    typed, here, name = _split(incomplete)
    offers: list[str] = []
    for folder in sorted(_inside(here)):
        if folder.name.startswith(name):
            offers += (typed + run.relative_to(here).as_posix() for run in _descend(folder, file, DEPTH))
    return offers[:MOST]


def _split(incomplete: str) -> tuple[str, Path, str]:
    """(typed text up to the last slash, the folder it names, the start of the name in it)."""
    above, slash, name = incomplete.rpartition("/")
    return above + slash, Path(os.path.expanduser(above + slash) or "."), name


def _descend(folder: Path, file: str, depth: int) -> Iterator[Path]:
    if (folder / file).is_file():
        yield folder
    elif depth > 1 and folder.is_dir():
        for inner in sorted(_inside(folder)):
            yield from _descend(inner, file, depth - 1)


def _inside(folder: Path) -> list[Path]:
    """The visible files of a folder; none if it cannot be read, since completion cannot show errors."""
    try:
        return [path for path in folder.iterdir() if not path.name.startswith(".")]
    except OSError:
        return []


Run = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="The folder of a trained run, e.g. runs/rnnsearch_dates-….", autocompletion=trained_runs
    ),
]
Trust = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        metavar="MODULE",
        help="Allow importing the run's own parts from this module or package; may be repeated. Default: none.",
        autocompletion=module_names,
    ),
]
Inputs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[INPUT]...",
        help="Inputs of the task's kind: texts, JSON, files of images or sound; default: the lines of stdin.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
Beam = Annotated[
    int | None,
    typer.Option(min=1, help="Beam size; 1 is greedy. Default: the recipe's.", rich_help_panel="Search"),
]
LONGEST_INPUT = 60  # characters of an input in a note


def refuse_existing(out: Path | None, *, force: bool) -> None:
    """Refuse to overwrite an existing file without --force: it may be the training data."""
    if out is None and force:
        raise SaccadeError("--force: expected --out FILE too, found none")
    if out is not None and out.is_dir():
        raise InputError(out, field="--out", expected="the name of a file to write", found="a folder")
    if out is not None and out.exists() and not force:
        raise InputError(out, field="--out", expected="a new file", found="an existing one", hint="add --force")


FIRST_CHUNK, LARGEST_CHUNK = 16, 1024  # inputs predicted together: few at first, so that outputs come soon
LONGEST_LINE = 16_000_000  # bytes


def line_chunks() -> Iterator[list[bytes]]:
    """The lines of standard input as they come, without their ends, in chunks that grow."""
    if sys.stdin.isatty():
        raise SaccadeError("expected INPUT texts, or lines on stdin, found neither")
    # Bytes, not text: Python's settings may accept invalid UTF-8.
    raw = getattr(sys.stdin, "buffer", None) or io.BytesIO(sys.stdin.read().encode("utf-8", "surrogateescape"))
    rest, number, most = b"", 0, FIRST_CHUNK
    while data := raw.read1(1 << 16):
        *whole, rest = (rest + data).split(b"\n")
        while whole:
            chunk, whole = whole[:most], whole[most:]
            yield [_bare(line, first=number + place == 0) for place, line in enumerate(chunk)]
            number, most = number + len(chunk), min(2 * most, LARGEST_CHUNK)
        if len(rest) > LONGEST_LINE:
            found = f"more than {LONGEST_LINE:,} bytes"
            raise SaccadeError(f"stdin, line {number + 1}: expected a text, found {found} without an end of line")
    if rest:
        yield [_bare(rest, first=number == 0)]
    elif number == 0:
        raise SaccadeError("stdin: expected one text per line, found nothing")


def _bare(line: bytes, *, first: bool) -> bytes:
    """A line without its end; some editors write a byte order mark before the first one."""
    return (line.removeprefix(codecs.BOM_UTF8) if first else line).rstrip(b"\r")


def decoded(line: bytes, where: str) -> str:
    """A line as text; ``where`` names it in the error."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(where, expected="UTF-8 text", found=f"the byte {line[error.start]:#04x}") from None


def lines() -> list[str]:
    """The lines of standard input."""
    rows = [line for chunk in line_chunks() for line in chunk]
    return [decoded(line, f"stdin, line {number}") for number, line in enumerate(rows, start=1)]


def print_notes(text: str, prediction: Any) -> None:
    """Print a prediction's notes on stderr, after the beginning of its input."""
    start = text if len(text) <= LONGEST_INPUT else f"{text[: LONGEST_INPUT - 1].rstrip()}…"
    for note in prediction.notes:
        print(f"note: {start!r}: {note}", file=sys.stderr)
