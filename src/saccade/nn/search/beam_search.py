"""Finding a likely output: greedy, beam, diverse beams, samples; batched, with what each hypothesis looked at.

A beam of size K keeps the K likeliest unfinished hypotheses of each item; a hypothesis that writes EOS leaves the beam
(Sutskever et al. 2014). Hypotheses that ended are ranked by

    log p(y | x) / ((5 + |y|) / 6)^α + β Σₛ log min(Σₜ aₜₛ, 1)        (Wu et al. 2016; |y| counts EOS)

An item is done when nothing that is still live could come among its n best (``stop="exact"``): log p only falls, so a
live hypothesis scores at most what it has now over the penalty of the longest output. With ``stop="beam"`` it is done
when K hypotheses have ended, as is common. A beam of 1 is greedy and done at its first end. At an item's length limit
the search stops in any case; where nothing had ended, that is reported (``stopped="length"``), never silent.

What was recorded at step t for the row a hypothesis had then follows the back-pointers: each hypothesis has its own maps,
equal to those of forced decoding.

A plain beam, of which nothing but its outputs is asked, is searched for by :mod:`saccade.nn.search.fast_beam`: the same
outputs, without waiting for the device at each step.

Legend: B items; L lanes: beams of their own (one an item, a group or a sample); W places a lane; V vocabulary;
row = lane · W + place.
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
from saccade.nn.search.constraints import Constraints, Required, rules_of
from saccade.nn.search.fast_beam import FastBeamLoop, Goal, Recorder, Stepping, device_of, machine_of, pace_of
from saccade.nn.search.history import Ended, History, Stopped
from saccade.nn.search.selection import Choose, Diverse, Draws, Groups, Sampling, likeliest, select
from saccade.trace.lens import Lens, Record, Site
from saccade.trace.maps import Tree

NO_NUMBERS = "the network's outputs are not numbers (NaN or infinite): it cannot be searched"
WIDE = 10  # a beam in which required words find their place


@dataclass(frozen=True)
class Hypothesis:
    """One output: its tokens (without BOS and EOS), its log-probability, the score it was ranked by, why it ended.

    ``coverage`` is the coverage penalty in its score, ``looked[t]`` the source position looked at most when token t was
    written (−1: none; empty where nobody asked), ``unmet`` the numbers of the required phrases it lacks.
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
    """How to search.

    Attributes:
        beam: how many hypotheses are followed; 1 is greedy.
        length_penalty: α. ``coverage``: β, the reward for having looked at every source word.
        n_best: how many outputs are returned, at most ``beam``; when sampling, how many are drawn.
        stop: ``exact``, or ``beam``: as soon as ``beam`` hypotheses have ended.
        block_ngrams: n: no n tokens in a row are written twice.
        unknown: what becomes of an unknown word in an output: ``keep``, or ``copy`` the source word looked at most.
        sample: draw outputs by chance instead of searching for the best.
        diverse: part the beam into groups that differ.

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

    def __post_init__(self) -> None:
        check(self, "beam", "block_ngrams")
        if self.sample is not None and self.diverse is not None:
            raise ValueError(f"diverse must be left out when sampling: got {self.diverse.groups} groups")
        if self.sample is not None and self.beam != 1:
            raise ValueError(f"beam must be 1 when sampling (n_best says how many are drawn): got {self.beam}")
        if self.diverse is not None and self.beam % self.diverse.groups:
            raise ValueError(f"beam must be a multiple of its {self.diverse.groups} groups: got {self.beam}")
        if self.sample is not None and self.n_best < 1:
            raise ValueError(f"n_best must be at least 1: got {self.n_best}")
        if self.sample is None and not 1 <= self.n_best <= self.beam:
            raise ValueError(f"n_best must be between 1 and beam={self.beam}: got {self.n_best}")
        for name in ("length_penalty", "coverage"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must not be negative: got {getattr(self, name)}")

    @property
    def lanes(self) -> int:
        """Beams of their own an item."""
        return self.n_best if self.sample is not None else 1 if self.diverse is None else self.diverse.groups

    @property
    def width(self) -> int:
        """Hypotheses a lane."""
        return 1 if self.sample is not None else self.beam // self.lanes

    @property
    def looks(self) -> str:
        """Which setting needs to see the attention; empty where none does."""
        return "coverage" if self.coverage else "unknown: copy" if self.unknown == "copy" else ""

    def penalty(self, length: int) -> float:
        """((5 + |y|) / 6)^α."""
        return float(((5 + length) / 6) ** self.length_penalty)

    def rank(self, log_prob: float, length: int, coverage: float = 0.0) -> float:
        return log_prob / self.penalty(length) + coverage

    def parts(self, found: Hypothesis) -> dict[str, float]:
        """What a score is made of: score = log_prob / length_penalty + coverage."""
        penalty = self.penalty(len(found.tokens) + (found.stopped == "eos"))
        return {"log_prob": found.log_prob, "length_penalty": penalty, "coverage": found.coverage}


@dataclass(frozen=True)
class _Aim:
    """What is searched for: the limits and wishes of the items, and what the tokens mean."""

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
        limits: the longest output of each item, EOS counted.
        forbidden: tokens that are never written (padding, BOS).
        lens: records what each hypothesis looked at; its edits at step t apply to every live hypothesis at t.
        constraints: what each item's output must begin with, hold and not hold.
        words: the source positions that coverage counts and unknown words are copied from; all unless given.
        begins: the tokens that begin a word: a required phrase then ends where a word does.
        seeds: one an item, mixed with the seed of ``how.sample``; 0, 1, 2, … unless given.
        recorder: replays the steps of a plain beam.
    """
    B = len(limits)
    if min(limits, default=1) < 1:
        raise SaccadeError(f"a length limit must be at least 1: got {min(limits)}")
    wishes = constraints or [Constraints()] * B
    if any(each.require for each in wishes) and (how.sample or how.diverse):
        found = "sampling" if how.sample else "diverse groups"
        raise SaccadeError(f"required words must be searched for with a plain beam: got {found}")
    aim = _Aim(limits, bos, eos, forbidden, wishes, words, begins, seeds or range(B))
    if is_plain(how, lens, wishes):
        return _search_plainly(network, memory, aim, how, recorder)
    walk = _BeamLoop(network, memory, aim, how, lens)
    for step in range(max(limits, default=0)):
        walk.choose(walk.look(step), step)
        if not walk.live:
            break
        walk.move()
    return [walk.best(item) for item in range(B)]


