"""Prepares a trace for drawing: one panel per map, or one per site with the mean over its heads.

A panel is small enough to draw. Maps over long sequences are cut into blocks of neighbours, each shown by its greatest
weight, computed from the recorded numbers: a map with 16 weights per row over 100,000 keys is never made dense.

:func:`merge_aspects` joins traces of one text with several aspects into one map: a row per aspect, the words across.

Legend: T queries, S keys, k kept per row, R rows and C columns of a panel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import ceil
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from saccade.trace.axes import Axis, Frames, Grid, Positions, Tokens
from saccade.trace.maps import AttentionMap, Trace
from saccade.views.document import Document, axis_of, documents
from saccade.views.timeline import SIGNAL, Timeline, timelines

PALE = 4  # the strong end of a scale is at least so many times the weight of an even look


@dataclass(frozen=True, eq=False)
class Panel:
    """One picture: ``weights`` [R, C] from ``rows`` to ``columns``, or statistics if no weights were kept.

    ``heads`` are the heads shown (several: their mean), ``residual`` [R] is the mass that was not kept, and ``block`` is
    how many queries and keys one cell stands for. ``gate`` [R] is how much of what was read was let in (β of Xu et al. 2015),
    ``chosen`` [R] the key that hard attention read; NaN where it is not recorded.
    """

    site: str
    heads: tuple[int | None, ...]
    names: tuple[str, str]
    rows: Axis
    columns: Axis
    weights: ndarray | None = None
    residual: ndarray | None = None
    statistics: Mapping[str, ndarray] = field(default_factory=dict)
    block: tuple[int, int] = (1, 1)
    document: Document | None = None  # words in sentences; ``weights`` [1, C] combine both levels
    timeline: Timeline | None = None  # codes in visits, with what each contributes
    gate: ndarray | None = None
    chosen: ndarray | None = None

    @property
    def title(self) -> str:
        if len(self.heads) > 1:
            return f"{self.site} · mean of {len(self.heads)} heads"
        return self.site if self.heads[0] is None else f"{self.site} · head {self.heads[0]}"

    @property
    def is_empty(self) -> bool:
        return not len(self.rows) or not len(self.columns)

    @property
    def greatest(self) -> float:
        """The greatest finite weight."""
        if self.weights is None:
            return 0.0
        shown = self.weights if self.residual is None else np.concatenate([self.weights.ravel(), self.residual])
        finite = shown[np.isfinite(shown)]
        return float(finite.max(initial=0.0))

    @property
    def strong_end(self) -> float:
        """The weight of the strongest colour: the greatest, but at least four times that of an even look, which is thus pale.
        Where weights of two levels are combined, the greatest."""
        if not self.greatest or self.document is not None:
            return self.greatest
        return max(self.greatest, min(1.0, PALE / max(1, len(self.columns) * self.block[1])))


@dataclass(frozen=True)
class Limits:
    """How much fits: maps before heads are averaged; labelled rows and columns; ruled rows and columns (numbers, seconds),
    which can be cut into blocks of any size; columns of sound, where they have a limit of their own."""

    maps: int
    labelled: tuple[int, int]
    ruled: tuple[int, int]
    heard: int | None = None

    def block(self, axis: Axis, side: int) -> int:
        """How many positions of this axis a cell stands for (side 0: rows, 1: columns)."""
        if isinstance(axis, Grid) or (not is_ruled(axis) and len(axis) <= self.labelled[side]):
            return 1
        heard = self.heard if side == 1 and isinstance(axis, Frames) and axis.seconds else None
        return max(1, ceil(len(axis) / (heard or self.ruled[side])))


def is_ruled(axis: Axis) -> bool:
    """Whether positions are labelled by a ruler (numbers, seconds), not by text."""
    numbered = axis.kind == Positions.kind and all(label[:1].isdigit() for label in axis.labels)
    return numbered or axis.kind == Frames.kind


def panels(trace: Trace, limits: Limits) -> list[Panel]:
    """The trace's panels: each map, or the mean over the heads of each site if there are too many maps.

    Words in sentences and the sentences themselves are one panel, a document, where the words' map stands. What the codes of
    visits contribute to an outcome is a panel before all others."""
    single = len(trace.maps) <= limits.maps
    nested = {id(document.maps[0]): document for document in documents(trace)}
    drawn = {id(map) for document in nested.values() for map in document.maps}
    groups: dict[Any, list[AttentionMap]] = {}
    for number, map in enumerate(trace.maps):
        if id(map) in drawn and id(map) not in nested:
            continue
        alike = (map.site, map.query, map.key, map.kind, map.step, map.queries, map.keys)
        groups.setdefault(number if single else (alike, _passes(trace.maps[:number], map)), []).append(map)
    found = (
        _document_panel(nested[id(group[0])], trace) if id(group[0]) in nested else _panel(group, trace, limits)
        for group in groups.values()
    )
    records = (
        Panel(f"{SIGNAL} to {each.outcome}", (None,), ("visits", "codes"), each.visits, each.codes, timeline=each)
        for each in timelines(trace)
    )
    return [*records, *found]


def _document_panel(document: Document, trace: Trace) -> Panel:
    inner, outer = document.maps[0], document.maps[-1]
    return Panel(
        site=" · ".join(dict.fromkeys((outer.site, inner.site))),
        heads=(None,),
        names=(outer.query, inner.key),
        rows=part(axis_of(document, trace), outer.step, 1),
        columns=document.words,
        weights=document.strengths[None],
        document=document,
    )


def _passes(before: Iterable[AttentionMap], map: AttentionMap) -> int:
    """How often the same head occurred before: heads are averaged within a pass over the input, not across passes."""
    return sum((other.site, other.head) == (map.site, map.head) for other in before)


def _panel(maps: Sequence[AttentionMap], trace: Trace, limits: Limits) -> Panel:
    first, axes = maps[0], trace.axes
    only = "head" not in trace.about and all(map.head == first.head for map in trace.maps if map.site == first.site)
    T, S = first.queries, first.keys
    if first.kind == "edges" and first.query in axes:
        T = max(T, len(axes[first.query]) - first.step)  # the last nodes may have no edges
    panel = Panel(
        site=first.site,
        heads=(None,) if only else tuple(map.head for map in maps),
        names=(first.query, first.key),
        rows=part(axes.get(first.query), first.step, T),
        columns=part(axes.get(first.key), 0, S),
        gate=_beside(trace, first, "gate", T),
        chosen=_beside(trace, first, "chosen", T),
    )
    if first.kind == "statistics":
        names = [name for name in ("entropy", "maximum", "received", "argmax") if name != "argmax" or len(maps) == 1]
        means = {name: _array(torch.stack([map.tensors[name].double() for map in maps]).mean(0)) for name in names}
        return replace(panel, statistics=means)
    block = (limits.block(panel.rows, 0), limits.block(panel.columns, 1))
    weights = torch.stack([_weights(map, T, block) for map in maps]).mean(0)
    residual = None
    if first.kind == "top":
        mass = torch.stack([map.tensors["residual"].float().cpu() for map in maps]).mean(0)
        residual = _array(_greatest(mass.unsqueeze(1), (block[0], 1)).squeeze(1))
    rows, columns = (_blocks(axis, size) for axis, size in zip((panel.rows, panel.columns), block, strict=True))
    if block[0] > 1:  # a block of queries has no one gate
        panel = replace(panel, gate=None, chosen=None)
    return replace(panel, rows=rows, columns=columns, weights=_array(weights), residual=residual, block=block)


def _beside(trace: Trace, map: AttentionMap, name: str, T: int) -> ndarray | None:
    """A number per query that was recorded beside a map: the signal ``decoder.gate`` beside the site ``decoder.attention``."""
    signal = trace.signals.get(f"{map.site.rpartition('.')[0]}.{name}")
    if signal is None or signal.axis != map.query or signal.values.dim() != 2 or signal.values.shape[1] != 1:
        return None
    numbers = np.full(T, np.nan)
    recorded = _array(signal.values.double()[:, 0])
    first = signal.step - map.step
    for row in range(max(0, first), min(T, first + len(recorded))):
        numbers[row] = recorded[row - first]
    return numbers


def _weights(map: AttentionMap, T: int, block: tuple[int, int]) -> Float[Tensor, "R C"]:
    """The weights of a map, the greatest of each block."""
    if map.kind == "dense" or block == (1, 1):
        dense = map.weights.detach().float().cpu()
        return _greatest(torch.nn.functional.pad(dense, (0, 0, 0, T - dense.shape[0])), block)
    R, C = ceil(T / block[0]), ceil(map.keys / block[1])
    weights = map.tensors["weights"].detach().float().cpu()
    if map.kind == "top":
        queries = torch.arange(T).unsqueeze(1).expand_as(weights)
        keys = map.tensors["index"].cpu()
    else:
        queries, keys = map.tensors["edges"].cpu()
    places = (queries // block[0] * C + keys // block[1]).flatten()
    return torch.zeros(R * C).scatter_reduce(0, places, weights.flatten(), "amax").view(R, C)


def _greatest(weights: Float[Tensor, "T S"], block: tuple[int, int]) -> Float[Tensor, "R C"]:
    if block == (1, 1):
        return weights
    T, S = weights.shape
    R, C = ceil(T / block[0]), ceil(S / block[1])
    padded = torch.nn.functional.pad(weights, (0, C * block[1] - S, 0, R * block[0] - T))
    return padded.view(R, block[0], C, block[1]).amax((1, 3))


def _array(tensor: Tensor) -> ndarray:
    return np.asarray(tensor.detach().cpu().numpy())


def tick_step(seconds: float, room: float) -> float:
    """1, 2 or 5 times a power of ten, so that at most ``room`` ticks fit on a line of so many seconds."""
    rough = seconds / max(1.0, room)
    power = 10.0 ** np.floor(np.log10(rough)) if rough > 0 else 1.0
    return float(next((times * power for times in (1, 2, 5) if times * power >= rough), 10 * power))


def part(axis: Axis | None, start: int, size: int) -> Axis:
    """``size`` positions of an axis from ``start`` on; positions without a label are numbered."""
    if axis is None:
        return Positions(tuple(str(position) for position in range(start, start + size)))
    if start == 0 and size == len(axis):
        return axis
    numbered = tuple(str(position) for position in range(len(axis), start + size))
    labels = (*axis.labels, *numbered)[start : start + size]
    if isinstance(axis, Tokens):
        special = tuple(position - start for position in axis.special if start <= position < start + size)
        return Tokens(labels, words=axis.words[start : start + size], special=special)
    if isinstance(axis, Frames):
        return Frames(labels, seconds=axis.seconds, start=axis.start + start * axis.seconds, segments=axis.segments)
    return Positions(labels)


def _blocks(axis: Axis, size: int) -> Axis:
    """An axis whose positions are blocks of ``size`` neighbours."""
    if size == 1:
        return axis
    starts = range(0, len(axis), size)
    if isinstance(axis, Frames):
        picture, labels = axis.spectrogram, axis.labels[::size]
        if picture is not None:  # its columns span the frames that the last block lacks, too
            missing = (len(labels) * size - len(axis)) * picture.shape[1] // max(1, len(axis))
            picture = torch.nn.functional.pad(picture, (0, missing), value=float(picture.min()))
        return replace(axis, labels=labels, seconds=axis.seconds * size, spectrogram=picture, audio=None, rate=0)
    return Positions(tuple(f"{start}–{min(start + size, len(axis)) - 1}" for start in starts))


@dataclass(frozen=True, eq=False)
class _Look:
    """One trace of a pair of texts: the words of the first, the second (the aspect), and the weights of the words [S]."""

    words: Tokens
    aspect: str
    output: str
    map: AttentionMap
    weights: Tensor


def merge_aspects(traces: Sequence[Trace]) -> list[Trace]:
    """The traces, with consecutive traces of one text and several aspects joined into one trace with a row per aspect.

    A pair of texts is read in one row with a mark between the two. If the network attends to the first text only, from a
    single query, traces with different second texts have the same columns. Other traces stay as they are.
    """
    looks = [_look(trace) for trace in traces]

    def text(number: int) -> tuple[str, str] | int:
        look = looks[number]
        return number if look is None else (look.words.text, look.map.site)

    merged: list[Trace] = []
    for _, numbers in groupby(range(len(traces)), key=text):
        group = list(numbers)
        rows = [look for number in group if (look := looks[number]) is not None]
        merged += [traces[number] for number in group] if len(rows) < 2 else [_together(traces[group[0]], rows)]
    return merged


def _look(trace: Trace) -> _Look | None:
    """The map of a trace if it has one query and no weight beyond the first of two texts; otherwise None."""
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
    rows = tuple(f"{look.aspect} → {look.output}" if look.output else look.aspect for look in looks)
    weights = torch.stack([look.weights for look in looks])
    axes = {"aspect": Tokens(rows), map.key: looks[0].words}
    joined = replace(map, query="aspect", keys=weights.shape[1], tensors={"weights": weights})
    about = {name: value for name, value in first.about.items() if name in ("task", "output_kind", "model")}
    output = "; ".join(f"{look.aspect}: {look.output}" for look in looks)
    return Trace(axes, (joined,), about={**about, "input": looks[0].words.text, "output": output})
