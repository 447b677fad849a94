"""The lens: all attention of a model passes through it. It records, and it can edit (see :mod:`saccade.trace.edits`).

Legend: N rows of a batch (in a beam: items × hypotheses), H heads, T queries, S keys, k kept per row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.statistics.reference import Statistics, Wanted
from saccade.trace.axes import Positions
from saccade.trace.edits import Boost, Edit, Even, Mask, Set
from saccade.trace.flow import Flow
from saccade.trace.maps import AttentionMap, Signal, Trace

Keep = Literal["all", "top", "statistics"]
DETAILS = ("scores", "context", "state", "outputs", "beam")
LARGE_DETAILS = ("features",)  # of location-aware scores: filters × keys per query, which no view shows


@dataclass(frozen=True)
class Site:
    """A place in a model where it attends, and the axes of its queries and keys. The names of its score and normaliser, and
    the flow that the model declares for it, are optional and do not count when sites are compared."""

    name: str
    query: str
    key: str
    score: str = field(default="", compare=False)
    normalise: str = field(default="", compare=False)
    flow: Flow | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for part in ("name", "query", "key", "score", "normalise"):
            if not isinstance(getattr(self, part), str):
                raise SaccadeError(f"site: expected a text as its {part}, found {getattr(self, part)!r:.60}")

    @classmethod
    def of(cls, site: str | Site) -> Site:
        return site if isinstance(site, Site) else cls(site, f"{site}:query", f"{site}:key")


@dataclass(frozen=True)
class Record:
    """What was recorded of one call at one site: tensors [N, H, T, …] (received mass: [N, H, S]; signals: [N, (H,) T, n])."""

    site: Site
    kind: str
    offset: int
    tensors: dict[str, Tensor]
    keys: int = 0

    def select(self, rows: Tensor) -> Record:
        """The record of these rows of the batch, in this order."""
        return replace(self, tensors={name: tensor.index_select(0, rows) for name, tensor in self.tensors.items()})

    @property
    def size(self) -> int:
        return next(iter(self.tensors.values())).shape[0]

    @property
    def queries(self) -> int:
        name = "values" if self.kind == "signal" else "maximum" if self.kind == "statistics" else "weights"
        return self.tensors[name].shape[-2 if self.kind == "signal" else 2]


class Lens:
    """Records a model's attention, and edits it.

    Args:
        keep: ``"all"`` weights; the ``"top"`` k of each row and the residual mass; or ``"statistics"`` (entropy,
            maximum and its place, mass received by each key).
        k: number of weights to keep per row with ``keep="top"``.
        edits: :class:`Mask`, :class:`Boost`, :class:`Set`, :class:`Even` values, applied in this order.
        detail: what to record besides the weights: any of ``scores, context, state, outputs, beam``, and ``features``, what
            the filters of location-aware scores make of the previous weights.

    >>> lens = Lens()
    >>> # context = attend(query, key, value, score=scaled_dot, lens=lens, site="self")
    >>> # lens.trace.maps[0].weights
    """

    def __init__(
        self, keep: Keep = "all", *, k: int = 16, edits: Edit | Iterable[Edit] = (), detail: str | Iterable[str] = ()
    ) -> None:
        if not isinstance(keep, str) or keep not in ("all", "top", "statistics"):
            raise SaccadeError(f"keep must be 'all', 'top' or 'statistics': got {keep!r}")
        if not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise SaccadeError(f"k must be a whole number of at least 1: got {k!r}")
        listed: tuple[Edit, ...] = _several(edits)
        for edit in listed:
            if not isinstance(edit, Edit):
                raise SaccadeError(f"edits must be values of Mask, Boost, Set and Even: got {edit!r}")
        names: tuple[str, ...] = _several(detail)
        unknown = [name for name in names if not isinstance(name, str) or name not in (*DETAILS, *LARGE_DETAILS)]
        if unknown:
            raise SaccadeError(f"detail must be any of {', '.join((*DETAILS, *LARGE_DETAILS))}: got {unknown[0]!r:.60}")
        self.keep, self.k = keep, k
        self.edits, self.detail = listed, frozenset(names)
        self.records: list[Record] = []
        self._most_keys: dict[int, int] = {}  # number of each applied edit → the most keys it met
        self._sites: set[str] = set()

    def __repr__(self) -> str:
        parts = [f"keep={self.keep!r}", *([f"k={self.k}"] if self.keep == "top" else [])]
        parts += [f"edits={list(self.edits)}"] if self.edits else []
        parts += [f"detail={sorted(self.detail)}"] if self.detail else []
        sites = ", ".join(sorted(self._sites))
        return f"Lens({', '.join(parts)})" + (f": recorded {sites}" if sites else "")

    def wants(self, part: str) -> bool:
        return part in self.detail

    def fresh(self) -> Lens:
        """A lens with the same settings and no records: a search uses one per step."""
        lens = Lens(self.keep, k=self.k, edits=self.edits, detail=self.detail)
        lens._most_keys, lens._sites = self._most_keys, self._sites
        return lens

    # Editing ------------------------------------------------------------------------------------------------------

    def edit_scores(
        self, site: Site, scores: Float[Tensor, "N H T S"], offset: int, *, boosting: bool = True
    ) -> Float[Tensor, "N H T S"]:
        """Apply Mask, Boost and Even to what a softmax will normalise. Other normalisers get scores without Boost, which is
        then applied by :meth:`boost_weights`."""
        kinds = Mask | Boost | Even if boosting else Mask | Even
        for edit, where in self._applied(kinds, site, scores, offset):
            scores = edit.before(scores, where)
        return scores

    def boost_weights(self, site: Site, weights: Float[Tensor, "N H T S"], offset: int) -> Float[Tensor, "N H T S"]:
        """Apply Boost to the weights of a normaliser that is no softmax, before the gain."""
        for edit, where in self._applied(Boost, site, weights, offset):
            weights = edit.normalised(weights, where)
        return weights

    def edit_weights(self, site: Site, weights: Float[Tensor, "N H T S"], offset: int) -> Float[Tensor, "N H T S"]:
        """Apply Set and Even to the weights, after normalising and gain."""
        for edit, where in self._applied(Set | Even, site, weights, offset):
            weights = edit.after(weights, where)
        return weights

    def _applied(self, kinds: Any, site: Site, part: Tensor, offset: int) -> Iterator[tuple[Any, tuple[slice, slice]]]:
        """The edits of these kinds that apply here, each with its heads and queries."""
        for number, edit in enumerate(self.edits):
            where = edit.rows(site.name, offset, part)
            if where is not None and isinstance(edit, kinds):
                self._most_keys[number] = max(self._most_keys.get(number, 0), part.shape[-1])
                yield edit, where

    def check(self) -> None:
        """Raise if an edit never applied, or names a key that never existed: a misspelt site or a step beyond the output must
        not look like "no effect"."""
        for number, edit in enumerate(self.edits):
            if number not in self._most_keys:
                sites = ", ".join(sorted(self._sites)) or "none"
                raise SaccadeError(f"{edit} never applied: the model has sites {sites}")
        self._check_keys()

    def _check_keys(self) -> None:
        for number, most in self._most_keys.items():
            edit = self.edits[number]
            beyond = [key for key in edit.keys if key >= most] if isinstance(edit, Mask | Boost) else []
            if beyond:
                keys = f"there are {most} keys (0 to {most - 1})" if most else "there are no keys"
                raise SaccadeError(f"{type(edit).__name__}: {keys}, found key {beyond[0]}")

    # Recording ----------------------------------------------------------------------------------------------------

    def observe(
        self, site: Site, weights: Float[Tensor, "N H T S"], *, offset: int = 0, scores: Tensor | None = None
    ) -> None:
        """Record these weights (before dropout) as ``keep`` says."""
        self._sites.add(site.name)
        weights = weights.detach()
        S = weights.shape[-1]
        if self.keep == "all":
            tensors = {"weights": weights}
            if scores is not None and self.wants("scores"):
                tensors["scores"] = scores.detach()
            self.records.append(Record(site, "dense", offset, tensors, S))
        elif self.keep == "top":
            kept, index = weights.topk(min(self.k, S), dim=-1)
            # A sum of the rest, not a difference of sums: exactly 0 when nothing is left, and never negative.
            residual = weights.scatter(-1, index, 0.0).sum(-1)
            self.records.append(Record(site, "top", offset, {"index": index, "weights": kept, "residual": residual}, S))
        else:
            # A row without keys has no maximum; pad it with one empty key.
            maximum, argmax = (weights if S else torch.nn.functional.pad(weights, (0, 1))).max(-1)
            entropy = torch.special.entr(weights).sum(-1) + 0.0  # -0 becomes 0
            tensors = {"entropy": entropy, "maximum": maximum, "argmax": argmax, "received": weights.sum(-2)}
            self.records.append(Record(site, "statistics", offset, tensors, S))

    @property
    def wanted(self) -> Wanted | None:
        """The statistics that :meth:`observe_statistics` needs; None where the weights themselves are recorded."""
        if self.keep == "all":
            return None
        return Wanted(top=self.k) if self.keep == "top" else Wanted(entropy=True, maximum=True, received=True)

    @property
    def counted(self) -> Wanted | None:
        """The same, but None also where edits or scores need the weights."""
        return None if self.edits or self.wants("scores") else self.wanted

    def observe_statistics(self, site: Site, statistics: Statistics, *, keys: int, offset: int = 0) -> None:
        """Record statistics that a kernel computed without storing weights: what :meth:`observe` would record of them.

        Tensors are [N, H, T, …] (``statistics.per_head(H)``), and ``keys`` is S. Of equal weights either may be kept;
        surplus entries have key 0 and weight 0.
        """
        if self.keep == "top":
            names = {"index": "top_index", "weights": "top_weights", "residual": "residual"}
        elif self.keep == "statistics":
            names = {name: name for name in ("entropy", "maximum", "argmax", "received")}
        else:
            raise SaccadeError("a lens with keep='all' records weights, not statistics: use observe()")
        computed = statistics.tensors()
        missing = [name for name in names.values() if name not in computed]
        if missing:
            raise SaccadeError(f"keep={self.keep!r} needs {', '.join(missing)}: compute {self.wanted}")
        self._sites.add(site.name)
        tensors = {name: computed[theirs].detach() for name, theirs in names.items()}
        self.records.append(Record(site, self.keep, offset, tensors, keys))

    def observe_edges(self, site: Site, edges: Tensor, weights: Float[Tensor, "E H"], *, keys: int) -> None:
        """Record the weights of a sparse graph: ``edges`` [2, E] holds (query, key)."""
        tensors = {"edges": edges.unsqueeze(0), "weights": weights.detach().T.unsqueeze(0)}
        self.records.append(Record(site, "edges", 0, tensors, keys))

    def signal(
        self,
        name: str,
        axis: str,
        values: Float[Tensor, "N *heads T n"],
        *,
        offset: int = 0,
        flow: Flow | None = None,
    ) -> None:
        """Record one vector per position (a context, a state), or one per head and position, [N, H, T, n]. ``flow`` is that
        of a step without attention."""
        site = Site(name, axis, axis, flow=flow)
        self.records.append(Record(site, "signal", offset, {"values": values.detach()}))

    # Traces -------------------------------------------------------------------------------------------------

    @property
    def traces(self) -> list[Trace]:
        """One trace per item of the batch."""
        if not self.records:
            raise SaccadeError("nothing was recorded: pass this lens to attend() or to a model first")
        self._check_keys()
        sizes = {record.size for record in self.records}
        if len(sizes) != 1:
            found = ", ".join(map(str, sorted(sizes)))
            raise SaccadeError(
                f"one lens recorded batches of different sizes ({found} inputs): use a new lens for each"
            )
        return [assemble(self.records, item) for item in range(self.records[0].size)]

    @property
    def trace(self) -> Trace:
        """The trace of a single input; a batch has ``traces``."""
        traces = self.traces
        if len(traces) != 1:
            raise SaccadeError(f"expected one input, found a batch of {len(traces)}: use lens.traces[i]")
        return traces[0]


def _several(given: Any) -> tuple[Any, ...]:
    """What a collection holds; one edit or one name alone."""
    # A tensor or an array without an axis is iterable, but cannot be iterated.
    if isinstance(given, str) or not isinstance(given, Iterable) or getattr(given, "shape", None) == ():
        return (given,)
    return tuple(given)


def assemble(records: Sequence[Record], item: int) -> Trace:
    """One row's records as a trace: the steps of a decoder become the rows of one map per site and head."""
    runs: list[list[Record]] = []
    for record in records:
        run = next((run for run in reversed(runs) if run[-1].site == record.site and run[-1].kind == record.kind), None)
        if run is not None and record.kind != "edges" and record.offset == run[-1].offset + run[-1].queries:
            run.append(record)
        else:
            runs.append([record])
    maps = [map for run in runs if run[0].kind != "signal" for map in _maps(run, item)]
    signals: dict[str, Signal] = {}
    for run in runs:
        if run[0].kind == "signal":
            values = torch.cat([record.tensors["values"][item] for record in run], dim=-2).cpu()
            values = values if values.dim() == 2 else values.transpose(0, 1).contiguous()  # [T, n] or [T, H, n]
            signals[_unused(run[0].site.name, signals)] = Signal(run[0].site.query, values, run[0].offset)
    sizes: dict[str, int] = {}
    for map in maps:
        sizes[map.query] = max(sizes.get(map.query, 0), map.step + map.queries)
        sizes[map.key] = max(sizes.get(map.key, 0), map.keys)
    for signal in signals.values():
        sizes[signal.axis] = max(sizes.get(signal.axis, 0), signal.step + len(signal.values))
    axes = {name: Positions.of(size) for name, size in sizes.items()}
    return Trace(axes=axes, maps=tuple(maps), signals=signals, about=_ways(records))


