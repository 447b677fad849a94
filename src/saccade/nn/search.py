"""Finding a likely output: greedy and beam search, batched, with what each hypothesis looked at.

A beam of size K keeps the K likeliest unfinished hypotheses of each item; a hypothesis that writes EOS leaves the beam
(Sutskever et al. 2014). An item is done when K hypotheses have ended, or at its length limit, which is reported
(``stopped="length"``), never silent. Finished hypotheses are ranked by

    log p(y | x) / ((5 + |y|) / 6)^α        (Wu et al. 2016; α = 0: the plain sum; |y| counts EOS)

What was recorded at step t for the row a hypothesis had then follows the back-pointers: each hypothesis has its own maps,
equal to those of forced decoding.

Legend: B items, K beam, V vocabulary; row = item · K + place in the beam.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.nn.decoder import EncoderDecoder
from saccade.trace.lens import Lens, Record
from saccade.trace.maps import Tree

OUTPUTS_KEPT = 5


@dataclass(frozen=True)
class Hypothesis:
    """One output: its tokens (without BOS and EOS), its log-probability, the score it was ranked by, why it ended."""

    tokens: tuple[int, ...]
    log_prob: float
    score: float
    stopped: Literal["eos", "length"]
    records: tuple[Record, ...] = ()
    tree: Tree | None = None


@dataclass(frozen=True)
class Search:
    """How to search. ``beam=1`` is greedy; ``length_penalty`` is α; ``n_best`` ≤ beam hypotheses are returned."""

    beam: int = 1
    length_penalty: float = 0.0
    n_best: int = 1

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ValueError(f"beam must be at least 1: got {self.beam}")
        if not 1 <= self.n_best <= self.beam:
            raise ValueError(f"n_best must be between 1 and beam={self.beam}: got {self.n_best}")
        if self.length_penalty < 0:
            raise ValueError(f"length_penalty must not be negative: got {self.length_penalty}")

    def rank(self, log_prob: float, length: int) -> float:
        penalty: float = ((5 + length) / 6) ** self.length_penalty
        return log_prob / penalty


@dataclass
class _Ended:
    """A hypothesis that ended at ``step``, in row ``place`` of its item's beam, by writing ``token``."""

    step: int
    place: int
    token: int
    log_prob: float
    stopped: Literal["eos", "length"]


@dataclass
class _History:
    """Back-pointers: place j of the beam after step t came from place ``parents[t][b][j]`` and wrote ``tokens[t][b][j]``."""

    parents: list[Any] = field(default_factory=list)
    tokens: list[Any] = field(default_factory=list)
    log_probs: list[Any] = field(default_factory=list)
    records: list[list[Record]] = field(default_factory=list)


def select(part: Any, rows: Int[Tensor, " N"]) -> Any:
    """These rows of a memory or state: tensors by their first axis, tuples part by part."""
    if isinstance(part, Tensor):
        return part.index_select(0, rows)
    if isinstance(part, tuple):
        parts = [select(item, rows) for item in part]
        return type(part)(*parts) if hasattr(part, "_fields") else tuple(parts)
    return part


@torch.no_grad()
def search(
    network: EncoderDecoder,
    memory: Any,
    limits: Sequence[int],
    how: Search,
    *,
    bos: int,
    eos: int,
    forbidden: Sequence[int] = (),
    lens: Lens | None = None,
) -> list[list[Hypothesis]]:
    """The n best outputs of each item, best first.

    Args:
        memory: what ``network.encode`` returned for the items.
        limits: the longest output of each item, EOS counted.
        forbidden: tokens that are never written (padding, BOS).
        lens: records what each hypothesis looked at; its edits at step t apply to every live hypothesis at t.
    """
    B, K, device = len(limits), how.beam, _device(memory)
    if min(limits, default=1) < 1:
        raise SaccadeError(f"a length limit must be at least 1: got {min(limits)}")
    spread = torch.arange(B, device=device).repeat_interleave(K)
    memory = select(memory, spread)
    state = network.start(memory)
    token = torch.full((B * K,), bos, device=device)
    totals = torch.full((B, K), -math.inf, device=device)
    totals[:, 0] = 0.0  # all rows of an item start alike: one of them counts
    base = (torch.arange(B, device=device) * K).unsqueeze(1)  # [B, 1]
    history = _History()
    ended: list[list[_Ended]] = [[] for _ in range(B)]
    live = list(range(B))
    for step in range(max(limits, default=0)):
        looking = lens.fresh() if lens is not None else None
        logits, state = network.step(token, state, memory, offset=step, lens=looking)
        log_probs = torch.log_softmax(logits.float(), dim=-1)
        if looking is not None:
            _keep_outputs(looking, log_probs, step)
            history.records.append(looking.records)
        if forbidden:
            log_probs[:, list(forbidden)] = -math.inf
        totals, places, tokens, over = _advance(totals, log_probs.view(B, K, -1), eos)
        history.parents.append(places.tolist())
        history.tokens.append(tokens.tolist())
        history.log_probs.append(totals.tolist())
        for item in live:
            ended[item] += [_Ended(step, place, eos, total, "eos") for place, total in over[item]]
            if step + 1 == limits[item] and not ended[item]:
                ended[item] += _cut_off(history, item, step)
        live = [item for item in live if len(ended[item]) < K and step + 1 < limits[item]]
        if not live:
            break
        rows = (base + places).flatten()
        token, state = tokens.flatten(), select(state, rows)
    return [_ranked(history, item, ended[item], how, K, lens) for item in range(B)]


