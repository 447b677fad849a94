"""The lens: whatever a model looks at passes through it. It records, and it can write (see :mod:`saccade.trace.edits`).

Legend: N rows of a batch (in a beam: items × hypotheses), H heads, T queries, S keys, k kept per row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.kernels.statistics.reference import Statistics, Wanted
from saccade.trace.axes import Positions
from saccade.trace.edits import Boost, Edit, Even, Mask, Set
from saccade.trace.maps import AttentionMap, Signal, Trace

Keep = Literal["all", "top", "statistics"]
DETAILS = ("scores", "context", "state", "outputs", "beam")


@dataclass(frozen=True)
class Site:
    """A place in a model where it looks, and the axes its queries and keys lie on. Who looks there may say by which
    score and which normaliser; that makes no other place of it."""

    name: str
    query: str
    key: str
    score: str = field(default="", compare=False)
    normalise: str = field(default="", compare=False)

    @classmethod
    def of(cls, site: str | Site) -> Site:
        return site if isinstance(site, Site) else cls(site, f"{site}:query", f"{site}:key")


@dataclass(frozen=True)
class Record:
    """What was kept of one call at one site: tensors [N, H, T, …] (received mass: [N, H, S]; signals: [N, (H,) T, n])."""

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
    """Records what a model looks at, and edits it.

    Args:
        keep: ``"all"`` weights; the ``"top"`` k of each row and the residual mass; or ``"statistics"`` (entropy,
            maximum and its place, mass received by each key).
        k: how many weights a row keeps with ``keep="top"``.
        edits: :class:`Mask`, :class:`Boost`, :class:`Set`, :class:`Even` values, applied in this order.
        detail: what a step-through needs besides the weights: any of ``scores, context, state, outputs, beam``.

    >>> lens = Lens()
    >>> # context = attend(query, key, value, score=scaled_dot, lens=lens, site="self")
    >>> # lens.trace.maps[0].weights
    """

    def __init__(
        self, keep: Keep = "all", *, k: int = 16, edits: Iterable[Edit] = (), detail: Iterable[str] = ()
    ) -> None:
        if keep not in ("all", "top", "statistics"):
            raise SaccadeError(f"keep must be 'all', 'top' or 'statistics': got {keep!r}")
        if not isinstance(k, int) or k < 1:
            raise SaccadeError(f"k must be a whole number of at least 1: got {k!r}")
        edits = tuple(edits)
        for edit in edits:
            if not isinstance(edit, Edit):
                raise SaccadeError(f"edits must be values of Mask, Boost, Set and Even: got {edit!r}")
        detail = frozenset(detail)
        unknown = sorted(detail.difference(DETAILS))
        if unknown:
            raise SaccadeError(f"detail must be any of {', '.join(DETAILS)}: got {unknown[0]!r}")
        self.keep, self.k = keep, k
        self.edits, self.detail = edits, detail
        self.records: list[Record] = []
        self._reach: dict[int, int] = {}  # by the numbers of the edits that applied: how many keys there were at most
        self._seen: set[str] = set()

    def __repr__(self) -> str:
        parts = [f"keep={self.keep!r}", *([f"k={self.k}"] if self.keep == "top" else [])]
        parts += [f"edits={list(self.edits)}"] if self.edits else []
        parts += [f"detail={sorted(self.detail)}"] if self.detail else []
        seen = ", ".join(sorted(self._seen))
        return f"Lens({', '.join(parts)})" + (f": looked at {seen}" if seen else "")

    def wants(self, part: str) -> bool:
        return part in self.detail

    def fresh(self) -> Lens:
        """A lens with the same settings and no records: a search looks through one a step and sorts out what stays."""
        lens = Lens(self.keep, k=self.k, edits=self.edits, detail=self.detail)
        lens._reach, lens._seen = self._reach, self._seen
        return lens

    # Writing ------------------------------------------------------------------------------------------------------

    def edit_scores(self, site: Site, scores: Float[Tensor, "N H T S"], offset: int) -> Float[Tensor, "N H T S"]:
        """Masks, boosts and scores that are made even, before normalising."""
        for number, edit in enumerate(self.edits):
            where = edit.rows(site.name, offset, scores)
            if where is not None and isinstance(edit, Mask | Boost | Even):
                self._reach[number] = max(self._reach.get(number, 0), scores.shape[-1])
                scores = edit.before(scores, where)
        return scores

    def edit_weights(self, site: Site, weights: Float[Tensor, "N H T S"], offset: int) -> Float[Tensor, "N H T S"]:
        """Rows that are set or made even, after normalising and gain."""
        for number, edit in enumerate(self.edits):
            where = edit.rows(site.name, offset, weights)
            if where is not None and isinstance(edit, Set | Even):
                self._reach[number] = max(self._reach.get(number, 0), weights.shape[-1])
                weights = edit.after(weights, where)
        return weights

    def check(self) -> None:
        """Raise when an edit never applied, or names a key that there never was: a misspelt site or a step that never came
        must not pass for "no effect"."""
        for number, edit in enumerate(self.edits):
            if number not in self._reach:
                seen = ", ".join(sorted(self._seen)) or "none"
                raise SaccadeError(f"{edit} never applied: the model looked at sites {seen}")
        self._check_keys()

    def _check_keys(self) -> None:
        for number, most in self._reach.items():
            edit = self.edits[number]
            beyond = [key for key in edit.keys if key >= most] if isinstance(edit, Mask | Boost) else []
            if beyond:
                there = f"there are {most} keys (0 to {most - 1})" if most else "there are no keys"
                raise SaccadeError(f"{type(edit).__name__}: {there}, found key {beyond[0]}")

    # Recording ----------------------------------------------------------------------------------------------------

    def observe(
        self, site: Site, weights: Float[Tensor, "N H T S"], *, offset: int = 0, scores: Tensor | None = None
    ) -> None:
        """Keep what was asked for of these weights (seen before dropout)."""
        self._seen.add(site.name)
        weights = weights.detach()
        S = weights.shape[-1]
        if self.keep == "all":
            tensors = {"weights": weights}
            if scores is not None and self.wants("scores"):
                tensors["scores"] = scores.detach()
            self.records.append(Record(site, "dense", offset, tensors, S))
        elif self.keep == "top":
            kept, index = weights.topk(min(self.k, S), dim=-1)
            # The sum of what is left, not a difference of sums: exactly 0 when nothing is, and never below.
            residual = weights.scatter(-1, index, 0.0).sum(-1)
            self.records.append(Record(site, "top", offset, {"index": index, "weights": kept, "residual": residual}, S))
        else:
            # A row without keys has no greatest weight; one empty key stands in.
            maximum, argmax = (weights if S else torch.nn.functional.pad(weights, (0, 1))).max(-1)
            entropy = torch.special.entr(weights).sum(-1) + 0.0  # -0 becomes 0
            tensors = {"entropy": entropy, "maximum": maximum, "argmax": argmax, "received": weights.sum(-2)}
            self.records.append(Record(site, "statistics", offset, tensors, S))

    @property
    def wanted(self) -> Wanted | None:
        """What to compute of weights for :meth:`observe_statistics`; None where the weights themselves are kept."""
        if self.keep == "all":
            return None
        return Wanted(top=self.k) if self.keep == "top" else Wanted(entropy=True, maximum=True, received=True)

    @property
    def counted(self) -> Wanted | None:
        """What it wants, where statistics are all it wants of the weights: no scores are kept, and nothing is edited."""
        return None if self.edits or self.wants("scores") else self.wanted

    def observe_statistics(self, site: Site, statistics: Statistics, *, keys: int, offset: int = 0) -> None:
        """Keep what a kernel computed without storing weights: what :meth:`observe` would have kept of them.

        Tensors are [N, H, T, …] (``statistics.per_head(H)``), and ``keys`` is S. Of equal weights either may be kept, and
        those beyond the keys that a query sees stand at key 0 with weight 0.
        """
        if self.keep == "top":
            names = {"index": "top_index", "weights": "top_weights", "residual": "residual"}
        elif self.keep == "statistics":
            names = {name: name for name in ("entropy", "maximum", "argmax", "received")}
        else:
            raise SaccadeError(
                "a lens with keep='all' keeps the weights themselves, not their statistics: use observe()"
            )
        found = statistics.tensors()
        missing = [name for name in names.values() if name not in found]
        if missing:
            raise SaccadeError(f"keep={self.keep!r} needs {', '.join(missing)}: compute {self.wanted}")
        self._seen.add(site.name)
        tensors = {name: found[theirs].detach() for name, theirs in names.items()}
        self.records.append(Record(site, self.keep, offset, tensors, keys))

    def observe_edges(self, site: Site, edges: Tensor, weights: Float[Tensor, "E H"], *, keys: int) -> None:
        """Keep the weights of a sparse graph: ``edges`` [2, E] holds (query, key)."""
        tensors = {"edges": edges.unsqueeze(0), "weights": weights.detach().T.unsqueeze(0)}
        self.records.append(Record(site, "edges", 0, tensors, keys))

    def signal(self, name: str, axis: str, values: Float[Tensor, "N *heads T n"], *, offset: int = 0) -> None:
        """Keep a vector a position: a context, a state; or one a head and position, [N, H, T, n]."""
        self.records.append(Record(Site(name, axis, axis), "signal", offset, {"values": values.detach()}))

    # Handing over -------------------------------------------------------------------------------------------------

    @property
    def traces(self) -> list[Trace]:
        """One trace an item of the batch."""
        if not self.records:
            raise SaccadeError("nothing was recorded: pass this lens to attend() or to a model first")
        self._check_keys()
        sizes = {record.size for record in self.records}
        if len(sizes) != 1:
            found = ", ".join(map(str, sorted(sizes)))
            raise SaccadeError(f"one lens saw batches of different sizes ({found} inputs): use a new lens for each")
        return [assemble(self.records, item) for item in range(self.records[0].size)]

    @property
    def trace(self) -> Trace:
        """The trace, where one input was looked at; a batch has ``traces``."""
        traces = self.traces
        if len(traces) != 1:
            raise SaccadeError(f"{len(traces)} inputs were looked at together: use lens.traces[i]")
        return traces[0]


def assemble(records: Sequence[Record], item: int) -> Trace:
    """One row's records as a trace: the steps of a decoder become the rows of one map a site and head."""
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


