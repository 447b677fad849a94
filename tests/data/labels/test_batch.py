"""Rows of tokens with their marks: laid out, cut, padded."""

from __future__ import annotations

import pytest
import torch

from saccade.data.labels.batch import IGNORED, collate, fit, marks_of
from saccade.errors import InputError

CLS, SEP, PAD = 101, 102, 0


def batch(*texts):
    return collate(texts, range(len(texts)), range(len(texts)), first=CLS, last=SEP, padding=PAD)


def test_a_single_text_stands_between_its_marks() -> None:
    made = batch(([7, 8, 9], None), ([5], None))
    assert made.text.tolist() == [[CLS, 7, 8, 9, SEP], [CLS, 5, SEP, PAD, PAD]]
    assert made.lengths.tolist() == [5, 3] and made.segments is None and made.tokens == 2


def test_a_pair_has_a_mark_after_each_text_and_the_second_has_its_own_segment() -> None:
    made = batch(([7, 8], [3]), ([5], [4, 6, 9]))
    assert made.text.tolist() == [[CLS, 7, 8, SEP, 3, SEP, PAD], [CLS, 5, SEP, 4, 6, 9, SEP]]
    assert made.segments.tolist() == [[0, 0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1, 1]]


def test_a_plain_row_is_the_text_alone_or_both_with_one_mark_between() -> None:
    tokens, lengths, segments = batch(([7, 8, 9], None), ([5], None)).rows("plain")
    assert [row[:n].tolist() for row, n in zip(tokens, lengths)] == [[7, 8, 9], [5]] and segments is None
    tokens, lengths, segments = batch(([7, 8], [3]), ([5], [4, 6, 9])).rows("plain")
    assert [row[:n].tolist() for row, n in zip(tokens, lengths)] == [[7, 8, SEP, 3], [5, SEP, 4, 6, 9]]
    assert [row[:n].tolist() for row, n in zip(segments, lengths)] == [[0, 0, 0, 1], [0, 0, 1, 1, 1]]
    assert (marks_of("plain", False), marks_of("plain", True), marks_of("marked", False), marks_of("marked", True)) == (
        0,
        1,
        2,
        3,
    )


def test_a_bucketed_batch_holds_the_same_rows_and_others_without_a_label() -> None:
    made = batch(([7, 8], [3]), ([5], [4, 6, 9]))
    wide = made.bucketed()
    assert wide.text.shape == (8, 8) and wide.tokens == 2
    assert torch.equal(wide.text[:2, :7], made.text) and not wide.text[2:].any()
    assert wide.labels.tolist() == [0, 1] + [IGNORED] * 6
    _, lengths, _ = wide.rows("plain")
    assert lengths.min() >= 1  # a row without words would have no mean


@pytest.mark.parametrize(
    ("sizes", "limit", "kept"),
    [((9, 2), 8, (6, 2)), ((2, 9), 8, (2, 6)), ((9, 9), 7, (4, 3)), ((4, 9), 7, (3, 4)), ((5, 4), 8, (4, 4))],
)
def test_of_two_texts_the_longer_is_cut_first(sizes, limit, kept) -> None:
    ids = tuple(list(range(size)) for size in sizes)
    (first, second), cut = fit(ids, limit, "truncate", "first", "here")
    assert (len(first), len(second)) == kept and cut
    assert first == ids[0][: kept[0]]
    (first, second), _ = fit(ids, limit, "truncate", "last", "here")
    assert second == ids[1][sizes[1] - kept[1] :]


def test_what_fits_is_left_alone_and_what_does_not_is_refused_with_what_to_do() -> None:
    assert fit(([1, 2], None), 2, "error", "first", "here") == (([1, 2], None), False)
    with pytest.raises(InputError, match=r"here: expected at most 3 tokens, found 5.*too_long: truncate"):
        fit(([1, 2], [3, 4, 5]), 3, "error", "first", "here")
