"""Learning rates are functions of the progress alone."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from saccade.training.config import Train
from saccade.training.optimisers import learning_rate, make_optimiser, with_width


def rate(train: Train, update: int, per_epoch: int = 10, total: int = 100, shrinks: int = 0) -> float:
    return learning_rate(train, update, per_epoch, total, shrinks)


def test_noam_rises_to_its_peak_at_warmup_and_falls_with_the_root():
    train = Train(lr=2.0, schedule="noam", warmup=40, width=64)
    rates = [rate(train, update) for update in range(200)]
    assert max(range(200), key=rates.__getitem__) == 39
    assert rates[39] == pytest.approx(2.0 * 64**-0.5 * 40**-0.5)
    assert rates[159] == pytest.approx(rates[39] / 2)


@pytest.mark.parametrize(
    ("step", "expected"), [(1, 1.7469e-7), (4000, 6.9877e-4), (16_000, 3.4939e-4), (100_000, 1.3975e-4)]
)
def test_noam_has_the_rates_of_the_paper(step, expected):
    train = Train(lr=1.0, schedule="noam", warmup=4000, width=512)
    assert rate(train, step - 1) == pytest.approx(expected, rel=1e-4)


def test_a_width_that_no_heads_part_is_not_the_networks():
    class Convolved(nn.Module):
        config = SimpleNamespace(width=3)

    class Attentive(nn.Module):
        config = SimpleNamespace(width=48, heads=3)

    noam = Train(lr=1.0, schedule="noam", warmup=40)
    assert [with_width(noam, network()).width for network in (nn.Module, Convolved, Attentive)] == [512, 512, 48]
    assert rate(noam, 7) == rate(with_width(noam, nn.Module()), 7) == rate(replace(noam, width=512), 7)


def test_inverse_root_is_noam_by_the_rate_at_its_peak():
    noam = Train(lr=1.0, schedule="noam", warmup=40, width=64)
    train = Train(lr=64**-0.5 * 40**-0.5, schedule="inverse_root", warmup=40)
    for update in (0, 7, 39, 40, 159):
        assert rate(train, update) == pytest.approx(rate(noam, update))


def test_linear_ends_at_zero_and_is_half_in_the_middle():
    train = Train(lr=4.0, schedule="linear", warmup=20)
    assert rate(train, 9) == pytest.approx(2.0)
    assert rate(train, 19) == rate(train, 20) == 4.0
    assert rate(train, 60) == pytest.approx(2.0)
    assert rate(train, 100) == pytest.approx(0.0)


def test_halving_every_half_epoch_begins_after_the_stated_epochs():
    train = Train(lr=0.7, schedule="halving", halve_after=5, halve_every=0.5)
    assert rate(train, 49) == 0.7  # 4.9 epochs
    assert rate(train, 50) == pytest.approx(0.35)
    assert rate(train, 54) == pytest.approx(0.35)
    assert rate(train, 55) == pytest.approx(0.175)


def test_cosine_ends_at_zero_and_is_half_in_the_middle():
    train = Train(lr=4.0, schedule="cosine")
    assert rate(train, 0) == 4.0
    assert rate(train, 50) == pytest.approx(2.0)
    assert rate(train, 100) == pytest.approx(0.0)


def test_plateau_multiplies_by_the_factor_for_each_shrink():
    assert rate(Train(lr=1.0, schedule="plateau", factor=0.3), 7, shrinks=2) == pytest.approx(0.09)


def test_warmup_rises_linearly():
    assert rate(Train(lr=1.0, warmup=4), 0) == 0.25
    assert rate(Train(lr=1.0, warmup=4), 3) == rate(Train(lr=1.0, warmup=4), 9) == 1.0


@pytest.mark.parametrize(
    ("name", "kind"),
    [("adam", "Adam"), ("adamw", "AdamW"), ("sgd", "SGD"), ("adadelta", "Adadelta"), ("adagrad", "Adagrad")],
)
def test_every_optimiser_lowers_a_quadratic(name, kind):
    parameter = nn.Parameter(torch.tensor([3.0, -2.0]))
    optimiser = make_optimiser([parameter], Train(optimiser=name, lr=0.1))
    assert type(optimiser).__name__ == kind
    before = float((parameter.detach() ** 2).sum())
    for _ in range(5):
        optimiser.zero_grad()
        (parameter**2).sum().backward()
        optimiser.step()
    assert float((parameter.detach() ** 2).sum()) < before


def test_adagrad_divides_by_the_root_of_the_sum_of_squares_and_decay_is_l2():
    parameter = nn.Parameter(torch.tensor([3.0, -2.0]))
    optimiser = make_optimiser([parameter], Train(optimiser="adagrad", lr=0.1, weight_decay=0.5))
    expected, squares = parameter.detach().clone(), torch.zeros(2)
    for _ in range(3):
        optimiser.zero_grad()
        (parameter**2).sum().backward()
        optimiser.step()
        gradient = 2 * expected + 0.5 * expected
        squares += gradient**2
        expected -= 0.1 * gradient / (squares.sqrt() + 1e-8)
        torch.testing.assert_close(parameter.detach(), expected)


def test_bad_settings_name_the_field():
    for bad in ({"lr": 0}, {"clip": -1}, {"epochs": 0}, {"label_smoothing": 1.5}, {"schedule": "noam"},
                {"schedule": "inverse_root"}, {"lr": 1e-3, "schedule": "noam", "warmup": 9}, {"accumulate": 0},
                {"average_every": 3, "average_of": "best", "average": 2}):  # fmt: skip
        with pytest.raises(ValueError, match="warmup" if next(iter(bad)) == "schedule" else next(iter(bad))):
            Train(**bad)
