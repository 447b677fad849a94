"""Serves trained models over HTTP, with the explorer's page. FastAPI and uvicorn come with ``saccade[serve]``."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from saccade.extras import need

if TYPE_CHECKING:
    from saccade.server.app import create_app
    from saccade.server.requests import Limits
    from saccade.server.serve import run

_HOMES = {
    "create_app": "saccade.server.app",
    "Limits": "saccade.server.requests",
    "run": "saccade.server.serve",
}

__all__ = ["Limits", "create_app", "run"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'saccade.server' has no attribute {name!r}")
    for package in ("fastapi", "uvicorn"):
        need(package, extra="serve", for_="serving a model")
    return getattr(importlib.import_module(_HOMES[name]), name)