def is_plain(how: Search, lens: Lens | None, constraints: Sequence[Constraints] | None) -> bool:
    """Whether nothing but the beam and its scores decides, and nothing but its outputs is asked for."""
    special = how.looks or how.block_ngrams is not None or how.sample is not None or how.diverse is not None
    return lens is None and not special and all(each == Constraints() for each in constraints or ())


def _search_plainly(
    network: EncoderDecoder, memory: Any, aim: _Aim, how: Search, recorder: Recorder | None
) -> list[list[Hypothesis]]:
    if not aim.limits:
        return []
    device = device_of(memory)
    enough = how.beam if how.beam == 1 or how.stop == "beam" else None
    goal = Goal(how.beam, how.n_best, enough, how.penalty, aim.eos)
    stepping = Stepping(network, aim.eos, aim.forbidden, device, recorder)
    machine = machine_of(device) if recorder is None else recorder.machine
    outputs = FastBeamLoop(stepping, memory, aim.limits, goal, aim.bos, pace_of(device), machine).run()
    if not all(outputs):
        raise SaccadeError(NO_NUMBERS)
    return [
        [
            Hypothesis(tokens[:-1] if end.stopped == "eos" else tokens, end.log_prob, end.score, end.stopped)
            for end, tokens in best
        ]
        for best in outputs
    ]


