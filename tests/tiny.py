"""A recipe small enough for tests: a few hundred dates, a network of a few thousand numbers, dropout on."""

from __future__ import annotations

from pathlib import Path

from saccade.recipes.recipe import Recipe, read_recipe

SMALL = (
    "data.dates.train=330",
    "data.dates.valid=35",
    "data.dates.test=37",
    "data.dates.languages=[de, pt]",
    "model.hidden=9",
    "model.embedding=7",
    "model.maxout=5",
    "train.epochs=2",
    "train.batch_records=32",
    "train.device=cpu",
    "train.save_every=4",
    "train.watch=loss",
)


def tiny(*overrides: str, recipe: str | Path = "rnnsearch_dates") -> Recipe:
    return read_recipe(recipe, [*SMALL, "model.dropout=0.2", *overrides])
