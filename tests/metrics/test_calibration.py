"""Metrics of probabilities: hand-worked numbers, and what makes each of them perfect or worst."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import SaccadeError
from saccade.metrics.calibration import BINS, brier, ece, nll, probability_scores, reliability

# Three labels, five records; said: 0 0 1 2 1, true: 0 1 1 2 0.
SHARES = np.array([[0.9, 0.05, 0.05], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.0, 0.0, 1.0], [0.3, 0.4, 0.3]])
TRUE = np.array([0, 1, 1, 2, 0])


def test_the_calibration_error_of_a_hand_worked_case() -> None:
    # Bins of 1/15: 0.9 → 14th (0.867, 0.933], 0.6 → 9th, 0.7 → 11th, 1 → 15th, 0.4 → 6th: one record each.
    assert ece(SHARES, TRUE) == pytest.approx((0.1 + 0.6 + 0.3 + 0.0 + 0.4) / 5)
    # In one bin only the means count: accuracy 3/5, confidence 3.6/5.
    assert ece(SHARES, TRUE, bins=1) == pytest.approx(abs(3 / 5 - 3.6 / 5))


def test_a_bin_holds_its_upper_edge_and_the_last_one_certainty() -> None:
    found = reliability(np.array([[0.5, 0.5], [1.0, 0.0], [0.75, 0.25]]), np.array([0, 0, 1]), bins=4)
    assert found.counts.tolist() == [0, 1, 1, 1]
    assert found.accuracy[1:].tolist() == [1.0, 0.0, 1.0]
    assert np.isnan(found.accuracy[0]) and np.isnan(found.confidence[0])


def test_brier_and_log_likelihood_of_a_hand_worked_case() -> None:
    squares = [0.1**2 + 2 * 0.05**2, 0.6**2 + 0.7**2 + 0.1**2, 0.2**2 + 0.3**2 + 0.1**2, 0.0, 0.7**2 + 0.4**2 + 0.3**2]
    assert brier(SHARES, TRUE) == pytest.approx(sum(squares) / 5)
    assert nll(SHARES, TRUE) == pytest.approx(-np.log([0.9, 0.3, 0.7, 1.0, 0.3]).mean())


def test_certainty_is_the_best_where_it_is_right_and_the_worst_where_it_is_wrong() -> None:
    sure = np.eye(3)[[0, 1, 2]]
    assert (ece(sure, np.arange(3)), brier(sure, np.arange(3)), nll(sure, np.arange(3))) == (0, 0, 0)
    wrong = np.array([1, 2, 0])
    assert (ece(sure, wrong), brier(sure, wrong)) == (1, 2) and np.isfinite(nll(sure, wrong))


def test_chance_that_says_so_is_calibrated() -> None:
    even, true = np.full((300, 3), 1 / 3), np.arange(300) % 3
    assert ece(even, true) == pytest.approx(0.0)


def test_scores_carry_how_they_were_computed() -> None:
    found = probability_scores(["nll", "ece"], SHARES, TRUE)
    assert list(found) == ["nll", "ece"] and f"bins:{BINS}" in str(found["ece"].signature) and BINS == 15
    assert not any(score.higher_is_better for score in found.values())


def test_what_cannot_be_scored_is_refused() -> None:
    with pytest.raises(SaccadeError, match="unknown metric 'f1': those of probabilities are ece, brier, nll"):
        probability_scores(["f1"], SHARES, TRUE)
    with pytest.raises(SaccadeError, match="got 5 rows for 3 labels"):
        ece(SHARES, TRUE[:3])
    with pytest.raises(SaccadeError, match="got 0 rows for 0 labels"):
        nll(SHARES[:0], TRUE[:0])
