"""Checks that every model's ``Config`` makes, whether it comes from a recipe or from Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from saccade.attention.own import Choices
from saccade.plugins import PartError, is_own

FORMER_INIT = {"init": {"default": "torch"}}  # a config class's ``former``: values as older recipes and runs call them
LARGEST, MOST_LAYERS = 10**7, 1000  # a saved recipe may come from anyone


def check(config: Any, *at_least_one: str) -> None:
    """Raise unless choices are among those listed (or a user's own, where allowed), the named sizes (where given) are at
    least 1, dropout is in [0, 1), and the other numbers and flags are of their kind."""
    hints = get_type_hints(type(config), include_extras=True)
    for field in fields(config):
        content, hint = getattr(config, field.name), hints[field.name]
        if get_origin(hint) is Literal and content not in get_args(hint):
            raise ValueError(f"{field.name} must be one of {', '.join(map(str, get_args(hint)))}: got {content!r}")
        for choices in get_args(hint)[1:] if get_origin(hint) is Annotated else ():
            if isinstance(choices, Choices):
                _check_part(field.name, choices, content)
        whole = isinstance(content, int) and not isinstance(content, bool)
        if field.name in at_least_one and content is not None and not (whole and content >= 1):
            raise ValueError(f"{field.name} must be at least 1: got {content!r}")
        most = MOST_LAYERS if field.name == "layers" else LARGEST
        if whole and field.name in at_least_one and content > most:
            raise ValueError(f"{field.name} must be at most {most:,}: got {content}")
        if field.name == "dropout" and not (_is_number(content) and 0 <= content < 1):
            raise ValueError(f"dropout must be at least 0 and below 1: got {content!r}")
        # "int | None" is a whole number where it is given; other types are their models' own business.
        kind = get_args(hint)[0] if get_args(hint)[1:] == (NoneType,) else hint
        if kind in KINDS and (content is not None or kind is hint):
            expected, fits = KINDS[kind]
            if not fits(content):
                raise ValueError(f"{field.name} must be {expected}: got {content!r:.60}")


def _is_number(content: Any) -> bool:
    return isinstance(content, int | float) and not isinstance(content, bool)


# The type of a field → what its content must be. A text such as "no" would count as true.
KINDS: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    bool: ("true or false", lambda content: isinstance(content, bool)),
    int: ("a whole number", lambda content: isinstance(content, int) and not isinstance(content, bool)),
    float: ("a number", _is_number),
}


def _check_part(field: str, choices: Choices, name: str) -> None:
    try:
        choices.check(name)
    except PartError as fault:
        if is_own(name):
            raise ValueError(f"{field}: {fault}") from fault
        hint = f" ({fault.hint})" if fault.hint else ""
        raise ValueError(f"{field} must be {fault.expected}: got {fault.found}{hint}") from fault
