"""The Fréchet distance against the formula of two normal distributions, and what it does to sets that are alike."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import SaccadeError
from saccade.metrics.pictures import distance_statistics, frechet_distance
from saccade.metrics.significance import bootstrap, interval

DRAW = np.random.default_rng(5)


def drawn(count: int, width: int, shift: float = 0.0) -> np.ndarray:
    return DRAW.standard_normal((count, width)) @ DRAW.standard_normal((width, width)) + shift


def test_it_is_the_formula_with_the_root_of_the_product() -> None:
    ours, theirs = drawn(40, 7), drawn(53, 7, 0.3)
    one, other = (np.cov(features.T, bias=True) for features in (ours, theirs))
    roots = np.sqrt(np.linalg.eigvals(one @ other).real)  # those of (Σ₁ Σ₂)^½
    expected = ((ours.mean(0) - theirs.mean(0)) ** 2).sum() + np.trace(one + other) - 2 * roots.sum()
    assert frechet_distance(ours, theirs) == pytest.approx(expected, rel=1e-6)
    assert frechet_distance(theirs, ours) == pytest.approx(expected, rel=1e-6)


def test_a_set_is_at_no_distance_from_itself_and_moving_it_adds_the_square_of_the_move() -> None:
    ours = drawn(11, 5)
    assert frechet_distance(ours, ours[::-1]) == pytest.approx(0, abs=1e-6)
    assert frechet_distance(ours, ours + 3) == pytest.approx(5 * 9, abs=1e-6)


def test_fewer_records_than_features_still_have_a_distance() -> None:
    assert 0 < frechet_distance(drawn(3, 7), drawn(1, 7)) < np.inf


def test_a_resample_draws_pairs_of_both_sets() -> None:
    ours = np.arange(12.0)[:, None]
    statistics = distance_statistics("pixel_distance", ours + 5, ours, "")
    samples = bootstrap(statistics, samples=20)
    assert samples == pytest.approx(np.full(20, 25.0))  # each pair lies 5 apart, whichever are drawn
    span = interval(bootstrap(distance_statistics("x", drawn(60, 3), drawn(60, 3, 1), ""), samples=50))
    assert span.low < span.high


def test_sets_of_different_features_are_refused() -> None:
    with pytest.raises(SaccadeError, match=r"\[4, 3\] and \[4, 5\]"):
        frechet_distance(np.zeros((4, 3)), np.zeros((4, 5)))
