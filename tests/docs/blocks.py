"""The fenced blocks of a page of documentation, in their order, with what the page says about running them.

A comment in front of a block says how it is taken:

    <!-- not run: needs a GPU -->      it is only read (commands are still parsed, recipes still checked)
    <!-- fails: no such field -->      it must end with an error
    <!-- shortened: 400 → 3 -->        it is run with 3 where it says 400
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[\w+-]*)")
MARK = re.compile(r"<!--\s*(?P<kind>not run|fails|shortened)\b:?\s*(?P<reason>.*?)\s*-->")


@dataclass(frozen=True)
class Block:
    """One fenced block; ``line`` is where its text begins, ``mark`` is "not run", "fails", "shortened" or empty."""

    page: Path
    line: int
    language: str
    text: str
    mark: str = ""
    reason: str = ""
    before: str = field(default="", repr=False)  # the prose since the block before
    touching: bool = False  # nothing stands between it and the block before

    @property
    def place(self) -> str:
        page = self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page
        return f"{page}:{self.line}"


def read_blocks(page: Path) -> list[Block]:
    return list(_blocks(page, page.read_text(encoding="utf-8").splitlines()))


def _blocks(page: Path, lines: list[str]) -> Iterator[Block]:
    prose: list[str] = []
    number, first = 0, True
    while number < len(lines):
        opened = FENCE.match(lines[number])
        if opened is None:
            prose.append(lines[number])
            number += 1
            continue
        start = number + 1
        number = start
        while number < len(lines) and lines[number].strip() != opened["fence"]:
            number += 1
        if number == len(lines):
            raise AssertionError(f"{page}:{start}: this block is never closed")
        indent = len(opened["indent"])
        text = "".join(line[indent:] + "\n" for line in lines[start:number])
        said = [line.strip() for line in prose if line.strip()]
        mark = MARK.fullmatch(said[-1]) if said else None
        yield Block(
            page,
            start + 1,
            opened["language"],
            text,
            mark["kind"] if mark else "",
            mark["reason"] if mark else "",
            "\n".join(prose),
            touching=not said and not first,
        )
        prose, first = [], False
        number += 1
