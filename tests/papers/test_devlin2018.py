"""Devlin et al. (2019): the numbers that can be worked out before anything is trained."""

import math

import pytest
import torch
from torch.nn import functional

from saccade.data.texts.masking import FOLLOWS
from saccade.models.bert import BASE, LARGE, Bert, Config, Trunk

VOCABULARY = 30_522


@pytest.mark.parametrize(("config", "count"), [(BASE, 109_482_240), (LARGE, 335_141_888)])
def test_parameters_of_the_published_networks(config, count):
    with torch.device("meta"):
        trunk = Trunk(config, VOCABULARY)
    assert sum(parameter.numel() for parameter in trunk.parameters()) == count


@torch.no_grad()
def test_the_losses_of_an_untrained_network():
    network = Bert(Config(layers=2, width=64, heads=4, feed_forward=128, dropout=0.0), VOCABULARY).eval()
    tokens = torch.randint(1000, VOCABULARY, (7, 33))
    chosen = torch.randint(1, 32, (7, 5))
    words, follows = network(tokens, torch.full((7,), 33), torch.zeros_like(tokens), chosen)
    target = torch.randint(0, VOCABULARY, (7 * 5,))
    loss = float(functional.cross_entropy(words.flatten(0, 1), target))
    assert loss == pytest.approx(math.log(VOCABULARY), abs=0.1)  # 10.326
    assert float(functional.cross_entropy(follows, torch.full((7,), FOLLOWS))) == pytest.approx(math.log(2), abs=0.05)


def test_gelu_by_tanh_is_as_printed():
    x = torch.linspace(-4, 4, 17)
    printed = 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    from saccade.nn.transformer import activated

    assert torch.allclose(activated(x, "gelu_tanh"), printed, atol=1e-6)
    assert (activated(x, "gelu") - printed).abs().max() < 1e-3


def test_a_row_that_follows_is_class_0():
    assert FOLLOWS == 0


def test_weights_start_with_sigma_002_cut_at_two():
    table = Trunk(Config(layers=1, width=96, heads=3, feed_forward=96), 2000).words.weight.detach()
    assert float(table.std()) == pytest.approx(0.02 * 0.88, rel=0.03)  # the deviation of a normal cut at 2σ is 0.88 σ
    assert float(table.abs().max()) <= 0.04 + 1e-6
