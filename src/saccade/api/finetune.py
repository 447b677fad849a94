"""Parts of a network that were never trained: not by its run, not by those that it was begun from, not before it was imported.

A part that a run's loss does not reach stays as it was drawn, and so does one that is frozen. The first is noise whenever it
is asked. Upon the second others have learnt: it belongs to what they say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from saccade.api.runs import checksum_of_data
from saccade.bundle_format import CONFIG, read_config
from saccade.data.memory import IN_MEMORY
from saccade.data.splits import Splits, fingerprint
from saccade.errors import SaccadeError
from saccade.recipes.recipe import Recipe, from_plain
from saccade.tasks import task_class


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
    fresh = task.unreached if recipe.train.from_ is None else ()
    return Untrained(tuple(dict.fromkeys((*anew, *fresh))), frozen)


def still_untrained(before: Untrained, task: Any, network: nn.Module) -> Untrained:
    """What of it stays never trained in a run of this task that begins with it; parts that are frozen are so already."""
    idle = (*task.unreached, *_parts(getattr(network, "idle", ())))
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


def freeze_without(network: nn.Module, frozen: tuple[str, ...], part: str) -> list[str]:
    """What ``train.freeze`` would say to freeze the same, but for one part."""
    names: list[str] = []
    for name in frozen:
        if part.startswith(f"{name}."):
            children = [f"{name}.{child}" for child, _ in network.get_submodule(name).named_children()]
            names += [child for child in children if child != part]
        elif name != part and not name.startswith(f"{part}."):
            names.append(name)
    return names


def _parts(parameters: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(name.rpartition(".")[0] or name for name in parameters))


# ----------------------------------------------------------------------------------------------------
# What a network has been trained on: by its own run, and by those that it was begun from (``train.from``).


def sources_trained_on(recipe: Recipe, folder: Path) -> set[Any]:
    """The sources of all training records of a run and of the runs before it; an error where they cannot be had."""
    sources: set[Any] = set()
    for each, home in ((recipe, folder), *_before(recipe)):
        if getattr(each.data, "train", None) == IN_MEMORY:
            raise SaccadeError(f"no file of the data of {each.name} is known")
        with each.resolving():
            splits: Splits = task_class(each.task).load(each.data, each.folder, each.train.seed)
        if checksum_of_data(home) not in (None, fingerprint(splits)):
            raise SaccadeError(f"the data of {each.name} are others than when it was trained")
        sources |= {record.source for record in splits.train}
    return sources


def _before(recipe: Recipe) -> list[tuple[Recipe, Path]]:
    runs: list[tuple[Recipe, Path]] = []
    while recipe.train.from_ is not None:
        folder = Path(recipe.train.from_)
        config, trust = read_config(folder), recipe.trust.of_run(folder)
        home, where = Path(config["folder"]), str(folder / CONFIG)
        recipe = from_plain(config["recipe"], name=config["name"], folder=home, where=where, trust=trust)
        runs.append((recipe, folder))
    return runs


def notes_of_seen(parent: Recipe, folder: Path, splits: Splits) -> list[str]:
    """What must be known of held-out records whose source the parent was trained on: so scores on them are too optimistic."""
    held_out: dict[str, Sequence[Any]] = {"valid": splits.valid, "test": splits.test}
    try:
        trained_on = sources_trained_on(parent, folder)
    except (SaccadeError, KeyError, TypeError) as error:
        return [f"whether {parent.name} was trained on what is held out here cannot be checked: {error}"]
    seen = {name: sum(record.source in trained_on for record in part) for name, part in held_out.items()}
    return [
        f"{name}: {count:,} of {len(held_out[name]):,} sources were trained on by the run that is begun from, or one before "
        "it: so scores on them are too optimistic"
        for name, count in seen.items()
        if count
    ]