def _ways(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    """The score of each site, its normaliser where it is not softmax, and its flow, as far as they are known."""
    scores = {record.site.name: record.site.score for record in records if record.site.score}
    others = {record.site.name: record.site.normalise for record in records if record.site.normalise}
    flows = {record.site.name: record.site.flow.to_json() for record in records if record.site.flow is not None}
    return {name: ways for name, ways in (("scores", scores), ("normalise", others), ("flow", flows)) if ways}


def _unused(name: str, taken: Mapping[str, Signal]) -> str:
    """``name``, or ``name#2``, ``name#3``, … in a second, third, … pass."""
    passes = 1 + sum(other.partition("#")[0] == name for other in taken)
    return name if passes == 1 else f"{name}#{passes}"


def _maps(run: Sequence[Record], item: int) -> list[AttentionMap]:
    first, keys = run[0], max(record.keys for record in run)
    parts = {name: [_on_host(record.tensors[name][item]) for record in run] for name in first.tensors}
    H = parts["weights" if first.kind != "statistics" else "maximum"][0].shape[0]
    return [
        AttentionMap(
            site=first.site.name,
            query=first.site.query,
            key=first.site.key,
            kind=first.kind,
            tensors={
                name: tensors[0] if name == "edges" else _join(name, [part[head] for part in tensors], keys)
                for name, tensors in parts.items()
            },
            head=head,
            step=first.offset,
            keys=keys,
        )
        for head in range(H)
    ]


def _on_host(tensor: Tensor) -> Tensor:
    """A copy of the tensor on the host: a model that changes its weights later does not change the trace."""
    return tensor.to("cpu", copy=True)


def _join(name: str, parts: list[Tensor], keys: int) -> Tensor:
    """One head's tensor of a whole map from those of its steps."""
    if name == "received":
        return torch.stack([_widen(part, keys) for part in parts]).sum(0)
    if parts[0].dim() == 2:
        # Self-attention over a growing sequence has one more key per step: absent keys have score -inf and weight 0.
        widest = max(part.shape[1] for part in parts)
        parts = [_widen(part, widest, -math.inf if name == "scores" else 0) for part in parts]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _widen(part: Tensor, size: int, absent: float = 0) -> Tensor:
    short = size - part.shape[-1]
    return torch.nn.functional.pad(part, (0, short), value=absent) if short else part
