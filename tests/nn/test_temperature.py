"""One temperature: it is found where it was put in, it is the best there is, and it changes no answer."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from saccade.errors import SaccadeError
from saccade.nn.temperature import COLDEST, HOTTEST, fit_temperature, tempered


def drawn(temperature: float, records: int = 20_000) -> tuple[torch.Tensor, torch.Tensor]:
    """Labels drawn with softmax(z / T)."""
    logits = torch.randn(records, 5) * 3
    return logits, torch.multinomial((logits / temperature).softmax(-1), 1).squeeze(1)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_temperature_that_labels_were_drawn_with_is_found(temperature: float) -> None:
    assert fit_temperature(*drawn(temperature)) == pytest.approx(temperature, rel=0.05)


def test_no_other_temperature_is_likelier() -> None:
    logits, labels = drawn(2.0, records=300)
    best = fit_temperature(logits, labels)
    losses = [float(functional.cross_entropy(logits.double() / (best * by), labels)) for by in (0.99, 1.0, 1.01)]
    assert losses[1] < losses[0] and losses[1] < losses[2]


@pytest.mark.parametrize("temperature", [0.02, 1.7, HOTTEST])
def test_the_answer_and_the_order_of_the_labels_stay(temperature: float) -> None:
    logits = torch.randn(500, 7)
    logits[:9, 3] = logits[:9].amax(-1) * (1 + torch.finfo(torch.float32).eps)  # ahead by the least there is
    found = tempered(logits, temperature)
    assert torch.equal(found.argmax(-1), logits.argmax(-1))
    torch.testing.assert_close(found.sum(-1), torch.ones(500, dtype=torch.float64))
    gained = (found.amax(-1) > logits.softmax(-1).amax(-1).double() + 1e-6).any()
    assert bool(gained) == (temperature < 1)


def test_where_all_are_right_there_is_no_best_temperature() -> None:
    logits = torch.randn(9, 3)
    with pytest.raises(SaccadeError, match="all of the 9 records are classified correctly"):
        fit_temperature(logits, logits.argmax(-1))


def test_a_network_that_is_worse_than_chance_becomes_as_unsure_as_can_be() -> None:
    logits = torch.randn(50, 4)
    assert fit_temperature(logits, logits.argmin(-1)) == HOTTEST
    assert float(tempered(logits, HOTTEST).amax()) < 0.27


def test_logits_too_small_to_be_mended_are_made_as_sure_as_can_be() -> None:
    logits = torch.tensor([[1e-3, 0.0]]).repeat(5, 1)
    assert fit_temperature(logits, torch.tensor([0, 0, 0, 0, 1])) == COLDEST


def test_nothing_to_fit_by_is_refused() -> None:
    with pytest.raises(SaccadeError, match="needs records: got none"):
        fit_temperature(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))
    assert math.isfinite(fit_temperature(torch.tensor([[1e4, -1e4], [1e4, -1e4]]), torch.tensor([0, 1])))
