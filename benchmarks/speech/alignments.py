"""How well a recogniser's attention is aligned, where the true times of all symbols are known.

The true text of a recording is decoded, and of every symbol the place is taken where its attention is largest. It is right
within a tolerance of two frames if it lies between the symbol's true start and end, widened by the tolerance.
The boundary between two symbols is where the sum of the weights on their own sides is largest, in the middle where several
frames are equal; the network's own delay, the median of (found − true), is taken off (it is part of the result).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from torch import Tensor

TOLERANCE = 0.02  # seconds: two frames


def alignment_of(task: Any, network: Any, records: Sequence[Any], seconds: float) -> dict[str, float]:
    """The share of symbols whose attention lies on them, the share of boundaries within the tolerance, the delay in seconds.

    ``seconds`` is the time from one annotation to the next.
    """
    from saccade.trace import Lens

    right, symbols, errors = 0, 0, list[float]()
    for record in records:
        lens = Lens()
        task.scorer(network, record.source, record.target)(lens)
        weights = lens.trace.map("decoder.attention").weights.flatten(0, -3)[0]  # [T, L]
        times = record.times
        places = (weights[: len(times)].argmax(-1) * seconds).tolist()
        for place, (_, start, end) in zip(places, times, strict=True):
            right += start - TOLERANCE <= place <= end + TOLERANCE
        symbols += len(times)
        found = boundaries(weights[: len(times)], seconds)
        for place, before, after in zip(found, times, times[1:], strict=False):
            errors.append(place - (before[2] + after[1]) / 2)
    delay = statistics.median(errors) if errors else 0.0
    near = sum(abs(error - delay) <= TOLERANCE + 1e-9 for error in errors)
    return {"on_symbol": right / max(symbols, 1), "boundaries": near / max(len(errors), 1), "delay": delay}


def boundaries(weights: Tensor, seconds: float) -> list[float]:
    """The times between each symbol and the next, in seconds.

    >>> import torch
    >>> boundaries(torch.tensor([[0.9, 0.1, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.2, 0.8]]), 0.01)
    [0.025]
    """
    found = []
    for one, other in pairwise(weights):
        # After frame j: what the first symbol has up to j, and the second beyond.
        sums = one.cumsum(-1) - other.cumsum(-1)
        best = (sums >= sums.max() - 1e-4).nonzero().flatten()
        found.append(round((float(best[0] + best[-1]) / 2 + 1) * seconds, 5))
    return found
