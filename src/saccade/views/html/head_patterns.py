"""What a head makes a habit of, measured: the mean share of its weight on the position itself, its neighbours, the ends.

Legend: T queries, S keys, k kept per row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from saccade.trace.axes import Axis, Tokens
from saccade.trace.maps import AttentionMap
from saccade.views.html.binary import Array, numbers

NEAR = 0.05  # of the keys, on either side of the straight line between two corners, count as on it
FEWEST = 4  # queries and keys between which a line can be told from chance


def habits(map: AttentionMap, axes: Mapping[str, Axis]) -> dict[str, float]:
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
    for name, keys in _places(map, axes, queries).items():
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


def _places(map: AttentionMap, axes: Mapping[str, Axis], queries: Int[ndarray, "T"]) -> dict[str, Int[ndarray, "T"]]:
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
