"""A model small enough to train here and trained enough to answer differently when it looks elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import saccade
from saccade import api
from saccade.recipes.recipe import read_recipe
from saccade.server import create_app

ANIMALS = ("hund dog", "katze cat", "maus mouse")
COLOURS = ("rot red", "alt old", "neu new")
RECIPE = """
task: translate
data: {train: pairs.tsv, valid: pairs.tsv, test: pairs.tsv, tokens: {kind: words, min_count: 2}, max_length: 30}
model: {name: rnnsearch, hidden: 16, embedding: 8, maxout: 8}
train: {updates: 30, batch_records: 9, lr: 0.02, device: cpu, watch: loss}
search: {beam: 3}
metrics: [perplexity]
"""


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> Path:
    """The folder of a trained run."""
    home = tmp_path_factory.mktemp("served")
    pairs = [(*animal.split(), *colour.split()) for animal in ANIMALS for colour in COLOURS]
    rows = [f"der {hund} ist {rot}\tthe {dog} is {red}\n" for hund, dog, rot, red in pairs]
    (home / "pairs.tsv").write_text("".join(rows * 3))
    (home / "my.yaml").write_text(RECIPE)
    api.train(read_recipe(home / "my.yaml"), folder=home / "run")
    return home / "run"


@pytest.fixture(scope="session")
def bundle(run) -> saccade.Bundle:
    return saccade.load(run, device="cpu")


@pytest.fixture
def explorer(monkeypatch) -> None:
    """Pages are made although the explorer's script may not be built here."""
    monkeypatch.setattr("saccade.views.html.asset", lambda name: f"/* {name} */")


@pytest.fixture
def client(bundle, explorer) -> Iterator[TestClient]:
    with TestClient(create_app({"my": bundle}), base_url="http://localhost") as client:
        yield client
