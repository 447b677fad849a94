"""Where a model looks: its attention modules, and the names of their sites.

A site is named after the module's path: ``decoder.3.cross`` is the cross-attention of the fourth layer of the decoder. Where
two modules would get one name (two towers, layers of layers), the path itself is the name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

CROSS = re.compile(r"cross|enc_?dec|encoder_att|multihead_attn", re.IGNORECASE)
VISION = re.compile(r"vision|visual|image|pixel", re.IGNORECASE)


@dataclass(frozen=True)
class Place:
    """One attention module: where it is in the model, what its site is called, and what it does there."""

    path: str
    name: str
    decodes: bool  # it is part of what writes, token by token
    crosses: bool  # its keys are another sequence
    sees_image: bool


def places_of(model: nn.Module, *, vision: bool = False) -> dict[nn.Module, Place]:
    """The attention modules of a model. ``vision``: what it reads is an image."""
    found = {path: module for path, module in model.named_modules() if _is_attention(module)}
    stacks = {path: _stack(path, module) for path, module in found.items()}
    for layer, each in model.named_modules():  # a decoder by itself has no path that says so
        if isinstance(each, nn.TransformerDecoderLayer):
            stacks |= {path: "decoder" for path in found if not layer or path.startswith(f"{layer}.")}
    shortened = {path: _short(path, module, stacks[path]) for path, module in found.items()}
    counts = Counter(shortened.values())
    return {
        module: place_of(
            path,
            module,
            shortened[path] if counts[shortened[path]] == 1 else path,
            vision=vision,
            writes=stacks[path] == "decoder",
        )
        for path, module in found.items()
    }


def place_of(path: str, module: nn.Module, name: str, *, vision: bool, writes: bool | None = None) -> Place:
    writes = _stack(path, module) == "decoder" if writes is None else writes
    named = bool(VISION.search(path))
    return Place(
        path, name, writes, _crosses(path, module), named or (vision and (not writes or _crosses(path, module)))
    )


def unseen(places: Mapping[nn.Module, Place], ran: set[nn.Module], recorded: set[nn.Module]) -> list[str]:
    """The paths of modules that ran and were not recorded."""
    return sorted(places[module].path for module in ran - recorded)


def _is_attention(module: nn.Module) -> bool:
    """By its name, and no part of it is one: a layer that holds attention and a norm is not the attention."""
    if not _named_so(module):
        return False
    return not any(_named_so(part) for part in module.modules() if part is not module)


def _named_so(module: nn.Module) -> bool:
    return bool(re.search(r"Attention|Attn(?!\w*Norm)", type(module).__name__)) and hasattr(module, "forward")


def _short(path: str, module: nn.Module, stack: str) -> str:
    numbers = [part for part in path.split(".") if part.isdigit()]
    # A number further down counts the parts of one layer (T5) where a name says what the part is.
    return ".".join([stack, *numbers[:1], "cross" if _crosses(path, module) else "self"])


def _stack(path: str, module: nn.Module) -> str:
    named = [part for part in path.split(".") if part in ("encoder", "decoder")]
    if named:
        return named[-1]
    writes = getattr(module, "is_causal", False) or getattr(module, "is_decoder", False)
    return "decoder" if writes else "encoder"


def _crosses(path: str, module: nn.Module) -> bool:
    if getattr(module, "is_cross_attention", False):
        return True
    return bool(CROSS.search(path.rpartition(".")[2]) or CROSS.search(type(module).__name__))
