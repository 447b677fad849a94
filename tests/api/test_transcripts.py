"""What was written of a sound, and when the attention heard it."""

import pytest
import torch

from saccade.api.transcripts import pieces_of
from saccade.errors import SaccadeError
from saccade.task import Prediction
from saccade.trace.axes import Frames, Positions, Tokens
from saccade.trace.maps import AttentionMap, Trace


def heard(labels: tuple[str, ...], text: str, rows: list[list[float]], heads: int = 1, special: tuple[int, ...] = ()):
    """A prediction whose tokens looked at frames of half a second."""
    weights = torch.tensor(rows)
    axes = {"target": Tokens(labels, text=text, special=special), "sound": Frames.of(weights.shape[1], 0.5)}
    maps = [
        AttentionMap("decoder.attention", "target", "sound", "dense", {"weights": part}, head=head, keys=part.shape[1])
        for head, part in enumerate([weights, weights.flip(1)][:heads])
    ]
    own = AttentionMap("encoder.self", "sound", "sound", "dense", {"weights": torch.eye(weights.shape[1])}, keys=7)
    return Prediction(text, 0.0, 0.0, "eos", (), Trace(axes, (own, *maps)))


ROWS = [
    [0.9, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0],
    [0.0, 0.04, 0.5, 0.41, 0.05, 0.0, 0.0],
    [0.1, 0.0, 0.0, 0.0, 0.0, 0.2, 0.7],
]


def test_a_token_was_heard_in_the_frames_around_its_largest_weight() -> None:
    a, b, c = pieces_of(heard(("a", "b", "c"), "abc", ROWS))
    assert (a.start, a.end) == (0.0, 1.0) and a.at == pytest.approx((0.5 * 0.9 + 1.5 * 0.1) * 0.5)
    assert (b.start, b.end) == (1.0, 2.5), "a frame with less than a tenth of the largest weight is left out"
    assert b.at == pytest.approx(0.5 * (2.5 * 0.5 + 3.5 * 0.41 + 4.5 * 0.05) / 0.96)
    assert (c.start, c.end) == (2.5, 3.5), "a look elsewhere is not part of the stretch"


def test_seconds_are_those_of_the_recording_and_end_with_the_window() -> None:
    a, _, c = pieces_of(heard(("a", "b", "c"), "abc", ROWS), start=10.0, end=13.2)
    assert (a.start, a.end) == (10.0, 11.0)
    assert (c.start, c.end) == (12.5, 13.2), "the last frame may be longer than the recording"


@pytest.mark.parametrize(
    ("labels", "text", "pieces"),
    [
        (("a", " ", "b"), "a b", ["a", " ", "b"]),
        (("the", "moon", "rose"), "the moon rose", ["the", " moon", " rose"]),
        (("th", "e", "moon"), "the moon", ["th", "e", " moon"]),
        (("<unk>", "x", "b"), "ab", ["<unk>", "x", "b"]),
        ((" ", "a", " "), "a", [" ", "a", " "]),
    ],
)
def test_pieces_have_the_spaces_of_their_text(labels: tuple[str, ...], text: str, pieces: list[str]) -> None:
    assert [piece.text for piece in pieces_of(heard(labels, text, ROWS))] == pieces


def test_marks_are_no_pieces_and_heads_are_averaged() -> None:
    one, two = pieces_of(heard(("a", "b", "<eos>"), "ab", ROWS, heads=2, special=(2,)))
    assert (one.text, two.text) == ("a", "b")
    assert one.start in (0.0, 2.5) and (two.start, two.end) == (1.0, 2.5)


def test_broken_weights_hear_nothing_and_raise_nothing() -> None:
    rows = [[float("nan")] * 7, [0.0] * 7, ROWS[0]]
    assert [(piece.start, piece.end) for piece in pieces_of(heard(("a", "b", "c"), "abc", rows))] == [
        (0.0, 0.0), (0.0, 0.0), (0.0, 1.0)
    ]  # fmt: skip


def test_what_looked_at_no_sound_is_refused() -> None:
    trace = heard(("a", "b", "c"), "abc", ROWS).trace
    blind = Trace({**trace.axes, "sound": Positions.of(7)}, trace.maps)
    with pytest.raises(SaccadeError, match="attention from tokens to frames"):
        pieces_of(Prediction("abc", 0.0, 0.0, "eos", (), blind))
    with pytest.raises(SaccadeError, match="with its trace"):
        pieces_of(Prediction("abc", 0.0, 0.0, "eos", (), None))
