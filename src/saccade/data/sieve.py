"""Cleaning at work: each pair is asked about by every rule, counted, and kept or left out for the first that is on.

What is left out is never lost: whoever drives the sieve is told the rule, and the counts add up, kept + left out = read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from saccade.data.cleaning import Repeated, Rule
from saccade.data.tallies import Repeats

KEPT = 200  # characters of an example


@dataclass
class RuleTally:
    """How many pairs a rule speaks of, how many were left out for it, and the first of them."""

    rule: Rule | Repeated
    found: int = 0
    left_out: int = 0
    line: int | None = None
    source: str = ""
    target: str = ""

    def meet(self, line: int, source: str, target: str) -> None:
        if not self.found:
            self.line, self.source, self.target = line, source[:KEPT], target[:KEPT]
        self.found += 1


class Sieve:
    """Pairs go through in the order of the file; `row` counts them from 0."""

    def __init__(self, rules: Sequence[Rule], repeated: Sequence[tuple[Repeated, Repeats]]) -> None:
        self.texts = [(rule.test, RuleTally(rule)) for rule in rules]
        self.repeats = [(repeats, RuleTally(rule)) for rule, repeats in repeated]

    @property
    def tallies(self) -> list[RuleTally]:
        return [tally for _, tally in self.texts] + [tally for _, tally in self.repeats]

    def reason(self, row: int, line: int, source: str, target: str) -> Rule | Repeated | None:
        """The rule that this pair is left out for; None where it is kept."""
        first: RuleTally | None = None
        for test, tally in self.texts:
            if test(source, target):
                tally.meet(line, source, target)
                if first is None and tally.rule.on:
                    first = tally
        for repeats, tally in self.repeats:
            if repeats.came_before(row):
                tally.meet(line, source, target)
            # What a rule left out does not make its repeats superfluous: one of them is kept.
            if first is None and tally.rule.on and repeats.was_kept(row):
                first = tally
        if first is not None:
            first.left_out += 1
            return first.rule
        for repeats, _ in self.repeats:
            repeats.keep(row)
        return None
