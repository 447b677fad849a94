"""Accuracy and macro F₁ on an example worked out by hand, and their bootstrap rows."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import SaccadeError
from saccade.metrics.labels import NO_SPAN, Confusion, by_tag, label_scores, label_statistics, span_pairs
from saccade.metrics.significance import bootstrap, paired_difference

# Three labels, seven records. a: tp 2, fp 1, fn 1 → 4/6;  b: tp 1, fp 1, fn 1 → 2/4;  c: tp 1, fp 1, fn 1 → 2/4
TRUE = ["a", "a", "a", "b", "b", "c", "c"]
SAID = ["a", "a", "b", "b", "c", "c", "a"]


def test_the_hand_worked_example() -> None:
    scores = label_scores(["accuracy", "f1"], SAID, TRUE)
    assert scores["accuracy"].value == pytest.approx(4 / 7)
    assert scores["f1"].value == pytest.approx((4 / 6 + 2 / 4 + 2 / 4) / 3)
    assert scores["f1"].signature == "macro" and scores["f1"].higher_is_better


def test_a_label_that_is_never_right_counts_0_and_one_that_never_occurs_not_at_all() -> None:
    assert label_scores(["f1"], ["a", "a"], ["a", "b"])["f1"].value == pytest.approx((2 / 3 + 0) / 2)
    assert label_scores(["f1"], ["a", "a"], ["a", "a"])["f1"].value == 1.0


def test_a_rare_label_weighs_as_much_as_a_common_one_in_f1_but_not_in_accuracy() -> None:
    true, said = ["x"] * 98 + ["y"] * 2, ["x"] * 100
    scores = label_scores(["accuracy", "f1"], said, true)
    assert scores["accuracy"].value == 0.98
    assert scores["f1"].value == pytest.approx(196 / 198 / 2)


def test_rows_of_some_records_give_the_figure_of_those() -> None:
    for name in ("accuracy", "f1"):
        some = label_statistics(name, SAID, TRUE).select([0, 3, 5])
        assert some.value == 1.0
        assert (bootstrap(label_statistics(name, SAID, TRUE), samples=50) >= 0).all()


def test_a_system_never_differs_from_itself() -> None:
    same = label_statistics("f1", SAID, TRUE)
    assert paired_difference(same, same, samples=50).bootstrap_p == 1.0


def test_systems_that_predict_different_labels_are_compared_label_by_label() -> None:
    true, one, other = ["a", "b", "a", "b"], ["a", "b", "c", "b"], ["a", "b", "a", "d"]
    first, second = (label_statistics("f1", said, true) for said in (one, other))
    assert first.rows.shape == second.rows.shape  # as many labels, but not the same
    # What a test that swaps the third and the fourth prediction must compute: the figure of those predictions.
    labels = ("a", "b", "c", "d")
    swapped = np.concatenate([first.over(labels).rows[:2], second.over(labels).rows[2:]])
    mixed = label_statistics("f1", [*one[:2], *other[2:]], true)
    assert first.figure(swapped.sum(0)) == pytest.approx(mixed.value)
    found = paired_difference(label_statistics("f1", SAID, TRUE), label_statistics("f1", ["a"] * 7, TRUE), samples=50)
    assert found.difference == pytest.approx((6 / 10) / 3 - (4 / 6 + 2 / 4 + 2 / 4) / 3)
    found = paired_difference(first, label_statistics("f1", true, true), samples=50)  # it once refused other labels
    assert found.difference == pytest.approx(1 - first.value) and found.better > 0.5


def test_unknown_metrics_and_missing_predictions_are_reported() -> None:
    with pytest.raises(SaccadeError, match="unknown metric 'bleu': those of labels are accuracy, f1"):
        label_statistics("bleu", SAID, TRUE)
    with pytest.raises(SaccadeError, match="got 1 predictions and 2 references"):
        label_scores(["f1"], ["a"], ["a", "b"])


def test_a_confusion_counts_every_true_label_against_every_prediction() -> None:
    matrix = Confusion.of(zip(TRUE, SAID, strict=True), ["c", "unseen", "b", "a"], "records")
    assert matrix.labels == ("c", "b", "a")
    assert matrix.counts == ((1, 0, 1), (1, 1, 0), (0, 1, 2))
    rows, columns = [sum(row) for row in matrix.counts], [sum(column) for column in zip(*matrix.counts, strict=True)]
    figures = by_tag([SAID], [TRUE])
    for number, label in enumerate(matrix.labels):
        right = matrix.counts[number][number]
        assert figures[label]["recall"] == right / rows[number]
        assert figures[label]["precision"] == right / columns[number]


def test_spans_are_confused_where_they_have_the_same_words_and_are_else_missed_or_made_up() -> None:
    true = [[(0, 2, "ORG"), (3, 4, "PER"), (5, 6, "PER")], [(1, 3, "LOC")]]
    said = [[(0, 2, "PER"), (3, 5, "PER"), (5, 6, "PER")], []]
    matrix = Confusion.of(span_pairs(said, true), ["LOC", "ORG", "PER"], "spans")
    assert matrix.labels == ("LOC", "ORG", "PER", NO_SPAN)
    assert matrix.counts == ((0, 0, 0, 1), (0, 0, 1, 0), (0, 0, 1, 1), (0, 0, 1, 0))
