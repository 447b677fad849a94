"""Span figures on an example worked out by hand, as conlleval counts them."""

from __future__ import annotations

import pytest

from saccade.data.tags.schemes import spans_of
from saccade.errors import SaccadeError
from saccade.metrics.labels import by_tag, by_type, mistaken, span_statistics, tag_accuracy
from saccade.metrics.significance import bootstrap

# True spans: PER 0-2, LOC 3-4 | LOC 0-1, ORG 1-3 | PER 2-4. Said: PER 0-2 right, LOC 3-5 too long | LOC right, PER for ORG |
# PER 3-4 too short, and a PER that is not there (I- after O begins one).
TRUE = [["B-PER", "I-PER", "O", "B-LOC", "O"], ["B-LOC", "B-ORG", "I-ORG"], ["O", "O", "B-PER", "I-PER"]]
SAID = [["B-PER", "I-PER", "O", "B-LOC", "I-LOC"], ["B-LOC", "B-PER", "I-PER"], ["I-PER", "O", "O", "I-PER"]]
SPANS = [[spans_of(tags) for tags in part] for part in (SAID, TRUE)]


def test_the_hand_worked_example() -> None:
    figures = {name: span_statistics(name, *SPANS).value for name in ("precision", "recall", "f1")}
    assert figures == {"precision": pytest.approx(2 / 6), "recall": pytest.approx(2 / 5), "f1": pytest.approx(4 / 11)}
    assert span_statistics("f1", *SPANS).signature == "spans, micro"
    assert tag_accuracy(SAID, TRUE).value == pytest.approx(7 / 12)


def test_types_and_tags_have_figures_of_their_own() -> None:
    types = by_type(*SPANS)
    assert list(types) == ["LOC", "PER", "ORG"]  # the commonest first, then by name
    assert types["LOC"] == {"precision": 0.5, "recall": 0.5, "f1": 0.5, "count": 2, "said": 2}
    assert types["PER"]["precision"] == pytest.approx(1 / 4) and types["ORG"]["f1"] == 0.0
    tags = by_tag(SAID, TRUE)
    assert tags["B-LOC"]["f1"] == 1.0 and tags["B-ORG"]["recall"] == 0.0 and tags["O"]["count"] == 4
    assert mistaken(SAID, TRUE, 2) == [("B-ORG", "B-PER", 1), ("B-PER", "O", 1)]


def test_without_predicted_or_true_spans_figures_are_0() -> None:
    for said, true in (([[]], [[(0, 1, "A")]]), ([[(0, 1, "A")]], [[]]), ([[]], [[]])):
        assert span_statistics("f1", said, true).value == 0.0


def test_rows_are_of_sentences_so_that_they_can_be_drawn_again() -> None:
    statistics = span_statistics("f1", *SPANS)
    assert statistics.rows.tolist() == [[1, 2, 2], [1, 2, 2], [0, 2, 1]]
    assert len(bootstrap(statistics, samples=7, seed=1)) == 7


def test_unequal_numbers_and_unknown_names_are_refused() -> None:
    with pytest.raises(SaccadeError, match="as many predictions as references"):
        span_statistics("f1", [[]], [[], []])
    with pytest.raises(SaccadeError, match="those of spans are f1, precision, recall"):
        span_statistics("accuracy", [[]], [[]])
