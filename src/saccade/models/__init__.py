"""One paper = one file = a frozen ``Config`` and the network. A name loads its file when first used."""

from __future__ import annotations

import importlib
from typing import Any

# name → "module:class", so that recipes are checked before torch is loaded
MODELS: dict[str, str] = {
    "seq2seq": "saccade.models.seq2seq:Seq2Seq",
    "rnnsearch": "saccade.models.rnnsearch:RNNSearch",
    "luong": "saccade.models.luong:Luong",
    "pointer": "saccade.models.pointer:Pointer",
}


def network_class(name: str) -> Any:
    """The network that a recipe's ``model.name`` means."""
    module, _, attribute = MODELS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
