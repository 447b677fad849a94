"""A model small enough to train in seconds, trained enough to answer differently when it looks elsewhere; and its server."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

import saccade
from saccade import api
from saccade.recipes.recipe import read_recipe
from saccade.server import create_app
from saccade.trace.edits import Edit
from saccade.trace.lens import DETAILS, Lens
from saccade.trace.maps import Trace

ANIMALS = ("hund dog", "katze cat", "maus mouse")
COLOURS = ("rot red", "alt old", "neu new")
RECIPE = """
task: translate
data: {train: pairs.tsv, valid: pairs.tsv, test: pairs.tsv, tokens: {kind: words, min_count: 2}, max_length: 30}
model: {name: rnnsearch, hidden: 12, embedding: 8, maxout: 8}
train: {updates: 25, batch_records: 9, lr: 0.03, device: cpu, watch: loss}
search: {beam: 3}
metrics: [perplexity]
"""
INPUT = "der hund ist rot"


def trained(home: Path) -> saccade.Bundle:
    pairs = [(*animal.split(), *colour.split()) for animal in ANIMALS for colour in COLOURS]
    rows = [f"der {hund} ist {rot}\tthe {dog} is {red}\n" for hund, dog, rot, red in pairs]
    (home / "pairs.tsv").write_text("".join(rows * 3), encoding="utf-8")
    (home / "small.yaml").write_text(RECIPE, encoding="utf-8")
    api.train(read_recipe(home / "small.yaml"), folder=home / "run")
    return saccade.load(home / "run", device="cpu")


def seen(bundle: saccade.Bundle, *edits: Edit, prefix: str | None = None) -> tuple[str, Trace]:
    """What the model writes and where it looked, as a page shows it."""
    (prediction,) = bundle.predict([INPUT], lens=Lens("all", edits=edits, detail=DETAILS), prefix=prefix)
    return prediction.value, prediction.trace


@contextmanager
def serving(bundle: saccade.Bundle) -> Iterator[str]:
    """The address of a server of this model, on a port that was free."""
    listening = socket.create_server(("127.0.0.1", 0))
    app = create_app({"small": bundle}, inputs=[INPUT])
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    until = time.monotonic() + 20
    while not server.started and time.monotonic() < until:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)
