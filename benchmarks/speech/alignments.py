"""How well a recogniser's attention is aligned, where the true times of all symbols are known.

The true text of a recording is decoded by force, and of every symbol the place is taken at which its attention is largest. The
symbol is found if that place lies between its true start and end, give or take two frames. Its start is that place less the
network's delay, the median of (place − start) on validation data: most networks look at the onset, or some frames after it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

TOLERANCE = 0.02 + 1e-6  # seconds: two frames


def alignment_of(task: Any, network: Any, records: Sequence[Any], seconds: float, delay: float) -> dict[str, float]:
    """The shares of symbols that are found, and whose start is found within two frames.

    ``seconds`` is the time from one annotation to the next, ``delay`` that of :func:`delay_of`.
    """
    found, starts, symbols = 0, 0, 0
    for places, times in _places(task, network, records, seconds):
        for place, (_, start, end) in zip(places, times, strict=True):
            found += start - TOLERANCE <= place <= end + TOLERANCE
            starts += abs(place - delay - start) <= TOLERANCE
        symbols += len(times)
    return {"found": found / max(symbols, 1), "starts": starts / max(symbols, 1), "delay": delay}


def delay_of(task: Any, network: Any, records: Sequence[Any], seconds: float) -> float:
    """The median time from the start of a symbol to where its attention is largest."""
    return statistics.median(
        place - start
        for places, times in _places(task, network, records, seconds)
        for place, (_, start, _) in zip(places, times, strict=True)
    )


def _places(task: Any, network: Any, records: Sequence[Any], seconds: float) -> Iterator[tuple[list[float], Any]]:
    """Where the attention of every symbol of a record is largest, in seconds, and the true times of the symbols."""
    from saccade.trace import Lens

    for record in records:
        scored = task.scorer(network, record, record.target)(Lens())
        weights = scored.trace.map("decoder.attention").weights  # [T, L]
        # Rounded: a place on the edge of the tolerance must not depend on how 0.02 is stored.
        yield [round(n * seconds, 6) for n in weights[: len(record.times)].argmax(-1).tolist()], record.times
