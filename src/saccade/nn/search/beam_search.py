"""Batched search for likely outputs: greedy, beam, diverse beams, sampling; with the attention of each hypothesis.

A beam of size K keeps the K likeliest unfinished hypotheses of each item; a hypothesis that writes EOS leaves the beam
(Sutskever et al. 2014). Hypotheses that ended are ranked by

    log p(y | x) / ((5 + |y|) / 6)^α + β Σₛ log min(Σₜ aₜₛ, 1)        (Wu et al. 2016; |y| counts EOS)

An item is done when no live hypothesis could come among its n best (``stop="exact"``): log p only falls, so a live hypothesis
scores at most its current log p over the penalty of the longest output. With ``stop="beam"`` it is done when K hypotheses have
ended, as is common. A beam of 1 is greedy and done at its first end. At an item's length limit the search stops in any case;
if nothing has ended, that is reported (``stopped="length"``).

The records of each step follow the back-pointers: each hypothesis has its own maps, equal to those of forced decoding.

Where only the outputs of a plain beam are needed, :mod:`saccade.nn.search.fast_beam` computes the same outputs without
synchronising with the device at each step.

Coverage and copied unknown words need the attention on the source: aₜₛ is the mean over heads, sites (the layers of a
decoder) and the members of an ensemble. The rows of all steps count, including that of EOS; padding and the source's own EOS
are not words. A sum below 1e-6 counts as 1e-6: local windows and sparse weights leave words out, and log 0 would make all
outputs equally bad.

Legend: B items; L lanes: independent beams (one per item, group or sample); W places per lane; V vocabulary;
row = lane · W + place; H heads, S source positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.nn.config import check
from saccade.nn.decoder import EncoderDecoder, keep_outputs
from saccade.nn.listener import Focus
from saccade.nn.search.constraints import Constraints, Required, rules_of
from saccade.nn.search.course import Course
from saccade.nn.search.fast_beam import FastBeamLoop, Goal, Recorder, Stepping, device_of, machine_of, policy_of
from saccade.nn.search.fusion import Fusion
from saccade.nn.search.history import Ended, History, Stopped
from saccade.nn.search.selection import Choose, Diverse, Draws, Groups, Sampling, likeliest, select
from saccade.trace.flow import Flow
from saccade.trace.lens import Lens, Record, Site
from saccade.trace.maps import Tree

NOT_FINITE = "the network's outputs are NaN or infinite: it cannot be searched"
WIDE = 10  # a beam wide enough for required words
LARGEST_BEAM = 10_000  # a recipe from anyone may ask for a beam of a billion


@dataclass(frozen=True)
class Hypothesis:
    """One output: its tokens (without BOS and EOS), its log-probability, the score it was ranked by, why it stopped.

    ``coverage`` is the coverage penalty in its score, ``looked[t]`` the source position with the largest weight when token t
    was written (−1: none; empty if not needed), ``unmet`` the numbers of the required phrases it lacks.
    """

    tokens: tuple[int, ...]
    log_prob: float
    score: float
    stopped: Stopped
    records: tuple[Record, ...] = ()
    tree: Tree | None = None
    coverage: float = 0.0
    looked: tuple[int, ...] = ()
    unmet: tuple[int, ...] = ()


@dataclass(frozen=True)
class Search:
    """Settings of a search.

    Attributes:
        beam: number of hypotheses; 1 is greedy.
        length_penalty: α. ``coverage``: β, the reward for attending to every source word.
        n_best: number of outputs, at most ``beam``; when sampling, number of samples.
        stop: ``exact``, or ``beam``: as soon as ``beam`` hypotheses have ended.
        block_ngrams: n: no n-gram of tokens is written twice.
        unknown: what to do with an unknown word in an output: ``keep``, or ``copy`` the source word with the largest weight.
        sample: draw random outputs instead of searching for the best.
        diverse: split the beam into groups that differ.
        focus: how attention differs from training. ``ctc``: the weight of CTC's probabilities of prefixes. ``lm``: a language
            model whose log-probabilities are added. These three are for networks that listen (the task ``transcribe``).

    >>> Search(beam=5, length_penalty=1.0).rank(log_prob=-2.0, length=7)  # −2 / 2
    -1.0
    """

    beam: int = 1
    length_penalty: float = 0.0
    n_best: int = 1
    coverage: float = 0.0
    stop: Literal["exact", "beam"] = "exact"
    block_ngrams: int | None = None
    unknown: Literal["keep", "copy"] = "keep"
    sample: Sampling | None = None
    diverse: Diverse | None = None
    focus: Focus | None = None
    ctc: float = 0.0
    lm: Fusion | None = None

    def __post_init__(self) -> None:
        for name in ("beam", "n_best"):
            size = getattr(self, name)
            if isinstance(size, int) and size > LARGEST_BEAM:
                raise ValueError(f"{name} must be at most {LARGEST_BEAM:,}: got {size}")
        check(self, "beam", "n_best", "block_ngrams")
        parts = (("sample", Sampling), ("diverse", Diverse), ("focus", Focus), ("lm", Fusion))
        for name, kind in parts:
            part = getattr(self, name)
            if part is not None and not isinstance(part, kind):
                raise ValueError(f"{name} must be a value of {kind.__name__}: got {part!r:.60}")
        if self.sample is not None and self.diverse is not None:
            raise ValueError(f"diverse must be left out when sampling: got {self.diverse.groups} groups")
        if self.sample is not None and self.beam != 1:
            raise ValueError(f"beam must be 1 when sampling (n_best says how many are drawn): got {self.beam}")
        if self.diverse is not None and self.beam % self.diverse.groups:
            raise ValueError(f"beam must be a multiple of its {self.diverse.groups} groups: got {self.beam}")
        if self.sample is None and self.n_best > self.beam:
            raise ValueError(f"n_best must be between 1 and beam={self.beam}: got {self.n_best}")
        for name in ("length_penalty", "coverage"):
            number = getattr(self, name)
            if not isinstance(number, int | float):
                raise ValueError(f"{name} must be a number: got {number!r}")
            if not 0 <= number < math.inf:
                raise ValueError(f"{name} must not be negative: got {number}")
        if not 0 <= self.ctc <= 1:
            raise ValueError(f"ctc must be from 0 to 1: got {self.ctc}")

    @property
    def lanes(self) -> int:
        """Independent beams per item."""
        return self.n_best if self.sample is not None else 1 if self.diverse is None else self.diverse.groups

    @property
    def width(self) -> int:
        """Hypotheses per lane."""
        return 1 if self.sample is not None else self.beam // self.lanes

    @property
    def looks(self) -> str:
        """The setting that needs the attention weights; empty if none does."""
        return "coverage" if self.coverage else "unknown: copy" if self.unknown == "copy" else ""

    def penalty(self, length: int) -> float:
        """((5 + |y|) / 6)^α."""
        return float(((5 + length) / 6) ** self.length_penalty)

    def rank(self, log_prob: float, length: int, coverage: float = 0.0) -> float:
        return log_prob / self.penalty(length) + coverage

    def parts(self, found: Hypothesis) -> dict[str, float]:
        """The parts of a score: score = log_prob / length_penalty + coverage."""
        penalty = self.penalty(len(found.tokens) + (found.stopped == "eos"))
        return {"log_prob": found.log_prob, "length_penalty": penalty, "coverage": found.coverage}


@dataclass(frozen=True)
class _Task:
    """The items' limits and constraints, and the special tokens."""

    limits: Sequence[int]
    bos: int
    eos: int
    forbidden: Sequence[int] = ()
    constraints: Sequence[Constraints] = ()
    words: Tensor | None = None
    begins: Tensor | None = None
    seeds: Sequence[int] = ()


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
    constraints: Sequence[Constraints] | None = None,
    words: Bool[Tensor, "B S"] | None = None,
    begins: Bool[Tensor, " V"] | None = None,
    seeds: Sequence[int] | None = None,
    recorder: Recorder | None = None,
) -> list[list[Hypothesis]]:
    """The n best outputs of each item, best first.

    Args:
        memory: what ``network.encode`` returned for the items.
        limits: the longest output of each item, EOS included.
        forbidden: tokens that are never written (padding, BOS).
        lens: records the attention of each hypothesis; its edits at step t apply to every live hypothesis at t.
        constraints: per item, the prefix, the required and the forbidden phrases.
        words: the source positions that coverage counts and unknown words are copied from; by default all.
        begins: the tokens that begin a word: a required phrase then ends where a word does.
        seeds: one per item, mixed with the seed of ``how.sample``; by default 0, 1, 2, …
        recorder: captures and replays the steps of a plain beam.
    """
    B = len(limits)
    if min(limits, default=1) < 1:
        raise SaccadeError(f"a length limit must be at least 1: got {min(limits)}")
    wishes = constraints or [Constraints()] * B
    if any(item.require for item in wishes) and (how.sample or how.diverse):
        found = "sampling" if how.sample else "diverse groups"
        raise SaccadeError(f"required words must be searched for with a plain beam: got {found}")
    task = _Task(limits, bos, eos, forbidden, wishes, words, begins, seeds or range(B))
    if is_plain(how, lens, wishes):
        return _search_fast(network, memory, task, how, recorder)
    course = Course(max(limits, default=1), memory, copies=how.lanes * how.width)
    loop = _BeamLoop(network, memory, task, how, lens)
    for step in range(max(limits, default=0)):
        loop.choose(loop.look(step), step)
        if not loop.live:
            break
        loop.move()
        course.report(step + 1, loop.state, loop.history.records[-1:])
    return [loop.best(item) for item in range(B)]


