"""Constraints on outputs: prefixes, forbidden and required phrases, blocked n-grams, as rules that remove tokens from a step.

A rule sets log-probabilities to −inf without renormalising: the others keep the network's own log p(y | x).

- :class:`Prefix`: the first tokens are given.
- :class:`Barred`: a phrase is never written, in any tokenization.
- :class:`NoRepeats`: no n-gram is written twice (Paulus et al. 2018).
- :class:`Required`: phrases that must be written (Post & Vilar 2018, after Hokamp & Liu 2017). The beam has a bank for each
  number of required tokens already written; hypotheses compete within their bank, so the first required word is not lost
  because it is unlikely. The candidates of a step are the likeliest continuations of the whole beam, the likeliest of each
  hypothesis, and each hypothesis's next required tokens; the places of the beam go to the banks in turn, the fullest first.
  EOS is possible only where nothing is missing. Each phrase's progress is tracked separately (Knuth, Morris & Pratt 1977), so
  phrases may overlap and share prefixes.

Legend: R rows (lanes × places), W places per lane, N lanes with required phrases, V vocabulary, P phrases.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.nn.search.selection import Chosen, likeliest


@dataclass(frozen=True)
class Lattice:
    """All tokenizations of a text: from its character s, ``edges[s]`` maps a token to the character after it.

    ``after``: the tokens after which the text may start; None: any, and the start of the output.
    """

    edges: tuple[Mapping[int, int], ...]
    after: frozenset[int] | None = None


@dataclass(frozen=True)
class Constraints:
    """One item's constraints, in tokens.

    Attributes:
        prefix: the first tokens of the output; ``closed``: the next one must begin a word.
        require: phrases that the output must contain.
        forbid: phrases that it must not contain.
    """

    prefix: tuple[int, ...] = ()
    closed: bool = False
    require: tuple[tuple[int, ...], ...] = ()
    forbid: tuple[Lattice, ...] = ()


@runtime_checkable
class Rule(Protocol):
    """Removes tokens from a step's candidates, and follows the hypotheses as rows are reordered."""

    def narrow(self, log_probs: Float[Tensor, "R V"], plain: Float[Tensor, "R V"], step: int) -> None:
        """Set forbidden tokens to −inf, in place; ``plain`` has the network's log-probabilities."""

    def follow(self, rows: Int[Tensor, " R"], tokens: Int[Tensor, " R"]) -> None:
        """Row i now has the hypothesis that was in ``rows[i]`` and wrote ``tokens[i]``."""


def rules_of(
    constraints: Sequence[Constraints],
    block: int | None,
    eos: int,
    begins: Bool[Tensor, " V"] | None,
    required: Rule | None = None,
) -> list[Rule]:
    """The rules for the rows' constraints, in the order they apply.

    ``required`` sees what the others leave. A prefix comes last, so that it always holds.
    """
    rules: list[Rule] = []
    if block is not None:
        rules.append(NoRepeats(block))
    if any(each.forbid for each in constraints):
        rules.append(Barred([each.forbid for each in constraints]))
    if required is not None:
        rules.append(required)
    if any(each.prefix or each.closed for each in constraints):
        rules.append(Prefix(constraints, eos, begins))
    return rules


class Prefix:
    """At step t each row with a prefix can only write its t-th token."""

    def __init__(self, constraints: Sequence[Constraints], eos: int, begins: Bool[Tensor, " V"] | None) -> None:
        self.given: dict[int, list[tuple[int, int]]] = {}  # step → (row, token)
        self.opening: dict[int, list[int]] = {}  # step → rows
        for row, each in enumerate(constraints):
            for step, token in enumerate(each.prefix):
                self.given.setdefault(step, []).append((row, token))
            if each.closed and begins is not None:
                self.opening.setdefault(len(each.prefix), []).append(row)
        self.opens = None
        if begins is not None:
            self.opens = begins.clone()
            self.opens[eos] = True

    def narrow(self, log_probs: Float[Tensor, "R V"], plain: Float[Tensor, "R V"], step: int) -> None:
        if step in self.given:
            rows, tokens = torch.tensor(self.given[step], device=log_probs.device).unbind(dim=1)
            log_probs[rows] = -math.inf
            log_probs[rows, tokens] = plain[rows, tokens]
        if step in self.opening and self.opens is not None:
            rows = torch.tensor(self.opening[step], device=log_probs.device)
            log_probs[rows] = log_probs[rows].masked_fill(~self.opens.to(log_probs.device), -math.inf)

    def follow(self, rows: Int[Tensor, " R"], tokens: Int[Tensor, " R"]) -> None:
        """Nothing to do: all rows of an item have the same prefix."""


