"""Padding does not count, and smoothing is what its formula says."""

import pytest
import torch

from saccade.training.losses import sequence_loss, smoothing_floor


def test_padding_does_not_count():
    logits, target = torch.randn(3, 5, 7), torch.randint(1, 7, (3, 5))
    target[1, 3:] = 0
    changed = logits.clone()
    changed[1, 3:] = 100 * torch.randn(2, 7)
    assert torch.equal(sequence_loss(logits, target, padding=0), sequence_loss(changed, target, padding=0))


def test_smoothing_mixes_the_target_with_the_uniform_distribution():
    logits, target = torch.randn(1, 1, 5), torch.tensor([[3]])
    log_probs = torch.log_softmax(logits[0, 0], dim=-1)
    expected = -(0.9 * log_probs[3] + 0.1 * log_probs.mean())
    torch.testing.assert_close(sequence_loss(logits, target, padding=0, smoothing=0.1), expected)


@pytest.mark.parametrize(("size", "floor"), [(5, 0.3897), (37_000, 1.3769)])
def test_no_network_has_a_smoothed_loss_below_the_floor(size, floor):
    """ε is spread over all V tokens: over V − 1 the floor of five would be 0.4637."""
    assert smoothing_floor(0.1, size) == pytest.approx(floor, abs=5e-5)
    best = torch.full((1, 1, size), 0.1 / size)
    best[0, 0, 3] += 0.9
    target = torch.tensor([[3]])
    found = float(sequence_loss(best.log(), target, padding=0, smoothing=0.1))
    assert found == pytest.approx(floor, abs=2e-4)
    surer = best.clone()
    surer[0, 0, 3] = 0.999
    assert float(sequence_loss(surer.log(), target, padding=0, smoothing=0.1)) > found


def test_nothing_is_smoothed_with_a_share_of_nothing():
    assert smoothing_floor(0.0, 7) == 0.0
