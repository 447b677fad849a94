"""Figures by length: every sentence in one bucket, and the parts weigh back to the whole."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import SaccadeError
from saccade.metrics.significance import EDGES, buckets, quantile_edges, score_by_length, statistics
from saccade.metrics.text import bleu

LENGTHS = np.random.default_rng(0).integers(1, 67, size=203).tolist()


@pytest.mark.parametrize("edges", [EDGES, (7,), (3, 5, 61), quantile_edges(LENGTHS)])
def test_every_sentence_is_in_the_one_bucket_of_its_length(edges: tuple[int, ...]) -> None:
    into = buckets(LENGTHS, edges)
    assert sorted(number for bucket in into for number in bucket.sentences) == list(range(len(LENGTHS)))
    for bucket in into:
        for number in bucket.sentences:
            assert bucket.least <= LENGTHS[number] <= (bucket.most or 1000)


def test_the_edges_are_those_of_the_famous_figure_and_belong_to_the_shorter_bucket() -> None:
    into = buckets([1, 10, 11, 50, 51, 400])
    assert [bucket.name for bucket in into] == ["1–10", "11–20", "21–30", "31–40", "41–50", "≥ 51"]
    assert [bucket.sentences for bucket in into] == [(0, 1), (2,), (), (), (3,), (4, 5)]


def test_quantiles_hold_about_as_many_sentences_each() -> None:
    counts = [len(bucket.sentences) for bucket in buckets(LENGTHS, quantile_edges(LENGTHS, 5))]
    assert len(counts) == 5
    assert max(counts) - min(counts) <= 12
    assert quantile_edges([4, 4, 4, 4]) == (4,)
    assert [len(bucket.sentences) for bucket in buckets([3, 3, 3, 9], quantile_edges([3, 3, 3, 9]))] == [3, 1]


def test_exact_match_by_length_weighs_back_to_the_whole() -> None:
    draw = np.random.default_rng(1)
    predictions = np.where(draw.random(len(LENGTHS)) < 0.6, "a", "b").tolist()
    whole = statistics("exact_match", predictions, ["a"] * len(LENGTHS))
    parts = score_by_length(whole, buckets(LENGTHS), samples=50)
    assert sum(part.count for part in parts) == len(LENGTHS)
    total = sum(part.count * part.value for part in parts if part.value is not None)
    assert total == pytest.approx(len(LENGTHS) * whole.value)
    for part in parts:
        assert part.low <= part.value <= part.high


def test_bleu_of_a_bucket_is_the_corpus_bleu_of_its_sentences() -> None:
    references = ["a b c d e", "f g h i", "a b c d e f g h i j k l"]
    predictions = ["a b c d x", "f g h i", "a b c d e f g h i j k x"]
    whole = statistics("bleu", predictions, references)
    short, long = score_by_length(whole, buckets([5, 4, 12], [10]), samples=20)
    assert short.value == pytest.approx(bleu(predictions[:2], references[:2]).value)
    assert long.value == pytest.approx(bleu(predictions[2:], references[2:]).value)
    assert (short.count, long.count) == (2, 1)


def test_undefined_figures_are_left_out() -> None:
    whole = statistics("bleu", ["a b", "a b c d e"], ["a b", "a b c d e"])
    short, between, long = score_by_length(whole, buckets([2, 5], [3, 4]), samples=20)
    # two words have no four in a row, and no sentence has four words
    assert (short.count, short.value, short.low) == (1, None, None)
    assert (between.count, between.value) == (0, None)
    assert long.value == pytest.approx(100)


@pytest.mark.parametrize("edges", [[], [0, 3], [5, 5], [7, 3]])
def test_edges_that_do_not_grow_are_refused(edges: list[int]) -> None:
    with pytest.raises(SaccadeError, match=r"edges: expected .*10, 20, 30, found "):
        buckets(LENGTHS, edges)


def test_quantiles_of_nothing_are_refused() -> None:
    with pytest.raises(SaccadeError, match="got 0 lengths, 5 parts"):
        quantile_edges([])
