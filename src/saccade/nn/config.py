"""What every model's ``Config`` checks of itself, however it was made: by a recipe or in Python."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints


def check(config: Any, *at_least_one: str) -> None:
    """Choices are among those listed, the named sizes (where given) at least 1, a dropout in [0, 1)."""
    hints = get_type_hints(type(config))
    for field in fields(config):
        content, hint = getattr(config, field.name), hints[field.name]
        if get_origin(hint) is Literal and content not in get_args(hint):
            raise ValueError(f"{field.name} must be one of {', '.join(map(str, get_args(hint)))}: got {content!r}")
        if field.name in at_least_one and content is not None and content < 1:
            raise ValueError(f"{field.name} must be at least 1: got {content}")
        if field.name == "dropout" and not 0 <= content < 1:
            raise ValueError(f"dropout must be at least 0 and below 1: got {content}")
