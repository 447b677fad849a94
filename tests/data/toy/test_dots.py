"""Two dots: the label follows from both alone, and one of them says nothing."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from saccade.data.toy.dots import COLOURS, DIFFERENT, SAME, Dots, generate

MADE = generate(Dots(train=2003, valid=7, test=23, size=19, apart=11))


def dots_in(picture: np.ndarray) -> list[tuple[int, int, int]]:
    """(row, column, colour) of each dot's middle, from the pixels."""
    found = []
    for number, colour in enumerate(COLOURS):
        there = (picture == np.array(colour)).all(2)
        rows, columns = np.nonzero(there)
        middles = [
            (row, column) for row, column in zip(rows, columns, strict=True)
            if there[row - 1 : row + 2, column - 1 : column + 2].sum() == 9
        ]  # fmt: skip
        found += [(row, column, number) for row, column in middles]
    return found


def test_the_label_follows_from_the_two_dots_that_are_seen() -> None:
    for pair in MADE["train"][:60]:
        one, other = dots_in(pair.draw())
        assert pair.label == (SAME if one[2] == other[2] else DIFFERENT)
        assert max(abs(one[0] - other[0]), abs(one[1] - other[1])) >= 11


def test_one_dot_alone_says_nothing() -> None:
    for of in (lambda pair: pair.first, lambda pair: pair.second):
        counts = Counter((of(pair).colour, pair.label) for pair in MADE["train"])
        assert len(counts) == 8 and all(200 < count < 300 for count in counts.values())  # 250.4 of each


def test_pictures_are_drawn_alike_each_time_and_differ_in_their_ground() -> None:
    one, other = MADE["train"][:2]
    assert one.draw().shape == (19, 19, 3) and np.array_equal(one.draw(), one.draw())
    assert not np.array_equal(one.draw()[..., 0] > 210, other.draw()[..., 0] > 210)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"train": 0}, "train"), ({"size": 7}, "size"), ({"apart": 22}, "apart"), ({"colours": 1}, "colours")],
)
def test_settings_without_pictures_are_refused(settings, message) -> None:
    with pytest.raises(ValueError, match=message):
        Dots(**settings)
