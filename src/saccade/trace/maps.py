"""Attention maps and the trace that holds them: everything a model looked at for one input, over named axes.

Legend: T queries, S keys, k kept per row, E edges, n width of a state.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.storage import same_bits
from saccade.trace.axes import Axis

# Which function draws or writes a trace, by the file's ending, in a terminal (no ending) or in a notebook; found only
# when used, so a trace needs no view to exist.
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
    """What one head at one site looked at, for queries ``step``, ``step + 1``, …

    ``kind`` says what was kept, and so which tensors there are:

    - ``dense``: weights [T, S], and scores [T, S] when asked for;
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
        """Dense weights [T, S]. From ``top`` and ``edges`` maps, what was not kept is 0; statistics have no weights."""
        if self.kind == "dense":
            return self.tensors["weights"]
        if self.kind == "top":
            kept = self.tensors["weights"]
            # Rows that kept fewer are filled up with weight 0 at key 0, which must not overwrite what is there: add.
            return kept.new_zeros(kept.shape[0], self.keys).scatter_add(1, self.tensors["index"], kept)
        if self.kind == "edges":
            queries, keys = self.tensors["edges"]
            dense = self.tensors["weights"].new_zeros(self.queries, self.keys)
            return dense.index_put((queries, keys), self.tensors["weights"], accumulate=True)
        raise SaccadeError(
            f"the map of {self.site!r} kept statistics only: look with keep='all' or keep='top' for weights"
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
    """A vector for each position of an axis, from position ``step`` on: a context, a state.

    ``values`` is [T, n], or [T, H, n] where each of H heads has one: the contexts of multi-head attention.
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
    """A beam's tree. Node i was written at ``step[i]`` after node ``parent[i]`` (−1: the start); ``log_prob`` is the
    sum on the way to it, ``ended`` says that it closed a hypothesis, ``chosen`` that it leads to the prediction."""

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
    """Everything kept of one look: maps, signals, outputs and the beam's tree over named axes.

    ``about`` is plain data that says whose trace it is: model, input, output, scores.
    """

    axes: Mapping[str, Axis] = field(default_factory=dict)
    maps: tuple[AttentionMap, ...] = ()
    signals: Mapping[str, Signal] = field(default_factory=dict)
    outputs: Outputs | None = None
    tree: Tree | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sites(self) -> dict[str, tuple[int | None, ...]]:
        """Where the model looked, in the order it did, and the heads of each site."""
        found: dict[str, dict[int | None, None]] = {}
        for map in self.maps:
            found.setdefault(map.site, {})[map.head] = None
        return {site: tuple(heads) for site, heads in found.items()}

    @property
    def last_look(self) -> str | None:
        """The last site that looks from one axis at another (an alignment), else the last of all; None without maps."""
        across = [map for map in self.maps if map.query != map.key] or self.maps
        return across[-1].site if across else None

    def only(self, site: str | None = None, head: int | None = None) -> Trace:
        """The same trace with the maps of one ``site``, of one ``head``, or of both; an error lists what there is."""
        if site is None and head is None:
            return self
        sites = self.sites
        if site is not None and site not in sites:
            raise SaccadeError(f"site: expected one of {', '.join(sites) or 'none'}, found {site!r}")
        heads = list(dict.fromkeys(each for name in sites if site in (None, name) for each in sites[name]))
        if head is not None and head not in heads:
            at = f" at {site}" if site is not None else ""
            raise SaccadeError(f"head: expected one of {', '.join(map(str, heads)) or 'none'}{at}, found {head}")
        maps = tuple(map for map in self.maps if site in (None, map.site) and head in (None, map.head))
        # A picture of the one head that is left still says which of several it was.
        return replace(self, maps=maps, about=self.about if head is None else {**self.about, "head": head})

    def map(self, site: str | None = None, head: int | None = None) -> AttentionMap:
        """The one map at ``site`` (and ``head``); an error that lists what there is when it is not one."""
        found = [map for map in self.maps if site in (None, map.site) and head in (None, map.head)]
        if len(found) != 1:
            there = ", ".join(sorted({f"{map.site}[{map.head}]" for map in self.maps})) or "none"
            raise SaccadeError(f"expected one map at site={site!r}, head={head}, found {len(found)}; maps: {there}")
        return found[0]

    def labelled(self, axes: Mapping[str, Axis], **about: Any) -> Trace:
        """The same trace with its axes labelled. An axis shorter than its maps cuts off padding: keys that weigh 0."""
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
        :meth:`only` chooses them."""
        _renderer("notebook" if _in_notebook() else "")(self.only(site, head))

    def _repr_html_(self) -> str | None:
        """What a notebook shows of a trace at the end of a cell; None (its text) where the explorer is not built."""
        try:
            return str(importlib.import_module("saccade.views.html.page").frame(self))
        except SaccadeError:
            return None

    def save(self, path: str | Path, *, site: str | None = None, head: int | None = None, **options: Any) -> Path:
        """Write ``x.html`` (the explorer), ``x.png``, ``x.svg``, ``x.pdf`` or ``x.trace`` (without loss); the ending says
        which.

        ``site`` and ``head`` choose one of them, as :meth:`only` does; pages and pictures also take ``title``, pictures
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
    """A trace in a few lines: whose it is, sites that are alike together, axes with their sizes."""
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


def _in_notebook() -> bool:
    """Whether a kernel of IPython runs this: Jupyter, Lab, VS Code, Colab. Its terminal has no kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    return getattr(shell, "kernel", None) is not None


def _cut(map: AttentionMap, axes: Mapping[str, Axis]) -> AttentionMap:
    queries = max(0, len(axes[map.query]) - map.step) if map.query in axes else map.queries
    keys = len(axes[map.key]) if map.key in axes else map.keys
    # The last nodes of a graph may look at nothing, and its edges do not say how many nodes there are.
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
            "so they are no padding"
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
    # Weights fall, so with nothing lost those beyond the number of keys are fillers of weight 0.
    index, weights = kept["index"].masked_fill(outside, 0)[:, :keys], kept["weights"][:, :keys]
    return {**kept, "index": index, "weights": weights}, lost


def _cut_statistics(tensors: Mapping[str, Tensor], queries: int, keys: int) -> Cut:
    kept = {name: tensor[:keys] if name == "received" else tensor[:queries] for name, tensor in tensors.items()}
    # The mass received is a sum over queries, so only queries that saw nothing can be taken out of it.
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


def same(one: Trace, other: Trace) -> bool:
    """Whether two traces hold the same, bit for bit."""
    from saccade.trace.file import unpack

    (ours, header), (theirs, other_header) = unpack(one), unpack(other)
    return (
        # As text: NaN equals NaN there, and a tuple equals the list that it becomes in a file.
        _text(header) == _text(other_header)
        and ours.keys() == theirs.keys()
        and all(same_bits(ours[name], theirs[name]) for name in ours)
    )


def _text(header: Mapping[str, Any]) -> str:
    return json.dumps(header, sort_keys=True, default=repr)
