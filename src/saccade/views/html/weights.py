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
# Types in a page → NumPy's types.
TYPES = {"f32": "<f4", "u8": "u1", "i32": "<i4"}
HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"  # gzip, deflate, no name, no time, no system
LEVEL = 6
THREADS = min(8, os.cpu_count() or 1)


class Blocks:
    """Collects the arrays of a page."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []

    def add(self, array: Array | Tensor, dtype: str) -> dict[str, Any]:
        """Add an array as ``f32``, ``u8`` or ``i32``; return its entry for the header."""
        content = np.ascontiguousarray(numbers(array), TYPES[dtype])
        self.arrays.append(content)
        return {"block": len(self.arrays) - 1, "dtype": dtype, "shape": list(content.shape)}

    def gzipped(self) -> tuple[bytes, ...]:
        """All arrays, compressed in parallel (zlib releases the interpreter lock)."""
        with ThreadPoolExecutor(max_workers=THREADS) as pool:
            return tuple(pool.map(gzip, self.arrays))


def numbers(array: Array | Tensor) -> Array:
    """A tensor of any device and precision as a NumPy array."""
    if not isinstance(array, Tensor):
        return array
    array = array.detach().cpu()
    return np.asarray((array.to(torch.float32) if array.is_floating_point() else array).numpy())


def gzip(array: Array) -> bytes:
    """The array's bytes as a gzip file without a date."""
    content = array.reshape(-1).view(np.uint8).data if array.size else b""
    # Rounded weights repeat in runs of one byte: searching for longer matches costs time and finds less.
    strategy = zlib.Z_RLE if array.dtype == np.uint8 else zlib.Z_DEFAULT_STRATEGY
    squeeze = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, 9, strategy)
    body = squeeze.compress(content) + squeeze.flush()
    return HEADER + body + struct.pack("<II", zlib.crc32(content), array.nbytes & 0xFFFFFFFF)


THUMB = 64  # rows and columns of a thumbnail at most
STEPS = 255
# Numbers of steps that small weights may be rounded to, from fine to coarse; None: all 255 steps.
LEVELS = (None, 128, 64, 48, 32, 24, 16, 12, 10, 8, 7, 6, 5, 4)
LARGE = 0.5  # of the row's largest; above it all 255 steps are used at every level
ROWS_AT_ONCE = 2**24  # weights per block of rows that is sorted at once
TOGETHER = 2**18  # weights per logarithm call: they stay in the cache
SAMPLED = 2**20  # weights from which the size of a page is estimated
KEPT = (48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)  # weights kept per row if not all fit


def quantised(
    weights: Float[ndarray, "T S"], levels: int | None = None
) -> tuple[UInt8[ndarray, "T S"], Float[ndarray, "T"]]:
    """Weights as bytes q and the largest of each row: weight ≈ (q / 255)² · largest.

    The square gives small weights more steps. With ``levels``, weights below half the largest are first rounded to that
    many equal steps, so that fewer different bytes are left and the page compresses better.
    """
    largest = weights.max(1, initial=0).astype(np.float32)
    share = weights / np.where(largest > 0, largest, 1)[:, None]
    if levels is not None:
        share = np.where(share > LARGE, share, np.rint(share * levels) * (1 / levels))
    np.sqrt(share, out=share)
    share *= STEPS
    return np.rint(share, out=share).astype(np.uint8), largest


def can_be_quantised(weights: Array) -> bool:
    """Whether all weights are finite and not negative."""
    # min and max of an array with a NaN are NaN.
    return not weights.size or bool(weights.min() >= 0 and weights.max() < np.inf)


