"""Encodes the numbers of a page: what it keeps, how exactly, and as which bytes.

Small pages hold every number exactly. In larger ones weights become bytes, maps above 512 × 512 keep the largest weights of
each row, and scores and states are kept as far as they fit, those of the step-through view first. Pages stay below ten
megabytes (12 × 12 heads over 512 tokens too); if even the largest weights of each row do not fit, fewer are kept, and no
page exceeds 64 megabytes. Each map also gets a thumbnail and the patterns of its head: the mean share of its weight on the
position itself, its neighbours and the ends.

Legend: T queries, S keys, k kept per row.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from numpy import ndarray
from torch import Tensor

from saccade.trace.axes import Axis, Tokens
from saccade.trace.maps import AttentionMap, Trace

Array = ndarray[Any, Any]
# The names of types in a page, and what they are in memory.
TYPES = {"f32": "<f4", "u8": "u1", "i32": "<i4"}
HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"  # gzip, deflate, no name, no time, no system
LEVEL = 6
THREADS = min(8, os.cpu_count() or 1)


class Blocks:
    """Gathers the arrays of a page and says where each will be found."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []

    def add(self, array: Array | Tensor, dtype: str) -> dict[str, Any]:
        """Keep an array as ``f32``, ``u8`` or ``i32``; what the header says of it."""
        found = np.ascontiguousarray(numbers(array), TYPES[dtype])
        self.arrays.append(found)
        return {"block": len(self.arrays) - 1, "dtype": dtype, "shape": list(found.shape)}

    def gzipped(self) -> tuple[bytes, ...]:
        """All arrays, compressed. zlib lets other threads run meanwhile."""
        with ThreadPoolExecutor(max_workers=THREADS) as pool:
            return tuple(pool.map(gzip, self.arrays))


def numbers(array: Array | Tensor) -> Array:
    """The array in NumPy's form, whatever device and precision it is of."""
    if not isinstance(array, Tensor):
        return array
    array = array.detach().cpu()
    return np.asarray((array.to(torch.float32) if array.is_floating_point() else array).numpy())


def gzip(array: Array) -> bytes:
    """The array's bytes in a gzip file that carries no date."""
    content = array.reshape(-1).view(np.uint8).data if array.size else b""
    # Rounded weights hardly ever repeat in longer runs than of one byte: looking for more costs time and finds less.
    strategy = zlib.Z_RLE if array.dtype == np.uint8 else zlib.Z_DEFAULT_STRATEGY
    squeeze = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, 9, strategy)
    body = squeeze.compress(content) + squeeze.flush()
    return HEADER + body + struct.pack("<II", zlib.crc32(content), array.nbytes & 0xFFFFFFFF)


THUMB = 64  # rows and columns of a thumbnail at most
STEPS = 255
# Into how many even steps small weights may be rounded, from fine to coarse; None: all 255 steps.
LEVELS = (None, 128, 64, 48, 32, 24, 16, 12, 10, 8, 7, 6, 5, 4)
LARGE = 0.5  # of the row's largest; above it all 255 steps are used whatever the level
ROWS_AT_ONCE = 2**24  # weights of the rows that are sorted together
TOGETHER = 2**18  # weights whose logarithms are taken together: they stay near the processor
SAMPLED = 2**20  # weights that the size of a page is guessed from
KEPT = (48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)  # weights of a row, where not all of them fit


def quantised(
    weights: Float[ndarray, "T S"], levels: int | None = None
) -> tuple[UInt8[ndarray, "T S"], Float[ndarray, "T"]]:
    """Weights as bytes q and the largest of each row: weight ≈ (q / 255)² · largest.

    The square keeps small weights apart. With ``levels`` those below half the largest are rounded first to even steps,
    ``levels`` to the largest, so that fewer different bytes are left and the page is smaller.
    """
    largest = weights.max(1, initial=0).astype(np.float32)
    share = weights / np.where(largest > 0, largest, 1)[:, None]
    if levels is not None:
        share = np.where(share > LARGE, share, np.rint(share * levels) * (1 / levels))
    np.sqrt(share, out=share)
    share *= STEPS
    return np.rint(share, out=share).astype(np.uint8), largest


def can_be_quantised(weights: Array) -> bool:
    """Bytes hold finite weights that are not below 0."""
    # A NaN anywhere makes the smallest and the largest NaN.
    return not weights.size or bool(weights.min() >= 0 and weights.max() < np.inf)


