"""Batches sent to a device.

Every batch is a frozen dataclass of tensors, and of what the host alone must know: places in a corpus, counts.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Self, cast

import torch
from torch import Tensor


class Sendable:
    """A dataclass whose tensors go to a device together."""

    def to(self, device: torch.device | str) -> Self:
        """The batch on a device; a GPU is sent it without being waited for."""
        batch, place = cast(Any, self), torch.device(device)
        parts = {field.name: getattr(self, field.name) for field in fields(batch)}
        moved: Self = replace(
            batch, **{name: sent(part, place) for name, part in parts.items() if isinstance(part, Tensor)}
        )
        return moved


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor on a device; a GPU is sent it without being waited for."""
    if device.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    # From other memory a copy waits for what the device is doing; pinned memory is kept until it was read.
    return tensor.pin_memory().to(device, non_blocking=True)
