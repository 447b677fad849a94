"""Location-aware scores on numbers that can be followed."""

from __future__ import annotations

import pytest
import torch

from saccade.errors import SaccadeError
from saccade.kernels.additive.reference import additive_scores
from saccade.kernels.location import reference


def test_a_filter_spreads_one_weight_over_its_neighbours() -> None:
    previous = torch.tensor([[0.0, 1.0, 0.0, 0.0, 0.0]])
    features = reference.convolved(previous, torch.tensor([[0.25, 0.5, 0.25]]))
    assert features[0, :, 0].tolist() == [0.25, 0.5, 0.25, 0.0, 0.0]


def test_taps_read_forwards_from_the_left_neighbour_to_the_right() -> None:
    previous = torch.tensor([[0.1, 0.2, 0.3, 0.4]])
    left, right = torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[0.0, 0.0, 1.0]])
    torch.testing.assert_close(reference.convolved(previous, left)[0, :, 0], torch.tensor([0.0, 0.1, 0.2, 0.3]))
    torch.testing.assert_close(reference.convolved(previous, right)[0, :, 0], torch.tensor([0.2, 0.3, 0.4, 0.0]))


def test_it_is_the_formula_key_by_key() -> None:
    T, S, D, C, r = 3, 5, 7, 2, 1
    query, key, v = torch.randn(2, T, D), torch.randn(2, S, D), torch.randn(D)
    previous, filters, mix = torch.rand(2, T, S), torch.randn(C, 2 * r + 1), torch.randn(D, C)
    scores = reference.location_aware_scores(query, key, v, previous, filters, mix)
    for b, t, s in ((0, 0, 0), (1, 2, 4), (1, 1, 2)):
        feature = torch.zeros(C)
        for j in range(2 * r + 1):
            if 0 <= s + j - r < S:
                feature += filters[:, j] * previous[b, t, s + j - r]
        expected = v @ torch.tanh(query[b, t] + key[b, s] + mix @ feature)
        torch.testing.assert_close(scores[b, t, s], expected)


def test_without_a_mix_of_features_it_is_the_additive_score() -> None:
    query, key, v = torch.randn(2, 3, 1, 5), torch.randn(2, 3, 7, 5), torch.randn(3, 5)
    scores = reference.location_aware_scores(
        query, key, v, torch.rand(2, 3, 1, 7), torch.randn(2, 3), torch.zeros(5, 2)
    )
    torch.testing.assert_close(scores, additive_scores(query, key, v))


def test_no_keys_give_no_scores() -> None:
    scores = reference.location_aware_scores(
        torch.randn(2, 1, 5),
        torch.randn(2, 0, 5),
        torch.randn(5),
        torch.rand(2, 1, 0),
        torch.randn(2, 3),
        torch.randn(5, 2),
    )
    assert scores.shape == (2, 1, 0)


@pytest.mark.parametrize(
    ("filters", "mix", "previous", "said"),
    [
        ((2, 4), (5, 2), (2, 1, 7), "odd number of taps"),
        ((2, 3), (2, 5), (2, 1, 7), r"\[D, C\] = \[5, 2\], found \[2, 5\]"),
        ((2, 3), (5, 2), (2, 1, 6), r"\[..., 1, 7\], found \[2, 1, 6\]"),
    ],
)
def test_shapes_that_do_not_fit_are_named(filters: tuple, mix: tuple, previous: tuple, said: str) -> None:
    with pytest.raises(SaccadeError, match=said):
        reference.location_aware_scores(
            torch.randn(2, 1, 5), torch.randn(2, 7, 5), torch.randn(5),
            torch.rand(previous), torch.randn(filters), torch.randn(mix),
        )  # fmt: skip
