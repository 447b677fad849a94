"""Transcribes recordings of any length: window by window, joined by when the attention heard what was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from saccade.api.bundle import Bundle
from saccade.data.audio.recordings import Recording
from saccade.data.audio.subtitles import Transcript
from saccade.data.audio.windows import Piece, join, windows
from saccade.errors import SaccadeError
from saccade.nn.search.beam_search import Search
from saccade.task import Prediction
from saccade.trace.axes import Frames, Tokens
from saccade.trace.lens import Lens
from saccade.trace.maps import Trace

TOGETHER = 8  # windows that are searched in one batch
CHUNK, OVERLAP = 20.0, 4.0  # seconds; where training recordings were at most shorter, so are the windows
HEARD = 0.1  # of an output's largest weight: the frames around it that have as much were listened to


def transcribe(
    bundle: Bundle,
    recording: Any,
    *,
    chunk: float | None = None,
    overlap: float | None = None,
    search: Search | None = None,
    progress: Callable[[float], None] | None = None,
) -> Transcript:
    """The transcript of a recording with the times of its words, from a model of the task ``transcribe``.

    A long recording is read, heard and forgotten window by window: memory does not grow with it.

    Args:
        recording: a file, its bytes, or (samples, rate).
        chunk: seconds of a window; 20 unless given, less where ``data.audio.max_seconds`` is less. A network hears best
            what is about as long as its training recordings.
        overlap: seconds that neighbouring windows share; a fifth of a window unless given.
        search: search settings; the recipe's unless given.
        progress: called with the share that is done.

    >>> # saccade.transcribe(saccade.load("runs/…"), "talk.wav").save("talk.srt")
    """
    if bundle.task.input.name != "audio":
        found = f"the task {bundle.task.name}"
        raise SaccadeError(f"transcribe: expected a model that reads sound, found one of {found}")
    if bundle.recipe.data.features.kind == "given":
        found = "one of frames that were computed elsewhere"
        raise SaccadeError(f"transcribe: expected a model that reads recordings, found {found}")
    sound = Recording.in_memory(recording, "recording")
    longest = bundle.recipe.data.audio.max_seconds
    chunk = min(CHUNK, longest) if chunk is None else chunk
    spans = windows(sound.seconds, chunk, min(OVERLAP, chunk / 5) if overlap is None else overlap)
    notes: dict[str, list[tuple[float, float]]] = {}  # the windows that each is about

    def parts() -> Iterator[tuple[tuple[float, float], list[Piece]]]:
        for done in range(0, len(spans), TOGETHER):
            together = spans[done : done + TOGETHER]
            given = [sound if len(spans) == 1 else sound.part(start, end) for start, end in together]
            for span, prediction in zip(together, bundle.predict(given, lens=Lens(), search=search), strict=True):
                for note in prediction.notes:
                    notes.setdefault(note, []).append(span)
                yield span, pieces_of(prediction, start=span[0], end=span[1])
            if progress is not None:
                progress((done + len(together)) / len(spans))

    joined = tuple(join(parts()))
    said = list[str]()
    for note, about in notes.items():
        everywhere = len(about) == len(spans)
        said += [note] if everywhere else [f"{start:.1f} to {end:.1f} s: {note}" for start, end in about]
    return Transcript(sound.name, sound.seconds, joined, tuple(said))


def pieces_of(prediction: Prediction, *, start: float = 0.0, end: float = float("inf")) -> list[Piece]:
    """What was written of a sound, token by token, and when it was heard: in seconds, the first frame at ``start``."""
    if prediction.trace is None:
        raise SaccadeError("pieces: expected a prediction with its trace, found none")
    weights, tokens, frames = _alignment(prediction.trace)
    pieces = []
    for place, text in enumerate(_texts(tokens)):
        if place in tokens.special or place >= len(weights):
            continue
        heard = _stretch(weights[place])
        seconds = [min(start + edge * frames.seconds, end) for edge in heard]
        pieces.append(Piece(text, *seconds))
    return pieces


def _alignment(trace: Trace) -> tuple[Float[ndarray, "T L"], Tokens, Frames]:
    """The weights from what was written to the frames of the sound, of several heads the mean, with both axes."""
    for site in reversed(trace.sites):
        maps = [map for map in trace.maps if map.site == site]
        tokens, frames = trace.axes.get(maps[0].query), trace.axes.get(maps[0].key)
        if isinstance(tokens, Tokens) and isinstance(frames, Frames) and frames.seconds:
            dense = np.mean([map.weights.detach().float().cpu().numpy() for map in maps], axis=0)
            return np.nan_to_num(dense), tokens, frames
    found = ", ".join(trace.sites) or "none"
    raise SaccadeError(f"pieces: expected attention from tokens to frames of a sound, found {found}")


def _stretch(row: Float[ndarray, " L"]) -> tuple[float, float, float]:
    """From which frame to which an output listened, and their mean by weight; edges count from the start of frame 0."""
    if not len(row) or not row.max() > 0:
        return 0.0, 0.0, 0.0
    most = int(row.argmax())
    heard = row >= HEARD * row[most]
    first = most - int(np.argmin(heard[most::-1])) + 1 if not heard[: most + 1].all() else 0
    last = most + int(np.argmin(heard[most:])) if not heard[most:].all() else len(row)
    inside = row[first:last]
    return float(first), float(last), float((np.arange(first, last) + 0.5) @ inside / inside.sum())


def _texts(tokens: Tokens) -> list[str]:
    """The text of each token, with the space that stands before it."""
    pieces, place, text = [], 0, tokens.text
    for number, label in enumerate(tokens.labels):
        start = place
        while start < len(text) and text[start].isspace() and label.strip():
            start += 1
        if number in tokens.special or not text.startswith(label, start):
            pieces.append(label)  # a mark, or a space that the text has not
            continue
        pieces.append(text[place : start + len(label)])
        place = start + len(label)
    return pieces