def _advance(
    totals: Tensor, log_probs: Tensor, eos: int
) -> tuple[Tensor, Tensor, Tensor, list[list[tuple[int, float]]]]:
    """The next K live hypotheses of each item, and the (place, total) of those that ended among the best K."""
    _, K, V = log_probs.shape
    best, index = (totals.unsqueeze(-1) + log_probs).flatten(1).topk(min(2 * K, K * V), dim=-1)  # [B, 2K]
    places, tokens = index // V, index % V
    ends = tokens == eos
    over: list[list[tuple[int, float]]] = []
    for row_ends, row_places, row_best in zip(
        ends[:, :K].tolist(), places[:, :K].tolist(), best[:, :K].tolist(), strict=True
    ):
        candidates = zip(row_ends, row_places, row_best, strict=True)
        over.append([(place, total) for end, place, total in candidates if end and total > -math.inf])
    going = torch.argsort(ends.to(torch.int8), dim=-1, stable=True)[:, :K]  # those that go on first, in their order
    totals = best.gather(1, going).masked_fill(ends.gather(1, going), -math.inf)
    return totals, places.gather(1, going), tokens.gather(1, going), over


def _cut_off(history: _History, item: int, step: int) -> list[_Ended]:
    """At the limit nothing has ended: the live hypotheses stand as they are, and say so."""
    rows = zip(history.parents[step][item], history.tokens[step][item], history.log_probs[step][item], strict=True)
    return [_Ended(step, place, token, total, "length") for place, token, total in rows if total > -math.inf]


def _ranked(
    history: _History, item: int, ended: list[_Ended], how: Search, K: int, lens: Lens | None
) -> list[Hypothesis]:
    if not ended:
        raise SaccadeError("the network's outputs are not numbers (NaN or infinite): it cannot be searched")
    best = sorted(ended, key=lambda end: how.rank(end.log_prob, end.step + 1), reverse=True)[: how.n_best]
    hypotheses = []
    for number, end in enumerate(best):
        path, tokens = _trail(history, item, end)
        records: list[Record] = []
        for step, place in enumerate(path if lens is not None else []):
            for record in history.records[step]:
                row = torch.tensor([item * K + place], device=next(iter(record.tensors.values())).device)
                records.append(record.select(row))
        tree = _tree(history, item, ended, end) if lens is not None and lens.wants("beam") and number == 0 else None
        written = tokens[:-1] if end.stopped == "eos" else tokens
        rank = how.rank(end.log_prob, end.step + 1)
        hypotheses.append(Hypothesis(tuple(written), end.log_prob, rank, end.stopped, tuple(records), tree))
    return hypotheses


def _trail(history: _History, item: int, end: _Ended) -> tuple[list[int], list[int]]:
    """The hypothesis's place in the beam at each step, and what it wrote there."""
    path, tokens, place = [end.place], [end.token], end.place
    for step in range(end.step - 1, -1, -1):
        tokens.append(history.tokens[step][item][place])
        place = history.parents[step][item][place]
        path.append(place)
    return path[::-1], tokens[::-1]


def _tree(history: _History, item: int, ended: list[_Ended], chosen: _Ended) -> Tree:
    """Every hypothesis that was ever in the beam, as nodes; labels are the task's to give."""
    number: dict[tuple[int, int], int] = {}  # (step, place) → node
    nodes: list[tuple[int, int, int, float, bool]] = []  # parent, step, token, log_prob, ended
    last = chosen_node = -1
    for end in ended:
        last = max(last, end.step)
    for step in range(last + 1):
        for end in ended:
            if end.step == step and end.stopped == "eos":
                if end is chosen:
                    chosen_node = len(nodes)
                nodes.append((number.get((step - 1, end.place), -1), step, end.token, end.log_prob, True))
        rows = zip(history.parents[step][item], history.tokens[step][item], history.log_probs[step][item], strict=True)
        for place, (source, token, total) in enumerate(rows):
            if total > -math.inf:
                number[step, place] = len(nodes)
                if chosen.stopped == "length" and (step, source, token) == (chosen.step, chosen.place, chosen.token):
                    chosen_node = len(nodes)
                nodes.append((number.get((step - 1, source), -1), step, token, total, False))
    on_path = [False] * len(nodes)
    while chosen_node >= 0:
        on_path[chosen_node] = True
        chosen_node = nodes[chosen_node][0]
    parents, steps, tokens, log_probs, ends = (torch.tensor(part) for part in zip(*nodes, strict=True))
    labels = tuple(str(token) for token in tokens.tolist())
    return Tree(labels, parents, steps, tokens, log_probs, ends, torch.tensor(on_path))


def _keep_outputs(lens: Lens, log_probs: Tensor, step: int) -> None:
    if lens.wants("outputs"):
        best, index = log_probs.topk(min(OUTPUTS_KEPT, log_probs.shape[-1]), dim=-1)
        lens.signal("outputs.probability", "target", best.exp().unsqueeze(1), offset=step)
        lens.signal("outputs.index", "target", index.unsqueeze(1), offset=step)


def _device(part: Any) -> torch.device:
    if isinstance(part, Tensor):
        return part.device
    return next(_device(item) for item in part if isinstance(item, Tensor | tuple))
