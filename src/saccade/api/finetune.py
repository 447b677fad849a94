"""Tracks, across fine-tuning, which parts of a network were never trained and which records it was trained on.

A part that the loss does not reach keeps its random initial values, and so does a part that is frozen before any training.
The output of the first kind is noise. The second kind must be kept: other parts were trained on top of it.
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
from saccade.errors import InputError, SaccadeError
from saccade.recipes.recipe import Recipe, from_plain
from saccade.tasks import task_class

LONGEST_LINEAGE = 100  # runs, each fine-tuned from the one before it


@dataclass(frozen=True)
class Untrained:
    """Never-trained parts by name: ``anew``, which no trained part depends on, and ``frozen``, which trained parts use."""

    anew: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.anew, *self.frozen)

    @property
    def figures(self) -> dict[str, list[str]]:
        """As saved in a run's figures."""
        parts_by_kind = {"anew": list(self.anew), "frozen_anew": list(self.frozen)}
        return {name: parts for name, parts in parts_by_kind.items() if parts}


def untrained_in(figures: Mapping[str, Any], recipe: Recipe, task: Any) -> Untrained:
    """The never-trained parts by a run's figures; older runs did not save those that the task's loss does not reach."""
    anew, frozen = (tuple(figures.get(name, ())) for name in ("anew", "frozen_anew"))
    fresh = task.unreached if recipe.train.from_ is None else ()
    return Untrained(tuple(dict.fromkeys((*anew, *fresh))), frozen)


def still_untrained(before: Untrained, task: Any, network: nn.Module) -> Untrained:
    """The parts that are still untrained after fine-tuning for this task; ``network`` is frozen already as the recipe says."""
    idle = (*task.unreached, *_parts(getattr(network, "idle", ())))
    anew = tuple(part for part in before.anew if part in idle)
    frozen = tuple(part for part in before.all if part not in anew and (part in idle or is_frozen(network, part)))
    return Untrained(anew, frozen)


def within(before: Untrained, network: nn.Module) -> Untrained:
    """The never-trained parts that this network has too."""
    names = [name for name, _ in (*network.named_modules(), *network.named_parameters())]
    anew, frozen = (tuple(part for part in parts if part in names) for parts in (before.anew, before.frozen))
    return Untrained(anew, frozen)


def is_frozen(network: nn.Module, part: str) -> bool:
    """Whether all parameters of a part are frozen."""
    own = [parameter for name, parameter in network.named_parameters() if name == part or name.startswith(f"{part}.")]
    return bool(own) and not any(parameter.requires_grad for parameter in own)


def freeze_without(network: nn.Module, frozen: tuple[str, ...], part: str) -> list[str]:
    """The value of ``train.freeze`` that freezes the same parts except one."""
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
# The records that a network was trained on: by its own run, and by those that it was fine-tuned from (``train.from``).


def sources_trained_on(recipe: Recipe, folder: Path) -> set[Any]:
    """The sources of all training records of a run and of the runs before it; raises if they cannot be read."""
    sources: set[Any] = set()
    for run, home in ((recipe, folder), *_ancestors(recipe)):
        if getattr(run.data, "train", None) == IN_MEMORY:
            raise SaccadeError(f"{run.name} was trained on data given in memory")
        with run.resolving():
            splits: Splits = task_class(run.task).load(run.data, run.folder, run.train.seed)
        if checksum_of_data(home) not in (None, fingerprint(splits)):
            raise SaccadeError(f"the data of {run.name} have changed since it was trained")
        sources |= {record.source for record in splits.train}
    return sources


def _ancestors(recipe: Recipe) -> list[tuple[Recipe, Path]]:
    runs: list[tuple[Recipe, Path]] = []
    seen: set[Path] = set()
    while recipe.train.from_ is not None:
        folder = Path(recipe.train.from_)
        if folder.resolve() in seen or len(seen) == LONGEST_LINEAGE:  # a saved recipe may name its own run
            expected = f"at most {LONGEST_LINEAGE} runs, each of them once"
            raise InputError(folder / CONFIG, field="train.from", expected=expected, found="this run again, or more")
        seen.add(folder.resolve())
        config, trust = read_config(folder), recipe.trust.of_run(folder)
        home, where = Path(config["folder"]), str(folder / CONFIG)
        recipe = from_plain(config["recipe"], name=config["name"], folder=home, where=where, trust=trust)
        runs.append((recipe, folder))
    return runs


def notes_of_seen(parent: Recipe, folder: Path, splits: Splits) -> list[str]:
    """Warnings about held-out records whose source the parent was trained on."""
    held_out: dict[str, Sequence[Any]] = {"valid": splits.valid, "test": splits.test}
    try:
        trained_on = sources_trained_on(parent, folder)
    except (SaccadeError, KeyError, TypeError) as error:
        return [f"cannot check whether {parent.name} was trained on records that are held out here: {error}"]
    seen = {name: sum(record.source in trained_on for record in part) for name, part in held_out.items()}
    return [
        f"{name}: {count:,} of {len(held_out[name]):,} sources were in the training data of the run that this one starts from, "
        "or of one before it: scores on them are too optimistic"
        for name, count in seen.items()
        if count
    ]
