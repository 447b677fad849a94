"""Loads the custom parts that a recipe names (``task: package.module:Name``); errors name the recipe's file and line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from saccade.documents import join
from saccade.errors import SaccadeError
from saccade.plugins import PartError, blame, is_own
from saccade.recipes.located import Located, refusal
from saccade.recipes.schema import build


def located(node: Located, field: str, load: Callable[[str], Any]) -> Any:
    """The part that ``node`` names; an error names the line of the recipe."""
    try:
        return load(node.text or "")
    except PartError as fault:
        raise refusal(node, field, fault.expected, fault.found, fault.hint) from fault


def fill(cls: Any, node: Located, field: str, owner: str) -> Any:
    """A dataclass of part ``owner`` from a mapping; any exception in custom code becomes an error at ``node``."""
    try:
        _check_parts(cls, node, field)
        return build(cls, node, field)
    except SaccadeError:
        raise
    except Exception as fault:
        if not is_own(owner):
            raise
        message = blame(fault) or f"{type(fault).__name__}: {' '.join(str(fault).split())}"
        raise refusal(node, field, f"{owner}'s {cls.__name__} to be filled from a recipe", message) from fault


def _check_parts(cls: Any, node: Located, field: str) -> None:
    """Check the fields that name a score, a normaliser or a window."""
    from saccade.attention.own import Choices

    if not isinstance(node.value, dict):
        return
    for name, kind in get_type_hints(cls, include_extras=True).items():
        entry = node.value.get(name)
        for choices in get_args(kind)[1:] if get_origin(kind) is Annotated else ():
            if isinstance(choices, Choices) and entry is not None and entry.text is not None:
                located(entry, join(field, name), choices.check)