def finest(maps: Sequence[Float[ndarray, "T S"]], most: int) -> int | None:
    """The finest of ``LEVELS`` with which all maps fit into ``most`` bytes, estimated from some rows; −1 if none does."""
    count = sum(weights.size for weights in maps)
    every = -(-count // SAMPLED)
    some = [weights[number % every :: every] for number, weights in enumerate(maps)]
    share = sum(weights.size for weights in some) / count if count else 1.0
    low, high = 0, len(LEVELS)
    while low < high:  # coarser levels never need more bytes
        middle = (low + high) // 2
        size = sum(len(gzip(quantised(weights, LEVELS[middle])[0])) for weights in some)
        low, high = (low, middle) if size <= most * share else (middle + 1, high)
    return LEVELS[low] if low < len(LEVELS) else -1


def most_per_row(maps: Sequence[AttentionMap], keep: int, room: int) -> int | None:
    """How many of the largest weights of each row fit into ``room`` bytes over all maps, estimated from some rows.

    None if all weights that maps hold fit (of dense maps, ``keep`` per row)."""
    held = [map.tensors["weights"].shape[1] if map.kind == "top" else min(keep, map.keys) for map in maps]
    each = 4 + 1  # bytes of an index and of a weight before they are compressed
    if sum(map.queries * (each * k + 2 * 4) for map, k in zip(maps, held, strict=True)) <= room:
        return None
    every = -(-sum(map.queries * k for map, k in zip(maps, held, strict=True)) // (SAMPLED // 4))
    some = [_some_rows(map, keep, max(held), slice(number % every, None, every)) for number, map in enumerate(maps)]
    index, weights = (np.concatenate(parts) for parts in zip(*some, strict=True))
    share = len(weights) / max(1, sum(map.queries for map in maps))
    others = 2 * 4 * sum(map.queries for map in maps)  # the residual of each row, and its largest weight
    for k in (max(held), *(k for k in KEPT if k < max(held))):
        written = (np.ascontiguousarray(index[:, :k]), np.ascontiguousarray(_as_written(weights[:, :k])))
        if others + sum(len(gzip(part)) for part in written) / (share or 1) <= room:
            return None if k == max(held) else k
    return 0


def _some_rows(map: AttentionMap, keep: int, wide: int, rows: slice) -> tuple[Array, Array]:
    tensors = {name: tensor[rows] for name, tensor in map.tensors.items()}
    found = tensors if map.kind == "top" else top(tensors["weights"].detach().float(), keep)
    # Maps with fewer weights are padded with zeros, which compress to nothing.
    index, weights = (
        np.pad(numbers(found[name]), ((0, 0), (0, wide - found[name].shape[1]))) for name in ("index", "weights")
    )
    return index.astype(np.int32), weights


def _as_written(weights: Float[ndarray, "T k"]) -> Array:
    return quantised(weights)[0] if can_be_quantised(weights) else weights


def fewer(tensors: Mapping[str, Tensor], k: int) -> dict[str, Tensor]:
    """Keep the ``k`` largest weights per row of a "top" map; the others are added to the residual."""
    index, weights = tensors["index"], tensors["weights"]
    return {"index": index[:, :k], "weights": weights[:, :k], "residual": tensors["residual"] + weights[:, k:].sum(-1)}


def top(weights: Float[Tensor, "T S"], k: int) -> dict[str, Tensor]:
    """The ``k`` largest weights of each row, and the sum of the others."""
    parts = []
    for rows in weights.split(max(1, ROWS_AT_ONCE // max(1, weights.shape[1]))):
        kept, index = rows.topk(min(k, weights.shape[1]), dim=-1)
        # The sum of the others, not a difference of sums: exactly 0 if there are none, and never negative.
        parts.append((index, kept, rows.scatter(-1, index, 0.0).sum(-1)))
    return {
        name: torch.cat(part)
        for name, part in zip(("index", "weights", "residual"), zip(*parts, strict=True), strict=True)
    }


def entropy(map: AttentionMap) -> float | None:
    """The mean entropy of a map's rows, in nats; None if unknown."""
    if map.kind == "statistics":
        found = numbers(map.tensors["entropy"])
        return _finite(found.mean()) if found.size else None
    weights = numbers(map.tensors["weights"])
    if map.kind == "top" and not np.all(numbers(map.tensors["residual"]) <= 1e-6):
        return None  # the distribution of the residual is unknown
    rows = len(np.unique(numbers(map.tensors["edges"])[0])) if map.kind == "edges" else map.queries
    if not rows:
        return None
    flat, total = weights.reshape(-1), 0.0
    with np.errstate(all="ignore"):
        for part in (flat[start : start + TOGETHER] for start in range(0, flat.size, TOGETHER)):
            terms = np.log(np.maximum(part, np.finfo(part.dtype).tiny))
            terms *= part  # 0 · log 0 is 0; NaN stays NaN
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


def largest_weight(map: AttentionMap) -> float:
    """The largest finite weight of a map; 0 if there is none."""
    weights = numbers(map.tensors["maximum" if map.kind == "statistics" else "weights"])
    return float(np.where(np.isfinite(weights), weights, 0).max(initial=0))


def _places(map: AttentionMap) -> tuple[Array, Array]:
    if map.kind == "edges":
        query, key = numbers(map.tensors["edges"])
        return query, key
    index = numbers(map.tensors["index"])
    return np.broadcast_to(np.arange(len(index))[:, None], index.shape), index


NEAR = 0.05  # share of the keys, on either side of the diagonal, that counts as on it
FEWEST = 4  # queries and keys of a map for which the diagonal is reported


def head_patterns(map: AttentionMap, axes: Mapping[str, Axis]) -> dict[str, float]:
    """The mean weight of a map's rows on each pattern (itself, before, after, first, last, special, diagonal).

    Rows without the position (nothing is before the first) do not count; weights that were not kept count as 0. Empty for
    maps without weights per row, or with weights that are not finite.
    """
    if map.kind not in ("dense", "top") or not map.queries or not map.keys:
        return {}
    weights = numbers(map.tensors["weights"])
    if not np.isfinite(weights).all():
        return {}
    queries = np.arange(map.step, map.step + map.queries)
    patterns: dict[str, float] = {}
    for name, keys in _pattern_keys(map, axes, queries).items():
        exists = (keys >= 0) & (keys < map.keys)
        if exists.any():
            patterns[name] = float(_at(map, weights, keys, exists).mean(dtype=np.float64))
    special = [place for place in getattr(axes.get(map.key), "special", ()) if place < map.keys]
    if special:
        patterns["special"] = _within(map, weights, lambda _, keys: np.isin(keys, special))
    if map.query != map.key and not _is_past(map, axes) and min(map.queries, map.keys) >= FEWEST:
        line = np.linspace(0, map.keys - 1, map.queries)
        patterns["diagonal"] = _within(map, weights, lambda rows, keys: abs(keys - line[rows]) <= NEAR * map.keys)
    return {name: round(share, 4) for name, share in patterns.items()}


def _pattern_keys(
    map: AttentionMap, axes: Mapping[str, Axis], queries: Int[ndarray, "T"]
) -> dict[str, Int[ndarray, "T"]]:
    """For each pattern the key of each query; out of range (−1, S) if there is none."""
    ends = {"first": np.zeros_like(queries), "last": np.full_like(queries, map.keys - 1)}
    if map.query == map.key:
        return {"itself": queries, "before": queries - 1, "after": queries + 1} | ends
    return ({"before": queries} if _is_past(map, axes) else {}) | ends


def _is_past(map: AttentionMap, axes: Mapping[str, Axis]) -> bool:
    """Whether the keys are the previous outputs of the queries: the same labels, one position later."""
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
    """The mean weight of a row on the keys for which ``chosen(rows, keys)`` is true."""
    keys = np.arange(map.keys)[None] if map.kind == "dense" else numbers(map.tensors["index"])
    hit = chosen(np.arange(map.queries)[:, None], keys)
    return float((weights * hit).sum(dtype=np.float64) / map.queries)


Chosen = Callable[[Array, Array], Array]


EXACT = 2**20  # weights and scores that a page holds exactly
LARGEST_MAP = 512 * 512  # weights of the largest map that is written whole
SIGNALS, FEWER = 2**20, 2**18  # numbers of states and contexts in a small page; of those and of scores in a large one
ROOM = 7_200_000  # bytes of gzipped numbers: in base64, with the explorer, a little less than ten megabytes
LARGEST_PAGE = 64_000_000  # bytes of a page with everything in it
MOST_ROOM = 47_000_000  # bytes of gzipped numbers in the largest page
MOST_NAMED = 6  # signals named in a note


@dataclass(frozen=True)
class Plan:
    """How a page's numbers are encoded.

    Attributes:
        large: weights are written as bytes.
        levels: in how many steps (:func:`quantised`).
        topped: dense maps (by identity) that keep only the largest weights of each row.
        keep: how many of them.
        most: how many weights per row fit, also in maps that were "top" before; None: all.
        scores: maps (by identity) whose scores are written.
        signals: for each trace the names of the signals that are written.
    """

    large: bool
    levels: int | None
    topped: frozenset[int]
    keep: int
    most: int | None
    scores: frozenset[int]
    signals: tuple[frozenset[str], ...]

    def notes(self, trace: Trace, number: int) -> list[str]:
        """Notes on what the page leaves out of a trace."""
        notes = []
        top = [map for map in trace.maps if map.kind == "top"]
        held = [map.tensors["weights"].shape[1] for map in top]
        cut = sum(self.most is not None and each > self.most for each in held)
        if cut:
            notes.append(
                f"Of the {max(held)} largest weights of each row that the trace holds, the page keeps {self.most}, and the "
                f"sum of the others ({_of(cut, top)}): a page holds at most {LARGEST_PAGE // 10**6} MB. One of a single site "
                "or head keeps more."
            )
        dense = [map for map in trace.maps if map.kind == "dense"]
        topped = sum(id(map) in self.topped for map in dense)
        if topped:
            notes.append(
                f"The {self.keep} largest weights of each row are kept, and the sum of the others ({_of(topped, dense)})."
            )
        if self.levels is not None and topped < len(dense):
            notes.append(f"Weights below half of their row's largest are rounded to {self.levels} steps.")
        silent = sum("scores" in map.tensors and id(map) not in self.scores for map in dense)
        if silent:
            notes.append(f"Scores are left out to keep the page small ({_of(silent, dense)}).")
        missing = sorted(set(trace.signals) - self.signals[number])
        if missing:
            more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
            notes.append(f"Left out to keep the page small: {', '.join(missing[:MOST_NAMED])}{more}.")
        return notes


def _of(count: int, maps: Sequence[AttentionMap]) -> str:
    return f"{count} of {len(maps)} maps"


def plan(traces: Sequence[Trace], keep: int) -> Plan:
    """The plan of a page with these traces; very large maps keep ``keep`` weights per row."""
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
        # Weights that are not finite or are negative cannot be bytes: they are written exactly.
        exact = sum(map.tensors["weights"].numel() for map in whole) - sum(weights.size for weights in rounded)
        levels = finest(rounded, ROOM - _others(traces, scores, signals) - 4 * exact)
        if levels == -1:
            levels, topped, scores = None, frozenset(id(map) for map in dense), frozenset()
    rows = [map for map in maps if map.kind == "top" or id(map) in topped]
    # The rest of the page: maps that are written whole, or at least states and thumbnails.
    beside = ROOM if len(rows) < len(maps) else 4 * FEWER + THUMB * THUMB * 2 // 3 * len(maps)
    most = most_per_row(rows, keep, MOST_ROOM - beside) if rows else None
    return Plan(large or most is not None, levels, topped, min(keep, most or keep), most, scores, signals)


def _rounded(maps: Sequence[AttentionMap]) -> list[Array]:
    found = (numbers(map.tensors["weights"]) for map in maps)
    return [weights for weights in found if weights.size and can_be_quantised(weights)]


def _scores(maps: Sequence[AttentionMap], most: int) -> frozenset[int]:
    """The maps of a large page whose scores are kept: alignments, as far as they fit."""
    kept, used = set(), 0
    for map in maps:
        size = map.tensors["scores"].numel() if "scores" in map.tensors else 0
        if map.query != map.key and used + size <= most:
            kept.add(id(map))
            used += size
    return frozenset(kept)


def _signals(traces: Sequence[Trace], most: int) -> tuple[frozenset[str], ...]:
    """The signals that fit: states before contexts, those of alignments before those of self-attention."""
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
    """An upper bound on the bytes of everything but weights: thumbnails, row maxima, scores, signals."""
    size = 0
    for trace, names in zip(traces, signals, strict=True):
        size += 4 * sum(trace.signals[name].values.numel() for name in names)
        for map in trace.maps:
            size += min(THUMB, map.queries) * min(THUMB, map.keys) * 2 // 3 + 4 * map.queries
            size += 4 * map.tensors["scores"].numel() if id(map) in scores and "scores" in map.tensors else 0
    return size
