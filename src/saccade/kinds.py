"""Parses the inputs of tasks, by kind, from the command line and from JSON, and names the kinds of outputs. No torch.

An input comes from the command line (an argument or a line of text), from a request (JSON) or from Python. An
:class:`InputKind` turns each of these into the one value that :meth:`saccade.task.Task.read` takes, within its limits:

    kind        command line            JSON                               Python
    text        the text                "the text"                         str
    words       the text                "the text" or ["the", "words"]     str or a list of words
    pair        first TAB second        "first\\tsecond" or [first, second]  the same, or a tuple
    candidates  question TAB c₁ TAB c₂  the same, or {"question", "candidates"}
    points      JSON                    a list of points                   the same, or an array
    record      JSON, or a .json file   an object, or its JSON text        a dict
    image       a file                  {"base64": …}                      a path, bytes or whatever the task reads
    audio       a file                  {"base64": …}                      the same
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from saccade.errors import InputError

OutputKind = Literal["text", "continuation", "label", "tags", "ranking", "order", "number", "image"]
MEGABYTE = 1_000_000


@dataclass(frozen=True)
class InputKind:
    """One kind of input.

    Attributes:
        name: what the explorer and ``GET /v1/models`` call it.
        form: its description in messages.
        parse_argument: a command-line argument or line → the input.
        parse_json: a JSON value → the input.
        largest: the size that a request may have: characters of a text, bytes of a file.
        sample: an input of this kind, as Python writes it.
    """

    name: str
    form: str
    parse_argument: Callable[[str, str], Any]
    parse_json: Callable[[Any, str], Any]
    largest: int | None = None
    sample: Any = "…"

    def from_argument(self, text: str, where: str) -> Any:
        """The input from a command-line argument; ``where`` names it in errors."""
        return self.parse_argument(text, where)

    def from_json(self, value: Any, where: str, largest: int | None = None) -> Any:
        """The input in a request, at most ``largest`` characters or bytes of it."""
        limit = largest if self.largest is None else self.largest
        size = size_of(value)
        if limit is not None and size > limit:
            unit = "bytes" if self.largest is not None else "characters"
            raise InputError(where, expected=f"at most {limit:,} {unit}", found=f"{size:,}")
        return self.parse_json(value, where)


def json_name(value: Any) -> str:
    """What JSON calls a value; messages name its type and do not repeat the value."""
    if value is None:
        return "nothing"
    names = ((bool, "true or false"), (str, "a text"), (int | float, "a number"), (list, "a list"), (dict, "a mapping"))
    return next((name for kind, name in names if isinstance(value, kind)), type(value).__name__)


def size_of(value: Any) -> int:
    """Characters in a JSON value, base64 counted as the bytes it encodes."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        if set(value) == {"base64"} and isinstance(value["base64"], str):
            return len(value["base64"]) * 3 // 4
        return sum(size_of(key) + size_of(part) for key, part in value.items())
    if isinstance(value, list):
        return sum(map(size_of, value))
    return len(str(value))


def _as_it_is(text: str, where: str) -> str:
    return text


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(where, expected="a text", found=json_name(value))
    return value


def _texts(value: Any, where: str) -> Any:
    """A text, or a list of texts."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return value
    return _text(value, where)


def _pair(value: Any, where: str) -> Any:
    if isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value):
        return tuple(value)
    return _text(value, where)


def _candidates(value: Any, where: str) -> Any:
    if isinstance(value, dict | list):
        return value
    return _text(value, where)


def _points(value: Any, where: str) -> Any:
    return value if isinstance(value, list) else _text(value, where)


def _record(value: Any, where: str) -> Any:
    if isinstance(value, str):  # typed into a page; never the name of a file
        try:
            value = json.loads(value)
        except ValueError:
            raise InputError(where, expected="a JSON object", found="a text that is not JSON") from None
    if not isinstance(value, dict | list):
        raise InputError(where, expected="a JSON object", found=json_name(value))
    return value


def _json_or_file(text: str, where: str) -> Any:
    """A JSON text, or the name of a .json file that holds one."""
    source, given = where, text
    if not text.lstrip().startswith(("{", "[")):
        path = Path(text)
        if path.suffix != ".json" or not path.is_file():
            found = f"no file {text[:100]!r}" if path.suffix == ".json" else repr(text[:60])
            raise InputError(where, expected="a JSON object, or a .json file", found=found)
        source, given = str(path), path.read_text(encoding="utf-8")
    try:
        return _record(json.loads(given), source)
    except ValueError as error:
        raise InputError(source, expected="JSON", found=str(error)) from None


def _file(text: str, where: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise InputError(where, expected="a file", found=f"no file {text[:100]!r}")
    return path


def _base64(value: Any, where: str) -> bytes:
    if not (isinstance(value, Mapping) and set(value) == {"base64"} and isinstance(value["base64"], str)):
        raise InputError(where, expected='{"base64": "…"}', found=json_name(value))
    try:
        return base64.b64decode(value["base64"], validate=True)
    except (binascii.Error, ValueError):
        raise InputError(where, field="base64", expected="base64", found="other characters") from None


TEXT = InputKind("text", "a text", _as_it_is, _text)
WORDS = InputKind("words", "a text or a list of words", _as_it_is, _texts)
PAIR = InputKind("pair", "a text, or two with a tab between them", _as_it_is, _pair)
CANDIDATES = InputKind(
    "candidates", "a question and its candidates with tabs between them", _as_it_is, _candidates, sample="…?\t…\t…"
)
POINTS = InputKind("points", "a list of points as JSON", _as_it_is, _points, sample=[[0.1, 0.2], [0.4, 0.3]])
RECORD = InputKind("record", "a JSON object or a .json file", _json_or_file, _record, sample={"…": "…"})
IMAGE = InputKind("image", "an image file", _file, _base64, largest=20 * MEGABYTE, sample="image.png")
AUDIO = InputKind("audio", "an audio file", _file, _base64, largest=50 * MEGABYTE, sample="audio.wav")
