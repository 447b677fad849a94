"""Axes hold what a view needs, and equal each other by content."""

import math

import pytest
import torch

from saccade.errors import SaccadeError
from saccade.trace.axes import AXES, Axis, Frames, Grid, Positions, Reviews, Sentences, Tokens, Visits


def test_positions_are_numbered_from_zero() -> None:
    assert Positions.of(3).labels == ("0", "1", "2")
    assert len(Positions.of(0)) == 0


def test_lists_become_tuples_however_deep() -> None:
    axis = Tokens(["a", "b"], spans=[[0, 1], [1, 2]], words=[0, 0])
    assert axis.spans == ((0, 1), (1, 2))
    assert axis == Tokens(("a", "b"), spans=((0, 1), (1, 2)), words=(0, 0))


def test_an_axis_that_nests_needs_a_parent_position_for_each_label() -> None:
    assert Tokens(["a", "b", "c"], parent="sentences", within=[0, 0, 1]).within == (0, 0, 1)
    with pytest.raises(SaccadeError, match="got 2 for 3 labels"):
        Tokens(["a", "b", "c"], parent="sentences", within=[0, 1])


def test_a_grid_has_a_label_for_each_patch() -> None:
    assert len(Grid([str(patch) for patch in range(15)], height=3, width=5)) == 15
    with pytest.raises(SaccadeError, match="3 × 5"):
        Grid(["a", "b"], height=3, width=5)


def test_a_grid_lies_in_a_box_of_its_image() -> None:
    assert Grid(["a"], height=1, width=1).box == (0, 0, 1, 1)
    assert Grid(["a"], height=1, width=1, box=[0.25, 0, 0.75, 1]).box == (0.25, 0, 0.75, 1)  # type: ignore[arg-type]
    beside = (0.0, -0.5, 1.0, 1.5)  # the whole of a wide photo, with grey above and below
    assert Grid(["a"], height=1, width=1, box=beside).box == beside


@pytest.mark.parametrize(
    "box",
    [
        (0, 0, 1),
        (0.5, 0, 0.5, 1),
        (0, 1, 1, 0),
        (0, 0, math.nan, 1),
        (1.0, 0, 2, 1),
        (-2, 0, 0, 1),
        (0, 0, 1e9, 1),
        None,
    ],
)
def test_a_box_without_a_part_of_the_image_is_refused(box: object) -> None:
    with pytest.raises(SaccadeError, match="box: expected left < right"):
        Grid(["a"], height=1, width=1, box=box)  # type: ignore[arg-type]


def test_axes_are_equal_by_kind_and_content() -> None:
    assert Tokens(["a"]) != Sentences(["a"])
    assert Visits(["a"], times=("2009",)) != Visits(["a"], times=("2010",))
    image = torch.zeros(3, 5, 3, dtype=torch.uint8)
    assert Grid(["a"], height=1, width=1, image=image) == Grid(["a"], height=1, width=1, image=image.clone())
    assert Grid(["a"], height=1, width=1, image=image) != Grid(["a"], height=1, width=1, image=image + 1)
    assert Grid(["a"], height=1, width=1, image=image) != Grid(["a"], height=1, width=1)
    sound = torch.tensor([math.nan, 1.0])
    assert Frames(["a"], audio=sound) == Frames(["a"], audio=sound.clone())


def test_every_kind_is_listed_under_its_name() -> None:
    assert {kind.kind for kind in Axis.__subclasses__()} == set(AXES)
    assert AXES["reviews"] is Reviews