def is_plain(how: Search, lens: Lens | None, constraints: Sequence[Constraints] | None) -> bool:
    """Whether the search is a plain beam of which only the outputs are needed."""
    special = how.looks or how.block_ngrams is not None or how.sample is not None or how.diverse is not None
    return lens is None and not special and all(item == Constraints() for item in constraints or ())


def _search_fast(
    network: EncoderDecoder, memory: Any, task: _Task, how: Search, recorder: Recorder | None
) -> list[list[Hypothesis]]:
    if not task.limits:
        return []
    device = device_of(memory)
    enough = how.beam if how.beam == 1 or how.stop == "beam" else None
    goal = Goal(how.beam, how.n_best, enough, how.penalty, task.eos)
    stepping = Stepping(network, task.eos, task.forbidden, device, recorder)
    machine = machine_of(device) if recorder is None else recorder.machine
    course = Course(max(task.limits), memory, copies=1 if network.shares_memory else how.beam)
    outputs = FastBeamLoop(stepping, memory, task.limits, goal, task.bos, policy_of(device), machine).run(course)
    if not all(outputs):
        raise SaccadeError(NOT_FINITE)
    return [
        [
            Hypothesis(tokens[:-1] if end.stopped == "eos" else tokens, end.log_prob, end.score, end.stopped)
            for end, tokens in best
        ]
        for best in outputs
    ]


