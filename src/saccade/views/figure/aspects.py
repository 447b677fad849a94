"""One text asked about several times, as one map: a row for each aspect, the text's words across.

A pair of texts is read in one row with a mark between the two. Where a network looks at the first text alone, from one
place, what it looked at for several second texts has the same columns, and belongs side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import torch
from torch import Tensor

from saccade.trace.axes import Tokens
from saccade.trace.maps import AttentionMap, Trace


@dataclass(frozen=True, eq=False)
class _Look:
    """What one trace shows: the words of its first text, the second text, and the weights of the words [S]."""

    words: Tokens
    aspect: str
    said: str
    map: AttentionMap
    weights: Tensor


def gathered(traces: Sequence[Trace]) -> list[Trace]:
    """The traces, those of one text after another as one trace whose rows are the aspects that it was asked about.

    Others stay as they are, and so does a text that was asked about once.
    """
    looks = [_look(trace) for trace in traces]

    def text(number: int) -> tuple[str, str] | int:
        look = looks[number]
        return number if look is None else (look.words.text, look.map.site)

    found: list[Trace] = []
    for _, numbers in groupby(range(len(traces)), key=text):
        group = list(numbers)
        rows = [look for number in group if (look := looks[number]) is not None]
        found += [traces[number] for number in group] if len(rows) < 2 else [_together(traces[group[0]], rows)]
    return found


def _look(trace: Trace) -> _Look | None:
    """The one look of a trace, where it is at the first of two texts alone."""
    if len(trace.maps) != 1 or trace.maps[0].kind != "dense" or trace.maps[0].queries != 1:
        return None
    map = trace.maps[0]
    axis = trace.axes.get(map.key)
    if not isinstance(axis, Tokens) or len(axis.special) != 1 or len(axis.spans) != len(axis):
        return None
    mark = axis.special[0]
    weights = map.weights[0]
    if not 0 < mark < len(axis) - 1 or bool((weights[mark:] != 0).any()):
        return None
    cut = axis.spans[mark][0]
    words = Tokens(axis.labels[:mark], text=axis.text[:cut], spans=axis.spans[:mark])
    return _Look(words, axis.text[cut:].strip(), str(trace.about.get("output", "")), map, weights[:mark])


def _together(first: Trace, looks: Sequence[_Look]) -> Trace:
    map = looks[0].map
    rows = tuple(f"{look.aspect} → {look.said}" if look.said else look.aspect for look in looks)
    weights = torch.stack([look.weights for look in looks])
    axes = {"aspect": Tokens(rows), map.key: looks[0].words}
    joined = replace(map, query="aspect", keys=weights.shape[1], tensors={"weights": weights})
    about = {name: value for name, value in first.about.items() if name in ("task", "output_kind", "model")}
    said = "; ".join(f"{look.aspect}: {look.said}" for look in looks)
    return Trace(axes, (joined,), about={**about, "input": looks[0].words.text, "output": said})
