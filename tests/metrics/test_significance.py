"""Intervals cover what they should, equal systems do not differ, and better ones do."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import SaccadeError
from saccade.metrics.significance import Statistics, bootstrap, interval, paired_difference, statistics
from saccade.metrics.text import METRICS, score

WORDS = [f"w{number}" for number in range(37)]


def corpus(sentences: int, *noise: float, seed: int = 3) -> tuple[list[str], list[list[str]]]:
    """References, and for each share of noise what a system that replaces so many of the words would write."""
    draw = np.random.default_rng(seed)
    references = [draw.choice(WORDS, size=draw.integers(5, 23)).tolist() for _ in range(sentences)]
    systems = [
        [" ".join(word if draw.random() >= share else "x" for word in sentence) for sentence in references]
        for share in noise
    ]
    return [" ".join(sentence) for sentence in references], systems


@pytest.mark.parametrize("name", METRICS)
def test_the_figure_of_the_rows_is_the_metric_of_the_texts(name: str) -> None:
    references, (system,) = corpus(53, 0.3)
    whole = score([name], system, references)[name]
    rows = statistics(name, system, references)
    assert rows.value == pytest.approx(whole.value, abs=1e-12)
    assert (rows.signature, rows.higher_is_better) == (whole.signature, whole.higher_is_better)
    part = [3, 5, 7, 3]
    expected = score([name], [system[n] for n in part], [references[n] for n in part])[name].value
    assert rows.select(part).value == pytest.approx(expected, abs=1e-12)


def test_bleu_of_texts_already_cut_is_that_of_the_metric() -> None:
    predictions, references = ["one two three four."], ["one two three four ."]
    rows = statistics("bleu", predictions, references, bleu_tokenize="none")
    assert rows.value == score(["bleu"], predictions, references, bleu_tokenize="none")["bleu"].value


def test_bleu_is_defined_where_some_reference_has_four_words() -> None:
    short, long = statistics("bleu", ["a b c"], ["a b c"]), statistics("bleu", ["a"], ["a b c d"])
    assert not short.is_defined
    assert long.is_defined
    assert statistics("chrf", ["a"], ["a"]).is_defined


def hits(draw: np.random.Generator, share: float, sentences: int) -> Statistics:
    predictions = np.where(draw.random(sentences) < share, "a", "b").tolist()
    return statistics("exact_match", predictions, ["a"] * sentences)


def test_the_interval_covers_the_true_share_about_19_times_in_20() -> None:
    draw, true = np.random.default_rng(0), 0.3
    covered = 0
    for _ in range(100):
        found = interval(bootstrap(hits(draw, true, 151), samples=300))
        covered += found.low <= true <= found.high
    assert 88 <= covered <= 99


def test_the_interval_is_as_wide_as_the_standard_error_says() -> None:
    found = interval(bootstrap(hits(np.random.default_rng(1), 0.5, 401), samples=2000))
    assert found.high - found.low == pytest.approx(2 * 1.96 * (0.25 / 401) ** 0.5, rel=0.1)


def test_the_same_seed_draws_the_same_sentences_and_another_does_not() -> None:
    of = hits(np.random.default_rng(2), 0.5, 53)
    assert np.array_equal(bootstrap(of, seed=5), bootstrap(of, seed=5))
    assert not np.array_equal(bootstrap(of, seed=5), bootstrap(of, seed=6))


def test_many_sentences_are_drawn_in_blocks_that_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    of, other = hits(np.random.default_rng(2), 0.5, 53), hits(np.random.default_rng(3), 0.6, 53)
    whole, pair = bootstrap(of, samples=101), paired_difference(of, other, samples=101)
    monkeypatch.setattr("saccade.metrics.significance.BLOCK", 7 * 53)
    assert np.array_equal(bootstrap(of, samples=101), whole)
    assert paired_difference(of, other, samples=101) == pair


@pytest.mark.parametrize("name", METRICS)
def test_a_system_does_not_differ_from_itself(name: str) -> None:
    references, (system,) = corpus(31, 0.3)
    rows = statistics(name, system, references)
    pair = paired_difference(rows, rows, samples=200)
    assert (pair.difference, pair.low, pair.high) == (0.0, 0.0, 0.0)
    assert (pair.bootstrap_p, pair.randomisation_p, pair.better) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter", "cer"])
def test_a_clearly_better_system_is_found_and_on_which_side(name: str) -> None:
    references, (worse, better) = corpus(101, 0.4, 0.2)
    first, other = (statistics(name, system, references) for system in (worse, better))
    pair, turned = paired_difference(first, other, samples=300), paired_difference(other, first, samples=300)
    assert max(pair.bootstrap_p, pair.randomisation_p) < 0.05
    assert pair.difference == pytest.approx(other.value - first.value)
    assert (pair.difference > 0) == first.higher_is_better
    assert pair.low < pair.difference < pair.high
    assert (pair.better, turned.better) == (1.0, 0.0)


def test_systems_that_differ_by_chance_alone_are_seldom_called_different() -> None:
    draw, called = np.random.default_rng(4), {"bootstrap": 0, "randomisation": 0}
    for number in range(100):
        pair = paired_difference(hits(draw, 0.4, 97), hits(draw, 0.4, 97), samples=200, seed=number)
        called["bootstrap"] += pair.bootstrap_p < 0.05
        called["randomisation"] += pair.randomisation_p < 0.05
    assert max(called.values()) <= 12
    assert min(called.values()) >= 1


def test_the_p_values_are_those_of_sacrebleus_own_tests() -> None:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.significance import PairedTest

    references, (one, other) = corpus(71, 0.3, 0.33)
    first, second = (statistics("bleu", system, references) for system in (one, other))
    pair = paired_difference(first, second, samples=1000)
    for kind, ours in (("bs", pair.bootstrap_p), ("ar", pair.randomisation_p)):
        test = PairedTest(
            [("one", one), ("other", other)], {"BLEU": BLEU(references=[references])}, [references], kind, 1000
        )
        assert ours == pytest.approx(test()[1]["BLEU"][1].p_value, abs=0.06)


def test_what_was_not_measured_alike_is_not_compared() -> None:
    references, (system,) = corpus(7, 0.3)
    bleu = statistics("bleu", system, references)
    for other in (
        statistics("chrf", system, references),
        statistics("bleu", system[:5], references[:5]),
        statistics("bleu", system, references, bleu_tokenize="char"),
    ):
        with pytest.raises(SaccadeError, match=r"expected .*same sentences: got "):
            paired_difference(bleu, other)


def test_faults_are_told() -> None:
    with pytest.raises(SaccadeError, match="unknown metric 'blue'"):
        statistics("blue", ["a"], ["a"])
    with pytest.raises(SaccadeError, match="got 1 predictions and 2 references"):
        statistics("bleu", ["a"], ["a", "b"])
    with pytest.raises(SaccadeError, match="samples must be at least 1: got 0"):
        bootstrap(statistics("exact_match", ["a"], ["a"]), samples=0)
