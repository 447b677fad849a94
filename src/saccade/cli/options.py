"""Options that several commands share, their shell completion, and reading inputs. Imports no torch."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Any

import typer

from saccade.errors import InputError, SaccadeError

DEPTH = 3  # folders below what was typed: runs/NAME, and runs/SWEEP/NAME
MOST = 200  # offers; more help nobody
LINE = 44  # characters that stand beside a recipe's name: a shell's list breaks at longer ones


def recipe_names(incomplete: str) -> list[tuple[str, str]]:
    """Shipped recipes, each with what it is about, and recipe files, that begin with what was typed."""
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
    """Folders that hold a trained model and begin with what was typed."""
    return _holding("model.safetensors", incomplete)


def begun_runs(incomplete: str) -> list[str]:
    """Folders of runs and sweeps, finished or not, that begin with what was typed."""
    return sorted({*_holding("run.json", incomplete), *_holding("sweep.json", incomplete)})[:MOST]


def metric_names(incomplete: str) -> list[str]:
    from saccade.recipes.recipe import METRICS, METRICS_OF

    known = dict.fromkeys([*METRICS, *(name for names in METRICS_OF.values() for name in names)])
    return [name for name in known if name.startswith(incomplete)]


def _holding(file: str, incomplete: str) -> list[str]:
    typed, here, name = _split(incomplete)
    offers: list[str] = []
    for folder in sorted(_inside(here)):
        if folder.name.startswith(name):
            offers += (typed + found.relative_to(here).as_posix() for found in _descend(folder, file, DEPTH))
    return offers[:MOST]


def _split(incomplete: str) -> tuple[str, Path, str]:
    """(what was typed up to the last slash, the folder it names, the beginning of the name in it)."""
    above, slash, name = incomplete.rpartition("/")
    return above + slash, Path(os.path.expanduser(above + slash) or "."), name


def _descend(folder: Path, file: str, depth: int) -> Iterator[Path]:
    if (folder / file).is_file():
        yield folder
    elif depth > 1 and folder.is_dir():
        for inner in sorted(_inside(folder)):
            yield from _descend(inner, file, depth - 1)


def _inside(folder: Path) -> list[Path]:
    """What a folder holds, hidden things left out; nothing where it cannot be read: Tab has no place for errors."""
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
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Force = Annotated[bool, typer.Option("--force", help="Write over a file that exists.")]
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
