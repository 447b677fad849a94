"""Spans become tags and tags spans again, in every scheme, and what a scheme forbids is found."""

from __future__ import annotations

import random

import pytest

from saccade.data.tags.schemes import Span, converted, fault_in, may_follow, spans_of, tags_of, tags_with, types_in

WRITTEN = {  # the example of the module, and two spans of one type that touch
    "iob1": ["I-PER", "I-PER", "O", "I-LOC", "B-LOC", "O"],
    "bio": ["B-PER", "I-PER", "O", "B-LOC", "B-LOC", "O"],
    "bioes": ["B-PER", "E-PER", "O", "S-LOC", "S-LOC", "O"],
}
SPANS = [Span(0, 2, "PER"), Span(3, 4, "LOC"), Span(4, 5, "LOC")]


def drawn(seed: int) -> tuple[list[Span], int]:
    draw, spans, at = random.Random(seed), [], 0
    for _ in range(draw.randrange(6)):
        start = at + draw.choice((0, 0, 1, 3))
        at = start + draw.randint(1, 3)
        spans.append(Span(start, at, draw.choice(("A", "B-C"))))
    return spans, at + draw.randrange(3)


@pytest.mark.parametrize("scheme", WRITTEN)
def test_the_same_spans_are_written_in_each_scheme(scheme) -> None:
    assert tags_of(SPANS, 6, scheme) == WRITTEN[scheme]
    assert spans_of(WRITTEN[scheme]) == SPANS and fault_in(WRITTEN[scheme], scheme) is None


@pytest.mark.parametrize("scheme", WRITTEN)
def test_spans_to_tags_to_spans_is_the_same_and_legal(scheme) -> None:
    for seed in range(200):
        spans, length = drawn(seed)
        tags = tags_of(spans, length, scheme)
        assert spans_of(tags) == spans and len(tags) == length and fault_in(tags, scheme) is None
        for other in WRITTEN:
            assert converted(converted(tags, other), scheme) == tags


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        (["O", "I-A", "I-A"], [(1, 3, "A")]),  # I- after O begins
        (["B-A", "I-B", "I-B"], [(0, 1, "A"), (1, 3, "B")]),  # I- of another type begins
        (["E-A", "E-A", "I-A"], [(0, 1, "A"), (1, 2, "A"), (2, 3, "A")]),  # after E- everything begins
        (["B-A", "I-A", "O", "I-A"], [(0, 2, "A"), (3, 4, "A")]),  # a span that E- never ends ends before O
        (["S-A", "I-A", "S-A"], [(0, 1, "A"), (1, 2, "A"), (2, 3, "A")]),
        ([], []),
    ],
)
def test_tags_that_no_scheme_allows_are_read_by_the_rule_of_conlleval(tags, spans) -> None:
    assert spans_of(tags) == spans


def test_the_first_tag_that_a_scheme_forbids_is_named() -> None:
    assert fault_in(["O", "I-A"], "bio") == (1, "a tag that bio allows after O")
    assert fault_in(["I-A"], "bio") == (0, "a tag that bio allows at the beginning")
    assert fault_in(["I-A", "I-A"], "iob1") is None and fault_in(["B-A"], "iob1") is not None
    assert fault_in(["I-A", "B-A", "B-B"], "iob1") == (2, "a tag that iob1 allows after B-A")
    assert fault_in(["B-A", "I-A"], "bioes") == (1, "a tag that bioes allows after I-A")  # it never ends
    assert fault_in(["S-A"], "bio")[1].startswith("O or B-TYPE, I-TYPE")
    assert fault_in(["NOUN"], "none") is None and fault_in(["B-"], "bio") is not None


@pytest.mark.parametrize("scheme", WRITTEN)
def test_moves_are_those_of_legal_sequences(scheme) -> None:
    names = [None, *tags_with(["A", "B"], scheme)]
    for before in names:
        for tag in names:
            texts = ([] if before is None else [before]) + ([] if tag is None else [tag])
            fault = fault_in(texts, scheme)
            if fault is None:  # legal as a whole: every move in it is
                assert may_follow(before, tag, scheme)
    assert not may_follow("B-A", "I-B", "bio") and not may_follow("B-A", None, "bioes")


def test_types_are_named_once_and_may_hold_hyphens() -> None:
    assert types_in(["B-creative-work", "O", "I-creative-work", "B-A"]) == ["A", "creative-work"]
