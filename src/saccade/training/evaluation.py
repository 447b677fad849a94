"""Computes the loss of a whole corpus, without dropout and without gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from saccade.task import Task, eval_mode


@torch.no_grad()
def corpus_loss(
    task: Task, network: nn.Module, corpus: Any, *, tokens: int | None = None, records: int | None = 128
) -> tuple[float, int]:
    """The summed loss of a corpus, without smoothing, and its number of units; ``tokens`` and ``records`` bound a batch."""
    device = next(network.parameters()).device
    total, count = 0.0, 0
    with eval_mode(network):
        for numbers in task.plan(corpus, tokens=tokens, records=records, seed=0, epoch=0):
            loss = task.loss(network, task.batch(corpus, numbers).to(device))
            total += float(loss.total)
            count += loss.count
    return total, count
