"""Convolutions over padded sequences."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from saccade.errors import SaccadeError
from saccade.nn import Convolution


def test_a_layer_is_relu_of_the_weighted_neighbours() -> None:
    layer, x = Convolution(3, 5, width=3), torch.randn(2, 7, 3)
    weight, bias = layer.layers[0].weight, layer.layers[0].bias  # [5, 3, 3]
    around = functional.pad(x, (0, 0, 1, 1))
    expected = sum(around[:, k : k + 7] @ weight[:, :, k].mT for k in range(3)) + bias
    torch.testing.assert_close(layer(x), torch.relu(expected))


def test_a_row_alone_is_what_it_is_in_a_padded_batch() -> None:
    layer, x = Convolution(3, 5, width=5, layers=3), torch.randn(2, 7, 3)
    together = layer(x, torch.tensor([7, 4]))
    torch.testing.assert_close(together[1:, :4], layer(x[1:, :4]))
    assert not together[1, 4:].any()


def test_an_even_width_has_no_middle() -> None:
    with pytest.raises(SaccadeError, match="width must be odd"):
        Convolution(3, 5, width=4)