class _BeamLoop:
    """The state of a search: the live hypotheses of every lane, and those that ended."""

    def __init__(self, network: EncoderDecoder, memory: Any, task: _Task, how: Search, lens: Lens | None) -> None:
        B, W, device = len(task.limits), how.width, device_of(memory)
        self.network, self.task, self.how, self.lens = network, task, how, lens
        self.owner = [item for item in range(B) for _ in range(how.lanes)]  # lane → item
        L = len(self.owner)
        spread = torch.tensor(self.owner, dtype=torch.int64, device=device).repeat_interleave(W)
        self.begun = network.begun(memory)
        self.token, self.state, self.memory = network.begin(select(memory, spread), L * W, task.bos)
        self.totals = torch.full((L, W), -math.inf, device=device)
        self.totals[:, 0] = 0.0  # all rows of a lane are equal at first: only one counts
        self.base = (torch.arange(L, device=device) * W).unsqueeze(1)  # [L, 1]
        self.rows = self.token  # the row that each hypothesis came from; known after a step
        self.history, self.live = History(), list(range(L))
        self.ended: list[list[Ended]] = [[] for _ in range(L)]
        words = None if task.words is None else task.words.to(device)[spread]
        self.looked = SourceCoverage(words) if how.looks else None
        wishes = [task.constraints[item] for item in self.owner]
        self.required = None
        if any(wish.require for wish in wishes):
            self.required = Required([wish.require for wish in wishes], W, task.eos, task.begins, device)
        by_row = [wish for wish in wishes for _ in range(W)]
        self.rules = rules_of(by_row, how.block_ngrams, task.eos, task.begins, self.required)
        self.pick = self._pick(device)

    def _pick(self, device: torch.device) -> Choose:
        how, task = self.how, self.task
        if self.required is not None:
            return self.required
        if how.sample is not None:
            return Draws(how.sample, task.limits, task.seeds, how.n_best, task.eos, device)
        if how.diverse is not None:
            return Groups(how.diverse, task.eos)
        return lambda totals, log_probs: likeliest(totals, log_probs, task.eos)

    def look(self, step: int) -> Float[Tensor, "L W V"]:
        """One step of the network: the log-probabilities of each hypothesis's next token."""
        lens = self.lens.fresh() if self.lens is not None else None
        attention = SourceAttention(lens) if self.looked is not None else None
        position, outer = self.begun + step, lens if attention is None else attention
        logits, self.state = self.network.step(self.token, self.state, self.memory, offset=position, lens=outer)
        log_probs = self.network.log_probs(logits)
        if lens is not None:
            if lens.wants("outputs"):
                shares = torch.log_softmax(log_probs, dim=-1)  # fused scores do not sum to 1
                keep_outputs(lens, shares.unsqueeze(1), position, self.network.writes_on)
            self.history.records.append(lens.records)
        if attention is not None and self.looked is not None:
            weights = attention.weights(type(self.network).__name__, self.how.looks)
            self.history.looked.append(self.looked.add(weights).tolist())
        if self.task.forbidden:
            log_probs[:, list(self.task.forbidden)] = -math.inf
        if self.rules:
            plain = log_probs
            log_probs = plain.clone()
            for rule in self.rules:
                rule.narrow(log_probs, plain, step)
        return log_probs.view(len(self.owner), self.how.width, -1)

    def choose(self, log_probs: Float[Tensor, "L W V"], step: int) -> None:
        """Decide which hypotheses continue, which have ended, and which lanes are done."""
        chosen = self.pick(self.totals, log_probs)
        self.history.add(chosen)
        self.totals, self.token = chosen.totals, chosen.tokens.flatten()
        self.rows = (self.base + chosen.places).flatten()
        covered = self.looked.covered().tolist() if self.looked is not None and self.how.coverage else None
        for lane in self.live:
            ends = [
                (place, self.task.eos, total, self.required.unmet(lane, place, before=True) if self.required else ())
                for place, total in chosen.over[lane]
            ]
            stopped: Stopped = "eos"
            if step + 1 == self.task.limits[self.owner[lane]] and not ends and not self.ended[lane]:
                ends, stopped = self._cut_off(lane), "length"
            for place, token, total, unmet in ends:
                coverage = self.how.coverage * covered[lane * self.how.width + place] if covered else 0.0
                score = self.how.rank(total, step + 1, coverage)
                self.ended[lane].append(Ended(step, place, token, total, stopped, score, coverage, unmet))
        self.live = [lane for lane in self.live if not self._done(lane, step)]
        if self.how.diverse is not None and len(self.live) < len(self.owner):
            # A group that is done writes no more, and must not handicap the others.
            done = sorted(set(range(len(self.owner))) - set(self.live))
            self.totals[torch.tensor(done, device=self.totals.device)] = -math.inf

    def _cut_off(self, lane: int) -> list[tuple[int, int, float, tuple[int, ...]]]:
        """At the limit, where nothing has ended: the live hypotheses as they are."""
        return [
            (parent, token, total, self.required.unmet(lane, place) if self.required else ())
            for place, (parent, token, total) in enumerate(self.history.live(lane))
            if total > -math.inf
        ]

    def _done(self, lane: int, step: int) -> bool:
        limit, how = self.task.limits[self.owner[lane]], self.how
        # While others can still come, hypotheses that lack required words do not count.
        ended = [end for end in self.ended[lane] if not end.unmet]
        best = max(self.history.log_probs[-1][lane])
        if step + 1 == limit or best == -math.inf:
            return True
        if how.width == 1 or how.stop == "beam":
            return len(ended) >= how.width
        wanted = min(how.n_best, how.width)
        if len(ended) < wanted:
            return False
        return sorted((end.score for end in ended), reverse=True)[wanted - 1] >= how.rank(best, limit)

    def move(self) -> None:
        """Reorder the state, and all that follows the hypotheses, by the chosen rows."""
        if self.how.width > 1:  # a lane of one place stays where it is
            self.state = select(self.state, self.rows)
        if self.looked is not None:
            self.looked.follow(self.rows)
        for rule in self.rules:
            rule.follow(self.rows, self.token)

    def best(self, item: int) -> list[Hypothesis]:
        """The item's n best, best first."""
        lanes = range(item * self.how.lanes, (item + 1) * self.how.lanes)
        ended = [(lane, self.ended[lane]) for lane in lanes]
        if not any(ends for _, ends in ended):
            if self.rules:
                raise SaccadeError(
                    "no token can be written: the constraints forbid all, or the outputs are NaN or infinite"
                )
            raise SaccadeError(NOT_FINITE)
        chosen = self._in_turns(ended) if self.how.diverse else [(lane, end) for lane, ends in ended for end in ends]
        chosen = sorted(chosen, key=lambda pair: _worst_last(pair[1]))[: self.how.n_best]
        return [self._hypothesis(lane, end, ended, first=number == 0) for number, (lane, end) in enumerate(chosen)]

    def _in_turns(self, ended: Sequence[tuple[int, Sequence[Ended]]]) -> list[tuple[int, Ended]]:
        """The n outputs of diverse groups: the best of each, then the second best of each, …, without duplicates."""
        turns = [(turn, lane, end) for lane, ends in ended for turn, end in enumerate(sorted(ends, key=_worst_last))]
        distinct: dict[tuple[int, ...], tuple[int, Ended]] = {}
        for _, lane, end in sorted(turns, key=lambda turn: (turn[0], _worst_last(turn[2]))):
            distinct.setdefault(tuple(self.history.trail(lane, end)[1]), (lane, end))
        return list(distinct.values())[: self.how.n_best]

    def _hypothesis(
        self, lane: int, end: Ended, ended: Sequence[tuple[int, Sequence[Ended]]], *, first: bool
    ) -> Hypothesis:
        path, tokens = self.history.trail(lane, end)
        rows = [lane * self.how.width + place for place in path]
        written = tokens[:-1] if end.stopped == "eos" else tokens
        looked = [self.history.looked[step][row] for step, row in enumerate(rows)] if self.looked is not None else []
        records = self.history.records_of(rows) if self.lens is not None else []
        tree = None
        if first and self.lens is not None and self.lens.wants("beam"):
            tree = self.history.tree(ended, end)
        return Hypothesis(
            tuple(written), end.log_prob, end.score, end.stopped, tuple(records), tree, end.coverage,
            tuple(looked[: len(written)]), end.unmet,
        )  # fmt: skip


