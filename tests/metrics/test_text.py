"""Scores agree with numbers worked by hand."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from saccade.errors import SaccadeError
from saccade.metrics.text import (
    METRICS,
    Score,
    bits_per_character,
    bleu,
    cer,
    chrf,
    exact_match,
    perplexity,
    score,
    ter,
    wer,
    word_perplexity,
)

CAT, REFERENCE = "the cat sat on the mat", "the cat is on the mat"


def test_bleu_is_the_smoothed_geometric_mean_of_precisions() -> None:
    # 5 of 6 words, 3 of 5 pairs, 1 of 4 triples; 0 of 3 fours is smoothed to half of one
    by_hand = 100 * (5 / 6 * 3 / 5 * 1 / 4 * 0.5 / 3) ** 0.25
    assert bleu([CAT], [REFERENCE]).value == pytest.approx(by_hand)


def test_bleu_punishes_what_is_too_short() -> None:
    assert bleu(["the cat is on the"], [REFERENCE]).value == pytest.approx(100 * math.exp(1 - 6 / 5))


def test_bleu_counts_over_the_corpus_not_by_sentence() -> None:
    predictions, references = ["a b c d e", "a b c d x"], ["a b c d e", "a b c d e"]
    by_hand = 100 * (9 / 10 * 7 / 8 * 5 / 6 * 3 / 4) ** 0.25
    assert bleu(predictions, references).value == pytest.approx(by_hand)


def test_bleu_can_take_texts_as_already_cut() -> None:
    predictions, references = ["one two three four."], ["one two three four ."]
    assert bleu(predictions, references).value == pytest.approx(100)
    uncut = bleu(predictions, references, tokenize="none")
    # 3 of 4 words, 2 of 3 pairs, 1 of 2 triples, 0 of 1 fours (smoothed), and 4 words against 5
    assert uncut.value == pytest.approx(100 * math.exp(1 - 5 / 4) * (3 / 4 * 2 / 3 * 1 / 2 * 0.5) ** 0.25)
    assert uncut.signature is not None
    assert "tok:none" in uncut.signature
    assert score(["bleu"], predictions, references, bleu_tokenize="none")["bleu"] == uncut


def test_texts_that_are_meant_to_be_cut_are_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    texts = ["one two three four ."] * 101
    bleu(texts, texts, tokenize="none")
    assert caplog.messages == []


def test_chrf_is_the_mean_over_character_n_grams() -> None:
    # abc and abd: 2 of 3 single characters, 1 of 2 pairs, 0 of 1 triples; precision equals recall
    assert chrf(["abc"], ["abd"]).value == pytest.approx(100 * (2 / 3 + 1 / 2 + 0) / 3)


def test_ter_counts_a_replacement_and_a_shift_as_one_edit_each() -> None:
    assert ter([CAT], [REFERENCE]).value == pytest.approx(100 / 6)
    assert ter(["c a b"], ["a b c"]).value == pytest.approx(100 / 3)


def test_exact_match_is_a_fraction_and_forgives_nothing() -> None:
    assert exact_match(["a", "b ", "c"], ["a", "b", "c"]).value == pytest.approx(2 / 3)


def test_wer_counts_words_put_in_left_out_and_changed() -> None:
    assert wer(["AH B AY D", "S AH K D"], ["AH B IY D", "S AH K AA D"]).value == pytest.approx(2 / 9)
    assert wer(["a b c"], ["a"]).value == pytest.approx(2)
    with pytest.raises(SaccadeError, match="wer needs references with text"):
        wer(["a"], [" "])


def test_cer_divides_all_edits_by_all_reference_characters() -> None:
    # one edit in one character, none in seven: 1/8, where the mean of rates would be 1/2
    assert cer(["a", "abcdefg"], ["b", "abcdefg"]).value == pytest.approx(1 / 8)
    assert cer(["kitten"], ["sitting"]).value == pytest.approx(3 / 7)
    assert cer(["abcd", ""], ["a", "é"]).value == pytest.approx(4 / 2)


def test_perplexity_of_a_fair_guess_is_the_number_of_choices() -> None:
    assert perplexity(7 * math.log(5), 7).value == pytest.approx(5)
    assert perplexity(1e9, 3).value == math.inf


def test_each_metric_knows_its_name_and_its_direction() -> None:
    scores = score(list(METRICS), [CAT, "x"], [REFERENCE, "x"])
    assert list(scores) == ["bleu", "chrf", "ter", "exact_match", "cer", "wer"]
    assert all(scores[name].name == name for name in METRICS)
    assert {name for name in METRICS if not scores[name].higher_is_better} == {"ter", "cer", "wer"}
    assert not perplexity(1.0, 1).higher_is_better
    assert {name for name in METRICS if scores[name].signature} == {"bleu", "chrf", "ter"}


def test_a_score_prints_itself() -> None:
    assert str(Score("exact_match", 2 / 3, True)) == "exact_match 0.6667"
    assert str(Score("bleu", 35.8149, True, "tok:13a")) == "bleu 35.81 (tok:13a)"
    assert str(Score("perplexity", 123.456, False)) == "perplexity 123.46"


@pytest.mark.parametrize("metric", METRICS.values())
def test_unequal_counts_empty_lists_and_a_bare_text_are_refused(metric: object) -> None:
    with pytest.raises(SaccadeError, match="got 2 predictions and 1 references"):
        metric(["a", "b"], ["a"])  # type: ignore[operator]
    with pytest.raises(SaccadeError, match="at least one prediction"):
        metric([], [])  # type: ignore[operator]
    with pytest.raises(SaccadeError, match="predictions: expected a list of texts, found one text"):
        metric("ab", "ab")  # type: ignore[operator]


def test_unknown_names_are_reported_with_the_known_ones() -> None:
    with pytest.raises(
        SaccadeError, match="unknown metric 'rouge': expected one of bleu, chrf, ter, exact_match, cer, wer"
    ):
        score(["bleu", "rouge"], ["a"], ["a"])
    with pytest.raises(SaccadeError, match="expected a list of metrics, found one text: 'bleu'"):
        score("bleu", ["a"], ["a"])
    with pytest.raises(SaccadeError, match=r"bleu_tokenize: expected one of .*13a.*none.*, found 'words'"):
        score(["bleu"], ["a"], ["a"], bleu_tokenize="words")


def test_rates_without_anything_to_divide_by_are_refused() -> None:
    with pytest.raises(SaccadeError, match="cer needs references with text"):
        cer(["a"], [""])
    with pytest.raises(SaccadeError, match="perplexity needs at least one token: got 0"):
        perplexity(1.0, 0)


def test_the_scorers_are_imported_when_they_are_used() -> None:
    code = "import sys, saccade.metrics.text; print({'torch', 'sacrebleu', 'rapidfuzz'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"


def test_per_word_and_per_character_share_one_likelihood() -> None:
    # 12 bits over 3 words and 6 characters, each text's end counted
    nll = 12 * math.log(2)
    assert word_perplexity(nll, 3).value == pytest.approx(16)
    assert bits_per_character(nll, 6).value == pytest.approx(2)
    assert not word_perplexity(nll, 3).higher_is_better and word_perplexity(nll, 3).name == "word_perplexity"
    with pytest.raises(SaccadeError, match="at least one character"):
        bits_per_character(nll, 0)
