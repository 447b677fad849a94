"""The history of a search: back-pointers, records per step, and the tree of all hypotheses.

Legend: lane = an independent beam, place = a hypothesis's index in its lane.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch

from saccade.nn.search.selection import Chosen
from saccade.progress import report
from saccade.trace.lens import Record
from saccade.trace.maps import Tree

Stopped = Literal["eos", "length"]


@dataclass
class Ended:
    """A hypothesis that ended at ``step``, in row ``place`` of its lane, by writing ``token``.

    ``score`` is what it is ranked by, ``coverage`` its coverage penalty, ``unmet`` the numbers of the required phrases it
    lacks.
    """

    step: int
    place: int
    token: int
    log_prob: float
    stopped: Stopped
    score: float
    coverage: float = 0.0
    unmet: tuple[int, ...] = ()


@dataclass
class History:
    """Place j of a lane after step t came from place ``parents[t][lane][j]`` and wrote ``tokens[t][lane][j]``.

    ``records[t]`` has the lens's records of step t, ``looked[t][row]`` the source position of the row's largest weight.
    """

    parents: list[list[list[int]]] = field(default_factory=list)
    tokens: list[list[list[int]]] = field(default_factory=list)
    log_probs: list[list[list[float]]] = field(default_factory=list)
    records: list[list[Record]] = field(default_factory=list)
    looked: list[list[int]] = field(default_factory=list)

    def add(self, chosen: Chosen) -> None:
        """Add the selection of a step."""
        self.parents.append(chosen.places.tolist())
        self.tokens.append(chosen.tokens.tolist())
        self.log_probs.append(chosen.totals.tolist())

    def live(self, lane: int) -> list[tuple[int, int, float]]:
        """(parent, token, log-probability) of each place of the lane after the last step."""
        return list(zip(self.parents[-1][lane], self.tokens[-1][lane], self.log_probs[-1][lane], strict=True))

    def trail(self, lane: int, end: Ended) -> tuple[list[int], list[int]]:
        """The hypothesis's place in its lane at each step, and its token there."""
        path, tokens, place = [end.place], [end.token], end.place
        for step in range(end.step - 1, -1, -1):
            tokens.append(self.tokens[step][lane][place])
            place = self.parents[step][lane][place]
            path.append(place)
        return path[::-1], tokens[::-1]

    def records_of(self, rows: Sequence[int]) -> list[Record]:
        """The records of these rows, one row per step."""
        selected: list[Record] = []
        for row, records in zip(rows, self.records, strict=False):
            report()
            for record in records:
                device = next(iter(record.tensors.values())).device
                selected.append(record.select(torch.tensor([row], device=device)))
        return selected

    def tree(self, ended: Sequence[tuple[int, Sequence[Ended]]], chosen: Ended) -> Tree:
        """All hypotheses of an item's lanes as nodes; the task adds labels.

        ``ended`` lists the item's lanes, each with its ended hypotheses.
        """
        nodes: list[_Node] = []
        leaf = -1
        for lane, ends in ended:
            leaf = max(leaf, self._grow(nodes, lane, ends, chosen))
        on_path = [False] * len(nodes)
        while leaf >= 0:
            on_path[leaf] = True
            leaf = nodes[leaf][0]
        parents, steps, tokens, log_probs, ends_here = (torch.tensor(part) for part in zip(*nodes, strict=True))
        labels = tuple(str(token) for token in tokens.tolist())
        return Tree(labels, parents, steps, tokens, log_probs, ends_here, torch.tensor(on_path))

    def _grow(self, nodes: list[_Node], lane: int, ended: Sequence[Ended], chosen: Ended) -> int:
        """Add a lane's nodes; returns the number of the node that ends the chosen hypothesis, or −1."""
        number: dict[tuple[int, int], int] = {}  # (step, place) → node
        leaf = -1
        for step in range(max((end.step for end in ended), default=-1) + 1):
            for end in ended:
                if end.step == step and end.stopped == "eos":
                    if end is chosen:
                        leaf = len(nodes)
                    nodes.append((number.get((step - 1, end.place), -1), step, end.token, end.log_prob, True))
            rows = zip(self.parents[step][lane], self.tokens[step][lane], self.log_probs[step][lane], strict=True)
            cut = any(end is chosen for end in ended) and chosen.stopped == "length"
            for place, (source, token, total) in enumerate(rows):
                if total > -math.inf:
                    number[step, place] = len(nodes)
                    if cut and (step, source, token) == (chosen.step, chosen.place, chosen.token):
                        leaf = len(nodes)
                    nodes.append((number.get((step - 1, source), -1), step, token, total, False))
        return leaf


_Node = tuple[int, int, int, float, bool]  # parent, step, token, log_prob, ended