def _worst_last(end: Ended) -> tuple[int, bool, float]:
    """Sort key: complete outputs first, then ended ones, then by score."""
    return len(end.unmet), end.stopped == "length", -end.score


# ---- Attention on the source -------------------------------------------------------------------------------------------


LEAST = 1e-6


class SourceAttention(Lens):
    """A lens that keeps the weights on the source, and passes everything on to another lens, if any."""

    def __init__(self, inner: Lens | None) -> None:
        super().__init__()
        self.inner = inner
        self.looks: list[Tensor] = []

    def wants(self, part: str) -> bool:
        return self.inner is not None and self.inner.wants(part)

    def edit_scores(self, site: Site, scores: Tensor, offset: int, *, boosting: bool = True) -> Tensor:
        return scores if self.inner is None else self.inner.edit_scores(site, scores, offset, boosting=boosting)

    def boost_weights(self, site: Site, weights: Tensor, offset: int) -> Tensor:
        return weights if self.inner is None else self.inner.boost_weights(site, weights, offset)

    def edit_weights(self, site: Site, weights: Tensor, offset: int) -> Tensor:
        return weights if self.inner is None else self.inner.edit_weights(site, weights, offset)

    def observe(self, site: Site, weights: Tensor, *, offset: int = 0, scores: Tensor | None = None) -> None:
        if (site.query, site.key) == ("target", "source"):
            self.looks.append(weights[:, :, -1])  # [R, H, S]
        if self.inner is not None:
            self.inner.observe(site, weights, offset=offset, scores=scores)

    def observe_edges(self, site: Site, edges: Tensor, weights: Tensor, *, keys: int) -> None:
        if self.inner is not None:
            self.inner.observe_edges(site, edges, weights, keys=keys)

    def signal(self, name: str, axis: str, values: Tensor, *, offset: int = 0, flow: Flow | None = None) -> None:
        if self.inner is not None:
            self.inner.signal(name, axis, values, offset=offset, flow=flow)

    def weights(self, network: str, wanted: str) -> Float[Tensor, "R S"]:
        """The mean weights on the source in this step; ``wanted`` names the setting that needs them, for the error."""
        if not self.looks:
            raise SaccadeError(
                f"{wanted} needs a network with attention on its source: {network} has none "
                "(no site whose query is 'target' and whose key is 'source')"
            )
        return torch.cat(self.looks, dim=1).float().mean(dim=1)


