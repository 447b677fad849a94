"""The gallery: one page with an example trace of each kind. The traces are files in this folder.

``scripts/make_gallery.py`` makes them: it trains shipped recipes and traces an example with each. Kinds of input that no
model here reads yet are shown by generated traces, which say so in ``about["notes"]``.
"""

from __future__ import annotations

import gzip
import tempfile
import zlib
from importlib import resources
from pathlib import Path

from saccade.errors import SaccadeError
from saccade.trace.maps import Trace
from saccade.views.html import page as html

TITLE = "saccade: a gallery"
ENDING = ".trace.gz"
MODELS = {
    "rnnsearch_dates": "a date, by RNNsearch",
    "luong_dates": "the same date, by Luong's local attention",
    "transformer_dates": "the same date, by a Transformer",
    "seq2seq_cho_dates": "the same date, through one vector (no attention)",
    "attentive_opinions": "an opinion, by a classifier that looks",
    "bert_topics": "a missing word, by a small BERT",
    "transformer_language_agreement": "a sentence that goes on, by a language model",
    "pointer_sorting": "numbers sorted by pointing",
}
GENERATED = {
    "document": "a document (generated)",
    "picture": "a picture (generated)",
    "sound": "a sound (generated)",
    "graph": "a graph (generated)",
    "visits": "visits to a hospital (generated)",
    "reviews": "reviews (generated)",
}


def gallery() -> dict[str, Trace]:
    """Every trace of the gallery by its name in the menu."""
    return {title: _read(name) for name, title in (MODELS | GENERATED).items()}


def save(path: str | Path) -> Path:
    """Write the gallery as one page."""
    html.save(gallery(), path, title=TITLE)
    return Path(path)


def keep(trace: Trace, path: Path) -> None:
    """Write a trace as a file of the gallery; the same trace gives the same bytes."""
    with tempfile.TemporaryDirectory() as folder:
        plain = trace.save(Path(folder) / "x.trace")
        path.write_bytes(gzip.compress(plain.read_bytes(), mtime=0))


def _read(name: str) -> Trace:
    file = resources.files("saccade.views.html.gallery").joinpath(f"{name}{ENDING}")
    try:
        content = gzip.decompress(file.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise SaccadeError(f"the gallery's {name}{ENDING} cannot be read ({error}): install saccade again") from None
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / f"{name}.trace"
        plain.write_bytes(content)
        return Trace.load(plain)