class NoRepeats:
    """No n-gram is written twice."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.written: Tensor | None = None  # [R, t]

    def narrow(self, log_probs: Float[Tensor, "R V"], plain: Float[Tensor, "R V"], step: int) -> None:
        if self.written is None or self.written.shape[1] < self.size:
            return
        grams = self.written.unfold(1, self.size, 1)  # [R, t − n + 1, n]
        recent = self.written[:, self.written.shape[1] - self.size + 1 :]  # [R, n − 1]
        again = (grams[..., :-1] == recent.unsqueeze(1)).all(dim=-1)
        rows, places = again.nonzero(as_tuple=True)
        log_probs[rows, grams[rows, places, -1]] = -math.inf

    def follow(self, rows: Int[Tensor, " R"], tokens: Int[Tensor, " R"]) -> None:
        before = tokens.new_zeros(len(rows), 0) if self.written is None else self.written.index_select(0, rows)
        self.written = torch.cat([before, tokens.unsqueeze(1)], dim=1)


_Spelt = tuple[int | None, frozenset[tuple[int, int]]]  # the last token; (phrase, character) of partial matches
_START: _Spelt = (None, frozenset())


class Barred:
    """Removes tokens that would complete a forbidden phrase."""

    def __init__(self, forbidden: Sequence[Sequence[Lattice]]) -> None:
        self.forbidden = forbidden
        self.spelt = [_START] * len(forbidden)

    def narrow(self, log_probs: Float[Tensor, "R V"], plain: Float[Tensor, "R V"], step: int) -> None:
        barred = [
            (row, token)
            for row, (lattices, spelt) in enumerate(zip(self.forbidden, self.spelt, strict=True))
            for token in _completing(lattices, spelt)
        ]
        if barred:
            rows, tokens = torch.tensor(barred, device=log_probs.device).unbind(dim=1)
            log_probs[rows, tokens] = -math.inf

    def follow(self, rows: Int[Tensor, " R"], tokens: Int[Tensor, " R"]) -> None:
        moves = zip(rows.tolist(), tokens.tolist(), strict=True)
        self.spelt = [_spell(self.forbidden[row], self.spelt[row], token)[0] for row, token in moves]


def holds(tokens: Iterable[int], lattices: Sequence[Lattice]) -> bool:
    """Whether these tokens contain one of the phrases."""
    spelt = _START
    for token in tokens:
        spelt, whole = _spell(lattices, spelt, token)
        if whole:
            return True
    return False


def _open(lattices: Sequence[Lattice], spelt: _Spelt) -> list[tuple[int, int]]:
    """(phrase, character) that the next token may continue: partial matches, and the start of each phrase."""
    last, under_way = spelt
    begun = ((n, 0) for n, each in enumerate(lattices) if each.after is None or last is None or last in each.after)
    return [*under_way, *begun]


def _completing(lattices: Sequence[Lattice], spelt: _Spelt) -> set[int]:
    return {
        token
        for number, place in (_open(lattices, spelt) if lattices else ())
        for token, reached in lattices[number].edges[place].items()
        if reached == len(lattices[number].edges)
    }


def _spell(lattices: Sequence[Lattice], spelt: _Spelt, token: int) -> tuple[_Spelt, bool]:
    """Add a token; also returns whether it completes a phrase."""
    if not lattices:
        return spelt, False
    reached = {
        (number, lattices[number].edges[place][token])
        for number, place in _open(lattices, spelt)
        if token in lattices[number].edges[place]
    }
    partial = frozenset((number, place) for number, place in reached if place < len(lattices[number].edges))
    return (token, partial), len(partial) < len(reached)


# ---- Required phrases --------------------------------------------------------------------------------------------------


class Phrase:
    """Tokens that must be written consecutively; a ``whole`` phrase must also be followed by the beginning of a word, or
    by EOS.

    Progress counts the tokens written: below n some are missing, n: all of them, n + 1: completed for good.
    """

    def __init__(self, tokens: tuple[int, ...], whole: bool) -> None:
        self.tokens, self.whole = tokens, whole
        self.fallback = [0, 0]  # the longest prefix that the first i tokens end with
        for i in range(1, len(tokens)):
            self.fallback.append(self._match(self.fallback[i], tokens[i]))

    def _match(self, reached: int, token: int) -> int:
        while reached and self.tokens[reached] != token:
            reached = self.fallback[reached]
        return reached + (self.tokens[reached] == token)

    def after(self, reached: int, token: int, closes: bool) -> int:
        """The progress after one more token; ``closes``: it begins a word, or is EOS."""
        n = len(self.tokens)
        if reached > n or (reached == n and closes):
            return n + 1
        reached = self._match(self.fallback[n] if reached == n else reached, token)
        return n + 1 if reached == n and not self.whole else reached

    def missing(self, reached: int) -> int | None:
        """The next missing token, if any."""
        return self.tokens[reached] if reached < len(self.tokens) else None


Progress = tuple[int, ...]  # one number per phrase
_Candidate = tuple[int, float, int, int]  # bank, log-probability, place, token
_Case = tuple[Progress, int | None, bool]  # progress, the token if a phrase contains it, whether it closes a word


class Required:
    """Selects like :func:`likeliest`, except in lanes with required phrases."""

    def __init__(
        self,
        phrases: Sequence[Sequence[tuple[int, ...]]],
        width: int,
        eos: int,
        begins: Bool[Tensor, " V"] | None,
        device: torch.device,
    ) -> None:
        self.eos, self.device, self.width = eos, device, width
        self.lanes = [lane for lane, wanted in enumerate(phrases) if wanted]
        self.phrases = [[Phrase(tokens, begins is not None) for tokens in phrases[lane]] for lane in self.lanes]
        self.progress: list[list[Progress]] = [[(0,) * len(wanted)] * width for wanted in self.phrases]
        self.before = self.progress  # as before the last selection
        self.number = {lane: number for number, lane in enumerate(self.lanes)}
        self.tokens = [{token for phrase in wanted for token in phrase.tokens} for wanted in self.phrases]
        self.known: list[dict[_Case, tuple[Progress, int]]] = [{} for _ in self.lanes]
        self.closes = None if begins is None else begins.to(device).clone()
        if self.closes is not None:
            self.closes[eos] = True
        self.closing = None if self.closes is None else self.closes.tolist()

    def narrow(self, log_probs: Float[Tensor, "R V"], plain: Float[Tensor, "R V"], step: int) -> None:
        """Remove EOS where a phrase is missing, unless no other token is left."""
        lacking = [
            self.lanes[number] * self.width + place
            for number, places in enumerate(self.progress)
            for place, progress in enumerate(places)
            if self._missing(number, progress)
        ]
        rows = torch.tensor(lacking, dtype=torch.int64, device=log_probs.device)
        ends = log_probs[rows, self.eos]
        log_probs[rows, self.eos] = -math.inf
        stuck = (log_probs[rows] == -math.inf).all(dim=-1)
        log_probs[rows, self.eos] = ends.masked_fill(~stuck, -math.inf)

    def follow(self, rows: Int[Tensor, " R"], tokens: Int[Tensor, " R"]) -> None:
        """Nothing to do: the selection has updated the progress."""

    def unmet(self, lane: int, place: int, *, before: bool = False) -> tuple[int, ...]:
        """The numbers of the phrases that the hypothesis at this place lacks, now or ``before`` the last selection."""
        number = self.number.get(lane)
        progress = self.before if before else self.progress
        return () if number is None else self._missing(number, progress[number][place])

    def __call__(self, totals: Float[Tensor, "L W"], log_probs: Float[Tensor, "L W V"]) -> Chosen:
        chosen = likeliest(totals, log_probs, self.eos)
        self.before = list(self.progress)
        lanes = torch.tensor(self.lanes, device=self.device)
        sums = totals[lanes].unsqueeze(-1) + log_probs[lanes]  # [N, W, V]
        rows: list[list[_Candidate]] = []
        for number, candidates in enumerate(self._candidates(sums)):
            ranked = [
                (self._after(number, place, token)[1], total, place, token)
                for (place, token), total in candidates.items()
                if total > -math.inf
            ]
            ends = [each for each in _in_turns(ranked, self.width) if each[3] == self.eos]
            chosen.over[self.lanes[number]] = [(place, total) for _, total, place, _ in ends]
            going = _in_turns([each for each in ranked if each[3] != self.eos], self.width)
            empty: _Candidate = (0, -math.inf, 0, self.eos)
            rows.append([*going, *[empty] * (self.width - len(going))])
            self.progress[number] = [self._after(number, place, token)[0] for _, _, place, token in rows[-1]]
        _, new_totals, places, tokens = torch.tensor(rows, dtype=torch.float64).unbind(dim=-1)
        return Chosen(
            chosen.totals.index_copy(0, lanes, new_totals.to(self.device, chosen.totals.dtype)),
            chosen.places.index_copy(0, lanes, places.to(self.device, torch.int64)),
            chosen.tokens.index_copy(0, lanes, tokens.to(self.device, torch.int64)),
            chosen.over,
        )

    def _candidates(self, sums: Float[Tensor, "N W V"]) -> list[dict[tuple[int, int], float]]:
        """(place, token) → log-probability of each lane's candidates."""
        _, W, V = sums.shape
        best, index = sums.flatten(1).topk(min(2 * W, W * V), dim=-1)
        own, own_token = sums.topk(min(2, V), dim=-1)  # two: the likeliest may be EOS
        lists = [
            {(at // V, at % V): total for at, total in zip(places, each, strict=True)}
            for places, each in zip(index.tolist(), best.tolist(), strict=True)
        ]
        self._add(lists, own_token, own)
        if self.closes is not None:
            closed, token = sums.masked_fill(~self.closes, -math.inf).topk(min(2, V), dim=-1)
            self._add(lists, token, closed)
        wanted = [[self._wanted(number, place) for place in range(W)] for number in range(len(self.lanes))]
        most = max(len(tokens) for lane in wanted for tokens in lane)
        if most:
            # Padded with the row's likeliest token, which is a candidate already.
            padded = [
                [[*tokens, *[spare] * (most - len(tokens))] for tokens, spare in zip(lane, spares, strict=True)]
                for lane, spares in zip(wanted, own_token[..., 0].tolist(), strict=True)
            ]
            token = torch.tensor(padded, device=self.device)  # [N, W, most]
            self._add(lists, token, sums.gather(-1, token))
        return lists

    def _add(
        self, lists: list[dict[tuple[int, int], float]], tokens: Int[Tensor, "N W n"], totals: Float[Tensor, "N W n"]
    ) -> None:
        for found, lane_tokens, lane_totals in zip(lists, tokens.tolist(), totals.tolist(), strict=True):
            for place, (row_tokens, row_totals) in enumerate(zip(lane_tokens, lane_totals, strict=True)):
                found.update({(place, token): total for token, total in zip(row_tokens, row_totals, strict=True)})

    def _wanted(self, number: int, place: int) -> list[int]:
        pairs = zip(self.phrases[number], self.progress[number][place], strict=True)
        return sorted({token for phrase, reached in pairs if (token := phrase.missing(reached)) is not None})

    def _after(self, number: int, place: int, token: int) -> tuple[Progress, int]:
        """The progress of this hypothesis after one more token, and its bank then."""
        closes = token == self.eos or (self.closing is not None and self.closing[token])
        # Tokens outside all phrases are equivalent: a few cases cover the vocabulary.
        case = (self.progress[number][place], token if token in self.tokens[number] else None, closes)
        if case not in self.known[number]:
            pairs = zip(self.phrases[number], case[0], strict=True)
            progress = tuple(phrase.after(reached, token, closes) for phrase, reached in pairs)
            self.known[number][case] = progress, self._bank(number, progress)
        return self.known[number][case]

    def _bank(self, number: int, progress: Progress) -> int:
        """Required tokens already written: those of complete phrases, and of the most advanced partial one."""
        pairs = list(zip(self.phrases[number], progress, strict=True))
        whole = sum(len(phrase.tokens) for phrase, reached in pairs if reached >= len(phrase.tokens))
        return whole + max((reached for phrase, reached in pairs if reached < len(phrase.tokens)), default=0)

    def _missing(self, number: int, progress: Progress) -> tuple[int, ...]:
        pairs = enumerate(zip(self.phrases[number], progress, strict=True))
        return tuple(which for which, (phrase, reached) in pairs if reached < len(phrase.tokens))


def _in_turns(candidates: Sequence[_Candidate], count: int) -> list[_Candidate]:
    """``count`` candidates: the best of each bank, the fullest bank first, then the second best of each, …"""
    banks: dict[int, list[_Candidate]] = {}
    for candidate in sorted(candidates, key=lambda each: -each[1]):
        banks.setdefault(candidate[0], []).append(candidate)
    turns = [(turn, -bank, candidate) for bank, members in banks.items() for turn, candidate in enumerate(members)]
    return [candidate for _, _, candidate in sorted(turns, key=lambda each: each[:2])[:count]]
