"""Makes optimisers by name, and computes learning rates as pure functions of the progress: schedules have no state to save."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from saccade.training.config import Train

WIDTH = 512  # of the paper's network


def make_optimiser(
    parameters: Iterable[nn.Parameter] | Iterable[dict[str, Any]], train: Train
) -> torch.optim.Optimizer:
    """The recipe's optimiser over these parameters, or groups of them."""
    decay = train.weight_decay
    # One pass over each tensor instead of ten; in float16 the gradients must be unscaled between scaling and clipping.
    fused = train.precision != "16"
    match train.optimiser:
        case "adam":
            return torch.optim.Adam(
                parameters, lr=train.lr, betas=train.betas, eps=train.epsilon, weight_decay=decay, fused=fused
            )
        case "adamw":
            return torch.optim.AdamW(
                parameters, lr=train.lr, betas=train.betas, eps=train.epsilon, weight_decay=decay, fused=fused
            )
        case "sgd":
            return torch.optim.SGD(parameters, lr=train.lr, momentum=train.momentum, weight_decay=decay)
        case "adadelta":
            return torch.optim.Adadelta(parameters, lr=train.lr, rho=train.rho, eps=train.epsilon, weight_decay=decay)
        case "adagrad":
            return torch.optim.Adagrad(parameters, lr=train.lr, eps=train.epsilon, weight_decay=decay)


def with_width(train: Train, network: nn.Module) -> Train:
    """The settings with the width of the noam schedule: the one given, or the network's own. In a network without heads a field
    ``width`` means something else, such as the width of a convolution."""
    config = getattr(network, "config", None)
    own = getattr(config, "width", None) if hasattr(config, "heads") else None
    return train if train.width is not None else replace(train, width=own or WIDTH)


def learning_rate(train: Train, update: int, per_epoch: int, total: int, shrinks: int) -> float:
    """The rate of update number ``update`` (from 0).

    | schedule | rate |
    |---|---|
    | constant | lr |
    | noam | lr · width^−½ · min(u^−½, u · warmup^−1½), u = update + 1 (Vaswani et al. 2017) |
    | plateau | lr · factor^shrinks: ``shrinks`` counts the plateaus of the watched metric |
    | halving | lr · factor^k, k = number of ``halve_every`` epochs started after ``halve_after`` (Sutskever, Luong) |
    | inverse_root | lr · √(warmup / max(u, warmup)), u = update + 1: noam, by the rate at its peak |
    | linear | lr · (1 − share of the updates after warm-up) |
    | cosine | lr · ½ (1 + cos(π · share of the updates after warm-up)) |

    All but noam rise linearly over the first ``warmup`` updates.
    """
    if train.schedule == "noam":
        count = update + 1
        return float(train.lr * (train.width or WIDTH) ** -0.5 * min(count**-0.5, count * train.warmup**-1.5))
    ramp = min(1.0, (update + 1) / train.warmup) if train.warmup else 1.0
    if train.schedule == "plateau":
        return train.lr * ramp * train.factor**shrinks
    if train.schedule == "halving":
        beyond = update / per_epoch - train.halve_after
        return train.lr * ramp * train.factor ** (0 if beyond < 0 else math.floor(beyond / train.halve_every) + 1)
    if train.schedule == "inverse_root":
        return float(train.lr * ramp * (train.warmup / max(update + 1, train.warmup)) ** 0.5)
    share = min(1.0, max(0.0, update - train.warmup) / max(1, total - train.warmup))
    if train.schedule == "linear":
        return train.lr * ramp * (1 - share)
    if train.schedule == "cosine":
        return train.lr * ramp * 0.5 * (1 + math.cos(math.pi * share))
    return train.lr * ramp
