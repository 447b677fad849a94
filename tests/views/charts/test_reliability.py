"""The reliability diagram: bars where there are records, the same bytes for the same numbers."""

from __future__ import annotations

import pytest

from saccade.errors import SaccadeError
from saccade.views.charts.reliability import Diagram, draw, save

NAN = float("nan")
BEFORE = Diagram("before", [0, 4, 900], [NAN, 0.5, 0.9], [NAN, 0.25, 0.95], 0.05)


def test_bars_reach_up_to_accuracy_and_confidence(tmp_path) -> None:
    above, below = draw([BEFORE]).axes
    bars = [
        (round(bar.get_x(), 3), round(bar.get_y() + bar.get_height(), 3)) for bar in above.patches if bar.get_height()
    ]
    assert bars == [(0.333, 0.25), (0.333, 0.5), (0.667, 0.9), (0.667, 0.95)]
    assert [bar.get_height() for bar in below.patches] == [0, 4, 900]
    faint, full = (bar.get_alpha() for bar in (above.patches[0], above.patches[-1]))
    assert faint < full


def test_two_diagrams_stand_side_by_side_and_give_the_same_bytes(tmp_path) -> None:
    after = Diagram("after: T = 2", [0, 4, 900], [NAN, 0.4, 0.94], [NAN, 0.25, 0.95], 0.01)
    for name in ("one.png", "two.png", "one.svg", "two.svg"):
        save([BEFORE, after], tmp_path / name, title="<b> $x$ 年")
    for kind in ("png", "svg"):
        assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()
    assert b"ECE 0.0500" in (tmp_path / "one.svg").read_bytes()


def test_what_cannot_be_drawn_is_refused(tmp_path) -> None:
    with pytest.raises(SaccadeError, match=r"expected at least one diagram.*found none"):
        draw([])
    with pytest.raises(SaccadeError, match="before: expected a count, a confidence and an accuracy"):
        Diagram("before", [1, 2], [0.5], [0.5, 0.5], 0.1)
    with pytest.raises(SaccadeError, match=r"expected a picture ending in \.png"):
        save([BEFORE], tmp_path / "x.gif")
