"""Reads YAML into a tree of values that know their file and line, and applies ``key=value`` overrides. Imports nothing heavy.

An error found long after reading still names its line, or the command line.

    read_yaml(path) → override(root, ["model.hidden=128"])
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from saccade.documents import join, quote
from saccade.errors import InputError

COMMAND_LINE = "command line"
# A recipe is about a page. A file beyond these limits is a mistake or an attack, such as brackets nested ten thousand deep or
# aliases of aliases that expand to billions of values. Values and levels are counted with every alias written out.
MAX_BYTES, MAX_VALUES, MAX_DEPTH = 200_000, 10_000, 32


@dataclass(frozen=True)
class Located:
    """A YAML value with its file and line."""

    value: dict[str, Located] | list[Located] | str | int | float | bool | None
    where: str  # file name or "command line"
    line: int | None = None
    text: str | None = None  # a scalar as written, without its quotes; None for mappings and lists


def refusal(node: Located, field: str, expected: str, found: str = "", hint: str | None = None) -> InputError:
    found = found or _found(node)
    return InputError(node.where, line=node.line, field=field or None, expected=expected, found=found, hint=hint)


def _found(node: Located) -> str:
    if isinstance(node.value, (dict, list)):
        return "a mapping" if isinstance(node.value, dict) else "a list"
    if node.value is None:
        return "null" if node.text else "nothing"
    return quote(node.text or str(node.value))


# ---- Reading: bytes → a tree of located values


def read_yaml(path: str | Path) -> Located:
    """The file's one document, which must be a mapping."""
    root = _compose(_read_file(path), str(path), numbered=True)
    if root is None:
        raise InputError(path, expected="a mapping", found="an empty file")
    if not isinstance(root.value, dict):
        raise refusal(root, "", "a mapping (key: value)")
    return root


def _read_file(path: str | Path) -> str:
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        known: dict[type, str] = {FileNotFoundError: "no such file", IsADirectoryError: "a directory"}
        found = known.get(type(error), f"an unreadable one: {getattr(error, 'strerror', None) or error}")
        raise InputError(path, expected="a YAML file", found=found) from None
    if len(raw) > MAX_BYTES:
        raise InputError(path, expected=f"at most {MAX_BYTES:,} bytes of YAML", found="more")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, found = raw.count(b"\n", 0, error.start) + 1, f"the byte 0x{raw[error.start]:02x}"
        raise InputError(path, line=line, expected="UTF-8 text", found=found, hint="save the file as UTF-8") from None


def _compose(text: str, where: str, *, numbered: bool) -> Located | None:
    """The tree of the one document in `text`; None where there is none."""
    try:
        loader = yaml.SafeLoader(text)
        return _Composer(loader, where, numbered).document()
    except yaml.MarkedYAMLError as error:
        raise _syntax_fault(error, where) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        found = f"the control character {text[error.position]!r}"
        raise InputError(where, line=line, expected="printable text", found=found) from None
    except (ValueError, OverflowError):  # PyYAML lets "\UFFFFFFFF" and `%YAML 99…9` fail in chr() and int()
        line = loader.get_mark().line + 1
        raise InputError(where, line=line, expected="valid YAML", found="a number out of range") from None


def _syntax_fault(error: yaml.MarkedYAMLError, where: str) -> InputError:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else None
    column = f" at column {mark.column + 1}" if mark else ""
    if r"'\t'" in (error.problem or ""):
        return InputError(where, line=line, expected="spaces", found=f"a tab{column}")
    words = " ".join(f"{error.problem or ''} {error.context or ''}".split())
    if error.context_mark and error.context_mark.line + 1 != line:
        words += f" that began on line {error.context_mark.line + 1}"
    return InputError(where, line=line, expected="valid YAML", found=f"a syntax error{column}: {words}")


