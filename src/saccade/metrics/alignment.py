"""Extracts word alignments from attention and computes their alignment error rate (Och & Ney 2003).

    AER(A; S, P) = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)        precision = |A ∩ P| / |A|        recall = |A ∩ S| / |S|

A are the predicted links, S the sure ones of the annotators, P ⊇ S the possible ones; sizes are summed over all pairs. A link
is (source word, target word), counted from 0. Words are split by spaces: weights of subwords or characters are summed
over the tokens of a source word and averaged over those of a target word.

Legend: T target tokens, S source tokens, J target words, I source words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from saccade.errors import SaccadeError

if TYPE_CHECKING:
    from saccade.trace.axes import Axis
    from saccade.trace.maps import Trace

Link = tuple[int, int]
Span = tuple[int, int]
Symmetry = Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]

WORD = re.compile(r"\S+")
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


@dataclass(frozen=True)
class AlignmentScore:
    """The alignment error rate, precision and recall as fractions, and the numbers of links."""

    error_rate: float
    precision: float
    recall: float
    pairs: int
    links: int
    sure: int
    possible: int


def alignment_error_rate(
    links: Sequence[AbstractSet[Link]], sure: Sequence[AbstractSet[Link]], possible: Sequence[AbstractSet[Link]]
) -> AlignmentScore:
    """AER(A; S, P) over a corpus: for each pair a set of links, of sure and of possible ones.

    >>> alignment_error_rate([{(0, 0), (1, 1)}], [{(0, 0)}], [{(0, 0), (1, 2)}]).error_rate  # 1 − (1 + 1) / (2 + 1)
    0.33333333333333337
    """
    if not len(links) == len(sure) == len(possible):
        raise SaccadeError(
            f"expected links, sure and possible ones for the same pairs: got {len(links)}, {len(sure)}, {len(possible)}"
        )
    both = [certain | likely for certain, likely in zip(sure, possible, strict=True)]
    found, certain, likely = (sum(map(len, each)) for each in (links, sure, both))
    if not found + certain:
        raise SaccadeError("expected links to score, found neither predicted nor sure ones")
    hits_sure = sum(len(one & other) for one, other in zip(links, sure, strict=True))
    hits = sum(len(one & other) for one, other in zip(links, both, strict=True))
    return AlignmentScore(
        error_rate=1 - (hits_sure + hits) / (found + certain),
        precision=hits / found if found else 0.0,
        recall=hits_sure / certain if certain else 0.0,
        pairs=len(links),
        links=found,
        sure=certain,
        possible=likely,
    )


# From attention to links ----------------------------------------------------------------------------------------------


def links(trace: Trace, *, site: str | None = None, threshold: float | None = None) -> frozenset[Link]:
    """The word alignment of a trace: see :func:`word_weights` and :func:`links_of`.

    >>> # links(bundle.predict("zwei Männer", lens=Lens())[0].trace)
    """
    return links_of(word_weights(trace, site=site), threshold)


def links_of(weights: Float[ndarray, "J I"], threshold: float | None = None) -> frozenset[Link]:
    """Links of each target word to the source word with the greatest weight, or to all with at least ``threshold``.

    A target word without any weight on source words gets no link.
    """
    weights = np.asarray(weights)
    if threshold is not None:
        if not 0 < threshold <= 1:
            raise SaccadeError(f"threshold must be above 0 and at most 1: got {threshold}")
        return frozenset((int(source), int(target)) for target, source in np.argwhere(weights >= threshold))
    if not weights.size:
        return frozenset()
    greatest = weights.argmax(axis=1)
    return frozenset((int(source), row) for row, source in enumerate(greatest) if weights[row, source] > 0)


def word_weights(trace: Trace, *, site: str | None = None) -> Float[ndarray, "J I"]:
    """The weight of each target word on each source word: the mean over the heads of one site.

    Spaces and end marks belong to no word, so rows may sum to less than 1.
    """
    cross = [map for map in trace.maps if (map.query, map.key) == ("target", "source")]
    chosen = [map for map in cross if site in (None, map.site)]
    sites = list(dict.fromkeys(map.site for map in cross))
    if len({map.site for map in chosen}) != 1:
        expected = "one site with maps from target to source" if site is None else f"the site {site!r}"
        raise SaccadeError(f"expected {expected}, found {', '.join(sites) or 'none'}")
    weights = np.mean([map.weights.detach().float().cpu().numpy() for map in chosen], axis=0)
    target, source = trace.axes["target"], trace.axes["source"]
    # A decoder that was cut short has fewer rows than its axis has tokens.
    rows = token_words(*_spans(target))[: weights.shape[0]]
    return pool(weights, rows, token_words(*_spans(source)), (len(words(_text(target))), len(words(_text(source)))))


def pool(
    weights: Float[ndarray, "T S"], target: Sequence[int], source: Sequence[int], size: tuple[int, int]
) -> Float[ndarray, "J I"]:
    """Weights between tokens as weights between ``size`` = (J, I) words: summed over a source word's tokens, averaged over
    a target word's. ``target`` [T] and ``source`` [S] are the numbers of the tokens' words, −1 for none."""
    weights = np.asarray(weights, dtype=float)
    if weights.shape != (len(target), len(source)):
        raise SaccadeError(
            f"expected weights of {len(target)} × {len(source)} tokens, found {' × '.join(map(str, weights.shape))}"
        )
    receive = _membership(source, size[1])  # [S, I]
    look = _membership(target, size[0])  # [T, J]
    return np.asarray((look / np.maximum(look.sum(axis=0), 1)).T @ weights @ receive)


def words(text: str) -> list[Span]:
    """The spans of a text's words, split by spaces."""
    return [match.span() for match in WORD.finditer(text)]


