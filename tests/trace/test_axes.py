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


class TestFrames:
    def test_a_sound_is_kept_in_16_bits_at_16_khz_or_less(self) -> None:
        frames = Frames.of(3, 0.01, samples=torch.tensor([0.5, 0.5, 0.5, -2.0, -2.0, -2.0, 0.1]), rate=48_000)
        assert frames.audio is not None and frames.audio.dtype is torch.int16
        assert (frames.audio.tolist(), frames.rate) == ([16384, -32767], 16_000)
        slow = Frames.of(3, 0.01, samples=torch.tensor([math.nan, 1.0]), rate=8000)
        assert slow.audio is not None and (slow.audio.tolist(), slow.rate) == ([0, 32767], 8000)
        assert Frames.of(3, 0.01, samples=torch.zeros(90), rate=44_100).rate == 14_700
        assert Frames.of(3, 0.01, samples=torch.zeros(90), rate=16_001).rate == 16_001  # no whole number divides it

    def test_features_become_bytes_with_as_many_columns_as_the_frames_cover(self) -> None:
        features = torch.arange(7.0)[:, None] + torch.tensor([0.0, 1, 2, 3, 4])
        pooled = Frames.of(4, 0.02, features=features, pooling=2).spectrogram
        assert pooled is not None and pooled.dtype is torch.uint8 and pooled.shape == (5, 8)
        assert pooled[:, :7].equal((features.T / 10 * 255).round().byte()) and not pooled[:, 7].any()
        cut = Frames.of(3, 0.02, features=features, pooling=2).spectrogram
        assert cut is not None and cut.shape == (5, 6)

    def test_silence_and_broken_numbers_make_a_picture_too(self) -> None:
        picture = Frames.of(3, 0.02, features=torch.full((3, 5), -math.inf)).spectrogram
        assert picture is not None and not picture.any()
        assert Frames.of(0, 0.02, features=torch.zeros(0, 5)).spectrogram is None

    def test_labels_are_seconds_of_the_recording(self) -> None:
        assert Frames.of(3, 0.04, start=1.5).labels == ("1.50 s", "1.54 s", "1.58 s")

    @pytest.mark.parametrize(
        "segment",
        [
            ("a", 0.5, 0.25),
            ("a", -0.5, 0.25),
            ("a", 0.5, math.nan),
            ("a", 0.5, math.inf),
            ("a", "0", 1),
            (1, 0, 1),
            ("a", 1),
            "a",
        ],
    )
    def test_a_segment_that_is_no_stretch_of_a_recording_is_refused(self, segment: object) -> None:
        with pytest.raises(SaccadeError, match=r"segments\[1\]: expected symbol, start and end"):
            Frames(["a"], segments=[("a", 0, 0.5), segment])  # type: ignore[arg-type]


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
