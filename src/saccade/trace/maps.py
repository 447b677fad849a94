"""Attention maps and traces: a model's attention on one input, over named axes.

Legend: T queries, S keys, k kept per row, E edges, n width of a state.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.trace.axes import Axis, Positions

# The function that draws or writes a trace, by the file's ending, for a terminal (no ending) or a notebook; imported when
# used, so that a trace does not depend on the views.
RENDERERS = {
    "": "saccade.views.terminal.show:show",
    "notebook": "saccade.views.html.page:show",
    ".html": "saccade.views.html.page:save",
    ".png": "saccade.views.figure.figure:save",
    ".svg": "saccade.views.figure.figure:save",
    ".pdf": "saccade.views.figure.figure:save",
    ".trace": "saccade.trace.file:save",
}


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The attention of one head at one site, for queries ``step``, ``step + 1``, …

    ``kind`` says what was kept, and so which tensors there are:

    - ``dense``: weights [T, S], and scores [T, S] if recorded;
    - ``top``: index [T, k], weights [T, k] in falling order, residual [T] (the mass that was not kept);
    - ``statistics``: entropy [T] (in nats), maximum [T], argmax [T], received [S] (mass summed over queries);
    - ``edges``: edges [2, E] (query, key), weights [E].
    """

    site: str
    query: str
    key: str
    kind: str
    tensors: Mapping[str, Tensor]
    head: int | None = None
    step: int = 0
    keys: int = 0

    @property
    def weights(self) -> Tensor:
        """Dense weights [T, S]. In ``top`` and ``edges`` maps, weights that were not recorded are 0; statistics have no
        weights."""
        if self.kind == "dense":
            return self.tensors["weights"]
        if self.kind == "top":
            kept = self.tensors["weights"]
            # Short rows are padded with weight 0 at key 0, which must not overwrite that key's weight: add.
            return kept.new_zeros(kept.shape[0], self.keys).scatter_add(1, self.tensors["index"], kept)
        if self.kind == "edges":
            queries, keys = self.tensors["edges"]
            dense = self.tensors["weights"].new_zeros(self.queries, self.keys)
            return dense.index_put((queries, keys), self.tensors["weights"], accumulate=True)
        raise SaccadeError(
            f"the map of {self.site!r} has statistics only: record with keep='all' or keep='top' for weights"
        )

    @property
    def queries(self) -> int:
        if self.kind == "edges":
            queries = self.tensors["edges"][0]
            return int(queries.max()) + 1 if len(queries) else 0
        return self.tensors["maximum" if self.kind == "statistics" else "weights"].shape[0]

    def __repr__(self) -> str:
        head = "" if self.head is None else f" head {self.head}"
        return f"AttentionMap({self.site}{head}: {self.kind}, {self.query} {self.queries} × {self.key} {self.keys})"


@dataclass(frozen=True, eq=False)
class Signal:
    """One vector per position of an axis, from position ``step`` on: a context, a state.

    ``values`` is [T, n], or [T, H, n] with one per head: the contexts of multi-head attention.
    """

    axis: str
    values: Tensor
    step: int = 0

    def __repr__(self) -> str:
        return f"Signal({self.axis}: {' × '.join(map(str, self.values.shape))})"


@dataclass(frozen=True, eq=False)
class Outputs:
    """The likeliest outputs of each step: ``labels[t][j]`` with probability [T, k] and index [T, k]."""

    axis: str
    labels: tuple[tuple[str, ...], ...]
    probability: Tensor
    index: Tensor

    def __repr__(self) -> str:
        return f"Outputs({self.axis}: the likeliest of {len(self.labels)} steps)"


@dataclass(frozen=True, eq=False)
class Tree:
    """A beam's tree. Node i was written at ``step[i]`` after node ``parent[i]`` (−1: the start); ``log_prob`` is the sum on
    the path to it, ``ended`` whether it ended a hypothesis, ``chosen`` whether it is on the path of the prediction."""

    labels: tuple[str, ...]
    parent: Tensor
    step: Tensor
    token: Tensor
    log_prob: Tensor
    ended: Tensor
    chosen: Tensor

    def __repr__(self) -> str:
        return f"Tree({len(self.labels)} nodes)"


