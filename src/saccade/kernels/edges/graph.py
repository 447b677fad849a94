"""A sparse graph as kernels read it: its edges by receiver and by sender, each as compressed rows (CSR).

An edge (i, j) lets receiver i attend to sender j. By receiver, the edges of i are numbers `start[i]` … `start[i + 1] − 1`,
and `sender` has their senders. By sender, `out_start` and `out_edge` are the same in the other direction, so that gradients
of senders are sums in a fixed order. Sorting is done once: build a graph once and reuse it.

Legend: N receivers, M senders, E edges.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from saccade.errors import SaccadeError


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """Who attends to whom. Built by :meth:`of` from a list of edges, or by :meth:`from_rows` from compressed rows.

    A duplicate edge counts twice.

    >>> edges = torch.tensor([[0, 0, 2], [1, 2, 0]])  # 0 attends to 1 and 2, 2 to 0, 1 to nobody
    >>> Graph.of(edges, receivers=3)
    Graph(3 receivers, 3 senders, 3 edges)
    """

    receivers: int
    senders: int
    start: Int[Tensor, " N+1"]
    receiver: Int[Tensor, " E"]
    sender: Int[Tensor, " E"]
    out_start: Int[Tensor, " M+1"]
    out_edge: Int[Tensor, " E"]
    out_receiver: Int[Tensor, " E"]
    place: Int[Tensor, " E"]  # each edge's position in the original list

    @classmethod
    def of(cls, edges: Int[Tensor, "2 E"], *, receivers: int, senders: int | None = None) -> Graph:
        """From a list of edges: ``edges[0]`` attends to ``edges[1]``.

        That is (query, key), the order of :meth:`Lens.observe_edges`. PyTorch Geometric's ``edge_index`` is the other way
        round, (source, target): pass ``edge_index.flip(0)``. Without ``senders``, receivers and senders are the same nodes.
        """
        senders = receivers if senders is None else senders
        for name, count in (("receivers", receivers), ("senders", senders)):
            if isinstance(count, bool) or not isinstance(count, int | torch.SymInt) or count < 0:
                raise SaccadeError(f"{name}: expected a number of nodes, found {count!r:.60}")
        try:
            # as_tensor would move a tensor to PyTorch's default device.
            edges = edges if isinstance(edges, Tensor) else torch.as_tensor(edges)
        except (TypeError, ValueError, RuntimeError):
            raise SaccadeError(f"edges: expected whole numbers [2, E], found a {type(edges).__name__}") from None
        if edges.dim() != 2 or edges.shape[0] != 2 or edges.is_floating_point() or edges.dtype == torch.bool:
            raise SaccadeError(f"edges: expected whole numbers [2, E], found {edges.dtype} {list(edges.shape)}")
        edges = edges.long()
        _check_range(edges[0], receivers, "receivers")
        _check_range(edges[1], senders, "senders")
        receiver, place = edges[0].sort(stable=True)
        return cls._sorted(receivers, senders, receiver, edges[1][place], place)

    @classmethod
    def from_rows(cls, start: Int[Tensor, " N+1"], sender: Int[Tensor, " E"], *, senders: int | None = None) -> Graph:
        """From compressed rows: receiver i attends to ``sender[start[i]]``, …, ``sender[start[i + 1] − 1]``."""
        start, sender = start.long(), sender.long()
        receivers = len(start) - 1
        if receivers < 0 or start[0] != 0 or start[-1] != len(sender) or bool((start.diff() < 0).any()):
            raise SaccadeError(
                f"start: expected N + 1 non-decreasing numbers from 0 to {len(sender)} (the edges), found {_ends(start)}"
            )
        senders = receivers if senders is None else senders
        _check_range(sender, senders, "senders")
        nodes = torch.arange(receivers, device=start.device)
        receiver = nodes.repeat_interleave(start.diff(), output_size=len(sender))
        return cls._sorted(receivers, senders, receiver, sender, torch.arange(len(sender), device=start.device))

    @classmethod
    def _sorted(cls, receivers: int, senders: int, receiver: Tensor, sender: Tensor, place: Tensor) -> Graph:
        by_sender, out_edge = sender.sort(stable=True)
        return cls(
            receivers=receivers,
            senders=senders,
            start=_starts(receiver, receivers),
            receiver=receiver,
            sender=sender,
            out_start=_starts(by_sender, senders),
            out_edge=out_edge,
            out_receiver=receiver[out_edge],
            place=place,
        )

    @property
    def size(self) -> int:
        """The number of edges E."""
        return len(self.sender)

    @property
    def edges(self) -> Int[Tensor, "2 E"]:
        """The edges (receiver, sender) in the graph's own order, by receiver."""
        return torch.stack([self.receiver, self.sender])

    def as_listed(self, numbers: Shaped[Tensor, "E ..."]) -> Shaped[Tensor, "E ..."]:
        """Values of the edges in the graph's own order, reordered as in the original list."""
        return torch.empty_like(numbers).index_copy_(0, self.place, numbers)

    def to(self, device: torch.device | str) -> Graph:
        """The same graph on another device."""
        parts: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, part in parts.items():
            parts[name] = part.to(device) if isinstance(part, Tensor) else part
        return Graph(**parts)

    def __repr__(self) -> str:
        return f"Graph({self.receivers} receivers, {self.senders} senders, {self.size} edges)"


def _starts(sorted_nodes: Tensor, count: int) -> Tensor:
    return torch.searchsorted(sorted_nodes, torch.arange(count + 1, device=sorted_nodes.device))


def _check_range(nodes: Tensor, count: int, name: str) -> None:
    if nodes.numel() == 0:
        return
    low, high = (int(extreme) for extreme in torch.aminmax(nodes))
    if low < 0 or high >= count:
        raise SaccadeError(
            f"edges: expected {name} from 0 to {count - 1}, found {low if low < 0 else high}; pass {name}= their number"
        )


def _ends(start: Tensor) -> str:
    return f"{start[0]} … {start[-1]}" if len(start) else "none"
