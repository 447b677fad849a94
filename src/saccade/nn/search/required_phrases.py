"""Phrases that must be written: a beam with a bank for each number of their tokens already there.

Post & Vilar 2018 (after Hokamp & Liu 2017): hypotheses that hold the same number of required tokens compete with each
other, so the first required word is not lost because writing it costs something. At each step the candidates are

    the likeliest continuations of the whole beam, the likeliest of each hypothesis, and each hypothesis's next required tokens;

the places of the beam go to the banks in turn, the fullest bank first. An end is possible only where nothing is missing.
Every phrase's progress is kept by itself (Knuth, Morris & Pratt 1977), so phrases may overlap and begin alike.

Legend: N lanes with required phrases, W places a lane, V vocabulary, P phrases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.nn.search.topk import Chosen, likeliest


class Phrase:
    """Tokens that must stand in a row; a ``whole`` one must also be followed by the beginning of a word, or by the end.

    Progress counts the tokens that stand there: below n some are missing, n: all of them, n + 1: for good.
    """

    def __init__(self, tokens: tuple[int, ...], whole: bool) -> None:
        self.tokens, self.whole = tokens, whole
        self.fallback = [0, 0]  # how much of the beginning the first i tokens end with
        for i in range(1, len(tokens)):
            self.fallback.append(self._match(self.fallback[i], tokens[i]))

    def _match(self, reached: int, token: int) -> int:
        while reached and self.tokens[reached] != token:
            reached = self.fallback[reached]
        return reached + (self.tokens[reached] == token)

    def after(self, reached: int, token: int, closes: bool) -> int:
        """The progress after one more token; ``closes``: it begins a word, or is the end."""
        n = len(self.tokens)
        if reached > n or (reached == n and closes):
            return n + 1
        reached = self._match(self.fallback[n] if reached == n else reached, token)
        return n + 1 if reached == n and not self.whole else reached

    def missing(self, reached: int) -> int | None:
        """The next token, where one is missing."""
        return self.tokens[reached] if reached < len(self.tokens) else None


Progress = tuple[int, ...]  # one number a phrase
_Candidate = tuple[int, float, int, int]  # bank, log-probability, place, token
_Case = tuple[Progress, int | None, bool]  # what was there, the token if a phrase holds it, whether it closes a word


class Required:
    """Chooses as :func:`likeliest` does, except in lanes whose outputs must hold phrases."""

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
        self.before = self.progress  # as it was until the last choice
        self.number = {lane: number for number, lane in enumerate(self.lanes)}
        self.tokens = [{token for phrase in wanted for token in phrase.tokens} for wanted in self.phrases]
        self.known: list[dict[_Case, tuple[Progress, int]]] = [{} for _ in self.lanes]
        self.closes = None if begins is None else begins.to(device).clone()
        if self.closes is not None:
            self.closes[eos] = True
        self.closing = None if self.closes is None else self.closes.tolist()

    def narrow(self, log_probs: Float[Tensor, "R V"], plain: Float[Tensor, "R V"], step: int) -> None:
        """No end where something is missing, unless nothing else is left to write."""
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
        """The choice has moved the progress already."""

    def unmet(self, lane: int, place: int, *, before: bool = False) -> tuple[int, ...]:
        """The numbers of the phrases that the hypothesis in this place lacks, or that stood there before the last choice."""
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
        own, own_token = sums.topk(min(2, V), dim=-1)  # two: the likeliest may be an end
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
            # Filled up with the row's likeliest token, a candidate already.
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
        """The progress of this hypothesis after one more token, and the bank that it then belongs to."""
        closes = token == self.eos or (self.closing is not None and self.closing[token])
        # Tokens of no phrase are all alike: a few cases stand for the whole vocabulary.
        case = (self.progress[number][place], token if token in self.tokens[number] else None, closes)
        if case not in self.known[number]:
            pairs = zip(self.phrases[number], case[0], strict=True)
            progress = tuple(phrase.after(reached, token, closes) for phrase, reached in pairs)
            self.known[number][case] = progress, self._bank(number, progress)
        return self.known[number][case]

    def _bank(self, number: int, progress: Progress) -> int:
        """Required tokens that stand there: those of whole phrases, and of the one that is furthest under way."""
        pairs = list(zip(self.phrases[number], progress, strict=True))
        whole = sum(len(phrase.tokens) for phrase, reached in pairs if reached >= len(phrase.tokens))
        return whole + max((reached for phrase, reached in pairs if reached < len(phrase.tokens)), default=0)

    def _missing(self, number: int, progress: Progress) -> tuple[int, ...]:
        pairs = enumerate(zip(self.phrases[number], progress, strict=True))
        return tuple(which for which, (phrase, reached) in pairs if reached < len(phrase.tokens))


def _in_turns(candidates: Sequence[_Candidate], count: int) -> list[_Candidate]:
    """``count`` candidates: from each bank its best, the fullest bank first, then from each its second best, …"""
    banks: dict[int, list[_Candidate]] = {}
    for candidate in sorted(candidates, key=lambda each: -each[1]):
        banks.setdefault(candidate[0], []).append(candidate)
    turns = [(turn, -bank, candidate) for bank, members in banks.items() for turn, candidate in enumerate(members)]
    return [candidate for _, _, candidate in sorted(turns, key=lambda each: each[:2])[:count]]