class _Composer:
    """Turns YAML's events into one tree; raises on tags, second documents and trees that are too large."""

    def __init__(self, loader: yaml.SafeLoader, where: str, numbered: bool) -> None:
        self.where, self.numbered = where, numbered
        self.events: Iterator[Any] = iter(
            loader.get_event, None
        )  # one at a time, so that an alias bomb is never expanded
        self.anchors: dict[str | None, tuple[Located, int, int] | None] = {}  # with how many values, how deep
        self.values = self.deepest = 0

    def document(self) -> Located | None:
        root = None
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    raise self.fault(event, "one YAML document", "a second one")
                root = self.node(next(self.events), depth=0)
        return root

    def line(self, event: Any) -> int | None:
        return event.start_mark.line + 1 if self.numbered else None

    def fault(self, event: Any, expected: str, found: str, hint: str | None = None) -> InputError:
        return InputError(self.where, line=self.line(event), expected=expected, found=found, hint=hint)

    def node(self, event: Any, depth: int) -> Located:
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, depth)
        before, outer, self.deepest = self.values, self.deepest, depth
        self.grow(event, 1, depth)
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            raise self.fault(event, "a value without a tag", f"the tag {quote(tag)}", "values are read by their field")
        self.anchors[event.anchor] = None  # until its value is complete
        node = Located(self.content(event, depth), self.where, self.line(event), getattr(event, "value", None))
        self.anchors[event.anchor] = node, self.values - before, self.deepest - depth
        self.deepest = max(outer, self.deepest)
        return node

    def content(self, event: Any, depth: int) -> Any:
        if isinstance(event, yaml.MappingStartEvent):
            return self.mapping(depth)
        if isinstance(event, yaml.SequenceStartEvent):
            return [self.node(item, depth + 1) for item in self.until(yaml.SequenceEndEvent)]
        return resolve(event.value) if event.implicit[0] else event.value  # implicit[0]: written without quotes

    def until(self, end: type[yaml.Event]) -> Iterator[Any]:
        return takewhile(lambda event: not isinstance(event, end), self.events)

    def mapping(self, depth: int) -> dict[str, Located]:
        entries: dict[str, Located] = {}
        lines: dict[str, int | None] = {}
        beside: Located | None = None  # the value of YAML's merge key, `<<`
        for event in self.until(yaml.MappingEndEvent):
            key = self.node(event, depth + 1)
            if not isinstance(key.value, str):
                hint = None if key.text is None else "put the key in quotes"
                raise self.fault(event, "text as a key", _found(key), hint)
            if key.value in lines:
                first = f" after line {lines[key.value]}" if self.numbered else ""
                raise self.fault(event, "each key once", f"{quote(key.value)} again{first}")
            lines[key.value] = key.line
            value = self.node(next(self.events), depth + 1)
            if key.value == "<<" and isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
                beside = value
            else:
                # YAML puts a block mapping at its first entry; people look for it at its key.
                entries[key.value] = replace(value, line=key.line) if value.text is None else value
        return entries if beside is None else _merged(beside, entries)

    def alias(self, event: Any, depth: int) -> Located:
        anchor, name = self.anchors.get(event.anchor), quote(event.anchor)
        if anchor is None:
            found = f"{name} inside itself" if event.anchor in self.anchors else f"{name}, which is not defined above"
            raise self.fault(event, "an alias to a complete value", found)
        node, values, height = anchor
        self.grow(event, values, depth + height)
        return replace(node, line=self.line(event))

    def grow(self, event: Any, values: int, depth: int) -> None:
        self.values, self.deepest = self.values + values, max(self.deepest, depth)
        if depth > MAX_DEPTH:
            raise self.fault(event, f"at most {MAX_DEPTH} levels of nesting", "more")
        if self.values > MAX_VALUES:
            raise self.fault(event, f"at most {MAX_VALUES:,} values with every alias written out", "more")


def _merged(beside: Located, entries: dict[str, Located]) -> dict[str, Located]:
    """`<<: *defaults`, or a list of them, fills in the fields that the mapping does not set itself."""
    for source in beside.value if isinstance(beside.value, list) else [beside]:
        if not isinstance(source.value, dict):
            raise refusal(source, "<<", "a mapping, or a list of mappings, to merge")
        entries = {**source.value, **entries}
    return entries


