"""What a network has been trained on: by its own run, and by those that it was begun from (``train.from``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from saccade.api.runs import checksum_of_data
from saccade.api.trained import IN_MEMORY
from saccade.bundle import CONFIG, read_config
from saccade.errors import SaccadeError
from saccade.parts import searching
from saccade.recipes.recipe import Recipe, from_plain
from saccade.splits import Splits, fingerprint
from saccade.tasks import task_class


def sources_trained_on(recipe: Recipe, folder: Path) -> set[Any]:
    """The sources of all training records of a run and of the runs before it; an error where they cannot be had."""
    sources: set[Any] = set()
    for each, home in ((recipe, folder), *_before(recipe)):
        if getattr(each.data, "train", None) == IN_MEMORY:
            raise SaccadeError(f"no file of the data of {each.name} is known")
        splits: Splits = task_class(each.task).load(each.data, each.folder, each.train.seed)
        if checksum_of_data(home) not in (None, fingerprint(splits)):
            raise SaccadeError(f"the data of {each.name} are others than when it was trained")
        sources |= {record.source for record in splits.train}
    return sources


def _before(recipe: Recipe) -> list[tuple[Recipe, Path]]:
    runs: list[tuple[Recipe, Path]] = []
    while recipe.train.from_ is not None:
        folder = Path(recipe.train.from_)
        with searching(never=folder):
            config = read_config(folder)
            home, where = Path(config["folder"]), str(folder / CONFIG)
            recipe = from_plain(config["recipe"], name=config["name"], folder=home, where=where)
        runs.append((recipe, folder))
    return runs


def notes_of_seen(parent: Recipe, folder: Path, splits: Splits) -> list[str]:
    """What must be known of held-out records whose source the parent was trained on: figures on them flatter."""
    held_out: dict[str, Sequence[Any]] = {"valid": splits.valid, "test": splits.test}
    try:
        trained_on = sources_trained_on(parent, folder)
    except (SaccadeError, KeyError, TypeError) as error:
        return [f"whether {parent.name} was trained on what is held out here cannot be checked: {error}"]
    seen = {name: sum(record.source in trained_on for record in part) for name, part in held_out.items()}
    return [
        f"{name}: {count:,} of {len(held_out[name]):,} sources were trained on by the run that is begun from, or one before "
        "it: figures on them flatter"
        for name, count in seen.items()
        if count
    ]