@dataclass(frozen=True, eq=False)
class Trace:
    """Everything recorded on one input: maps, signals, outputs and the beam's tree over named axes.

    ``about`` is plain data about the trace: model, input, output, scores.
    """

    axes: Mapping[str, Axis] = field(default_factory=dict)
    maps: tuple[AttentionMap, ...] = ()
    signals: Mapping[str, Signal] = field(default_factory=dict)
    outputs: Outputs | None = None
    tree: Tree | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sites(self) -> dict[str, tuple[int | None, ...]]:
        """The sites in order of first use, and the heads of each."""
        sites: dict[str, dict[int | None, None]] = {}
        for map in self.maps:
            sites.setdefault(map.site, {})[map.head] = None
        return {site: tuple(heads) for site, heads in sites.items()}

    @property
    def last_look(self) -> str | None:
        """The last site between two different axes (an alignment), else the last of all; None without maps."""
        across = [map for map in self.maps if map.query != map.key] or self.maps
        return across[-1].site if across else None

    def only(self, site: str | None = None, head: int | None = None) -> Trace:
        """The same trace with the maps of one ``site``, of one ``head``, or of both; an error lists the available ones."""
        if site is None and head is None:
            return self
        sites = self.sites
        if site is not None and site not in sites:
            raise SaccadeError(f"site: expected one of {', '.join(sites) or 'none'}, found {site!r}")
        heads = list(dict.fromkeys(number for name in sites if site in (None, name) for number in sites[name]))
        if head is not None and head not in heads:
            at = f" at {site}" if site is not None else ""
            raise SaccadeError(f"head: expected one of {', '.join(map(str, heads)) or 'none'}{at}, found {head}")
        maps = tuple(map for map in self.maps if site in (None, map.site) and head in (None, map.head))
        # A picture of one head still says which of several it is.
        return replace(self, maps=maps, about=self.about if head is None else {**self.about, "head": head})

    def map(self, site: str | None = None, head: int | None = None) -> AttentionMap:
        """The one map at ``site`` (and ``head``); an error lists the available ones where there is not exactly one."""
        matches = [map for map in self.maps if site in (None, map.site) and head in (None, map.head)]
        if len(matches) != 1:
            available = ", ".join(sorted({f"{map.site}[{map.head}]" for map in self.maps})) or "none"
            raise SaccadeError(
                f"expected one map at site={site!r}, head={head}, found {len(matches)}; maps: {available}"
            )
        return matches[0]

    def heads(self, site: str | None = None) -> Tensor:
        """The weights of all heads at a ``site`` as one tensor [H, T, S]; the site may be left out where there is one only."""
        sites = self.sites
        if site is None and len(sites) != 1:
            raise SaccadeError(f"site: expected one of {', '.join(sites) or 'none: there are no maps'}, found nothing")
        maps = self.only(site).maps
        steps = {(map.step, map.queries, map.keys) for map in maps}
        if len(steps) > 1 or len({map.head for map in maps}) < len(maps):
            raise SaccadeError(
                f"{maps[0].site!r}: expected one map per head over the same queries and keys, found {len(maps)}"
            )
        return torch.stack([map.weights for map in maps])

    def labelled(self, axes: Mapping[str, Axis], **about: Any) -> Trace:
        """The same trace with labelled axes, as in ``trace.labelled({"source": Tokens(words)})``.

        The axes of a site that has only a name are ``name:query`` and ``name:key``. An axis shorter than its maps cuts off
        padding: keys of weight 0. An axis that no map has is an error where one of the maps' is not labelled.
        """
        if not isinstance(axes, Mapping):
            expected = "a dict, axis → labels, as in {'source': Tokens(words)}"
            raise SaccadeError(f"axes: expected {expected}, found a {type(axes).__name__}")
        for name, axis in axes.items():
            if not isinstance(axis, Axis):
                expected = "an axis of saccade.trace, such as Tokens(words)"
                raise SaccadeError(f"axes[{name!r}]: expected {expected}, found a {type(axis).__name__}")
        there = dict.fromkeys(axis for map in self.maps for axis in (map.query, map.key))
        unknown = [name for name in axes if name not in there]
        if unknown and any(name not in axes and isinstance(self.axes.get(name), Positions | None) for name in there):
            raise SaccadeError(f"axes: expected {', '.join(there)}, as the maps have them, found {unknown[0]!r}")
        maps = tuple(_cut(map, axes) for map in self.maps)
        signals = {
            name: replace(signal, values=signal.values[: max(0, len(axes[signal.axis]) - signal.step)])
            if signal.axis in axes
            else signal
            for name, signal in self.signals.items()
        }
        return replace(self, axes={**self.axes, **axes}, maps=maps, signals=signals, about={**self.about, **about})

    def __repr__(self) -> str:
        return "\n".join(_described(self))

    def show(self, site: str | None = None, head: int | None = None) -> None:
        """Draw the trace: in a notebook the explorer's page, in a terminal a heatmap; all of it, or one site and head as
        in :meth:`only`."""
        _renderer("notebook" if in_notebook() else "")(self.only(site, head))

    def _repr_html_(self) -> str | None:
        """What a notebook shows for a trace at the end of a cell; None (its text) where the explorer is not built."""
        try:
            return str(importlib.import_module("saccade.views.html.page").frame(self))
        except SaccadeError:
            return None

    def save(self, path: str | Path, *, site: str | None = None, head: int | None = None, **options: Any) -> Path:
        """Write ``x.html`` (the explorer), ``x.png``, ``x.svg``, ``x.pdf`` or ``x.trace`` (without loss); by the
        ending.

        ``site`` and ``head`` select maps, as in :meth:`only`; pages and pictures also take ``title``, pictures
        ``dpi``.
        """
        path = Path(path)
        if path.suffix.lower() not in RENDERERS or not path.suffix:
            known = ", ".join(sorted(ending for ending in RENDERERS if ending.startswith(".")))
            raise SaccadeError(
                f"{path}: expected a file ending in one of {known}, found {path.suffix or 'no ending'!r}"
            )
        _renderer(path.suffix.lower())(self.only(site, head), path, **options)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """The trace that ``save("x.trace")`` wrote."""
        from saccade.trace.file import load

        return load(path)