class _BeamLoop:
    """A search under way: the live hypotheses of every lane, and those that ended."""

    def __init__(self, network: EncoderDecoder, memory: Any, aim: _Aim, how: Search, lens: Lens | None) -> None:
        B, W, device = len(aim.limits), how.width, device_of(memory)
        self.network, self.aim, self.how, self.lens = network, aim, how, lens
        self.owner = [item for item in range(B) for _ in range(how.lanes)]  # lane → item
        L = len(self.owner)
        spread = torch.tensor(self.owner, dtype=torch.int64, device=device).repeat_interleave(W)
        self.begun = network.begun(memory)
        self.token, self.state, self.memory = network.begin(select(memory, spread), L * W, aim.bos)
        self.totals = torch.full((L, W), -math.inf, device=device)
        self.totals[:, 0] = 0.0  # all rows of a lane start alike: one of them counts
        self.base = (torch.arange(L, device=device) * W).unsqueeze(1)  # [L, 1]
        self.rows = self.token  # where each row's hypothesis stood before; known after a step
        self.history, self.live = History(), list(range(L))
        self.ended: list[list[Ended]] = [[] for _ in range(L)]
        words = None if aim.words is None else aim.words.to(device)[spread]
        self.looked = Looked(words) if how.looks else None
        wishes = [aim.constraints[item] for item in self.owner]
        self.required = None
        if any(each.require for each in wishes):
            self.required = Required([each.require for each in wishes], W, aim.eos, aim.begins, device)
        each_row = [wish for wish in wishes for _ in range(W)]
        self.rules = rules_of(each_row, how.block_ngrams, aim.eos, aim.begins, self.required)
        self.pick = self._pick(device)

    def _pick(self, device: torch.device) -> Choose:
        how, aim = self.how, self.aim
        if self.required is not None:
            return self.required
        if how.sample is not None:
            return Draws(how.sample, aim.limits, aim.seeds, how.n_best, aim.eos, device)
        if how.diverse is not None:
            return Groups(how.diverse, aim.eos)
        return lambda totals, log_probs: likeliest(totals, log_probs, aim.eos)

    def look(self, step: int) -> Float[Tensor, "L W V"]:
        """One step of the network: the log-probabilities of what each hypothesis may write next."""
        looking = self.lens.fresh() if self.lens is not None else None
        gaze = SourceAttention(looking) if self.looked is not None else None
        seen = looking if gaze is None else gaze
        place = self.begun + step
        logits, self.state = self.network.step(self.token, self.state, self.memory, offset=place, lens=seen)
        log_probs = torch.log_softmax(logits.float(), dim=-1)
        if looking is not None:
            if looking.wants("outputs"):
                keep_outputs(looking, log_probs.unsqueeze(1), place, self.network.writes_on)
            self.history.records.append(looking.records)
        if gaze is not None and self.looked is not None:
            weights = gaze.weights(type(self.network).__name__, self.how.looks)
            self.history.looked.append(self.looked.add(weights).tolist())
        if self.aim.forbidden:
            log_probs[:, list(self.aim.forbidden)] = -math.inf
        if self.rules:
            plain = log_probs
            log_probs = plain.clone()
            for rule in self.rules:
                rule.narrow(log_probs, plain, step)
        return log_probs.view(len(self.owner), self.how.width, -1)

    def choose(self, log_probs: Float[Tensor, "L W V"], step: int) -> None:
        """Which hypotheses go on, which have ended, and which lanes are done."""
        chosen = self.pick(self.totals, log_probs)
        self.history.add(chosen)
        self.totals, self.token = chosen.totals, chosen.tokens.flatten()
        self.rows = (self.base + chosen.places).flatten()
        covered = self.looked.covered().tolist() if self.looked is not None and self.how.coverage else None
        for lane in self.live:
            ends = [
                (place, self.aim.eos, total, self.required.unmet(lane, place, before=True) if self.required else ())
                for place, total in chosen.over[lane]
            ]
            stopped: Stopped = "eos"
            if step + 1 == self.aim.limits[self.owner[lane]] and not ends and not self.ended[lane]:
                ends, stopped = self._cut_off(lane), "length"
            for place, token, total, unmet in ends:
                coverage = self.how.coverage * covered[lane * self.how.width + place] if covered else 0.0
                score = self.how.rank(total, step + 1, coverage)
                self.ended[lane].append(Ended(step, place, token, total, stopped, score, coverage, unmet))
        self.live = [lane for lane in self.live if not self._done(lane, step)]
        if self.how.diverse is not None and len(self.live) < len(self.owner):
            # A group that is done writes no more: what it would have gone on with is no handicap for the others.
            over_and_done = sorted(set(range(len(self.owner))) - set(self.live))
            self.totals[torch.tensor(over_and_done, device=self.totals.device)] = -math.inf

    def _cut_off(self, lane: int) -> list[tuple[int, int, float, tuple[int, ...]]]:
        """At the limit nothing has ended: the live hypotheses stand as they are, and say so."""
        return [
            (parent, token, total, self.required.unmet(lane, place) if self.required else ())
            for place, (parent, token, total) in enumerate(self.history.live(lane))
            if total > -math.inf
        ]

    def _done(self, lane: int, step: int) -> bool:
        limit, how = self.aim.limits[self.owner[lane]], self.how
        # While others can come, what lacks required words does not count.
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
        """The state, and whatever follows the hypotheses, go where they went."""
        if self.how.width > 1:  # a lane of one place goes on from there
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
                raise SaccadeError("nothing can be written: the wishes leave no token, or the outputs are not numbers")
            raise SaccadeError(NO_NUMBERS)
        chosen = self._in_turns(ended) if self.how.diverse else [(lane, end) for lane, ends in ended for end in ends]
        chosen = sorted(chosen, key=lambda pair: _worst_last(pair[1]))[: self.how.n_best]
        return [self._hypothesis(lane, end, ended, first=number == 0) for number, (lane, end) in enumerate(chosen)]

    def _in_turns(self, ended: Sequence[tuple[int, Sequence[Ended]]]) -> list[tuple[int, Ended]]:
        """The n outputs of diverse groups: the best of each, then the second best of each, …, and none twice."""
        turns = [(turn, lane, end) for lane, ends in ended for turn, end in enumerate(sorted(ends, key=_worst_last))]
        distinct: dict[tuple[int, ...], tuple[int, Ended]] = {}
        for _, lane, end in sorted(turns, key=lambda each: (each[0], _worst_last(each[2]))):
            distinct.setdefault(tuple(self.history.trail(lane, end)[1]), (lane, end))
        return list(distinct.values())[: self.how.n_best]

    def _hypothesis(
        self, lane: int, end: Ended, ended: Sequence[tuple[int, Sequence[Ended]]], *, first: bool
    ) -> Hypothesis:
        path, tokens = self.history.trail(lane, end)
        rows = [lane * self.how.width + place for place in path]
        written = tokens[:-1] if end.stopped == "eos" else tokens
        looked = [self.history.looked[step][row] for step, row in enumerate(rows)] if self.looked is not None else []
        records = self.history.kept(rows) if self.lens is not None else []
        tree = None
        if first and self.lens is not None and self.lens.wants("beam"):
            tree = self.history.tree(ended, end)
        return Hypothesis(
            tuple(written), end.log_prob, end.score, end.stopped, tuple(records), tree, end.coverage,
            tuple(looked[: len(written)]), end.unmet,
        )  # fmt: skip


