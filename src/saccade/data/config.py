"""The settings that every kind of data shares, and the one rule for over-long inputs: an error, or a counted cut. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from saccade.errors import InputError, SaccadeError, preview

TooLong = Literal["error", "truncate"]


@dataclass(frozen=True)
class Fitted:
    """Pairs of ids within the limit, and how many sides of how many pairs had to be cut for it."""

    pairs: list[tuple[list[int], list[int]]]
    limit: int
    cut_sources: int
    cut_targets: int
    cut_pairs: int

    def __str__(self) -> str:
        if not self.cut_pairs:
            return f"all {len(self.pairs)} pairs are within {self.limit} tokens"
        return (
            f"{self.cut_pairs} of {len(self.pairs)} pairs cut to {self.limit} tokens "
            f"({self.cut_sources} sources, {self.cut_targets} targets)"
        )


def fit(ids: list[int], limit: int, policy: TooLong, where: str) -> tuple[list[int], bool]:
    """The ids, at most `limit` of them (<bos> and <eos> not counted), and whether any were cut off.

    `where` names the input in the error: "train.tsv: pair 7: source".
    """
    if limit < 1:
        raise SaccadeError(f"data.max_length must be at least 1: got {limit}")
    if policy not in get_args(TooLong):
        raise SaccadeError(f"data.too_long: expected one of {', '.join(get_args(TooLong))}, found {policy!r}")
    if len(ids) <= limit:
        return ids, False
    if policy == "truncate":
        return ids[:limit], True
    hint = f"set data.too_long: truncate, or data.max_length: {len(ids)}"
    raise InputError(where, expected=f"at most {limit} tokens", found=f"{len(ids)}", hint=hint)


def fit_all(
    encoded: Sequence[tuple[list[int], list[int]]], limit: int, policy: TooLong, where: str, sources: Sequence[str] = ()
) -> Fitted:
    """Fit every pair of a corpus, and count the cuts. Pairs are numbered from 1, as lines are, and called by their sources too,
    where those are given."""
    pairs = []
    cut_sources = cut_targets = cut_pairs = 0
    for number, (source, target) in enumerate(encoded, start=1):
        place = f"{where}: pair {number}"
        if sources and policy == "error" and max(len(source), len(target)) > limit:
            place = f"{place} ({preview(sources[number - 1])})"
        source, source_cut = fit(source, limit, policy, f"{place}: source")
        target, target_cut = fit(target, limit, policy, f"{place}: target")
        pairs.append((source, target))
        cut_sources += source_cut
        cut_targets += target_cut
        cut_pairs += source_cut or target_cut
    return Fitted(pairs, limit, cut_sources, cut_targets, cut_pairs)
