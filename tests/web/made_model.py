"""A small trained model as its page shows it, and its server."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import saccade
from saccade.trace.edits import Edit
from saccade.trace.lens import DETAILS, Lens
from saccade.trace.maps import Trace
from tests import animals

INPUT = "der hund ist rot"


def trained(home: Path, tokens: str = "words") -> saccade.Bundle:
    return saccade.load(animals.trained(home, "small", tokens), device="cpu")


def seen(bundle: saccade.Bundle, *edits: Edit, prefix: str | None = None) -> tuple[str, Trace]:
    """What the model writes and where it looked, as a page shows it."""
    (prediction,) = bundle.predict([INPUT], lens=Lens("all", edits=edits, detail=DETAILS), prefix=prefix)
    return prediction.value, prediction.trace


@contextmanager
def serving(bundle: saccade.Bundle, given: str = INPUT) -> Iterator[str]:
    """The address of a server of this model, on a port that was free."""
    pytest.importorskip("fastapi", reason="FastAPI is not installed")
    uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    from saccade.server import create_app

    listening = socket.create_server(("127.0.0.1", 0))
    app = create_app({"small": bundle}, inputs=[given])
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    until = time.monotonic() + 20
    while not server.started and time.monotonic() < until:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)
