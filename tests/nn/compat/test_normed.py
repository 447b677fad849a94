"""Additive attention under weight normalisation: its formula, its beginning, and one step at a time."""

from __future__ import annotations

import pytest
import torch

from saccade.attention.windows import padding
from saccade.nn import NormedAttention
from saccade.trace import Lens


def test_the_weights_follow_the_formula() -> None:
    layer = NormedAttention(4, 6, width=5).double()
    torch.nn.init.normal_(layer.bias)
    query, key = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 7, 6, dtype=torch.float64)
    hidden = (query @ layer.query_weight.mT).unsqueeze(2) + (key @ layer.key_weight.mT).unsqueeze(1) + layer.bias
    scores = torch.tanh(hidden) @ (layer.g * layer.v / layer.v.square().sum().sqrt())
    torch.testing.assert_close(layer(query, key), scores.softmax(-1) @ key)


def test_it_begins_with_the_length_of_one_over_the_root_of_the_width() -> None:
    layer = NormedAttention(4, 6, width=5)
    assert layer.g.item() == pytest.approx(5**-0.5)
    assert layer.score.v.norm().item() == pytest.approx(5**-0.5)
    assert not layer.bias.any()


def test_only_the_direction_of_v_counts() -> None:
    layer, query, key = NormedAttention(4, 6), torch.randn(2, 3, 4), torch.randn(2, 7, 6)
    before = layer(query, key)
    with torch.no_grad():
        layer.v.mul_(7.0)
    torch.testing.assert_close(layer(query, key), before)


def test_prepared_keys_windows_and_the_lens_serve_as_in_attention() -> None:
    layer, query, key, value = NormedAttention(4, 6), torch.randn(2, 3, 4), torch.randn(2, 7, 6), torch.randn(2, 7, 5)
    window, lens = padding(torch.tensor([7, 2])), Lens()
    context = layer(query, layer.prepare(key), value, window=window, lens=lens)
    torch.testing.assert_close(context, layer(query, key, value, window=window))
    assert not lens.traces[1].map("attention").weights[:, 2:].any()


def test_gradients_reach_every_parameter() -> None:
    layer = NormedAttention(4, 6)
    layer(torch.randn(2, 3, 4), torch.randn(2, 7, 6)).square().sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.any()), name
