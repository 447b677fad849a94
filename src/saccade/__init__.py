"""saccade: train, see and ship neural networks that pay attention.

Names load when first used: ``import saccade`` does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from saccade.api import Bundle, Prediction, load, recipe_for, train, transcribe
    from saccade.attention.core import attend, explain_choice, read, weigh
    from saccade.errors import InputError, SaccadeError
    from saccade.foreign import look
    from saccade.trace import Lens, Trace

_HOMES = {
    "attend": "saccade.attention.core",
    "weigh": "saccade.attention.core",
    "read": "saccade.attention.core",
    "explain_choice": "saccade.attention.core",
    "Lens": "saccade.trace",
    "Trace": "saccade.trace",
    "Bundle": "saccade.api",
    "Prediction": "saccade.api",
    "train": "saccade.api",
    "load": "saccade.api",
    "recipe_for": "saccade.api",
    "transcribe": "saccade.api",
    "look": "saccade.foreign",
    "SaccadeError": "saccade.errors",
    "InputError": "saccade.errors",
}

__all__ = [
    "Bundle", "InputError", "Lens", "Prediction", "SaccadeError", "Trace", "attend", "explain_choice", "load", "look", "read",
    "recipe_for", "train", "transcribe", "weigh",
]  # fmt: skip

PACKAGES = (
    "api", "attention", "data", "errors", "explain", "foreign", "kernels", "metrics", "models", "nn", "recipes", "server",
    "task", "tasks", "testing", "trace", "views",
)  # fmt: skip


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in PACKAGES:
        return importlib.import_module(f"saccade.{name}")
    raise AttributeError(f"module 'saccade' has no attribute {name!r}")
