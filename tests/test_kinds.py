"""Inputs are parsed once for every door: the command line, requests and Python."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from saccade import kinds
from saccade.errors import InputError


@pytest.mark.parametrize(
    ("kind", "value", "parsed"),
    [
        (kinds.TEXT, "a text", "a text"),
        (kinds.WORDS, ["two", "words"], ["two", "words"]),
        (kinds.PAIR, ["first", "second"], ("first", "second")),
        (kinds.CANDIDATES, {"question": "q", "candidates": ["a"]}, {"question": "q", "candidates": ["a"]}),
        (kinds.POINTS, [[0.1, 0.2], [0.3, 0.4]], [[0.1, 0.2], [0.3, 0.4]]),
        (kinds.RECORD, {"visits": []}, {"visits": []}),
        (kinds.RECORD, '{"visits": []}', {"visits": []}),
        (kinds.IMAGE, {"base64": base64.b64encode(b"\x00png").decode()}, b"\x00png"),
    ],
    ids=lambda part: getattr(part, "name", None),
)
def test_json_becomes_the_value_that_a_task_reads(kind: kinds.InputKind, value: object, parsed: object) -> None:
    assert kind.from_json(value, "request") == parsed


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        (kinds.TEXT, 7, "a number"),
        (kinds.TEXT, None, "nothing"),
        (kinds.WORDS, ["two", 7], "a list"),
        (kinds.PAIR, ["a", "b", "c"], "a list"),
        (kinds.RECORD, "patient.json", "a text that is not JSON"),
        (kinds.AUDIO, "a text", "a text"),
        (kinds.AUDIO, {"base64": "no!"}, "other characters"),
    ],
    ids=lambda part: getattr(part, "name", None),
)
def test_json_of_another_kind_is_refused_by_its_type(kind: kinds.InputKind, value: object, found: str) -> None:
    with pytest.raises(InputError) as refusal:
        kind.from_json(value, "request")
    assert refusal.value.where == "request" and refusal.value.found == found


def test_a_request_is_held_to_the_limit_of_its_kind() -> None:
    assert kinds.TEXT.from_json("abcde", "request", largest=5) == "abcde"
    with pytest.raises(InputError, match=r"at most 5 characters, found 6"):
        kinds.WORDS.from_json(["abc", "def"], "request", largest=5)
    small = kinds.InputKind("image", "a file", kinds.IMAGE.parse_argument, kinds.IMAGE.parse_json, largest=3)
    with pytest.raises(InputError, match="at most 3 bytes"):
        small.from_json({"base64": base64.b64encode(b"12345").decode()}, "request", largest=100)


def test_a_record_on_the_command_line_is_json_or_the_file_that_holds_it(tmp_path: Path) -> None:
    record = {"visits": [{"time": 1, "codes": ["a"]}]}
    file = tmp_path / "patient.json"
    file.write_text(json.dumps(record))
    assert kinds.RECORD.from_argument(json.dumps(record), "input 1") == record
    assert kinds.RECORD.from_argument(str(file), "input 1") == record
    with pytest.raises(InputError, match=r"input 1: expected a JSON object, or a \.json file"):
        kinds.RECORD.from_argument("a text", "input 1")
    file.write_text("{")
    with pytest.raises(InputError, match=r"patient\.json: expected JSON"):
        kinds.RECORD.from_argument(str(file), "input 1")


def test_an_image_on_the_command_line_is_a_file_that_exists(tmp_path: Path) -> None:
    file = tmp_path / "cat.png"
    file.write_bytes(b"png")
    assert kinds.IMAGE.from_argument(str(file), "input 1") == file
    with pytest.raises(InputError, match="input 2: expected a file"):
        kinds.IMAGE.from_argument(str(tmp_path / "dog.png"), "input 2")
