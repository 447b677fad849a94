"""AUC and average precision by hand, by definition, and with their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import SaccadeError
from saccade.metrics.outcomes import OUTCOME_METRICS, auc, average_precision, outcome_scores, outcome_statistics
from saccade.metrics.significance import Interval, bootstrap, interval, paired_difference

rng = np.random.default_rng(3)


def outcome_interval(
    name: str, probabilities: np.ndarray, truths: np.ndarray, patients: np.ndarray | None = None, seed: int = 0
) -> Interval:
    return interval(bootstrap(outcome_statistics(name, probabilities[:, None], truths[:, None], patients), seed=seed))


def pairs(probabilities: np.ndarray, truths: np.ndarray) -> float:
    """The definition: over all pairs of a positive and a negative record."""
    won = [
        1.0 if p > q else 0.5 if p == q else 0.0 for p in probabilities[truths == 1] for q in probabilities[truths == 0]
    ]
    return sum(won) / len(won)


def test_auc_by_hand() -> None:
    assert auc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1])) == 0.75
    assert auc(np.array([0.5, 0.5, 0.5]), np.array([0, 1, 1])) == 0.5
    assert auc(np.array([0.9, 0.1]), np.array([1, 0])) == 1.0
    assert auc(np.array([0.9, 0.1]), np.array([0, 1])) == 0.0


@pytest.mark.parametrize("digits", [1, 2, 9])
def test_auc_is_the_share_of_pairs_in_the_right_order_ties_counting_half(digits: int) -> None:
    probabilities, truths = rng.random(57).round(digits), (rng.random(57) < 0.3).astype(int)
    assert auc(probabilities, truths) == pytest.approx(pairs(probabilities, truths), abs=1e-12)
    assert auc(np.log(probabilities + 0.1), truths) == pytest.approx(auc(probabilities, truths))


def test_average_precision_by_hand() -> None:
    # Falling: hit (1/1), miss, hit (2/3): recall rises by 1/2 at each hit.
    assert average_precision(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1])) == pytest.approx((1 + 2 / 3) / 2)
    # Equal probabilities are one threshold: of three, two are right.
    assert average_precision(np.array([0.5, 0.5, 0.5]), np.array([0, 1, 1])) == pytest.approx(2 / 3)
    # .8: one of one; .4 twice: two of three; .1: nothing more.
    assert average_precision(np.array([0.4, 0.8, 0.4, 0.1]), np.array([1, 1, 0, 0])) == pytest.approx((1 + 2 / 3) / 2)


def test_scikit_learn_agrees() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    for digits in (1, 3):
        probabilities, truths = rng.random(203).round(digits), (rng.random(203) < 0.2).astype(int)
        assert auc(probabilities, truths) == pytest.approx(metrics.roc_auc_score(truths, probabilities))
        expected = metrics.average_precision_score(truths, probabilities)
        assert average_precision(probabilities, truths) == pytest.approx(expected)


def test_scores_of_several_outcomes_are_means_over_those_that_vary() -> None:
    probabilities = np.array([[0.9, 0.2, 0.3], [0.2, 0.6, 0.3], [0.4, 0.4, 0.1]])
    truths = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0]])
    found = outcome_scores(OUTCOME_METRICS, probabilities, truths)
    aucs = [auc(probabilities[:, column], truths[:, column]) for column in (0, 1)]
    assert found["auc"].value == pytest.approx(np.mean(aucs)) and found["auc"].higher_is_better
    said = np.where(truths == 1, probabilities, 1 - probabilities)
    assert found["nll"].value == pytest.approx(-np.log(said).mean()) and not found["nll"].higher_is_better
    assert found["brier"].value == pytest.approx(2 * ((probabilities - truths) ** 2).mean())


def test_records_of_one_kind_have_no_auc() -> None:
    found = outcome_scores(["auc", "auprc", "nll"], np.full((3, 1), 0.5), np.ones((3, 1), dtype=int))
    assert np.isnan(found["auc"].value) and np.isnan(found["auprc"].value) and np.isfinite(found["nll"].value)
    with pytest.raises(SaccadeError, match=r"auc.* 3 records"):
        outcome_interval("auc", np.full(3, 0.5), np.ones(3, dtype=int))
    with pytest.raises(SaccadeError, match="unknown metric 'bleu'"):
        outcome_scores(["bleu"], np.full((3, 1), 0.5), np.ones((3, 1), dtype=int))
    with pytest.raises(SaccadeError, match="2 for 3"):
        auc(np.zeros(2), np.zeros(3, dtype=int))


@pytest.mark.parametrize("name", ["auc", "auprc"])
def test_the_interval_is_that_of_resampled_records(name: str) -> None:
    truths = (rng.random(150) < 0.4).astype(int)
    probabilities = (truths * 0.6 + rng.random(150)).round(2)
    function = auc if name == "auc" else average_precision
    found = outcome_interval(name, probabilities, truths, seed=5)
    assert found == outcome_interval(name, probabilities, truths, seed=5)
    assert found != outcome_interval(name, probabilities, truths, seed=6)
    assert found.low < function(probabilities, truths) < found.high
    drawn = np.random.default_rng(7).integers(0, 150, size=(1000, 150))
    figures = [function(probabilities[row], truths[row]) for row in drawn]
    assert (found.low, found.high) == pytest.approx(np.quantile(figures, [0.025, 0.975]), abs=0.015)


def test_predictions_of_one_patient_are_drawn_together() -> None:
    truths = (rng.random(60) < 0.5).astype(int)
    probabilities = truths * 0.3 + rng.random(60)
    copies = outcome_interval(
        "auc", np.repeat(probabilities, 9), np.repeat(truths, 9), patients=np.repeat(np.arange(60), 9)
    )
    once = outcome_interval("auc", probabilities, truths)
    apart = outcome_interval("auc", np.repeat(probabilities, 9), np.repeat(truths, 9))
    assert (copies.low, copies.high) == pytest.approx((once.low, once.high))
    assert apart.high - apart.low < 0.5 * (once.high - once.low)


def test_the_paired_test_of_a_metric_of_the_whole_set_swaps_and_resamples_patients() -> None:
    truths = (rng.random((120, 2)) < 0.4).astype(int)
    patients = np.repeat(np.arange(40), 3)
    good, bad = truths * 0.8 + rng.random((120, 2)), rng.random((120, 2))
    first, other = (outcome_statistics("auc", each, truths, patients) for each in (bad, good))
    assert len(first) == 40 and first.value == pytest.approx(outcome_scores(["auc"], bad, truths)["auc"].value)
    found = paired_difference(first, other, samples=200)
    assert found.difference == pytest.approx(other.value - first.value) and found.low > 0 and found.better == 1.0
    assert found.bootstrap_p < 0.01 and found.randomisation_p < 0.01
    same = paired_difference(first, first, samples=50)
    assert (same.difference, same.bootstrap_p, same.randomisation_p) == (0.0, 1.0, 1.0)


def test_patients_are_drawn_in_whichever_order_their_predictions_stand() -> None:
    truths, probabilities = np.array([[1], [0], [1], [0], [1]]), rng.random((5, 1))
    patients, order = np.array([0, 0, 1, 2, 2]), [3, 1, 4, 0, 2]
    one = outcome_statistics("auc", probabilities, truths, patients)
    other = outcome_statistics("auc", probabilities[order], truths[order], patients[order])
    for numbers in ([0, 1], [2, 1, 1], [0, 2]):
        assert one.select(numbers).value == pytest.approx(other.select(numbers).value)