class SourceCoverage:
    """The attention of each live hypothesis so far: Σₜ aₜₛ, and the word with the largest weight per step."""

    def __init__(self, words: Bool[Tensor, "R S"] | None) -> None:
        self.words = words
        self.sums: Tensor | None = None

    def add(self, weights: Float[Tensor, "R S"]) -> Int[Tensor, " R"]:
        """Add a step; returns the position of each row's largest weight, −1 where no word has any."""
        if self.words is None:
            self.words = torch.ones_like(weights, dtype=torch.bool)
        if self.words.shape != weights.shape:
            raise SaccadeError(
                f"the weights lie on {weights.shape[1]} source positions: expected {self.words.shape[1]}, as many as words="
            )
        self.sums = weights if self.sums is None else self.sums + weights
        strongest, place = weights.masked_fill(~self.words, 0.0).max(dim=-1)
        return place.masked_fill(~(strongest > 0), -1)

    def covered(self) -> Float[Tensor, " R"]:
        """Σₛ log min(Σₜ aₜₛ, 1) of each row."""
        if self.sums is None or self.words is None:
            raise SaccadeError("no weights yet: call add() first")
        return self.sums.clamp(LEAST, 1.0).log().masked_fill(~self.words, 0.0).sum(dim=-1)

    def follow(self, rows: Int[Tensor, " R"]) -> None:
        """Reorder by these rows; all rows of a lane have the same source, so ``words`` stays."""
        if self.sums is not None:
            self.sums = self.sums.index_select(0, rows)
