"""A network on its device, with its optimiser: a batch becomes a loss, a loss becomes an update."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from saccade.errors import SaccadeError
from saccade.task import Loss, Task
from saccade.training.config import Train
from saccade.training.devices import make_fabric
from saccade.training.graphs import Graphs, why_not
from saccade.training.optimisers import make_optimiser
from saccade.training.recording import recorder_for


@dataclass(frozen=True)
class Sent:
    """An update on its way: how many units it learns from, and how to read its loss and its gradient's norm before clipping.

    On a GPU reading waits for it. A loss that is not finite may have changed the network by then.
    """

    count: int
    read: Callable[[], Sequence[float]]


class Stepper:
    """What the loop does at every update; it remembers nothing beyond the network and the optimiser's state, and on a GPU
    recordings of what it did. ``say`` is told where nothing can be recorded."""

    def __init__(
        self, task: Task, network: nn.Module, settings: Train, say: Callable[[str], None] = lambda text: None
    ) -> None:
        self.task, self.settings = task, settings
        freeze(network, settings.freeze)
        self._fabric = make_fabric(settings)
        self.device = self._fabric.device
        learning = [parameter for parameter in network.parameters() if parameter.requires_grad]
        self.model, self.optimiser = self._fabric.setup(network, make_optimiser(learning, settings))
        self._recorder = recorder_for(self.device)
        self._graphs: Graphs | None = None
        if self._recorder is not None:
            reason = why_not(settings)
            if reason is None:
                backward: Callable[[Tensor], None] = self._fabric.backward
                self._graphs = Graphs(self._recorder, task, self.model, settings, backward=backward, say=say)
            elif settings.graphs != "off":
                say(f"training without CUDA graphs: {reason}")

    @property
    def behind(self) -> int:
        """How many updates may be on their way while the next is sent: on a GPU one, so that it never waits for the host."""
        return 0 if self._recorder is None else 1

    @property
    def scaling(self) -> dict[str, float]:
        """How losses are scaled so that float16 holds their gradients, which is found as training goes; else nothing."""
        return dict(self._fabric.strategy.precision.state_dict())

    @scaling.setter
    def scaling(self, kept: dict[str, float]) -> None:
        if kept:
            self._fabric.strategy.precision.load_state_dict(kept)

    def update_by(self, batches: Sequence[Any], lr: float, *, sampling: float = 0.0) -> Sent:
        """One update by the gradient of the smoothed mean loss of several batches, in which every token counts the same."""
        if len(batches) == 1:
            return self.update(batches[0], lr, sampling=sampling)
        with self._telling_of_memory(), self._recording():
            mean, count = self._accumulate(batches, sampling)
            if self._recorder is not None:
                return Sent(count, self._recorder.late(mean, self._apply(lr)))
            value = float(mean)
            norm = float(self._apply(lr)) if math.isfinite(value) else math.nan
            return Sent(count, lambda: (value, norm))

    def _accumulate(self, batches: Sequence[Any], sampling: float) -> tuple[Tensor, int]:
        """Put the gradient of the mean over all tokens of the batches into the parameters; returns it and their number."""
        sums: dict[nn.Parameter, Tensor] = {}
        total, count = torch.zeros((), device=self.device), 0
        for batch in batches:
            mean, tokens = self._gradient(batch, sampling)
            for parameter in self.model.parameters():
                if parameter.grad is not None and parameter in sums:
                    sums[parameter].add_(parameter.grad, alpha=tokens)
                elif parameter.grad is not None:
                    sums[parameter] = parameter.grad * tokens
            total, count = total + mean * tokens, count + tokens
        for parameter, gradient in sums.items():
            parameter.grad = gradient.div_(max(count, 1))
        return total / max(count, 1), count

    def _gradient(self, batch: Any, sampling: float) -> tuple[Tensor, int]:
        """Put the gradient of a batch's mean loss into the parameters; returns that loss, and over how many tokens."""
        recorded = self._graphs.gradient(batch) if self._graphs else None
        if recorded is not None:
            return recorded, batch.tokens
        loss = self.loss(batch, sampling=sampling)
        self._differentiate(loss.mean)
        return loss.mean.detach(), loss.count

    def _recording(self) -> AbstractContextManager[None]:
        return self._recorder.entered() if self._graphs and self._recorder is not None else nullcontext()

    def update(self, batch: Any, lr: float, *, sampling: float = 0.0) -> Sent:
        """One update by the gradient of a batch's smoothed mean loss."""
        if self._recorder is None:
            loss = self.loss(batch, sampling=sampling)
            value = float(loss.mean.detach())
            norm = self.step(loss, lr) if math.isfinite(value) else math.nan
            return Sent(loss.count, lambda: (value, norm))
        with self._telling_of_memory(), self._recording():
            mean, count = self._gradient(batch, sampling)
            return Sent(count, self._recorder.late(mean, self._apply(lr)))

    def loss(self, batch: Any, *, sampling: float = 0.0) -> Loss:
        """The smoothed loss of a batch, on the device."""
        smoothing = self.settings.label_smoothing
        with self._telling_of_memory():
            return self.task.loss(self.model, batch.to(self.device), smoothing=smoothing, sampling=sampling)

    def step(self, loss: Loss, lr: float) -> float:
        """One update by the loss's gradient; returns the gradient's norm before clipping."""
        with self._telling_of_memory():
            self._differentiate(loss.mean)
            return float(self._apply(lr))

    def _differentiate(self, mean: Tensor) -> None:
        if not mean.requires_grad:
            frozen = ", ".join(self.settings.freeze)
            raise SaccadeError(
                f"train.freeze: expected a part that takes part and is left to learn, found none: {frozen}"
            )
        self.optimiser.zero_grad(set_to_none=True)
        self._fabric.backward(mean)

    def _apply(self, lr: float) -> Tensor:
        """Clip the gradient and follow it; returns its norm before."""
        for group in self.optimiser.param_groups:
            group["lr"] = lr
        norm = self._fabric.clip_gradients(
            self.model, self.optimiser, max_norm=self.settings.clip or math.inf, error_if_nonfinite=False
        )
        self.optimiser.step()
        return torch.zeros(()) if norm is None else norm

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