def finest(maps: Sequence[Float[ndarray, "T S"]], most: int) -> int | None:
    """The finest of ``LEVELS`` with which all maps fit into ``most`` bytes, judged by some of their rows; −1 where
    none does."""
    count = sum(weights.size for weights in maps)
    every = -(-count // SAMPLED)
    some = [weights[number % every :: every] for number, weights in enumerate(maps)]
    share = sum(weights.size for weights in some) / count if count else 1.0
    low, high = 0, len(LEVELS)
    while low < high:  # coarser levels never need more room
        middle = (low + high) // 2
        size = sum(len(gzip(quantised(weights, LEVELS[middle])[0])) for weights in some)
        low, high = (low, middle) if size <= most * share else (middle + 1, high)
    return LEVELS[low] if low < len(LEVELS) else -1


def most_a_row(maps: Sequence[AttentionMap], keep: int, room: int) -> int | None:
    """How many of the largest weights of each row fit into ``room`` bytes in all these maps together, judged by some of
    their rows; None where as many do as there are, or as ``keep`` of maps that hold all."""
    held = [map.tensors["weights"].shape[1] if map.kind == "top" else min(keep, map.keys) for map in maps]
    each = 4 + 1  # bytes of an index and of a weight before they are compressed
    if sum(map.queries * (each * k + 2 * 4) for map, k in zip(maps, held, strict=True)) <= room:
        return None
    every = -(-sum(map.queries * k for map, k in zip(maps, held, strict=True)) // (SAMPLED // 4))
    some = [_some_rows(map, keep, max(held), slice(number % every, None, every)) for number, map in enumerate(maps)]
    index, weights = (np.concatenate(parts) for parts in zip(*some, strict=True))
    share = len(weights) / max(1, sum(map.queries for map in maps))
    others = 2 * 4 * sum(map.queries for map in maps)  # what is left of each row, and its largest
    for k in (max(held), *(k for k in KEPT if k < max(held))):
        written = (np.ascontiguousarray(index[:, :k]), np.ascontiguousarray(_as_written(weights[:, :k])))
        if others + sum(len(gzip(part)) for part in written) / (share or 1) <= room:
            return None if k == max(held) else k
    return 0


def _some_rows(map: AttentionMap, keep: int, wide: int, rows: slice) -> tuple[Array, Array]:
    tensors = {name: tensor[rows] for name, tensor in map.tensors.items()}
    found = tensors if map.kind == "top" else top(tensors["weights"].detach().float(), keep)
    # Maps that hold fewer are filled up with zeros, which take no room.
    index, weights = (
        np.pad(numbers(found[name]), ((0, 0), (0, wide - found[name].shape[1]))) for name in ("index", "weights")
    )
    return index.astype(np.int32), weights


def _as_written(weights: Float[ndarray, "T k"]) -> Array:
    return quantised(weights)[0] if can_be_quantised(weights) else weights


def fewer(tensors: Mapping[str, Tensor], k: int) -> dict[str, Tensor]:
    """Of a map that kept its largest weights the ``k`` largest; the others join what is left of each row."""
    index, weights = tensors["index"], tensors["weights"]
    return {"index": index[:, :k], "weights": weights[:, :k], "residual": tensors["residual"] + weights[:, k:].sum(-1)}


def top(weights: Float[Tensor, "T S"], k: int) -> dict[str, Tensor]:
    """The ``k`` largest weights of each row, and the sum of the others."""
    parts = []
    for rows in weights.split(max(1, ROWS_AT_ONCE // max(1, weights.shape[1]))):
        kept, index = rows.topk(min(k, weights.shape[1]), dim=-1)
        # The sum of what is left, not a difference of sums: exactly 0 when nothing is, and never below.
        parts.append((index, kept, rows.scatter(-1, index, 0.0).sum(-1)))
    return {
        name: torch.cat(part)
        for name, part in zip(("index", "weights", "residual"), zip(*parts, strict=True), strict=True)
    }


def entropy(map: AttentionMap) -> float | None:
    """The mean entropy of a map's rows, in nats; None where it cannot be known."""
    if map.kind == "statistics":
        found = numbers(map.tensors["entropy"])
        return _finite(found.mean()) if found.size else None
    weights = numbers(map.tensors["weights"])
    if map.kind == "top" and not np.all(numbers(map.tensors["residual"]) <= 1e-6):
        return None  # how the residual mass is spread is not known
    rows = len(np.unique(numbers(map.tensors["edges"])[0])) if map.kind == "edges" else map.queries
    if not rows:
        return None
    flat, total = weights.reshape(-1), 0.0
    with np.errstate(all="ignore"):
        for part in (flat[start : start + TOGETHER] for start in range(0, flat.size, TOGETHER)):
            terms = np.log(np.maximum(part, np.finfo(part.dtype).tiny))
            terms *= part  # 0 · log 0 is 0; what is no number stays none
            total -= terms.sum(dtype=np.float64)
    return _finite(total / rows)


def _finite(figure: Any) -> float | None:
    return float(figure) + 0.0 if np.isfinite(figure) else None


def thumbnail(map: AttentionMap) -> UInt8[ndarray, "rows columns"] | None:
    """At most 64 × 64 bytes, each the largest weight of its part of the map: 255 · √(weight / largest of the map)."""
    T, S = map.queries, map.keys
    if map.kind == "statistics" or not T or not S:
        return None
    rows, columns = min(THUMB, T), min(THUMB, S)
    weights = numbers(map.tensors["weights"])
    if not can_be_quantised(weights):
        weights = np.where(np.isfinite(weights), weights, 0).clip(0, None)
    if map.kind == "dense":
        starts = [np.ceil(np.arange(parts) * size / parts).astype(int) for parts, size in ((rows, T), (columns, S))]
        pooled = np.maximum.reduceat(np.maximum.reduceat(weights, starts[0], 0), starts[1], 1)
    else:
        query, key = _places(map)
        pooled = np.zeros((rows, columns), weights.dtype)
        np.maximum.at(pooled, (query * rows // T, key * columns // S), weights)
    largest = pooled.max()
    return np.asarray(np.rint(np.sqrt(pooled / (largest if largest > 0 else 1)) * STEPS), np.uint8)


def _places(map: AttentionMap) -> tuple[Array, Array]:
    if map.kind == "edges":
        query, key = numbers(map.tensors["edges"])
        return query, key
    index = numbers(map.tensors["index"])
    return np.broadcast_to(np.arange(len(index))[:, None], index.shape), index


NEAR = 0.05  # of the keys, on either side of the straight line between two corners, count as on it
FEWEST = 4  # queries and keys between which a line can be told from chance


def head_patterns(map: AttentionMap, axes: Mapping[str, Axis]) -> dict[str, float]:
    """The mean over a map's rows of the weight on each place that it has; of rows without the place (no position before
    the first) nothing counts. Empty for maps that kept no weights by row, or weights that are no numbers.

    Of maps that kept the largest weights alone, what was not kept counts as 0.
    """
    if map.kind not in ("dense", "top") or not map.queries or not map.keys:
        return {}
    weights = numbers(map.tensors["weights"])
    if not np.isfinite(weights).all():
        return {}
    queries = np.arange(map.step, map.step + map.queries)
    found: dict[str, float] = {}
    for name, keys in _pattern_keys(map, axes, queries).items():
        exists = (keys >= 0) & (keys < map.keys)
        if exists.any():
            found[name] = float(_at(map, weights, keys, exists).mean(dtype=np.float64))
    special = [place for place in getattr(axes.get(map.key), "special", ()) if place < map.keys]
    if special:
        found["special"] = _within(map, weights, lambda _, keys: np.isin(keys, special))
    if map.query != map.key and not _is_past(map, axes) and min(map.queries, map.keys) >= FEWEST:
        line = np.linspace(0, map.keys - 1, map.queries)
        found["diagonal"] = _within(map, weights, lambda rows, keys: abs(keys - line[rows]) <= NEAR * map.keys)
    return {name: round(share, 4) for name, share in found.items()}


def _pattern_keys(
    map: AttentionMap, axes: Mapping[str, Axis], queries: Int[ndarray, "T"]
) -> dict[str, Int[ndarray, "T"]]:
    """For each habit the key that each query would look at; −1 and S where there is none."""
    ends = {"first": np.zeros_like(queries), "last": np.full_like(queries, map.keys - 1)}
    if map.query == map.key:
        return {"itself": queries, "before": queries - 1, "after": queries + 1} | ends
    return ({"before": queries} if _is_past(map, axes) else {}) | ends


def _is_past(map: AttentionMap, axes: Mapping[str, Axis]) -> bool:
    """Whether the keys are what the queries wrote before: the same labels, one position later."""
    query, key = axes.get(map.query), axes.get(map.key)
    if not isinstance(query, Tokens) or not isinstance(key, Tokens) or len(key) < 2:
        return False
    return all(late == early for late, early in zip(key.labels[1:], query.labels, strict=False))


def _at(map: AttentionMap, weights: Array, keys: Int[ndarray, "T"], exists: Bool[ndarray, "T"]) -> Array:
    rows = np.flatnonzero(exists)
    if map.kind == "dense":
        return np.asarray(weights[rows, keys[rows]])
    hit = numbers(map.tensors["index"])[rows] == keys[rows, None]
    return np.asarray((weights[rows] * hit).sum(1))


def _within(map: AttentionMap, weights: Array, chosen: Chosen) -> float:
    """The mean weight of a row on the keys that ``chosen(rows, keys)`` says yes to."""
    keys = np.arange(map.keys)[None] if map.kind == "dense" else numbers(map.tensors["index"])
    hit = chosen(np.arange(map.queries)[:, None], keys)
    return float((weights * hit).sum(dtype=np.float64) / map.queries)


Chosen = Callable[[Array, Array], Array]


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
