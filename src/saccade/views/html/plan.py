"""What goes into a page and how exactly, so that one file stays below ten megabytes: 12 × 12 heads over 512 tokens too.

Small pages hold everything as it is. In larger ones weights become bytes, maps above 512 × 512 keep the largest weights
of each row, and scores and states are kept as far as there is room, those that a step-through shows first. Where the
largest weights of each row alone would be too much, fewer of them are kept: no page is above 64 megabytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from saccade.trace.maps import AttentionMap, Trace
from saccade.views.html.binary import Array, numbers
from saccade.views.html.weights import THUMB, can_be_quantised, finest, most_a_row

EXACT = 2**20  # weights and scores of a page that are written as they are
LARGEST_MAP = 512 * 512  # weights of a map that are all written
SIGNALS, FEWER = 2**20, 2**18  # numbers of states and contexts in a small page; those, and scores, in a large one
ROOM = 7_200_000  # bytes of gzipped numbers: in base64, with the explorer, a little less than ten megabytes
LARGEST_PAGE = 64_000_000  # bytes of a page with everything in it
MOST_ROOM = 47_000_000  # bytes of gzipped numbers in the largest page
MOST_NAMED = 6  # signals that a note names


@dataclass(frozen=True)
class Plan:
    """How a page's numbers are written.

    Attributes:
        large: weights are written as bytes.
        levels: in how many steps (:func:`saccade.views.html.weights.quantised`).
        topped: maps (by identity) of which each row keeps its largest weights alone.
        keep: how many.
        most: how many of them there is room for, in maps that held no others before too; None: as many as there are.
        scores: maps (by identity) whose scores are written.
        signals: for each trace the names of the signals that are.
    """

    large: bool
    levels: int | None
    topped: frozenset[int]
    keep: int
    most: int | None
    scores: frozenset[int]
    signals: tuple[frozenset[str], ...]

    def notes(self, trace: Trace, number: int) -> list[str]:
        """What the page does not hold of a trace, in words."""
        found = []
        top = [map for map in trace.maps if map.kind == "top"]
        held = [map.tensors["weights"].shape[1] for map in top]
        cut = sum(self.most is not None and each > self.most for each in held)
        if cut:
            found.append(
                f"Of the {max(held)} largest weights of each row that the trace holds, the page keeps {self.most}, and the "
                f"sum of the others ({_of(cut, top)}): a page holds at most {LARGEST_PAGE // 10**6} MB. One of a single site "
                "or head keeps more."
            )
        dense = [map for map in trace.maps if map.kind == "dense"]
        topped = sum(id(map) in self.topped for map in dense)
        if topped:
            found.append(
                f"The {self.keep} largest weights of each row are kept, and the sum of the others ({_of(topped, dense)})."
            )
        if self.levels is not None and topped < len(dense):
            found.append(f"Weights below half of their row's largest are rounded to {self.levels} steps.")
        silent = sum("scores" in map.tensors and id(map) not in self.scores for map in dense)
        if silent:
            found.append(f"Scores are left out to keep the page small ({_of(silent, dense)}).")
        missing = sorted(set(trace.signals) - self.signals[number])
        if missing:
            more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
            found.append(f"Left out to keep the page small: {', '.join(missing[:MOST_NAMED])}{more}.")
        return found


def _of(count: int, maps: Sequence[AttentionMap]) -> str:
    return f"{count} of {len(maps)} maps"


def plan(traces: Sequence[Trace], keep: int) -> Plan:
    """The plan of a page that shows these traces; of very large maps ``keep`` weights a row are enough."""
    maps = [map for trace in traces for map in trace.maps]
    dense = [map for map in maps if map.kind == "dense"]
    topped = frozenset(id(map) for map in dense if map.tensors["weights"].numel() > LARGEST_MAP)
    whole = [map for map in dense if id(map) not in topped]
    count = sum(tensor.numel() for map in whole for tensor in map.tensors.values())
    count += sum(map.tensors["weights"].numel() for map in maps if map.kind in ("top", "edges"))
    large = count > EXACT or bool(topped)
    signals = _signals(traces, FEWER if large else SIGNALS)
    scores = frozenset(id(map) for map in whole) if not large else _scores(whole, FEWER)
    levels = None
    if large:
        rounded = _rounded(whole)
        # Weights that are no numbers, or below 0, have no bytes: they are written as they are.
        exact = sum(map.tensors["weights"].numel() for map in whole) - sum(weights.size for weights in rounded)
        levels = finest(rounded, ROOM - _others(traces, scores, signals) - 4 * exact)
        if levels == -1:
            levels, topped, scores = None, frozenset(id(map) for map in dense), frozenset()
    rows = [map for map in maps if map.kind == "top" or id(map) in topped]
    # Beside these stand maps that are written whole, or at least states and thumbnails.
    beside = ROOM if len(rows) < len(maps) else 4 * FEWER + THUMB * THUMB * 2 // 3 * len(maps)
    most = most_a_row(rows, keep, MOST_ROOM - beside) if rows else None
    return Plan(large or most is not None, levels, topped, min(keep, most or keep), most, scores, signals)


def _rounded(maps: Sequence[AttentionMap]) -> list[Array]:
    found = (numbers(map.tensors["weights"]) for map in maps)
    return [weights for weights in found if weights.size and can_be_quantised(weights)]


def _scores(maps: Sequence[AttentionMap], most: int) -> frozenset[int]:
    """The maps of a large page whose scores are kept: alignments, as far as there is room. Weights come first."""
    kept, used = set(), 0
    for map in maps:
        size = map.tensors["scores"].numel() if "scores" in map.tensors else 0
        if map.query != map.key and used + size <= most:
            kept.add(id(map))
            used += size
    return frozenset(kept)


def _signals(traces: Sequence[Trace], most: int) -> tuple[frozenset[str], ...]:
    """The signals there is room for: states come before contexts, those of alignments before those of self-attention."""
    kept: list[frozenset[str]] = []
    used = 0
    for trace in traces:
        names = set()
        later = {f"{map.site}.context" for map in trace.maps if map.query == map.key}
        for name in sorted(trace.signals, key=lambda name: (not name.endswith("state"), name in later)):
            size = trace.signals[name].values.numel()
            if used + size <= most:
                names.add(name)
                used += size
        kept.append(frozenset(names))
    return tuple(kept)


def _others(traces: Sequence[Trace], scores: frozenset[int], signals: Sequence[frozenset[str]]) -> int:
    """Bytes that everything but the weights may need: thumbnails, the largest of each row, scores, signals."""
    size = 0
    for trace, names in zip(traces, signals, strict=True):
        size += 4 * sum(trace.signals[name].values.numel() for name in names)
        for map in trace.maps:
            size += min(THUMB, map.queries) * min(THUMB, map.keys) * 2 // 3 + 4 * map.queries
            size += 4 * map.tensors["scores"].numel() if id(map) in scores and "scores" in map.tensors else 0
    return size
