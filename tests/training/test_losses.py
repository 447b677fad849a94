"""Padding does not count, and smoothing is what its formula says."""

import torch

from saccade.training.losses import sequence_loss


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
