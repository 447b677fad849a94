"""Reads questions and candidates from a folder of parallel files, as answer-selection sets often are: one line per candidate.

    a.toks    the question, repeated for each of its candidates
    b.toks    the candidate
    sim.txt   its relevance: 0 or 1, or a grade

Each may be compressed (.gz, .xz). Other files there (id.txt, boundary.txt, numrels.txt) only repeat this, and are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from saccade.data.files.lines import OPENERS, Encoding, parallel_lines, without_end
from saccade.data.files.records import Fault, Fields
from saccade.errors import InputError

QUESTIONS, CANDIDATES, RELEVANCE = NAMES = ("a.toks", "b.toks", "sim.txt")


def is_toks(folder: Path) -> bool:
    """Whether a folder holds such files."""
    return folder.is_dir() and _inside(folder, QUESTIONS) is not None


def scan_toks(folder: Path, encoding: Encoding = "utf-8") -> Iterator[Fields | Fault]:
    """(question, candidate, relevance) of every line."""
    if not is_toks(folder):
        found = "a file" if folder.is_file() else "a folder without them" if folder.exists() else "no such folder"
        raise InputError(folder, expected=f"a folder with {', '.join(NAMES)}", found=found)
    for lines in parallel_lines([_file(folder, name) for name in NAMES], encoding):
        broken = next((line.fault for line in lines if line.fault is not None), None)
        yield broken or Fields(lines[0].number, tuple(without_end(line.text) for line in lines))


def _file(folder: Path, name: str) -> Path:
    file = _inside(folder, name)
    if file is None:
        there = ", ".join(sorted(entry.name for entry in folder.iterdir())[:20]) or "nothing"
        raise InputError(folder, expected=f"the file {name}, perhaps compressed (.gz, .xz)", found=there)
    return file


def _inside(folder: Path, name: str) -> Path | None:
    return next((path for ending in ("", *OPENERS) if (path := folder / f"{name}{ending}").is_file()), None)
