"""Builds frozen dataclasses from YAML by the types of their fields; errors name the file, line and field.

A scalar is read by the type of its field: `1e-3` is a number where a float is expected, `no` and `2024-01-31` are text where
text is. A quoted scalar is always text. Every value has its file and line, so a later error can still name them.

    build(Recipe, root) → dump_yaml(to_plain(recipe))

A field whose YAML name is a Python keyword has a trailing underscore: `from_` reads `from`.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from saccade.documents import NAMES, describe, fields_of, join, quote
from saccade.errors import InputError, SaccadeError
from saccade.recipes.located import Located, refusal, resolve

T = TypeVar("T")

# ---- Building: located values → dataclasses


def build(cls: type[T], node: Located, field: str = "") -> T:
    """A dataclass from a mapping, each value read by its field's type; `field` is the mapping's own dotted name."""
    if not isinstance(node.value, dict):
        raise refusal(node, field, describe(cls))
    known = fields_of(cls)
    for name, entry in node.value.items():
        if name not in known:
            expected = f"one of {', '.join(known)}" if known else "no fields"
            raise refusal(entry, join(field, name), expected, quote(name), _did_you_mean(name, known))
    kinds, values = get_type_hints(cls), {}
    for name, (attribute, required) in known.items():
        if name in node.value:
            values[attribute] = _read(kinds[attribute], node.value[name], join(field, name))
        elif required:
            expected = "a value" if kinds[attribute] is Located else describe(kinds[attribute])
            raise refusal(node, join(field, name), expected, "nothing", "this field is required")
    try:
        return cls(**values)
    except InputError:
        raise
    except (ValueError, SaccadeError) as error:
        raise _rejection(cls, node, field, " ".join(str(error).split())) from error


def _rejection(cls: Any, node: Located, field: str, message: str) -> InputError:
    """The error of `__post_init__`, such as `hidden must be positive: got -3`, at the line of `hidden`; or `tokens.size:
    expected 5, found 2`, at that of `size`."""
    pointed = re.fullmatch(r"(?:\w+\.)*(\w+): expected (.+), found (.+)", message)
    if pointed is not None and pointed[1] in fields_of(cls) and isinstance(node.value, dict):
        return refusal(node.value.get(pointed[1], node), join(field, pointed[1]), pointed[2], pointed[3])
    subject = re.split(r"\W", message, maxsplit=1)[0]
    if subject in fields_of(cls) and isinstance(node.value, dict):
        node, field = node.value.get(subject, node), join(field, subject)
    sentence = re.fullmatch(r"(.+?) must (.+): got (.+)", message)
    if sentence is None:
        return refusal(node, field, f"a valid {cls.__name__}", message)
    return refusal(node, field, f"{sentence[1]} to {sentence[2]}", sentence[3])


def _read(kind: Any, node: Located, field: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Located:
        return node
    if kind is Any:
        shapes: dict[type, Any] = {dict: dict[str, Any], list: list[Any], float: float}
        shape = shapes.get(type(node.value))
        return _read(shape, node, field) if shape else node.value
    if kind in NAMES:
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
            return {name: _read(arguments[1], entry, join(field, name)) for name, entry in node.value.items()}
        raise refusal(node, field, describe(kind))
    raise TypeError(f"{field} must have a type that YAML can hold: got {kind}")


def _read_scalar(kind: Any, node: Located, field: str) -> Any:
    value, expected = node.value, describe(kind)
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
    quoted = isinstance(value, str) and not isinstance(resolve(value), str)
    raise refusal(node, field, expected, hint="without quotes" if quoted else None)


def _read_choice(kind: Any, node: Located, field: str) -> Any:
    for choice in get_args(kind):
        # Compare the text as written, so that a choice named `off` or `1` needs no quotes.
        written = node.text if isinstance(choice, str) else node.value
        if type(written) is type(choice) and written == choice:
            return choice
    words = [choice for choice in get_args(kind) if isinstance(choice, str)]
    raise refusal(node, field, describe(kind), hint=_did_you_mean(node.text or "", words))


def _read_items(kind: Any, node: Located, field: str) -> list[Any]:
    kinds = get_args(kind)
    if not isinstance(node.value, list):
        hint = f"write [{node.text}]" if node.text and len(node.text) < 40 else None
        raise refusal(node, field, describe(kind), hint=hint)
    if get_origin(kind) is list or kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(node.value)
    if len(kinds) != len(node.value):
        raise refusal(node, field, describe(kind), f"{len(node.value)} items")
    return [_read(kind, item, f"{field}[{i}]") for i, (kind, item) in enumerate(zip(kinds, node.value, strict=True))]


def _read_union(kind: Any, node: Located, field: str) -> Any:
    """The first option that accepts the value: its own type first, text last; of dataclasses the one whose fields fit best."""
    options = [option for option in get_args(kind) if _takes_shape(option, node)]
    faults = []
    for option in sorted(options, key=lambda option: _misfit(option, node)):
        try:
            return _read(option, node, field)
        except InputError as fault:
            faults.append(fault)
    if len(faults) == 1 or (faults and node.text is None):
        raise faults[0]
    raise refusal(node, field, describe(kind))


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
        return len(node.value.keys() - fields_of(option).keys())
    return -1 if option is type(node.value) else int(option in (str, Path, Any))


# ---- Wording


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
        names = {name: attribute for name, (attribute, _) in fields_of(value).items()}
        return {name: _plain(getattr(value, attribute), f"{field}.{name}") for name, attribute in names.items()}
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
    """Quotes text that `resolve` would take for a number, and writes lists of scalars on one line."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def text(self, text: str) -> yaml.ScalarNode:
        style = None if isinstance(resolve(text), str) else "'"
        return self.represent_scalar("tag:yaml.org,2002:str", text, style)

    def items(self, items: list[Any]) -> yaml.SequenceNode:
        short = not any(isinstance(item, (dict, list)) for item in items)
        return self.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=short)


_Dumper.add_representer(str, _Dumper.text)
_Dumper.add_representer(list, _Dumper.items)
