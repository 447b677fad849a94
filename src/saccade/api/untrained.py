"""Parts of a network that were never trained: not by its run, not by those that it was begun from, not before it was imported.

A part that a run's loss does not reach stays as it was drawn, and so does one that is frozen. The first is noise whenever it
is asked. Upon the second others have learnt: it belongs to what they say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from saccade.recipes.recipe import Recipe
from saccade.tasks.blanks import NEEDED
from saccade.tasks.pretrain import Pretrain


@dataclass(frozen=True)
class Untrained:
    """Parts by their names in the network: ``anew``, which nothing was trained upon, and ``frozen``, which something was."""

    anew: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.anew, *self.frozen)

    @property
    def figures(self) -> dict[str, list[str]]:
        """As a run's figures keep them."""
        kept = {"anew": list(self.anew), "frozen_anew": list(self.frozen)}
        return {name: parts for name, parts in kept.items() if parts}


def untrained_in(figures: Mapping[str, Any], recipe: Recipe, task: Any) -> Untrained:
    """What a run's figures say of it. A run of single texts may be older than they are, and began from nothing."""
    anew, frozen = (tuple(figures.get(name, ())) for name in ("anew", "frozen_anew"))
    fresh = _unasked(task) if recipe.train.from_ is None else ()
    return Untrained(tuple(dict.fromkeys((*anew, *fresh))), frozen)


def still_untrained(before: Untrained, task: Any, network: nn.Module) -> Untrained:
    """What of it stays never trained in a run of this task that begins with it; parts that are frozen are so already."""
    idle = (*_unasked(task), *_parts(getattr(network, "idle", ())))
    anew = tuple(part for part in before.anew if part in idle)
    frozen = tuple(part for part in before.all if part not in anew and (part in idle or is_frozen(network, part)))
    return Untrained(anew, frozen)


def within(before: Untrained, network: nn.Module) -> Untrained:
    """Those that this network has too."""
    held = [name for name, _ in (*network.named_modules(), *network.named_parameters())]
    anew, frozen = (tuple(part for part in parts if part in held) for parts in (before.anew, before.frozen))
    return Untrained(anew, frozen)


def is_frozen(network: nn.Module, part: str) -> bool:
    """Whether nothing of a part is left to learn."""
    own = [each for name, each in network.named_parameters() if name == part or name.startswith(f"{part}.")]
    return bool(own) and not any(parameter.requires_grad for parameter in own)


def thawed(network: nn.Module, frozen: tuple[str, ...], part: str) -> list[str]:
    """What ``train.freeze`` would say to freeze the same, but for one part."""
    names: list[str] = []
    for name in frozen:
        if part.startswith(f"{name}."):
            children = [f"{name}.{child}" for child, _ in network.get_submodule(name).named_children()]
            names += [child for child in children if child != part]
        elif name != part and not name.startswith(f"{part}."):
            names.append(name)
    return names


def _unasked(task: Any) -> tuple[str, ...]:
    """Of rows of single texts none follows another."""
    single = isinstance(task, Pretrain) and task.data.pairs == "none"
    return NEEDED["followers"] if single else ()


def _parts(parameters: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(name.rpartition(".")[0] or name for name in parameters))
