"""Two files stay aligned past their faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from saccade.data.files.records import EMPTY, LONG, NOT_UTF8
from saccade.data.pairs.records import Columns, Found, scan
from saccade.errors import InputError


def write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_a_fault_on_either_side_costs_its_own_pair(tmp_path: Path) -> None:
    first = write(tmp_path, "a.de", b"1\n\xff\n3\n" + b"4" * 2_000_000 + b"\n\n6\n\n8")
    second = write(tmp_path, "a.en", b"one\ntwo\nthr\ree\nfour\nfive\nsix\n\neight\n")
    found = list(scan((first, second)))
    assert [(item.line, getattr(item, "reason", "pair")) for item in found] == [
        (1, "pair"), (2, NOT_UTF8), (3, "a carriage return within a line"), (4, LONG), (5, EMPTY), (6, "pair"), (8, "pair"),
    ]  # fmt: skip
    assert [item.pair.target for item in found if isinstance(item, Found)] == ["one", "six", "eight"]
    assert str(found[2].error).startswith(f"{second}:3:")


def test_what_stood_before_the_end_of_the_shorter_file_was_given(tmp_path: Path) -> None:
    read = scan((write(tmp_path, "a.de", b"1\n2\n"), write(tmp_path, "a.en", b"one\n")))
    assert isinstance(next(read), Found)
    with pytest.raises(InputError, match=r"a\.en:2: expected as many lines as in"):
        next(read)


def test_plain_lines_have_no_groups(tmp_path: Path) -> None:
    path = write(tmp_path, "a.de", b"1\n")
    with pytest.raises(InputError, match=r"columns\.group: expected a file with columns, found plain lines"):
        list(scan((path, path), columns=Columns(group="doc")))
