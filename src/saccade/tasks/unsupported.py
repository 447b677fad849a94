"""What of a recipe a task has no use for: refused before data is read. A task names the field, the recipe's reader its line.

A task says it in ``check_recipe(recipe)``, which raises an :class:`~saccade.errors.InputError` whose place is "recipe".
"""

from __future__ import annotations

from typing import Any

from saccade.errors import InputError


def refuse_rate(recipe: Any, name: str, why: str) -> None:
    """Raise unless ``train.NAME`` is 0."""
    given = getattr(recipe.train, name)
    if given:
        raise InputError("recipe", field=f"train.{name}", expected=f"0: {why}", found=f"{given:g}")


def refuse_sampling(recipe: Any) -> None:
    """Scheduled sampling feeds a network what it wrote itself: raise where a task writes nothing."""
    refuse_rate(recipe, "sampling", f"the task {recipe.task} writes nothing that could be fed back")


def named_metrics(recipe: Any) -> dict[str, str]:
    """The figures that a recipe asks for, by the field that does; a loss is none."""
    named = {f"metrics[{number}]": name for number, name in enumerate(recipe.metrics)}
    if recipe.expect is not None:
        named["expect.metric"] = recipe.expect.metric
    return named if recipe.train.watch == "loss" else {**named, "train.watch": recipe.train.watch}
