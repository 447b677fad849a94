"""Options that several commands share, their shell completion, and reading inputs. Imports no torch."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
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


def lines() -> list[str]:
    """The lines of standard input."""
    if sys.stdin.isatty():
        raise SaccadeError("expected INPUT texts, or lines on stdin, found neither")
    # Bytes, not text: Python's settings may accept invalid UTF-8.
    raw = getattr(sys.stdin, "buffer", None)
    lines = [
        _decoded(line, number) for number, line in enumerate(raw or (line.encode() for line in sys.stdin), start=1)
    ]
    if not lines:
        raise SaccadeError("stdin: expected one text per line, found nothing")
    return lines


def _decoded(line: bytes, number: int) -> str:
    try:
        # Some editors write a byte order mark before the first line.
        return line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        found = f"the byte {line[error.start]:#04x}"
        raise SaccadeError(f"stdin, line {number}: expected UTF-8 text, found {found}") from None


def parse_inputs(bundle: Any, texts: Sequence[str]) -> tuple[dict[int, Any], dict[int, InputError]]:
    """Arguments or lines as inputs of the model's task, by their place; and the errors of those that cannot be read."""
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


def print_notes(text: str, prediction: Any) -> None:
    """Print a prediction's notes on stderr, after the beginning of its input."""
    start = text if len(text) <= LONGEST_INPUT else f"{text[: LONGEST_INPUT - 1].rstrip()}…"
    for note in prediction.notes:
        print(f"note: {start!r}: {note}", file=sys.stderr)
