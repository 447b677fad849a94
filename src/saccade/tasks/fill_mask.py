"""Texts with blanks and how they are filled: the likeliest word of each blank, and the likeliest fillings of all of them."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from saccade.data.texts import masking
from saccade.data.tokenizers.tokenizer import CONTINUES
from saccade.data.tokenizers.wordpiece import BLANK
from saccade.task import Detail, Prediction, keep_best

FOLLOWS, ELSEWHERE = "follows", "does not follow"
# What each answer needs beside the encoder, by the names of the network's parts.
NEEDED = {"words": ("transform",), "followers": ("next", "trunk.pooler")}


@dataclass(frozen=True)
class FillMaskInput:
    """An input: its text, or two, with blanks; their ids between the marks, where each stands in the text, and the blanks."""

    text: str
    ids: list[int]
    spans: list[tuple[int, int]]
    segments: list[int]
    blanks: list[int]
    notes: tuple[str, ...] = ()

    @property
    def pair(self) -> bool:
        return self.segments[-1] == 1


@dataclass(frozen=True)
class FillDetail(Detail):
    """The likeliest words of every blank with their probabilities; ``probabilities`` are those of the only blank, or of whether
    the second text follows."""

    probabilities: Mapping[str, float] = field(default_factory=dict)
    choices: tuple[Mapping[str, float], ...] = ()


def filling(
    item: FillMaskInput, likely: Sequence[Mapping[str, float]], judged: Sequence[float], n_best: int
) -> Prediction:
    """The likeliest fillings of all blanks together: their probabilities are multiplied, as if each stood alone."""
    shares = {FOLLOWS: judged[masking.FOLLOWS], ELSEWHERE: judged[masking.ELSEWHERE]}
    parts = shares if item.pair else {}
    if not likely:
        value = max(shares, key=shares.__getitem__)
        score = shares[value]
        return Prediction(value, score, _log(score), notes=item.notes, parts=parts, detail=FillDetail(shares))
    best = [
        Prediction(filled(item.text, words), share, _log(share), notes=item.notes, parts=parts)
        for share, words in _best(likely, n_best)
    ]
    single = dict(likely[0]) if len(likely) == 1 else {}
    return replace(keep_best(best), detail=FillDetail(single, tuple(likely)))


def never_trained(
    part: Literal["words", "followers"], untrained: Sequence[str], pairs: Literal["next", "none"]
) -> tuple[str, ...]:
    """A note where the part of the network that answers is among the ``untrained``: it was not in what was imported, or rows
    were single texts (``pairs``) in every run.

    >>> never_trained("followers", ("next", "trunk.pooler"), "none")
    ('the next-sentence head was never trained (data.pairs: none); ignore its output',)
    >>> never_trained("followers", (), "none")  # of a network that was begun from one which can
    ()
    """
    if not any(each in untrained for each in NEEDED[part]):
        return ()
    single = part == "followers" and pairs == "none"
    head = "masked-word" if part == "words" else "next-sentence"
    why = "data.pairs: none" if single else "not in what was imported"
    return (f"the {head} head was never trained ({why}); ignore its output",)


def _best(likely: Sequence[Mapping[str, float]], count: int) -> list[tuple[float, tuple[str, ...]]]:
    # Blank by blank: what is not among the best `count` fillings of the first blanks is in none of the best of all of them.
    best: list[tuple[float, tuple[str, ...]]] = [(1.0, ())]
    for each in likely:
        longer = ((share * own, (*words, word)) for share, words in best for word, own in each.items())
        best = heapq.nlargest(count, longer, key=lambda filling: filling[0])
    return best


def filled(text: str, words: Sequence[str]) -> str:
    """The text with its blanks filled, a piece inside a word joined to what stands before it.

    >>> filled("un [MASK] is [MASK] .", ["##able", "bad"])
    'unable is bad .'
    """
    return "".join(_parts(text.split(BLANK), words))


def _parts(texts: Sequence[str], words: Sequence[str]) -> Iterator[str]:
    for text, word in zip(texts, (*words, ""), strict=True):
        inside = word.startswith(CONTINUES)
        yield text.rstrip(" ") if inside else text
        yield word.removeprefix(CONTINUES) if inside else word


def _log(share: float) -> float:
    return math.log(max(share, 1e-300))
