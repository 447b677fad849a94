"""A network on its device, with its optimiser: a batch becomes a loss, a loss becomes an update."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from saccade.errors import SaccadeError
from saccade.task import Loss, Task
from saccade.training.config import Train
from saccade.training.devices import make_fabric
from saccade.training.optimisers import make_optimiser


class Stepper:
    """What the loop does at every update; it remembers nothing beyond the network and the optimiser's state."""

    def __init__(self, task: Task, network: nn.Module, settings: Train) -> None:
        self.task, self.settings = task, settings
        freeze(network, settings.freeze)
        self._fabric = make_fabric(settings)
        self.device = self._fabric.device
        learning = [parameter for parameter in network.parameters() if parameter.requires_grad]
        self.model, self.optimiser = self._fabric.setup(network, make_optimiser(learning, settings))

    def loss(self, batch: Any, *, sampling: float = 0.0) -> Loss:
        """The smoothed loss of a batch, on the device."""
        smoothing = self.settings.label_smoothing
        with self._telling_of_memory():
            return self.task.loss(self.model, batch.to(self.device), smoothing=smoothing, sampling=sampling)

    def step(self, loss: Loss, lr: float) -> float:
        """One update by the loss's gradient; returns the gradient's norm before clipping."""
        for group in self.optimiser.param_groups:
            group["lr"] = lr
        self.optimiser.zero_grad(set_to_none=True)
        with self._telling_of_memory():
            self._fabric.backward(loss.mean)
            norm = self._fabric.clip_gradients(
                self.model, self.optimiser, max_norm=self.settings.clip or math.inf, error_if_nonfinite=False
            )
            self.optimiser.step()
        return float(norm or 0.0)

    @contextmanager
    def _telling_of_memory(self) -> Iterator[None]:
        try:
            yield
        except torch.OutOfMemoryError:
            tokens, records = self.settings.batch_tokens, self.settings.batch_records
            raise SaccadeError(
                f"{self.device}: expected memory for a batch, found too little: lower train.batch_tokens (now {tokens}) or "
                f"train.batch_records (now {records}), or try train.precision=bf16"
            ) from None


def freeze(network: nn.Module, names: Sequence[str]) -> None:
    """Leave the named modules and parameters as they are: ``encoder``, ``encoder.cells``, ``query_weight``."""
    parts = dict(network.named_modules())
    own = dict(network.named_parameters())
    for name in names:
        if name in own:
            own[name].requires_grad_(False)
        elif name in parts and name:
            parts[name].requires_grad_(False)
        else:
            raise SaccadeError(_unknown_part(name, [*parts, *own], top_parts(network)))
    if names and not any(parameter.requires_grad for parameter in own.values()):
        raise SaccadeError(
            f"train.freeze: expected a part that is left to learn, found all of them: {', '.join(names)}"
        )


def top_parts(network: nn.Module) -> dict[str, list[nn.Parameter]]:
    """The network's parameters by the first word of their names: ``encoder``, ``output``, …; shared ones count once."""
    parts: dict[str, list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        parts.setdefault(name.partition(".")[0], []).append(parameter)
    return parts


def _unknown_part(name: str, known: Sequence[str], top: dict[str, list[nn.Parameter]]) -> str:
    close = difflib.get_close_matches(name, [each for each in known if each], n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"train.freeze: expected parts of the network, such as {', '.join(top)}, found {name!r}{hint}"
