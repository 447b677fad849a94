"""Vaswani et al. 2017, "Attention Is All You Need"."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from saccade.attention.core import weigh
from saccade.attention.scores import scaled_dot
from saccade.models.transformer import BASE, BIG, Config, Transformer
from saccade.nn.positions import sinusoids
from saccade.training.config import Train
from saccade.training.losses import sequence_loss
from saccade.training.optimisers import learning_rate


def parameters(config: Config, vocabulary: int) -> int:
    with torch.device("meta"):
        return sum(part.numel() for part in Transformer(config, vocabulary, vocabulary).parameters())


def test_parameters_at_the_papers_sizes() -> None:
    """One vocabulary of 37,000, one matrix for both embeddings and the output: 63.1 and 214.2 million."""
    assert parameters(BASE, 37_000) == 63_082_496
    assert parameters(BIG, 37_000) == 214_245_376
    assert (BIG.layers, BIG.width, BIG.hidden, BIG.heads, BIG.dropout) == (6, 1024, 4096, 16, 0.3)


def test_scaled_dot_weights_by_hand() -> None:
    query, keys = torch.tensor([[[1.0, 0.0]]]), torch.eye(2).unsqueeze(0)
    weights = weigh(query, keys, score=scaled_dot)
    torch.testing.assert_close(weights[0, 0], torch.tensor([0.6698, 0.3302]), rtol=0, atol=5e-5)


def test_the_position_of_the_second_token_by_hand() -> None:
    expected = torch.tensor([0.84147, 0.54030, 0.01000, 0.99995])
    torch.testing.assert_close(sinusoids(torch.tensor([1]), 4)[0], expected, rtol=0, atol=5e-6)


@pytest.mark.parametrize(
    ("step", "rate"), [(1, 1.7469e-7), (4000, 6.9877e-4), (16_000, 3.4939e-4), (100_000, 1.3975e-4)]
)
def test_the_learning_rate_of_an_update(step: int, rate: float) -> None:
    train = Train(schedule="noam", lr=1.0, warmup=4000, width=512)
    assert learning_rate(train, step - 1, 1, 100_000, 0) == pytest.approx(rate, rel=1e-4)


@pytest.mark.parametrize(("size", "floor"), [(5, 0.3897), (37_000, 1.3769)])
def test_the_least_loss_under_label_smoothing(size: int, floor: float) -> None:
    """ε = 0.1 spread over all V: the entropy of q is the least that any distribution reaches."""
    aim = torch.full((size,), 0.1 / size)
    aim[3] += 0.9
    loss = sequence_loss(aim.log().view(1, 1, -1), torch.tensor([[3]]), padding=0, smoothing=0.1)
    assert float(loss) == pytest.approx(floor, abs=1e-4)


@pytest.mark.usefixtures("shapes_unchecked")
def test_it_learns_to_copy_down_to_the_floor_of_the_smoothed_loss() -> None:
    """The Annotated Transformer's task, ten symbols of eleven, with a narrower network and shorter rows."""
    torch.manual_seed(1)
    V, T = 11, 5
    model = Transformer(Config(32, 4, 64, 1, dropout=0.0, tied="all"), V, V)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9)
    train, lengths = Train(schedule="noam", lr=1.0, warmup=60, width=32), torch.full((32,), T)
    for update in range(240):
        source = torch.randint(1, V, (32, T))
        target = functional.pad(source, (1, 0), value=0)
        loss = sequence_loss(model(source, lengths, target[:, :-1]), source, padding=-1, smoothing=0.1) / source.numel()
        optimiser.zero_grad()
        loss.backward()
        optimiser.param_groups[0]["lr"] = learning_rate(train, update, 1, 240, 0)
        optimiser.step()
    floor = -(0.9 + 0.1 / V) * math.log(0.9 + 0.1 / V) - 0.1 * (V - 1) / V * math.log(0.1 / V)
    assert floor <= float(loss.detach()) < floor + 0.03
