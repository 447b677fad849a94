"""The window around the median of the last weights."""

from __future__ import annotations

import pytest
import torch

from saccade.attention.core import weigh
from saccade.attention.recent import around, median
from saccade.attention.scores import dot
from saccade.attention.windows import Window, padding
from saccade.errors import SaccadeError


def seen(weights: torch.Tensor, radius: int, window: Window | None = None) -> list[list[int]]:
    *batch, T, S = weights.shape
    window = around(weights, radius) if window is None else window
    found = weigh(torch.ones(*batch, T, 2), torch.ones(*batch, S, 2), score=dot, window=window)
    return [row.nonzero().flatten().tolist() for row in found.reshape(-1, S)]


@pytest.mark.parametrize(
    ("weights", "place"),
    [
        ([1.0, 0.0, 0.0], 0),
        ([0.0, 0.0, 1.0], 2),
        ([0.4, 0.2, 0.4], 1),
        ([0.5, 0.25, 0.25], 0),  # half is reached at once
        ([0.49, 0.02, 0.49], 1),
        ([0.0, 0.0, 0.0], 0),
        ([8.0, 0.0, 9.0], 2),  # weights after a gain need not sum to 1
    ],
)
def test_the_median_is_the_first_key_by_which_half_is_reached(weights: list[float], place: int) -> None:
    assert median(torch.tensor(weights)).item() == place


def test_a_query_sees_the_keys_within_the_radius_of_the_last_median() -> None:
    weights = torch.tensor([[[0.0, 0.1, 0.7, 0.2, 0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0, 0.0, 0.0, 0.1, 0.9]]])
    assert seen(weights, 1) == [[1, 2, 3], [5, 6]]
    assert seen(weights, 0) == [[2], [6]]


def test_every_head_and_query_has_its_own_median() -> None:
    weights = torch.eye(5)[torch.tensor([[0, 4, 2], [1, 3, 3]])].unsqueeze(0)  # [1, 2 heads, 3 queries, 5]
    assert seen(weights, 1) == [[0, 1], [3, 4], [1, 2, 3], [0, 1, 2], [2, 3, 4], [2, 3, 4]]


def test_it_composes_with_padding() -> None:
    weights = torch.tensor([[[0.0, 0.0, 0.0, 1.0, 0.0]]])
    assert seen(weights, 2, around(weights, 2) & padding(torch.tensor([4]))) == [[1, 2, 3]]


def test_no_gradient_flows_through_the_median() -> None:
    weights = torch.rand(2, 1, 5, requires_grad=True)
    found = weigh(torch.randn(2, 1, 3, requires_grad=True), torch.randn(2, 5, 3), score=dot, window=around(weights, 1))
    found.square().sum().backward()
    assert weights.grad is None


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(SaccadeError, match="1 queries over 5 keys, found 1 over 4"):
        weigh(torch.ones(2, 1, 3), torch.ones(2, 5, 3), score=dot, window=around(torch.rand(2, 1, 4), 1))
    with pytest.raises(SaccadeError, match="radius must not be negative: got -1"):
        around(torch.rand(1, 1, 3), -1)


def test_it_prints() -> None:
    assert repr(around(torch.rand(2, 1, 5), 75)) == "around(weights=[2, 1, 5], radius=75)"
