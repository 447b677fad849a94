"""Questions and candidates in a folder of parallel files, as answer-selection sets are often kept: a line a candidate.

    a.toks    the question, again for each of its candidates
    b.toks    the candidate
    sim.txt   its relevance: 0 or 1, or a grade

Each may be packed (.gz, .xz). What else lies there (id.txt, boundary.txt, numrels.txt) only repeats this, and is not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from saccade.data.files.fields import Fields
from saccade.data.files.lines import OPENERS, Encoding, Line, lines_of, without_end
from saccade.data.files.records import Fault
from saccade.errors import InputError

QUESTIONS, CANDIDATES, RELEVANCE = NAMES = ("a.toks", "b.toks", "sim.txt")


def is_toks(folder: Path) -> bool:
    """Whether a folder holds questions and candidates so."""
    return folder.is_dir() and _inside(folder, QUESTIONS) is not None


def scan_toks(folder: Path, encoding: Encoding = "utf-8") -> Iterator[Fields | Fault]:
    """(question, candidate, relevance) of every line; ``place`` names the file of the line that is at fault."""
    files = [_found(folder, name) for name in NAMES]
    for number, lines in enumerate(zip_longest(*(lines_of(file, encoding) for file in files)), start=1):
        short = next((file for file, line in zip(files, lines, strict=True) if line is None), None)
        if short is not None:
            expected = f"as many lines as {', '.join(file.name for file in files if file != short)}"
            raise InputError(short, expected=expected, found=f"{number - 1:,}, and there are more")
        yield _fields(lines, number)


def _fields(lines: tuple[Line, ...], number: int) -> Fields | Fault:
    broken = next((line.fault for line in lines if line.fault is not None), None)
    return broken or Fields(number, tuple(without_end(line.text) for line in lines))


def _found(folder: Path, name: str) -> Path:
    file = _inside(folder, name)
    if file is None:
        there = ", ".join(sorted(entry.name for entry in folder.iterdir())[:20]) or "nothing"
        raise InputError(folder, expected=f"the file {name}, perhaps packed (.gz, .xz)", found=there)
    return file


def _inside(folder: Path, name: str) -> Path | None:
    return next((path for ending in ("", *OPENERS) if (path := folder / f"{name}{ending}").is_file()), None)
