"""A model small enough to train in seconds, trained enough to answer differently when it looks elsewhere."""

from __future__ import annotations

from pathlib import Path

from saccade import api
from saccade.recipes.recipe import read_recipe

ANIMALS = ("hund dog", "katze cat", "maus mouse")
COLOURS = ("rot red", "alt old", "neu new")
RECIPE = """
task: translate
data: {train: pairs.tsv, valid: pairs.tsv, test: pairs.tsv, tokens: {kind: words, min_count: 2}, max_length: 30}
model: {name: rnnsearch, hidden: 12, embedding: 8, maxout: 8, init: torch}
train: {updates: 25, batch_records: 9, lr: 0.03, device: cpu, watch: loss}
search: {beam: 3}
metrics: [perplexity]
"""


def trained(home: Path, name: str, tokens: str = "words") -> Path:
    """The folder of a run of the recipe ``name``, trained in ``home``, which reads and writes words or characters."""
    pairs = [(*animal.split(), *colour.split()) for animal in ANIMALS for colour in COLOURS]
    rows = [f"der {hund} ist {rot}\tthe {dog} is {red}\n" for hund, dog, rot, red in pairs]
    (home / "pairs.tsv").write_text("".join(rows * 3), encoding="utf-8")
    recipe = RECIPE if tokens == "words" else RECIPE.replace("kind: words, min_count: 2", f"kind: {tokens}")
    (home / f"{name}.yaml").write_text(recipe, encoding="utf-8")
    api.train(read_recipe(home / f"{name}.yaml"), folder=home / "run")
    return home / "run"