_NULLS = ("", "~", "null", "Null", "NULL")
_BOOLS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_WHOLE = re.compile(r"[-+]?[0-9_]+")
_NUMBER = re.compile(r"[-+]?[0-9_.]+([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def resolve(text: str) -> str | int | float | bool | None:
    """The value of an unquoted scalar by YAML 1.1, except that `1e-3` is a number and `010` is ten."""
    if text in _NULLS:
        return None
    if text.lower() in _BOOLS and text in (text.lower(), text.title(), text.upper()):
        return _BOOLS[text.lower()]
    try:
        if _WHOLE.fullmatch(text):
            return int(text)
        if _NUMBER.fullmatch(text):
            return float(text if text[-1] not in "fFnN" else text.replace(".", ""))
    except ValueError:  # `1__0`, `1.2.3`, thousands of digits
        pass
    return text


def locate(plain: Any, where: str, field: str = "") -> Located:
    """Python values (arguments of a call, a parsed JSON file) as a tree that `build` reads."""
    if isinstance(plain, dict) and all(isinstance(key, str) for key in plain):
        return Located({key: locate(value, where, join(field, key)) for key, value in plain.items()}, where)
    if isinstance(plain, (list, tuple)):
        return Located([locate(item, where, f"{field}[{i}]") for i, item in enumerate(plain)], where)
    if isinstance(plain, (str, Path)):
        return Located(str(plain), where, text=str(plain))
    if plain is None or isinstance(plain, (int, float)):
        return Located(plain, where, text=json.dumps(plain))  # spelled as in YAML: null, true, 0.5
    expected = "text, a number, true or false, null, a list, or a mapping with text as keys"
    found = "a mapping with other keys" if isinstance(plain, dict) else f"a {type(plain).__name__}"
    raise InputError(where, field=field or None, expected=expected, found=found)


def node_at(root: Located, field: str) -> Located | None:
    """The value at a dotted name, if it is there: ``model.hidden``, ``metrics[1]``."""
    node: Located | None = root
    for key in re.findall(r"[^.\[\]]+", field):
        inner: Any = node.value if node is not None else None
        if isinstance(inner, dict):
            node = inner.get(key)
        else:
            node = inner[int(key)] if isinstance(inner, list) and key.isdigit() and int(key) < len(inner) else None
    return node


def texts_of(node: Located) -> Iterator[str]:
    """Every scalar of a tree as it was written."""
    inner = node.value.values() if isinstance(node.value, dict) else node.value if isinstance(node.value, list) else ()
    for child in inner:
        yield from texts_of(child)
    if node.text is not None:
        yield node.text


# ---- Overriding: key=value from the command line


def parse_override(text: str) -> tuple[list[str], Located]:
    """`model.hidden=128` → (["model", "hidden"], 128). `[…]`, `{…}` and quotes are YAML; the rest is one scalar."""
    dotted, equals, written = text.partition("=")
    keys = [key.strip() for key in dotted.split(".")]
    if not equals or not all(keys):
        found = f"an empty key in {quote(text)}" if equals else quote(text)
        raise InputError(COMMAND_LINE, expected="key=value, such as model.hidden=128", found=found)
    if len(keys) > MAX_DEPTH:
        raise InputError(COMMAND_LINE, expected=f"at most {MAX_DEPTH} levels of nesting", found=str(len(keys)))
    written = written.strip()
    # Only these start YAML: `*.txt`, `a: b` and `#1` are plain text, as in a shell.
    if not written.startswith(("[", "{", '"', "'")):
        return keys, Located(resolve(written), COMMAND_LINE, text=written)
    try:
        value = _compose(written, COMMAND_LINE, numbered=False)
    except InputError as fault:
        name = reduce(join, keys, "")
        raise InputError(COMMAND_LINE, field=name, expected=fault.expected, found=fault.found) from None
    return keys, value or Located(None, COMMAND_LINE, text="")


def override(root: Located, overrides: Sequence[str]) -> Located:
    """A new tree with each `key=value` set in turn; missing mappings are created."""
    for text in overrides:
        keys, value = parse_override(text)
        root = _set(root, [], keys, value)
    return root


def _set(node: Located, above: list[str], keys: list[str], value: Located) -> Located:
    if not keys:
        return value
    if node.value is None:
        node = Located({}, COMMAND_LINE)
    if not isinstance(node.value, dict):
        place = node.where if node.line is None else f"{node.where}:{node.line}"
        expected, found = f"a mapping in {reduce(join, above, '') or 'the root'}", f"{_found(node)} from {place}"
        raise InputError(COMMAND_LINE, field=reduce(join, [*above, *keys], ""), expected=expected, found=found)
    first, *rest = keys
    child = node.value.get(first, Located(None, COMMAND_LINE))
    return replace(node, value={**node.value, first: _set(child, [*above, first], rest, value)})
