"""Converts between spans of words and the tags that mark them: IOB1, BIO (also called IOB2) and BIOES. No torch.

    words     Alex   Honnold  climbed  El     Capitan  .
    iob1      I-PER  I-PER    O        I-LOC  I-LOC    O      B- only where a span follows another of its type at once
    bio       B-PER  I-PER    O        B-LOC  I-LOC    O      B- begins every span
    bioes     B-PER  E-PER    O        B-LOC  E-LOC    O      E- ends a span, S- is one of a single word

Every sequence can be read as spans, even one that no scheme allows, by the rule of conlleval (Tjong Kim Sang & Buchholz 2000):
a span begins at B- and S-, and at I- or E- where the tag before is O, ends a span itself, or is of another type; it ends before
O, before the next beginning, and after E- and S-. Spans → tags → spans gives the same spans in every scheme.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

Scheme = Literal["none", "iob1", "bio", "bioes"]
OUTSIDE = "O"
MARKS: dict[Scheme, str] = {"none": "", "iob1": "BI", "bio": "BI", "bioes": "BIES"}


class Span(NamedTuple):
    """Words ``start`` up to, and without, ``end``."""

    start: int
    end: int
    type: str


def parted(tag: str) -> tuple[str, str]:
    """A tag's mark and its type: "B-LOC" → ("B", "LOC"), "O" → ("O", "")."""
    mark, _, type = tag.partition("-")
    return mark, type


def is_tag(tag: str, scheme: Scheme) -> bool:
    """Whether a tag is written as the scheme writes them; without a scheme every name is one."""
    mark, type = parted(tag)
    return scheme == "none" or tag == OUTSIDE or (len(mark) == 1 and mark in MARKS[scheme] and bool(type))


def spans_of(tags: Sequence[str]) -> list[Span]:
    """The spans that tags of any of the schemes mark, in their order.

    >>> spans_of(["O", "I-LOC", "I-PER", "B-PER"])
    [Span(start=1, end=2, type='LOC'), Span(start=2, end=3, type='PER'), Span(start=3, end=4, type='PER')]
    """
    found: list[Span] = []
    start: int | None = None
    before = (OUTSIDE, "")
    for place, tag in enumerate([*tags, OUTSIDE]):
        mark, type = parted(tag)
        closed = before[0] in "OES" or type != before[1]
        begins = mark in "BS" or (mark in "IE" and closed)
        if start is not None and (mark == OUTSIDE or begins):
            found.append(Span(start, place, before[1]))
            start = None
        if begins:
            start = place
        before = (mark, type)
    return found


def tags_of(spans: Iterable[Span], length: int, scheme: Scheme) -> list[str]:
    """The tags of so many words with these spans.

    >>> tags_of([Span(1, 3, "LOC"), Span(3, 4, "LOC")], 5, "iob1")
    ['O', 'I-LOC', 'I-LOC', 'B-LOC', 'O']
    """
    tags = [OUTSIDE] * length
    before = Span(0, 0, "")
    for span in spans:
        touches = span.type == before.type and span.start == before.end
        marks = ["I"] * (span.end - span.start)
        if scheme != "iob1" or touches:
            marks[0] = "B"
        if scheme == "bioes":
            marks[-1] = "S" if len(marks) == 1 else "E"
        tags[span.start : span.end] = [f"{mark}-{span.type}" for mark in marks]
        before = span
    return tags


def converted(tags: Sequence[str], scheme: Scheme) -> list[str]:
    """The same spans in another scheme; in the same one, tags that it does not allow are repaired. ``none`` changes nothing."""
    return list(tags) if scheme == "none" else tags_of(spans_of(tags), len(tags), scheme)


def may_follow(before: str | None, tag: str | None, scheme: Scheme) -> bool:
    """Whether a scheme allows one tag right after another; None is the start of a text, or its end."""
    if scheme == "none":
        return True
    first, first_type = parted(before or OUTSIDE)
    mark, type = parted(tag or OUTSIDE)
    same = type == first_type
    if scheme == "bio":
        return mark != "I" or (first in "BI" and same)
    if scheme == "iob1":
        return mark != "B" or (first in "BI" and same)
    return mark in "IE" and same if first in "BI" else mark not in "IE"


def fault_in(tags: Sequence[str], scheme: Scheme) -> tuple[int, str] | None:
    """The first word whose tag the scheme does not allow, and what was expected there; None where all are allowed."""
    for place, tag in enumerate(tags):
        if not is_tag(tag, scheme):
            marks = ", ".join(f"{mark}-TYPE" for mark in MARKS[scheme])
            return place, f"O or {marks} (data.scheme: {scheme})"
    whole: list[str | None] = [None, *tags, None]
    for place, (before, after) in enumerate(pairwise(whole)):
        if not may_follow(before, after, scheme):
            follows = "at the beginning" if before is None else f"after {before}"
            return min(place, len(tags) - 1), f"a tag that {scheme} allows {follows}"
    return None


def tags_with(types: Iterable[str], scheme: Scheme) -> list[str]:
    """All tags of these types of span."""
    return [OUTSIDE, *(f"{mark}-{type}" for type in types for mark in MARKS[scheme])]


def types_in(tags: Iterable[str]) -> list[str]:
    """The types of span that these tags name, sorted."""
    return sorted({parted(tag)[1] for tag in tags if tag != OUTSIDE})
