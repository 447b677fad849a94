"""Rows of questions and candidates: padded, bucketed, and put into one row for networks that read both together."""

from __future__ import annotations

import torch

from saccade.data.rankings.batch import ABSENT, Batch, collate, joined

QUESTIONS = [
    [([4, 5], [6, 7, 8], [0.1]), ([4, 5], [9], [0.2])],
    [([5, 6, 7], [4, 4], [0.3])],
]


def batch() -> Batch:
    return collate(QUESTIONS, [[0.0, 1.0], [1.0]], [3, 8], padding=0, tokens=2, longest=5)


def test_rows_are_padded_and_each_question_knows_its_own() -> None:
    made = batch()
    assert made.question.tolist() == [[4, 5, 0], [4, 5, 0], [5, 6, 7]] and made.question_lengths.tolist() == [2, 2, 3]
    assert made.candidate.tolist() == [[6, 7, 8], [9, 0, 0], [4, 4, 0]] and made.candidate_lengths.tolist() == [3, 1, 2]
    assert made.places.tolist() == [[0, 1], [2, ABSENT]] and made.relevance.tolist() == [[0, 1], [1, 0]]
    assert made.features.shape == (3, 1) and made.indices == [3, 8] and made.to("cpu").tokens == 2


def test_a_bucket_keeps_what_there_is_and_is_not_wider_than_texts_may_be() -> None:
    made, wide = batch(), batch().bucketed()
    assert wide.question.shape == (32, 5) and wide.candidate.shape == (32, 5) and wide.places.shape == (8, 8)
    torch.testing.assert_close(wide.question[:3, :3], made.question)
    assert (wide.places[2:] == ABSENT).all() and (wide.places[:, 2:] == ABSENT).all()
    assert (wide.relevance.sum(), wide.tokens) == (made.relevance.sum(), made.tokens)
    assert (wide.candidate_lengths[3:] == 1).all()


def test_both_texts_in_one_row_have_their_marks_and_segments() -> None:
    for made in (batch(), batch().bucketed()):
        tokens, lengths, segments = joined(made, first=1, last=2)
        assert tokens[0, :8].tolist() == [1, 4, 5, 2, 6, 7, 8, 2] and lengths[:3].tolist() == [8, 6, 8]
        assert tokens[1, :6].tolist() == [1, 4, 5, 2, 9, 2] and not tokens[1, 6:].any()
        assert segments[0, :8].tolist() == [0, 0, 0, 0, 1, 1, 1, 1] and not segments[1, 6:].any()
        assert tokens[2, :8].tolist() == [1, 5, 6, 7, 2, 4, 4, 2]
