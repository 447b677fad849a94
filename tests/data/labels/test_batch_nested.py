"""Documents of sentences: laid out, cut, padded, bucketed."""

from __future__ import annotations

import pytest
import torch

from saccade.data.labels.batch import IGNORED, collate_nested, fit_nested
from saccade.data.tokenizers.sentences import Nesting
from saccade.errors import InputError

PAD = 0
WIDE = Nesting(most=9, words=9)


def batch(*documents):
    return collate_nested(documents, range(len(documents)), range(len(documents)), padding=PAD)


def test_a_document_is_its_sentences_with_empty_ones_behind() -> None:
    made = batch([[7, 8, 9], [5]], [[6]])
    assert made.text.tolist() == [[[7, 8, 9], [5, PAD, PAD]], [[6, PAD, PAD], [PAD] * 3]]
    assert made.lengths.tolist() == [[3, 1], [1, 0]] and made.labels.tolist() == [0, 1] and made.tokens == 2
    tokens, lengths, segments = made.rows("sentences")
    assert tokens is made.text and lengths is made.lengths and segments is None


def test_a_bucketed_batch_holds_the_same_documents_and_others_without_a_label() -> None:
    made = batch([[7, 8, 9], [5]], [[6]], [[1] * 9])
    wide = made.bucketed()
    assert wide.text.shape == (8, 8, 16) and wide.tokens == 3
    assert torch.equal(wide.text[:3, :2, :9], made.text) and torch.equal(wide.lengths[:3, :2], made.lengths)
    assert not wide.lengths[:, 2:].any() and not wide.text[3:].any()
    assert wide.lengths[3:, 0].tolist() == [1] * 5  # a document without words would have no mean
    assert wide.labels.tolist() == [0, 1, 2] + [IGNORED] * 5
    assert made.lengths.tolist() == [[3, 1], [1, 0], [9, 0]]  # the batch itself is as it was


def test_a_sentence_that_is_too_long_becomes_several_and_nothing_is_lost() -> None:
    document = [list(range(10, 17)), [1], list(range(20, 26))]
    kept, cut = fit_nested(document, 99, Nesting(most=9, words=3), "error", "first", "here")
    assert kept == [[10, 11, 12], [13, 14], [15, 16], [1], [20, 21, 22], [23, 24, 25]] and not cut


@pytest.mark.parametrize(("keep", "expected"), [("first", [[1, 2], [3, 4]]), ("last", [[4, 5], [6, 7]])])
def test_of_too_many_tokens_the_first_or_the_last_are_kept_in_their_sentences(keep, expected) -> None:
    assert fit_nested([[1, 2], [3, 4, 5], [6, 7]], 4, WIDE, "truncate", keep, "here") == (expected, True)


@pytest.mark.parametrize(("keep", "expected"), [("first", [[1, 2], [3]]), ("last", [[3], [4, 5]])])
def test_of_too_many_sentences_the_first_or_the_last_are_kept(keep, expected) -> None:
    assert fit_nested([[1, 2], [3], [4, 5]], 9, Nesting(most=2), "truncate", keep, "here") == (expected, True)


def test_what_does_not_fit_is_refused_with_what_to_do() -> None:
    with pytest.raises(InputError, match=r"here: expected at most 2 tokens, found 3.*data\.max_length: 3"):
        fit_nested([[1], [2, 3]], 2, WIDE, "error", "first", "here")
    with pytest.raises(InputError, match=r"here: expected at most 1 sentences, found 2.*data\.sentences\.most: 2"):
        fit_nested([[1], [2, 3]], 9, Nesting(most=1), "error", "first", "here")
    assert fit_nested([[1], [2, 3]], 3, Nesting(most=2, words=2), "error", "first", "") == ([[1], [2, 3]], False)
