"""YAML read into frozen dataclasses by the types of their fields; every fault names its file, line and field.

YAML gives the shape (mappings, lists, scalars) and the field's type gives a scalar its meaning: `1e-3` is a number
where a float is expected, `no` and `2024-01-31` are text where text is. A quoted scalar is always text. Every value
remembers where it stood, so a fault found long after reading still points at its line, or at the command line.

    read_yaml(path) → override(root, ["model.hidden=128"]) → build(Recipe, root) → dump_yaml(to_plain(recipe))
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import takewhile
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from saccade.errors import InputError

T = TypeVar("T")
COMMAND_LINE = "command line"
# A recipe is a page. Beyond these a file is a mistake or an attack: brackets nested ten thousand deep, or aliases of
# aliases that expand to billions of values. Values and levels are counted as if every alias were written out.
MAX_BYTES, MAX_VALUES, MAX_DEPTH = 200_000, 10_000, 32


@dataclass(frozen=True)
class Located:
    """A YAML value that knows where it stood."""

    value: dict[str, Located] | list[Located] | str | int | float | bool | None
    where: str  # file name or "command line"
    line: int | None = None
    text: str | None = None  # a scalar as written, without its quotes; None for mappings and lists


def _refusal(node: Located, field: str, expected: str, found: str = "", hint: str | None = None) -> InputError:
    found = found or _found(node)
    return InputError(node.where, line=node.line, field=field or None, expected=expected, found=found, hint=hint)


def _found(node: Located) -> str:
    if isinstance(node.value, (dict, list)):
        return "a mapping" if isinstance(node.value, dict) else "a list"
    if node.value is None:
        return "null" if node.text else "nothing"
    return _quote(node.text or str(node.value))


def _quote(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}…")


def _join(field: str, name: str) -> str:
    shown = name if name.isprintable() and len(name) <= 60 else _quote(name)
    return f"{field}.{shown}" if field else shown


# ---- Reading: bytes → a tree of located values


def read_yaml(path: str | Path) -> Located:
    """The file's one document, which must be a mapping."""
    root = _compose(_read_file(path), str(path), numbered=True)
    if root is None:
        raise InputError(path, expected="a mapping", found="an empty file")
    if not isinstance(root.value, dict):
        raise _refusal(root, "", "a mapping (key: value)")
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
    """Turns YAML's events into one tree, refusing what a recipe has no use for and what would outgrow memory."""

    def __init__(self, loader: yaml.SafeLoader, where: str, numbered: bool) -> None:
        self.where, self.numbered = where, numbered
        self.events: Iterator[Any] = iter(loader.get_event, None)  # one at a time, so that a bomb is never unfolded
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
            raise self.fault(event, "a value without a tag", f"the tag {_quote(tag)}", "values are read by their field")
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
        return _resolve(event.value) if event.implicit[0] else event.value  # implicit[0]: written without quotes

    def until(self, end: type[yaml.Event]) -> Iterator[Any]:
        return takewhile(lambda event: not isinstance(event, end), self.events)

    def mapping(self, depth: int) -> dict[str, Located]:
        entries: dict[str, Located] = {}
        lines: dict[str, int | None] = {}
        beside: Located | None = None  # what stands beside YAML's merge key, `<<`
        for event in self.until(yaml.MappingEndEvent):
            key = self.node(event, depth + 1)
            if not isinstance(key.value, str):
                hint = None if key.text is None else "put the key in quotes"
                raise self.fault(event, "text as a key", _found(key), hint)
            if key.value in lines:
                first = f" after line {lines[key.value]}" if self.numbered else ""
                raise self.fault(event, "each key once", f"{_quote(key.value)} again{first}")
            lines[key.value] = key.line
            value = self.node(next(self.events), depth + 1)
            if key.value == "<<" and isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
                beside = value
            else:
                # A block mapping begins at its first entry; readers look for it at its key.
                entries[key.value] = replace(value, line=key.line) if value.text is None else value
        return entries if beside is None else _merged(beside, entries)

    def alias(self, event: Any, depth: int) -> Located:
        anchor, name = self.anchors.get(event.anchor), _quote(event.anchor)
        if anchor is None:
            found = f"{name} inside itself" if event.anchor in self.anchors else f"{name}, which names nothing above"
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
    """`<<: *defaults`, or a list of them, fills in what the mapping does not say itself."""
    for source in beside.value if isinstance(beside.value, list) else [beside]:
        if not isinstance(source.value, dict):
            raise _refusal(source, "<<", "a mapping, or a list of mappings, to merge")
        entries = {**source.value, **entries}
    return entries


