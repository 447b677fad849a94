"""Checks a JSON document from a file against types: a dataclass is the schema of an object. Nothing else uses the document.

    checked(Classes, parse(text, "classes.json"), "classes.json") → Classes(labels=(…), counts=(…))

Values must have the exact type, since a program wrote them: ``1.0`` and ``"1"`` are not whole numbers. Fields that the
schema lacks are ignored, for later versions may add some. ``Count`` and ``Size`` are bounded.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from saccade.errors import InputError, SaccadeError

T = TypeVar("T")
LARGEST = 2**53  # beyond it a float skips whole numbers
DEEPEST = 64  # levels of nesting: a value that is printed, compared or written again takes Python's stack


@dataclasses.dataclass(frozen=True)
class Least:
    """The least value of a number."""

    number: float


Count = Annotated[int, Least(0)]
Size = Annotated[int, Least(1)]


def parse(text: str, where: str | Path) -> Any:
    """The JSON document in a text; ``where`` names the file in errors."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        found = "brackets nested too deep" if isinstance(error, RecursionError) else getattr(error, "msg", str(error))
        raise InputError(where, expected="valid JSON", found=found, line=getattr(error, "lineno", None)) from None
    _check_depth(document, where)
    return document


def _check_depth(document: Any, where: str | Path) -> None:
    level = [document]
    for _ in range(DEEPEST):
        inner = [part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list)]
        level = [value for values in inner for value in values if isinstance(value, dict | list)]
        if not level:
            return
    raise InputError(where, expected=f"JSON of at most {DEEPEST} levels", found="more")


def checked(
    kind: type[T],
    value: Any,
    where: str | Path,
    field: str = "",
    *,
    readers: Mapping[Any, Callable[[Any, str], Any]] | None = None,
) -> T:
    """The value as ``kind``: lists become tuples where ``kind`` says so, objects dataclasses.

    Args:
        where, field: the file and the dotted name of the value, for errors.
        readers: types that the document has in another form, with the function that reads one from its value and its field;
            a ValueError says what was expected.
    """
    found: T = _Checker(where, readers or {}).read(kind, value, field)
    return found


class _Checker:
    def __init__(self, where: str | Path, readers: Mapping[Any, Callable[[Any, str], Any]]) -> None:
        self.where, self.readers = where, readers

    def read(self, kind: Any, value: Any, field: str) -> Any:
        origin, arguments = get_origin(kind), get_args(kind)
        if kind in self.readers:
            try:
                return self.readers[kind](value, field)
            except ValueError as error:
                raise InputError(self.where, field=field or None, expected=str(error), found=_found(value)) from None
        if kind is Any:
            return value
        if origin is Annotated:
            number = self.read(arguments[0], value, field)
            if number < arguments[1].number:
                raise self.fault(f"at least {arguments[1].number:g}", value, field)
            return number
        if kind in SCALARS:
            if not _is(kind, value):
                raise self.fault(describe(kind), value, field)
            return float(value) if kind is float else value
        if origin is Literal:
            if not any(type(value) is type(choice) and value == choice for choice in arguments):
                raise self.fault(describe(kind), value, field)
            return value
        if origin in (Union, UnionType):
            return self.union(kind, value, field)
        if dataclasses.is_dataclass(kind):
            return self.object(kind, value, field)
        if origin in (list, tuple):
            return origin(self.items(kind, value, field))
        return self.mapping(kind, value, field)

    def union(self, kind: Any, value: Any, field: str) -> Any:
        options = [option for option in get_args(kind) if not (option is NoneType and value is not None)]
        for option in options[:-1]:
            try:
                return self.read(option, value, field)
            except InputError:
                continue
        try:
            return self.read(options[-1], value, field)
        except InputError:
            if len(options) == 1:  # or nothing
                raise
            raise self.fault(describe(kind), value, field) from None

    def object(self, kind: Any, value: Any, field: str) -> Any:
        if not isinstance(value, dict):
            raise self.fault("an object", value, field)
        kinds, given = get_type_hints(kind, include_extras=True), {}
        for name, (attribute, required) in fields_of(kind).items():
            if name in value:
                given[attribute] = self.read(kinds[attribute], value[name], join(field, name))
            elif required:
                found = "nothing"
                raise InputError(self.where, field=join(field, name), expected=describe(kinds[attribute]), found=found)
        try:
            return kind(**given)
        except InputError:
            raise
        except (ValueError, SaccadeError) as error:
            raise InputError(
                self.where, field=field or None, expected=f"a valid {kind.__name__}", found=str(error)
            ) from None

    def items(self, kind: Any, value: Any, field: str) -> Sequence[Any]:
        if not isinstance(value, list):
            raise self.fault(describe(kind), value, field)
        kinds = get_args(kind)
        if get_origin(kind) is list or kinds[-1] is Ellipsis:
            # Tens of thousands of labels need not be read one by one.
            if kinds[0] in SCALARS and all(_is(kinds[0], item) for item in value):
                return value
            kinds = kinds[:1] * len(value)
        if len(kinds) != len(value):
            raise self.fault(describe(kind), value, field)
        return [self.read(kind, item, f"{field}[{i}]") for i, (kind, item) in enumerate(zip(kinds, value, strict=True))]

    def mapping(self, kind: Any, value: Any, field: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.fault(describe(kind), value, field)
        item = get_args(kind)[1]
        return {name: self.read(item, entry, join(field, name)) for name, entry in value.items()}

    def fault(self, expected: str, value: Any, field: str) -> InputError:
        return InputError(self.where, field=field or None, expected=expected, found=_found(value))


def _is(kind: Any, value: Any) -> bool:
    if kind is int:
        return type(value) is int and -LARGEST <= value <= LARGEST
    if kind is float:
        return type(value) is float or (type(value) is int and -LARGEST <= value <= LARGEST)
    return type(value) is kind


def _found(value: Any) -> str:
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int) and not -LARGEST <= value <= LARGEST:
        return "a number of too many digits"
    return "null" if value is None else json.dumps(value)


