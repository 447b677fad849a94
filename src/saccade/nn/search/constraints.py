"""What an output must begin with and may not hold: rules that take tokens out of a step's choice.

A rule sets log-probabilities to −inf and does not share them out again: what is left keeps the network's own log p(y | x).

- :class:`Prefix`: the first tokens are given.
- :class:`Barred`: a phrase is never written, however it is cut into tokens.
- :class:`NoRepeats`: no n-gram is written twice (Paulus et al. 2018).

Legend: R rows (lanes × places), V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Lattice:
    """All ways to spell a text in tokens: from character s of it, ``edges[s]`` maps a token to the character it leads to.

    ``after``: the tokens after which the text may begin; None: any, and the start of the output.
    """

    edges: tuple[Mapping[int, int], ...]
    after: frozenset[int] | None = None


@dataclass(frozen=True)
class Constraints:
    """One item's wishes, in tokens.

    Attributes:
        prefix: the tokens the output begins with; ``closed``: the one after them begins a new word.
        require: phrases that the output must hold.
        forbid: phrases that it may not hold.
    """

    prefix: tuple[int, ...] = ()
    closed: bool = False
    require: tuple[tuple[int, ...], ...] = ()
    forbid: tuple[Lattice, ...] = ()


@runtime_checkable
class Rule(Protocol):
    """Takes tokens out of a step's choice, and follows the hypotheses as they move."""

    def narrow(self, log_probs: Float[Tensor, "R V"], plain: Float[Tensor, "R V"], step: int) -> None:
        """Set what may not be written to −inf, in place; ``plain`` is what the network said."""

    def follow(self, rows: Int[Tensor, " R"], tokens: Int[Tensor, " R"]) -> None:
        """Row i now holds the hypothesis that stood in ``rows[i]`` and wrote ``tokens[i]``."""


def rules_of(
    constraints: Sequence[Constraints],
    block: int | None,
    eos: int,
    begins: Bool[Tensor, " V"] | None,
    required: Rule | None = None,
) -> list[Rule]:
    """The rules that the rows' constraints ask for, in an order that matters; where there is none, none costs anything.

    What is ``required`` sees what the others leave. A prefix comes last: it has the last word.
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
    """At step t each row with a prefix can write its t-th token alone."""

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
        """All rows of an item have the same prefix: nothing moves."""


class NoRepeats:
    """No n tokens in a row are written twice."""

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


_Spelt = tuple[int | None, frozenset[tuple[int, int]]]  # the last token; (phrase, character) of what is being spelt
_START: _Spelt = (None, frozenset())


class Barred:
    """The token that would complete a forbidden phrase is not written."""

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
    """Whether these tokens spell one of the phrases somewhere."""
    spelt = _START
    for token in tokens:
        spelt, whole = _spell(lattices, spelt, token)
        if whole:
            return True
    return False


def _open(lattices: Sequence[Lattice], spelt: _Spelt) -> list[tuple[int, int]]:
    """(phrase, character) that the next token may go on from: what is being spelt, and each phrase's beginning."""
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
    """One more token; whether a phrase is whole with it."""
    if not lattices:
        return spelt, False
    reached = {
        (number, lattices[number].edges[place][token])
        for number, place in _open(lattices, spelt)
        if token in lattices[number].edges[place]
    }
    partial = frozenset((number, place) for number, place in reached if place < len(lattices[number].edges))
    return (token, partial), len(partial) < len(reached)
