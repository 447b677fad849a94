"""Runs the optimiser steps of an update: batch → loss → gradient → clipping → step, per phase."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from saccade.errors import SaccadeError
from saccade.task import Loss, Task
from saccade.training.config import Train
from saccade.training.devices import make_fabric
from saccade.training.graphs import Graphs, why_not
from saccade.training.optimisers import make_optimiser
from saccade.training.phases import ActivePhase, grouped, resolve
from saccade.training.recording import Recorder, recorder_for


@dataclass(frozen=True)
class PendingStep:
    """An optimiser step that was launched: its phase, learning rate, number of units (tokens …), and ``read()``, which
    returns its loss and its gradient's norm before clipping.

    On a GPU ``read`` waits for the device. A loss that is not finite may have changed the network by then.
    """

    phase: str
    lr: float
    count: int
    read: Callable[[], Sequence[float]]


class Stepper:
    """A network on its device, with an optimiser per phase; its only state is theirs and, on a GPU, recorded CUDA graphs.

    ``say`` receives a message where CUDA graphs cannot be used.
    """

    def __init__(
        self, task: Task, network: nn.Module, settings: Train, say: Callable[[str], None] = lambda text: None
    ) -> None:
        self.settings = settings
        freeze(network, settings.freeze)
        self._fabric = make_fabric(settings)
        self.device = self._fabric.device
        phases = task.phases(network)
        resolved = resolve(phases, network, settings)
        made = [
            make_optimiser(grouped(phase, parameters, network, own), own)
            for phase, (own, parameters) in zip(phases, resolved, strict=True)
        ]
        self.model, *optimisers = self._fabric.setup(network, *made)
        self.phases: list[ActivePhase] = []
        trainable = [parameter for parameter in network.parameters() if parameter.requires_grad]
        for phase, (own, parameters), optimiser in zip(phases, resolved, optimisers, strict=True):
            phase.state.update({name: tensor.to(self.device) for name, tensor in phase.state.items()})
            inside = set(parameters)
            others = [parameter for parameter in trainable if parameter not in inside]
            self.phases.append(ActivePhase(phase, own, parameters, others, optimiser))
        self._recorder = recorder_for(self.device)
        if self._recorder is not None:
            reason = why_not(settings)
            if reason is None:
                self._set_up_graphs(self._recorder, task, say)
            elif settings.graphs != "off":
                say(f"training without CUDA graphs: {reason}")

    def _set_up_graphs(self, recorder: Recorder, task: Task, say: Callable[[str], None]) -> None:
        for active in self.phases:
            active.graphs = Graphs(
                recorder,
                task,
                self.model,
                self.settings,
                backward=self._fabric.backward,
                say=say if len(self.phases) == 1 else partial(_say_of_phase, say, active.name),
                loss=partial(self._loss, active),
                parameters=active.parameters,
                state=active.phase.state,
            )

    @property
    def lag(self) -> int:
        """How many updates may be pending while the next is launched: one on a GPU, so that it does not wait for the host."""
        return 0 if self._recorder is None else 1

    @property
    def scaling(self) -> dict[str, float]:
        """The state of loss scaling, in float16; else empty."""
        return dict(self._fabric.strategy.precision.state_dict())

    @scaling.setter
    def scaling(self, state: dict[str, float]) -> None:
        if state:
            self._fabric.strategy.precision.load_state_dict(state)

    def update_phases(
        self, batches: Sequence[Any], rate: Callable[[Train], float], *, update: int = 0, sampling: float = 0.0
    ) -> list[PendingStep]:
        """The steps of update number ``update`` (from 0), one per phase that is due; of several steps of a phase, the last.

        ``rate`` gives the learning rate by a phase's settings.
        """
        pending = []
        for active in self.phases:
            if active.due(update):
                lr = rate(active.settings)
                for _ in range(active.phase.steps):
                    step = self.update_by(batches, lr, sampling=sampling, phase=active)
                pending.append(step)
        return pending

    def update_by(
        self, batches: Sequence[Any], lr: float, *, sampling: float = 0.0, phase: ActivePhase | None = None
    ) -> PendingStep:
        """One step by the gradient of the mean loss of several batches, in which every token counts the same."""
        if len(batches) == 1:
            return self.update(batches[0], lr, sampling=sampling, phase=phase)
        active = phase or self.phases[0]
        with self._explaining_out_of_memory(), self._on_recording_stream(active), active.alone():
            mean, count = self._accumulate(active, batches, sampling)
            if self._recorder is not None:
                return PendingStep(active.name, lr, count, self._recorder.read_later(mean, self._apply(active, lr)))
            value = float(mean)
            norm = float(self._apply(active, lr)) if math.isfinite(value) else math.nan
            return PendingStep(active.name, lr, count, lambda: (value, norm))

    def _accumulate(self, active: ActivePhase, batches: Sequence[Any], sampling: float) -> tuple[Tensor, int]:
        """Put the gradient of the mean over all tokens of the batches into the parameters; returns it and their number."""
        sums: dict[nn.Parameter, Tensor] = {}
        total, count = torch.zeros((), device=self.device), 0
        for batch in batches:
            mean, tokens = self._gradient(active, batch, sampling)
            for parameter in active.parameters:
                if parameter.grad is not None and parameter in sums:
                    sums[parameter].add_(parameter.grad, alpha=tokens)
                elif parameter.grad is not None:
                    sums[parameter] = parameter.grad * tokens
            total, count = total + mean * tokens, count + tokens
        for parameter, gradient in sums.items():
            parameter.grad = gradient.div_(max(count, 1))
        return total / max(count, 1), count

    def _gradient(self, active: ActivePhase, batch: Any, sampling: float) -> tuple[Tensor, int]:
        """Put the gradient of a batch's mean loss into the parameters; returns that loss, and over how many tokens."""
        recorded = active.graphs.gradient(batch) if active.graphs else None
        if recorded is not None:
            return recorded, batch.tokens
        loss = self.loss(batch, sampling=sampling, phase=active)
        self._differentiate(active, loss.mean)
        return loss.mean.detach(), loss.count

    def _on_recording_stream(self, active: ActivePhase) -> AbstractContextManager[None]:
        return self._recorder.entered() if active.graphs and self._recorder is not None else nullcontext()

    def update(self, batch: Any, lr: float, *, sampling: float = 0.0, phase: ActivePhase | None = None) -> PendingStep:
        """One step by the gradient of a batch's mean loss; ``phase`` is the first unless given."""
        active = phase or self.phases[0]
        if self._recorder is None:
            with active.alone():
                loss = self.loss(batch, sampling=sampling, phase=active)
                value = float(loss.mean.detach())
                norm = self.step(loss, lr, phase=active) if math.isfinite(value) else math.nan
            return PendingStep(active.name, lr, loss.count, lambda: (value, norm))
        with self._explaining_out_of_memory(), self._on_recording_stream(active), active.alone():
            mean, count = self._gradient(active, batch, sampling)
            return PendingStep(active.name, lr, count, self._recorder.read_later(mean, self._apply(active, lr)))

    def loss(self, batch: Any, *, sampling: float = 0.0, phase: ActivePhase | None = None) -> Loss:
        """The smoothed loss of a batch, on the device."""
        smoothing = self.settings.label_smoothing
        with self._explaining_out_of_memory():
            return self._loss(
                phase or self.phases[0], self.model, batch.to(self.device), smoothing=smoothing, sampling=sampling
            )

    def _loss(self, active: ActivePhase, *given: Any, **options: Any) -> Loss:
        # A network's forward sets the precision; phases that call parts of the network directly need autocast.
        with self._fabric.autocast() if len(self.phases) > 1 else nullcontext():
            return active.phase.loss(*given, **options)

    def step(self, loss: Loss, lr: float, *, phase: ActivePhase | None = None) -> float:
        """One step by the loss's gradient; returns the gradient's norm before clipping."""
        active = phase or self.phases[0]
        with self._explaining_out_of_memory():
            self._differentiate(active, loss.mean)
            return float(self._apply(active, lr))

    def _differentiate(self, active: ActivePhase, mean: Tensor) -> None:
        if not mean.requires_grad:
            if len(self.phases) > 1:
                raise SaccadeError(
                    f"phase {active.name!r}: expected a loss that depends on its parameters, found another"
                )
            frozen = ", ".join(self.settings.freeze)
            raise SaccadeError(
                f"train.freeze: expected trainable parameters that the loss depends on, found none: {frozen} is frozen"
            )
        active.optimiser.zero_grad(set_to_none=True)
        self._fabric.backward(mean)

    def _apply(self, active: ActivePhase, lr: float) -> Tensor:
        """Clip the gradient and take a step; returns its norm before."""
        for group in active.optimiser.param_groups:
            group["lr"] = lr * group["share"]
        norm = self._fabric.clip_gradients(
            self.model, active.optimiser, max_norm=active.settings.clip or math.inf, error_if_nonfinite=False
        )
        active.optimiser.step()
        if len(self.phases) > 1:  # the next phase finds no gradients
            active.optimiser.zero_grad(set_to_none=True)
        return torch.zeros(()) if norm is None else norm

    @contextmanager
    def _explaining_out_of_memory(self) -> Iterator[None]:
        try:
            yield
        except torch.OutOfMemoryError:
            tokens, records = self.settings.batch_tokens, self.settings.batch_records
            raise SaccadeError(
                f"{self.device}: expected memory for a batch, found too little; lower train.batch_tokens (now {tokens}) or "
                f"train.batch_records (now {records}), or try train.precision=bf16"
            ) from None


def _say_of_phase(say: Callable[[str], None], name: str, text: str) -> None:
    say(f"phase {name}: {text}")


def freeze(network: nn.Module, names: Sequence[str]) -> None:
    """Exclude the named modules and parameters from training: ``encoder``, ``encoder.cells``, ``query_weight``."""
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
            f"train.freeze: expected at least one trainable parameter, found all frozen: {', '.join(names)}"
        )


def top_parts(network: nn.Module) -> dict[str, list[nn.Parameter]]:
    """The network's parameters by the first word of their names: ``encoder``, ``output``, …; shared ones count once."""
    parts: dict[str, list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        parts.setdefault(name.partition(".")[0], []).append(parameter)
    return parts


def _unknown_part(name: str, known: Sequence[str], top: dict[str, list[nn.Parameter]]) -> str:
    close = difflib.get_close_matches(name, [part for part in known if part], n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"train.freeze: expected parts of the network, such as {', '.join(top)}, found {name!r}{hint}"
