"""Trivial predictors: the most frequent label, tf-idf with logistic regression, the most frequent tag of each word."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from saccade.metrics import baselines
from saccade.metrics.baselines import linear, most_frequent, tags_by_word

TRAIN = [
    (["a", "fine", "day", "fine"], "good"),
    (["a", "dull", "day"], "bad"),
    (["a", "long", "day"], "so"),
    (["fine"], "good"),
    (["dull", "dull", "night"], "bad"),
]
TEXTS = [["a", "dull", "film"], ["fine", "fine"], ["unheard", "of"], []]


def test_the_most_frequent_label_does_not_depend_on_the_order_of_records() -> None:
    labels = ["b", "c", "b", "a", "a"]
    assert most_frequent(labels) == most_frequent(labels[::-1]) == "a"


def test_the_classifier_is_at_the_optimum_of_regularised_logistic_regression_on_tf_idf(monkeypatch) -> None:
    """The cost is strictly convex in W, so a gradient of 0 is its one minimum; computed here anew, with NumPy."""
    found = []
    fitted = baselines._fitted
    monkeypatch.setattr(baselines, "_fitted", lambda *given: found.append(fitted(*given)) or found[-1])
    assert linear([words for words, _ in TRAIN], [label for _, label in TRAIN], TEXTS)[:2] == ["bad", "good"]
    weight, bias = (tensor.double().numpy() for tensor in found[0])
    counts = {word: sum(word in words for words, _ in TRAIN) for words, _ in TRAIN for word in words}
    vocabulary = sorted(counts, key=lambda word: -counts[word])  # stable: as Counter.most_common
    rows = np.array([
        [words.count(word) * (math.log(6 / (1 + counts[word])) + 1) for word in vocabulary] for words, _ in TRAIN
    ])  # fmt: skip
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    truth = np.array([[label == name for name in ("bad", "good", "so")] for _, label in TRAIN])
    logits = rows @ weight + bias
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert np.abs(rows.T @ (shares - truth) + weight).max() < 2e-3
    assert np.abs((shares - truth).sum(0)).max() < 2e-3
    assert np.abs(weight).max() > 0.1


def test_a_text_without_known_words_gets_the_likeliest_label_of_none() -> None:
    assert linear([["x"], ["x"], ["y"]], ["one", "one", "two"], [["z"], []]) == ["one", "one"]


def test_texts_beyond_the_bound_are_spread_over_all_labels(monkeypatch) -> None:
    monkeypatch.setattr(baselines, "MOST_TEXTS", 7)
    train = [["left"]] * 11 + [["right"]] * 12  # sorted by label, as files often are
    assert linear(train, ["l"] * 11 + ["r"] * 12, [["left"], ["right"]]) == ["l", "r"]


def test_fitting_draws_no_random_number_and_needs_no_gradient_mode() -> None:
    torch.manual_seed(3)
    with torch.no_grad():
        linear([words for words, _ in TRAIN], [label for _, label in TRAIN], TEXTS)
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(1))


def test_a_word_gets_its_most_frequent_tag_and_an_unknown_one_the_most_frequent_of_all() -> None:
    train = [(["we", "fish"], ["PRON", "VERB"]), (["fish", "swim"], ["NOUN", "VERB"]), (["fish"], ["NOUN"])]
    train += [(["go"], ["VERB"])]
    assert tags_by_word(train, [["fish", "go"], ["salmon"]]) == [["NOUN", "VERB"], ["VERB"]]


@pytest.mark.parametrize("classes", [2, 5])
def test_words_are_bounded_so_that_many_labels_do_not_need_endless_memory(monkeypatch, classes) -> None:
    monkeypatch.setattr(baselines, "MOST_WEIGHTS", 3 * classes)
    sizes = []
    fitted = baselines._fitted
    monkeypatch.setattr(baselines, "_fitted", lambda *given: sizes.append(given[2:]) or fitted(*given))
    texts = [[f"w{n}", "the"] for n in range(11)]
    linear(texts, [str(n % classes) for n in range(11)], texts)
    assert sizes == [(3, classes)]