def _worst_last(end: Ended) -> tuple[int, bool, float]:
    """Before the score counts that nothing is missing, and that there is an end."""
    return len(end.unmet), end.stopped == "length", -end.score


# ---- Attention on the source -------------------------------------------------------------------------------------------


LEAST = 1e-6


class SourceAttention(Lens):
    """Hands everything on to the lens behind it, where there is one, and keeps the weights on the source."""

    def __init__(self, behind: Lens | None) -> None:
        super().__init__()
        self.behind = behind
        self.looks: list[Tensor] = []

    def wants(self, part: str) -> bool:
        return self.behind is not None and self.behind.wants(part)

    def edit_scores(self, site: Site, scores: Tensor, offset: int) -> Tensor:
        return scores if self.behind is None else self.behind.edit_scores(site, scores, offset)

    def edit_weights(self, site: Site, weights: Tensor, offset: int) -> Tensor:
        return weights if self.behind is None else self.behind.edit_weights(site, weights, offset)

    def observe(self, site: Site, weights: Tensor, *, offset: int = 0, scores: Tensor | None = None) -> None:
        if (site.query, site.key) == ("target", "source"):
            self.looks.append(weights[:, :, -1])  # [R, H, S]
        if self.behind is not None:
            self.behind.observe(site, weights, offset=offset, scores=scores)

    def observe_edges(self, site: Site, edges: Tensor, weights: Tensor, *, keys: int) -> None:
        if self.behind is not None:
            self.behind.observe_edges(site, edges, weights, keys=keys)

    def signal(self, name: str, axis: str, values: Tensor, *, offset: int = 0) -> None:
        if self.behind is not None:
            self.behind.signal(name, axis, values, offset=offset)

    def weights(self, network: str, wanted: str) -> Float[Tensor, "R S"]:
        """The mean of all looks at the source in this step; ``wanted`` says in an error what asked for it."""
        if not self.looks:
            raise SaccadeError(
                f"{wanted} needs a network that looks back at its source: {network} looked nowhere "
                "(no site whose query is 'target' and whose key is 'source')"
            )
        return torch.cat(self.looks, dim=1).float().mean(dim=1)


class Looked:
    """What each live hypothesis has looked at so far: Σₜ aₜₛ, and the strongest word of each step."""

    def __init__(self, words: Bool[Tensor, "R S"] | None) -> None:
        self.words = words
        self.sums: Tensor | None = None

    def add(self, weights: Float[Tensor, "R S"]) -> Int[Tensor, " R"]:
        """One more step; the position each row looked at most, −1 where it looked at no word."""
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
            raise SaccadeError("nothing was looked at yet: add() comes first")
        return self.sums.clamp(LEAST, 1.0).log().masked_fill(~self.words, 0.0).sum(dim=-1)

    def follow(self, rows: Int[Tensor, " R"]) -> None:
        """The hypotheses now in these rows; all rows of a lane have the same source, so ``words`` stays as it is."""
        if self.sums is not None:
            self.sums = self.sums.index_select(0, rows)