def _ways(records: Sequence[Record]) -> dict[str, dict[str, str]]:
    """By which score each site looks, and by which normaliser where it is no softmax: as far as they were told."""
    scores = {record.site.name: record.site.score for record in records if record.site.score}
    others = {record.site.name: record.site.normalise for record in records if record.site.normalise}
    return {name: found for name, found in (("scores", scores), ("normalise", others)) if found}


def _unused(name: str, taken: Mapping[str, Signal]) -> str:
    """``name``, or ``name#2``, ``name#3``, … in a second, third, … pass."""
    passes = 1 + sum(other.partition("#")[0] == name for other in taken)
    return name if passes == 1 else f"{name}#{passes}"


def _maps(run: Sequence[Record], item: int) -> list[AttentionMap]:
    first, keys = run[0], max(record.keys for record in run)
    parts = {name: [_at_hand(record.tensors[name][item]) for record in run] for name in first.tensors}
    H = parts["weights" if first.kind != "statistics" else "maximum"][0].shape[0]
    return [
        AttentionMap(
            site=first.site.name,
            query=first.site.query,
            key=first.site.key,
            kind=first.kind,
            tensors={
                name: each[0] if name == "edges" else _join(name, [part[head] for part in each], keys)
                for name, each in parts.items()
            },
            head=head,
            step=first.offset,
            keys=keys,
        )
        for head in range(H)
    ]


def _at_hand(tensor: Tensor) -> Tensor:
    """The tensor on the host, in memory of its own: what a model does next with its weights does not reach the trace."""
    return tensor.to("cpu", copy=True)


def _join(name: str, parts: list[Tensor], keys: int) -> Tensor:
    """One head's tensor of a whole map from those of its steps."""
    if name == "received":
        return torch.stack([_widen(part, keys) for part in parts]).sum(0)
    if parts[0].dim() == 2:
        # Self-attention over a growing sequence has one key more at each step: absent keys score -inf and weigh 0.
        widest = max(part.shape[1] for part in parts)
        parts = [_widen(part, widest, -math.inf if name == "scores" else 0) for part in parts]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _widen(part: Tensor, size: int, absent: float = 0) -> Tensor:
    short = size - part.shape[-1]
    return torch.nn.functional.pad(part, (0, short), value=absent) if short else part