# ---- Types in a sentence -----------------------------------------------------------------------------------------------

SCALARS: dict[Any, tuple[str, str]] = {
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "true or false"),
    str: ("text", "texts"),
    NoneType: ("null", "nulls"),
}
NAMES = {**SCALARS, Path: ("a path", "paths")}


def describe(kind: Any) -> str:
    """A type in a sentence.

    >>> describe(tuple[int, ...]), describe(dict[str, float] | None)
    ('a list of whole numbers', 'a mapping from names to numbers or null')
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in NAMES:
        return NAMES[kind][0]
    if origin is Annotated:
        return f"{describe(arguments[0])} of at least {arguments[1].number:g}"
    if dataclasses.is_dataclass(kind):
        return f"a mapping with {', '.join(fields_of(kind)) or 'no fields'}"
    if origin is Literal:
        return f"one of {', '.join(repr(choice) for choice in arguments)}"
    if origin in (Union, UnionType):
        return " or ".join(describe(option) for option in arguments)
    if origin is tuple and arguments[-1] is not Ellipsis:
        return f"a list of {len(arguments)} items ({', '.join(describe(item) for item in arguments)})"
    if origin in (list, tuple, dict) or (origin is not None and issubclass(origin, Mapping)):
        item = arguments[0] if origin in (list, tuple) else arguments[1]
        items = NAMES[item][1] if item in NAMES else f"values, each {describe(item)}"
        return f"a list of {items}" if origin in (list, tuple) else f"a mapping from names to {items}"
    return "a value"


def fields_of(cls: Any) -> dict[str, tuple[str, bool]]:
    """The fields of a dataclass by their names in a file: the attribute, and whether it is required."""
    none = dataclasses.MISSING
    return {
        field.name.removesuffix("_"): (field.name, field.default is none and field.default_factory is none)
        for field in dataclasses.fields(cls)
        if field.init
    }


def join(field: str, name: str) -> str:
    """A dotted name; one that cannot be printed or is long is quoted and cut."""
    shown = name if name.isprintable() and len(name) <= 60 else quote(name)
    return f"{field}.{shown}" if field else shown


def quote(text: str) -> str:
    """A text in quotes, cut where it is long."""
    return repr(text if len(text) <= 60 else f"{text[:57]}…")
