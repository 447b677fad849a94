"""Reads word alignments from files, and the pairs they belong to.

A link (i, j) says that source word i and target word j translate each other; here words count from 0. Two formats are
read, one pair per line, also gzipped or xz'd:

    Pharaoh   ``1-1 2-3 2p4``: i-j is a sure link, ipj a possible one; a blank line has no links. Some files count words
              from 0 and some from 1, and the file does not say: ``first`` does
    JSONL     ``{"src_words": […], "tgt_words": […], "alignment": [[0, 0], …]}`` counts from 0; ``"possible"`` may be added

Pairs of words are the JSONL's own, or lines of ``source words ||| target words``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade.data.files.jsonl import object_of
from saccade.data.files.lines import text_lines
from saccade.data.files.records import Fault
from saccade.data.pairs.records import Pair
from saccade.errors import InputError

Link = tuple[int, int]

LINK = re.compile(r"(\d+)([-p])(\d+)")
DIVIDER = "|||"
SOURCE_WORDS, TARGET_WORDS, SURE, POSSIBLE = "src_words", "tgt_words", "alignment", "possible"


@dataclass(frozen=True)
class Gold:
    """The links that people marked in one pair: the sure ones, and the possible ones (which include the sure)."""

    sure: frozenset[Link]
    possible: frozenset[Link]


def read_gold(path: str | Path, *, first: int | None = None) -> list[Gold]:
    """A gold alignment for each pair. ``first`` is the number of the first word in a Pharaoh file: 0 or 1."""
    path = Path(path)
    rows = _json_links(path) if is_jsonl(path) else _pharaoh(path, first)
    gold = [Gold(sure, sure | possible) for sure, possible in rows]
    if not gold:
        raise InputError(path, expected="a line of links for each pair", found="an empty file")
    return gold


def read_links(path: str | Path, *, first: int | None = None) -> list[frozenset[Link]]:
    """The links that a system found, a set for each pair; sure and possible ones alike."""
    return [gold.possible for gold in read_gold(path, first=first)]


def write_links(links: Iterable[Link]) -> str:
    """Links as a Pharaoh line, words counted from 0.

    >>> write_links({(1, 0), (0, 2)})
    '0-2 1-0'
    """
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def read_word_pairs(path: str | Path) -> list[Pair]:
    """The pairs of a file of ``source words ||| target words``, or of the JSONL; words are divided by single spaces."""
    path = Path(path)
    pairs = list(_json_pairs(path) if is_jsonl(path) else _divided(path))
    if not pairs:
        raise InputError(path, expected="at least one pair", found="an empty file")
    return pairs


def is_jsonl(path: Path) -> bool:
    return ".jsonl" in (suffix.lower() for suffix in path.suffixes[-2:])


def has_words(path: Path) -> bool:
    """Whether a JSONL file holds lists of words rather than texts."""
    line = next(text_lines(path), "")
    return f'"{SOURCE_WORDS}"' in line


def _pharaoh(path: Path, first: int | None) -> Iterator[tuple[frozenset[Link], frozenset[Link]]]:
    if first not in (0, 1):
        expected = "first to say whether words count from 0 or from 1"
        raise InputError(path, expected=expected, found="nothing" if first is None else str(first))
    for number, line in enumerate(text_lines(path), start=1):
        links: dict[str, set[Link]] = {"-": set(), "p": set()}
        for text in line.split():
            found = LINK.fullmatch(text)
            if found is None:
                raise InputError(path, line=number, expected="links such as 3-4 or 3p4", found=repr(text[:40]))
            link = (int(found[1]) - first, int(found[3]) - first)
            if min(link) < 0:
                raise InputError(path, line=number, expected="words counted from 1", found=f"the link {text}")
            links[found[2]].add(link)
        yield frozenset(links["-"]), frozenset(links["p"])


def _json_links(path: Path) -> Iterator[tuple[frozenset[Link], frozenset[Link]]]:
    for number, record in _records(path):
        yield _links(record, SURE, path, number), _links(record, POSSIBLE, path, number)


def _links(record: dict[str, Any], key: str, path: Path, line: int) -> frozenset[Link]:
    links = record.get(key, [] if key == POSSIBLE else None)
    whole = isinstance(links, list) and all(
        isinstance(link, list) and len(link) == 2 and all(type(word) is int and word >= 0 for word in link)
        for link in links
    )
    if not whole:
        found = "nothing" if links is None else repr(links)[:60]
        raise InputError(path, line=line, field=key, expected="links such as [[0, 0], [1, 2]]", found=found)
    return frozenset((source, target) for source, target in links or [])


def _json_pairs(path: Path) -> Iterator[Pair]:
    for number, record in _records(path):
        sides = []
        for key in (SOURCE_WORDS, TARGET_WORDS):
            words = record.get(key)
            if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
                raise InputError(path, line=number, field=key, expected="a list of words", found=repr(words)[:60])
            # A word with a blank inside would come apart and shift every link after it.
            sides.append(" ".join("\u00b7".join(word.split()) or "\u00b7" for word in words))
        yield Pair(*sides)


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text_lines(path), start=1):
        if line.strip():
            record = object_of(line, path, number)
            if isinstance(record, Fault):
                raise record.error
            yield number, record


def _divided(path: Path) -> Iterator[Pair]:
    for number, line in enumerate(text_lines(path), start=1):
        sides = [" ".join(side.split()) for side in line.split(DIVIDER)]
        if len(sides) != 2 or not all(sides):
            found = "an empty side" if len(sides) == 2 else f"{line.count(DIVIDER)} dividers"
            expected = f"source words {DIVIDER} target words"
            raise InputError(path, line=number, expected=expected, found=found)
        yield Pair(*sides)
