"""A line of JSON that is no pair is a fault of its own, whatever it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from saccade.data.files.records import EMPTY, NO_KEY, NOT_JSON, NOT_TEXT, NUL, SURROGATE
from saccade.data.pairs.records import Columns, Found, Pair, header_of, read_pairs, scan
from saccade.errors import InputError

GOOD = '{"source": "a", "target": "b"}'


def write(folder: Path, *lines: str) -> Path:
    path = folder / "a.jsonl"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("x y", NOT_JSON),
        ("[1]", NOT_JSON),
        ("[" * 100_000, NOT_JSON),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, NOT_JSON),
        ("9" * 5000, NOT_JSON),
        ('{"source": "a", "target": ' + "9" * 5000 + "}", NOT_JSON),
        (f"{GOOD} {GOOD}", NOT_JSON),
        (f"{GOOD}\r{GOOD}", NOT_JSON),
        ('{"source": "a"}', NO_KEY),
        ('{"source": "a", "target": 3}', NOT_TEXT),
        ('{"source": "a", "target": NaN}', NOT_TEXT),
        ('{"source": "a", "target": {"en": "b"}}', NOT_TEXT),
        ('{"source": "a", "target": "\\ud83d"}', SURROGATE),
        ('{"source": "a", "target": "\\u0000"}', NUL),
        ('{"source": "a", "target": " "}', EMPTY),
    ],
)
def test_a_bad_line_is_one_fault_between_two_pairs(tmp_path: Path, line: str, reason: str) -> None:
    found = list(scan(write(tmp_path, GOOD, line, GOOD)))
    assert [(item.line, getattr(item, "reason", "pair")) for item in found] == [(1, "pair"), (2, reason), (3, "pair")]


def test_keys_may_stand_in_an_inner_object_and_a_group_may_be_a_number(tmp_path: Path) -> None:
    path = write(tmp_path, '{"doc": 7, "translation": {"en": "one", "de": "eins"}, "a.b": "dotted"}')
    assert header_of(path) == ["doc", "translation.en", "translation.de", "a.b"]
    columns = Columns("translation.de", "a.b", "doc")
    assert list(scan(path, columns=columns)) == [Found(1, Pair("eins", "dotted"), "7")]
    assert [item.group for item in scan(path, columns=Columns("a.b", "translation.en", "nowhere"))] == [None]


def test_keys_have_no_numbers(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="columns: expected the names of keys, found the number 3"):
        read_pairs(write(tmp_path, GOOD), source=3, target=4)


def test_the_keys_are_those_of_the_first_record_that_is_one(tmp_path: Path) -> None:
    assert header_of(write(tmp_path, "", "[]", GOOD)) == ["source", "target"]
    assert header_of(write(tmp_path, "[]")) is None


def test_a_first_line_without_a_key_does_not_hide_the_key_from_others(tmp_path: Path) -> None:
    path = write(tmp_path, '{"a": "x"}', '{"a": "y", "b": {"c": 1}}')
    assert header_of(path) == ["a", "b.c"]