def token_words(text: str, spans: Sequence[Span]) -> list[int]:
    """For each token the number of the word that overlaps most with its span; −1 if none does."""
    places = words(text)
    numbers = []
    for start, end in spans:
        overlap = [min(end, stop) - max(start, begin) for begin, stop in places]
        best = int(np.argmax(overlap)) if overlap else -1
        numbers.append(best if best >= 0 and overlap[best] > 0 else -1)
    return numbers


def _membership(numbers: Sequence[int], size: int) -> Float[ndarray, "N M"]:
    table = np.zeros((len(numbers), size))
    for row, number in enumerate(numbers):
        if number >= 0:
            table[row, number] = 1.0
    return table


def _text(axis: Axis) -> str:
    return str(getattr(axis, "text", ""))


def _spans(axis: Axis) -> tuple[str, Sequence[Span]]:
    """An axis's text and the span of each token; without spans, tokens are searched for in the text."""
    text, spans = _text(axis), getattr(axis, "spans", ())
    if not text:
        raise SaccadeError("expected a trace of texts, found axes without text")
    if spans:
        return text, spans
    located, special = [], set(getattr(axis, "special", ()))
    place = 0
    for number, label in enumerate(axis.labels):
        label = label.removeprefix("‹").removesuffix("›")  # marks of a word that was copied from the source
        start = -1 if number in special else text.find(label, place)
        located.append((start, start + len(label)) if start >= 0 else (place, place))
        place = located[-1][1]
    return text, located


# Symmetrisation ------------------------------------------------------------------------------------------------------


def symmetrise(
    forward: Iterable[Link],
    backward: Iterable[Link],
    how: Symmetry = "grow-diag-final",
    needs: Literal["either", "both"] = "either",
) -> frozenset[Link]:
    """Links of both directions as one set (Och & Ney 2003; grow-diag: Koehn et al. 2005). Links are (source, target) in both.

    - ``intersection``, ``union``;
    - ``grow-diag``: start from the intersection; add neighbouring links of the union (also diagonal ones) while one of
      their words has no link;
    - ``grow-diag-final``: then add links of either direction if one of their words has no link;
      ``grow-diag-final-and``: only if neither has one.

    With ``needs="both"``, both words of a new link must have no link yet. Common programs use ``either``; publications on
    neural aligners often compare with baselines made with ``both``.
    """
    if how not in get_args(Symmetry):
        raise SaccadeError(f"symmetrise: expected one of {', '.join(get_args(Symmetry))}, found {how!r}")
    if needs not in ("either", "both"):
        raise SaccadeError(f"needs: expected either or both, found {needs!r}")
    ahead, behind = frozenset(forward), frozenset(backward)
    if how in ("intersection", "union"):
        return ahead & behind if how == "intersection" else ahead | behind
    grown = set(ahead & behind)
    while _add(_neighbours(grown, ahead | behind), grown, ahead | behind, needs):
        pass
    if how != "grow-diag":
        for direction in (ahead, behind):
            _add(sorted(direction), grown, direction, "both" if how == "grow-diag-final-and" else needs)
    return frozenset(grown)


def _neighbours(grown: AbstractSet[Link], union: AbstractSet[Link]) -> Iterator[Link]:
    """The neighbours of the grown links, in reading order, including links that are added meanwhile."""
    for source, target in sorted(union):
        if (source, target) in grown:
            yield from ((source + down, target + across) for down, across in NEIGHBOURS)


def _add(candidates: Iterable[Link], grown: set[Link], allowed: AbstractSet[Link], needs: str) -> bool:
    """Add the allowed candidates with one word (or both) without a link; return whether there were any."""
    sources, targets = {source for source, _ in grown}, {target for _, target in grown}
    before = len(grown)
    for link in candidates:
        missing = (link[0] not in sources, link[1] not in targets)
        if link in allowed and (any(missing) if needs == "either" else all(missing)):
            grown.add(link)
            sources.add(link[0])
            targets.add(link[1])
    return len(grown) > before