def _described(trace: Trace) -> list[str]:
    """A trace in a few lines: model, input and output; similar sites grouped; axes with their sizes."""
    about, sites = trace.about, trace.sites
    words = [f"{about[name]!r:.60}" for name in ("input", "output") if isinstance(about.get(name), str)]
    lines = [" ".join(["Trace", *([f"of {about['model']}:"] if "model" in about else []), " → ".join(words)]).rstrip()]
    groups: dict[tuple[str, str, str, int], list[str]] = {}
    for site, heads in sites.items():
        first = next(map for map in trace.maps if map.site == site)
        groups.setdefault((first.query, first.key, first.kind, len(heads)), []).append(site)
    for (query, key, kind, count), names in groups.items():
        named = ", ".join(names) if len(names) <= 6 else f"{names[0]} … {names[-1]} ({len(names)} sites)"
        lines.append(f"  {named}: {count} head{'s' * (count != 1)}, {query} × {key}, {kind}")
    if not sites:
        lines.append("  no maps")
    if trace.axes:
        lines.append("  axes: " + ", ".join(f"{name} {len(axis)}" for name, axis in trace.axes.items()))
    if trace.signals:
        lines.append(f"  signals: {', '.join(trace.signals)}")
    lines += [f"  {part!r}" for part in (trace.outputs, trace.tree) if part is not None]
    return lines


def _renderer(ending: str) -> Callable[..., Any]:
    module, _, name = RENDERERS[ending].partition(":")
    renderer: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return renderer


def in_notebook() -> bool:
    """Whether this runs in an IPython kernel: Jupyter, Lab, VS Code, Colab. IPython's terminal has no kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    return getattr(shell, "kernel", None) is not None


def _cut(map: AttentionMap, axes: Mapping[str, Axis]) -> AttentionMap:
    queries = max(0, len(axes[map.query]) - map.step) if map.query in axes else map.queries
    keys = len(axes[map.key]) if map.key in axes else map.keys
    # The last nodes of a graph may have no edges, so the edges do not say how many nodes there are.
    if (queries > map.queries and map.kind != "edges") or keys > map.keys:
        raise SaccadeError(
            f"the axes of {map.site!r} have more labels than its map: "
            f"{queries} × {keys} labels ({map.query} × {map.key}) for {map.queries} × {map.keys} weights"
        )
    if (queries, keys) == (map.queries, map.keys):
        return map
    tensors, lost = _CUTS[map.kind](map.tensors, queries, keys)
    if bool((lost != 0).any()):
        raise SaccadeError(
            f"{map.site!r}: weights beyond the {queries} × {keys} labels ({map.query} × {map.key}) are not 0, "
            "so they are not padding"
        )
    return replace(map, tensors=tensors, keys=keys)


Cut = tuple[dict[str, Tensor], Tensor]


def _cut_dense(tensors: Mapping[str, Tensor], queries: int, keys: int) -> Cut:
    kept = {name: tensor[:queries, :keys] for name, tensor in tensors.items()}
    return kept, tensors["weights"][:queries, keys:]


def _cut_top(tensors: Mapping[str, Tensor], queries: int, keys: int) -> Cut:
    kept = {name: tensor[:queries] for name, tensor in tensors.items()}
    outside = kept["index"] >= keys
    lost = kept["weights"][outside]
    # Weights are in falling order, so with nothing lost those beyond the number of keys are padding of weight 0.
    index, weights = kept["index"].masked_fill(outside, 0)[:, :keys], kept["weights"][:, :keys]
    return {**kept, "index": index, "weights": weights}, lost


def _cut_statistics(tensors: Mapping[str, Tensor], queries: int, keys: int) -> Cut:
    kept = {name: tensor[:keys] if name == "received" else tensor[:queries] for name, tensor in tensors.items()}
    # The mass received is a sum over queries, so only queries that see nothing can be removed from it.
    return kept, torch.cat([tensors["received"][keys:], tensors["maximum"][queries:]])


def _cut_edges(tensors: Mapping[str, Tensor], queries: int, keys: int) -> Cut:
    query, key = tensors["edges"]
    kept = (query < queries) & (key < keys)
    return {"edges": tensors["edges"][:, kept], "weights": tensors["weights"][kept]}, tensors["weights"][~kept]


_CUTS: dict[str, Callable[[Mapping[str, Tensor], int, int], Cut]] = {
    "dense": _cut_dense,
    "top": _cut_top,
    "statistics": _cut_statistics,
    "edges": _cut_edges,
}
