"""Twins: two things of one shape and one colour, apart, and the shape is the label."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest

from saccade.data.toy.shapes import COLOURS
from saccade.data.toy.twins import Twins, generate

MADE = generate(Twins(train=601, valid=7, test=23, size=37))


def test_both_things_have_one_colour_and_lie_apart() -> None:
    for pair in MADE["train"][:60]:
        picture = pair.draw().astype(int)
        coloured = {name for name, shade in COLOURS.items() if (np.abs(picture - shade).max(2) <= 2).any()}
        assert coloured == {pair.colour} and pair.label == pair.shape
        there = np.abs(picture - COLOURS[pair.colour]).max(2) <= 2
        free = [not there.any(axis).all() for axis in (0, 1)]
        inner = [np.flatnonzero(there.any(axis)) for axis in (0, 1)]
        gaps = [bool((np.diff(places) > 1).any()) for places in inner]
        assert any(free) and any(gaps), "a row or column of ground between them"


def test_shapes_and_colours_are_as_frequent_and_independent() -> None:
    counts = Counter((pair.shape, pair.colour) for pair in MADE["train"])
    assert set(counts) == set(product(("circle", "cross", "square"), COLOURS)) and max(counts.values()) < 60


def test_unless_above_is_false_about_half_of_the_pairs_lie_one_above_the_other() -> None:
    for above, share in ((True, 0.5), (False, 0.0)):
        pairs = generate(Twins(train=401, valid=3, test=5, size=37, above=above))["train"]
        downwards = [pair.second[1] - pair.first[1] == pytest.approx(0.5) for pair in pairs]
        assert np.mean(downwards) == pytest.approx(share, abs=0.1)


def test_with_a_smaller_spread_both_things_lie_near_the_same_places() -> None:
    def middles(spread: float) -> np.ndarray:
        pairs = generate(Twins(train=301, valid=3, test=5, size=37, spread=spread))["train"]
        return np.array([(*pair.first, *pair.second) for pair in pairs])

    still = middles(0.0)
    assert sorted({tuple(row) for row in still.round(9)}) == [(0.25, 0.5, 0.75, 0.5), (0.5, 0.25, 0.5, 0.75)]
    np.testing.assert_allclose(middles(0.5) - still, (middles(1.0) - still) / 2, atol=1e-12)
    assert abs(middles(1.0) - still).max() == pytest.approx(0.26, abs=0.01), "up to the edges"


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"test": 0}, "test"), ({"size": 7}, "size"), ({"shapes": 1}, "shapes"), ({"spread": 1.5}, "spread")],
)
def test_settings_without_pictures_are_refused(settings, message) -> None:
    with pytest.raises(ValueError, match=message):
        Twins(**settings)