_NULLS = ("", "~", "null", "Null", "NULL")
_BOOLS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_WHOLE = re.compile(r"[-+]?[0-9_]+")
_NUMBER = re.compile(r"[-+]?[0-9_.]+([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def _resolve(text: str) -> str | int | float | bool | None:
    """What an unquoted scalar says where no type is known: as YAML 1.1, but `1e-3` is a number and `010` is ten."""
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
    """Python's own values as a tree that `build` reads: arguments of a call, a parsed JSON file."""
    if isinstance(plain, dict) and all(isinstance(key, str) for key in plain):
        return Located({key: locate(value, where, _join(field, key)) for key, value in plain.items()}, where)
    if isinstance(plain, (list, tuple)):
        return Located([locate(item, where, f"{field}[{i}]") for i, item in enumerate(plain)], where)
    if isinstance(plain, (str, Path)):
        return Located(str(plain), where, text=str(plain))
    if plain is None or isinstance(plain, (int, float)):
        return Located(plain, where, text=json.dumps(plain))  # spelled as in YAML: null, true, 0.5
    expected = "text, a number, true or false, null, a list, or a mapping with text as keys"
    found = "a mapping with other keys" if isinstance(plain, dict) else f"a {type(plain).__name__}"
    raise InputError(where, field=field or None, expected=expected, found=found)


# ---- Overriding: key=value from the command line


def parse_override(text: str) -> tuple[list[str], Located]:
    """`model.hidden=128` → (["model", "hidden"], 128). `[…]`, `{…}` and quotes are YAML; the rest is one scalar."""
    dotted, equals, written = text.partition("=")
    keys = [key.strip() for key in dotted.split(".")]
    if not equals or not all(keys):
        found = f"an empty key in {_quote(text)}" if equals else _quote(text)
        raise InputError(COMMAND_LINE, expected="key=value, such as model.hidden=128", found=found)
    if len(keys) > MAX_DEPTH:
        raise InputError(COMMAND_LINE, expected=f"at most {MAX_DEPTH} levels of nesting", found=str(len(keys)))
    written = written.strip()
    # Only these open something to parse: `*.txt`, `a: b` and `#1` are the text they look like in a shell.
    if not written.startswith(("[", "{", '"', "'")):
        return keys, Located(_resolve(written), COMMAND_LINE, text=written)
    try:
        value = _compose(written, COMMAND_LINE, numbered=False)
    except InputError as fault:
        name = reduce(_join, keys, "")
        raise InputError(COMMAND_LINE, field=name, expected=fault.expected, found=fault.found) from None
    return keys, value or Located(None, COMMAND_LINE, text="")


def override(root: Located, overrides: Sequence[str]) -> Located:
    """A new tree with each `key=value` set in turn; mappings that are missing on the way are made."""
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
        expected, found = f"a mapping in {reduce(_join, above, '') or 'the root'}", f"{_found(node)} from {place}"
        raise InputError(COMMAND_LINE, field=reduce(_join, [*above, *keys], ""), expected=expected, found=found)
    first, *rest = keys
    child = node.value.get(first, Located(None, COMMAND_LINE))
    return replace(node, value={**node.value, first: _set(child, [*above, first], rest, value)})


# ---- Building: located values → dataclasses


def build(cls: type[T], node: Located, field: str = "") -> T:
    """A dataclass from a mapping, each value read by its field's type; `field` is the mapping's own dotted name."""
    if not isinstance(node.value, dict):
        raise _refusal(node, field, _describe(cls))
    known = _fields(cls)
    for name, entry in node.value.items():
        if name not in known:
            expected = f"one of {', '.join(known)}" if known else "no fields"
            raise _refusal(entry, _join(field, name), expected, _quote(name), _did_you_mean(name, known))
    kinds, values = get_type_hints(cls), {}
    for name, required in known.items():
        if name in node.value:
            values[name] = _read(kinds[name], node.value[name], _join(field, name))
        elif required:
            raise _refusal(node, _join(field, name), _describe(kinds[name]), "nothing", "this field is required")
    try:
        return cls(**values)
    except ValueError as error:
        raise _rejection(cls, node, field, " ".join(str(error).split())) from error


def _fields(cls: Any) -> dict[str, bool]:
    """The fields that a mapping may give, and whether it must."""
    none = dataclasses.MISSING
    return {f.name: f.default is none and f.default_factory is none for f in dataclasses.fields(cls) if f.init}


def _rejection(cls: Any, node: Located, field: str, message: str) -> InputError:
    """What `__post_init__` had against the values: `hidden must be positive: got -3`, at the line of `hidden`."""
    subject = re.split(r"\W", message, maxsplit=1)[0]
    if subject in _fields(cls) and isinstance(node.value, dict):
        node, field = node.value.get(subject, node), _join(field, subject)
    sentence = re.fullmatch(r"(.+?) must (.+): got (.+)", message)
    if sentence is None:
        return _refusal(node, field, f"a valid {cls.__name__}", message)
    return _refusal(node, field, f"{sentence[1]} to {sentence[2]}", sentence[3])


def _read(kind: Any, node: Located, field: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Located:
        return node
    if kind is Any:
        shapes: dict[type, Any] = {dict: dict[str, Any], list: list[Any], float: float}
        shape = shapes.get(type(node.value))
        return _read(shape, node, field) if shape else node.value
    if kind in _NAMES:
        return _read_scalar(kind, node, field)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return build(kind, node, field)
    if origin is Literal:
        return _read_choice(kind, node, field)
    if origin in (Union, UnionType):
        return _read_union(kind, node, field)
    if origin in (list, tuple):
        return origin(_read_items(kind, node, field))
    if origin is dict and arguments[0] is str:
        if isinstance(node.value, dict):
            return {name: _read(arguments[1], entry, _join(field, name)) for name, entry in node.value.items()}
        raise _refusal(node, field, _describe(kind))
    raise TypeError(f"{field} must have a type that YAML can hold: got {kind}")


def _read_scalar(kind: Any, node: Located, field: str) -> Any:
    value, expected = node.value, _describe(kind)
    if kind in (str, Path) and value is not None and node.text is not None:
        return kind(node.text)
    if kind in (bool, NoneType) and isinstance(value, kind):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        # Beyond 2**53 a float skips whole numbers, so `1e23` would not be the number that was written.
        if kind is int and (isinstance(value, int) or (value.is_integer() and abs(value) <= 2**53)):
            return int(value)
        if kind is float and abs(value) <= sys.float_info.max:
            return float(value)
        expected = "a finite number" if kind is float else expected
    quoted = isinstance(value, str) and not isinstance(_resolve(value), str)
    raise _refusal(node, field, expected, hint="without quotes" if quoted else None)


def _read_choice(kind: Any, node: Located, field: str) -> Any:
    for choice in get_args(kind):
        # By the text as written, so that a choice named `off` or `1` needs no quotes.
        written = node.text if isinstance(choice, str) else node.value
        if type(written) is type(choice) and written == choice:
            return choice
    words = [choice for choice in get_args(kind) if isinstance(choice, str)]
    raise _refusal(node, field, _describe(kind), hint=_did_you_mean(node.text or "", words))


def _read_items(kind: Any, node: Located, field: str) -> list[Any]:
    kinds = get_args(kind)
    if not isinstance(node.value, list):
        hint = f"write [{node.text}]" if node.text and len(node.text) < 40 else None
        raise _refusal(node, field, _describe(kind), hint=hint)
    if get_origin(kind) is list or kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(node.value)
    if len(kinds) != len(node.value):
        raise _refusal(node, field, _describe(kind), f"{len(node.value)} items")
    return [_read(kind, item, f"{field}[{i}]") for i, (kind, item) in enumerate(zip(kinds, node.value, strict=True))]


def _read_union(kind: Any, node: Located, field: str) -> Any:
    """The first option that takes the value: its own type first, text last; of dataclasses, whose fields fit best."""
    options = [option for option in get_args(kind) if _takes_shape(option, node)]
    faults = []
    for option in sorted(options, key=lambda option: _misfit(option, node)):
        try:
            return _read(option, node, field)
        except InputError as fault:
            faults.append(fault)
    if len(faults) == 1 or (faults and node.text is None):
        raise faults[0]
    raise _refusal(node, field, _describe(kind))


def _takes_shape(option: Any, node: Located) -> bool:
    if option in (Any, Located):
        return True
    if option is NoneType:
        return node.value is None
    origin = dict if dataclasses.is_dataclass(option) else get_origin(option)
    shapes: dict[Any, type] = {dict: dict, list: list, tuple: list}
    return isinstance(node.value, shapes[origin]) if origin in shapes else node.text is not None


def _misfit(option: Any, node: Located) -> int:
    if dataclasses.is_dataclass(option) and isinstance(node.value, dict):
        return len(node.value.keys() - _fields(option).keys())
    return -1 if option is type(node.value) else int(option in (str, Path, Any))


# ---- Wording: types and names in a sentence

_NAMES: dict[Any, tuple[str, str]] = {
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "true or false"),
    str: ("text", "texts"),
    Path: ("a path", "paths"),
    NoneType: ("null", "nulls"),
}


def _describe(kind: Any) -> str:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in _NAMES:
        return _NAMES[kind][0]
    if dataclasses.is_dataclass(kind) and kind is not Located:
        return f"a mapping with {', '.join(_fields(kind)) or 'no fields'}"
    if origin is Literal:
        return f"one of {', '.join(repr(choice) for choice in arguments)}"
    if origin in (Union, UnionType):
        return " or ".join(_describe(option) for option in arguments)
    if origin is tuple and arguments[-1] is not Ellipsis:
        return f"a list of {len(arguments)} items ({', '.join(_describe(item) for item in arguments)})"
    if origin in (list, tuple, dict):
        item = arguments[1] if origin is dict else arguments[0]
        items = _NAMES[item][1] if item in _NAMES else f"values, each {_describe(item)}"
        return f"a mapping from names to {items}" if origin is dict else f"a list of {items}"
    return "a value"


def _did_you_mean(name: str, known: Iterable[str]) -> str | None:
    close = difflib.get_close_matches(name[:60], known, n=1)
    return f"did you mean '{close[0]}'?" if close else None


# ---- Writing: dataclasses → YAML


def to_plain(obj: Any) -> dict[str, Any]:
    """A dataclass as dicts, lists and scalars; `build` reads them back (by `locate` or `dump_yaml`) to an equal one."""
    plain: dict[str, Any] = _plain(obj, type(obj).__name__)
    return plain


def _plain(value: Any, field: str) -> Any:
    if isinstance(value, Located):
        return _plain(value.value, field)
    if dataclasses.is_dataclass(value):
        return {name: _plain(getattr(value, name), f"{field}.{name}") for name in _fields(value)}
    if isinstance(value, dict):
        return {name: _plain(entry, f"{field}.{name}") for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{field}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{field} must be finite to be written: got {value}")
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{field} must be something that YAML can hold: got {value!r}")


def dump_yaml(plain: dict[str, Any]) -> str:
    """YAML that `read_yaml` reads back to the same values, in the order given."""
    return yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(yaml.SafeDumper):
    """Quotes text that `_resolve` would take for a number, and writes lists of scalars on one line."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def text(self, text: str) -> yaml.ScalarNode:
        style = None if isinstance(_resolve(text), str) else "'"
        return self.represent_scalar("tag:yaml.org,2002:str", text, style)

    def items(self, items: list[Any]) -> yaml.SequenceNode:
        short = not any(isinstance(item, (dict, list)) for item in items)
        return self.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=short)


_Dumper.add_representer(str, _Dumper.text)
_Dumper.add_representer(list, _Dumper.items)
