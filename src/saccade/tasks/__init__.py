"""What a network is for. A name loads its page when first used."""

from __future__ import annotations

import importlib
from typing import Any

TASKS: dict[str, str] = {
    "translate": "saccade.tasks.translate:Translate",
    "point": "saccade.tasks.point:Point",
}


def task_class(name: str) -> Any:
    """The task that a recipe's ``task`` means."""
    module, _, attribute = TASKS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
