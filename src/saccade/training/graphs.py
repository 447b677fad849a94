"""Records the gradient computation of a batch as a CUDA graph, one per batch shape; replaying it removes launch overhead.

    batch → padded to one of few shapes → buffers → forward and backward, replayed with one call → the parameters' gradients

Padding has no weight, so neither the loss nor its gradient changes. A shape is computed eagerly when it first comes, then
recorded, and replayed once with the same random numbers: if loss or gradient differ from the eager ones, or anything fails,
recording ends and training continues eagerly. Clipping and the optimiser's step stay outside the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from saccade.nn.cuda_graphs import Unrecordable
from saccade.task import Loss, Task
from saccade.training.config import Train
from saccade.training.recording import Recorder, Work

MOST = 64  # shapes: each graph takes some megabytes of the device; further shapes are computed eagerly
CLOSE = 1e-2  # a replayed gradient may differ from the eager one by this share: at most, sums are in another order

Shape = tuple[tuple[int, ...], ...]


def why_not(settings: Train) -> str | None:
    """Which setting of a recipe rules out CUDA graphs; None where they may be used."""
    if settings.graphs == "off":
        return "train.graphs is off"
    if settings.sampling:
        return "train.sampling feeds a network its own outputs at a rate that changes with every update"
    if settings.precision == "16":
        return "train.precision=16 checks every gradient on the host before it is used; bf16 does not"
    return None


@dataclass(frozen=True)
class Recorded:
    """The graph of one batch shape, and the device buffers that it reads."""

    buffers: dict[str, Tensor]
    learning: frozenset[nn.Parameter]  # the parameters that have a gradient
    replay: Work


class Graphs:
    """The gradient of a batch, by a recorded graph where there is one.

    Args:
        backward: adds the gradient of a scalar to the parameters'.
        say: receives one message if recording ends, with the reason.
        loss, parameters, state: of a training phase; the task's loss and all trainable parameters unless given.
    """

    def __init__(
        self,
        recorder: Recorder,
        task: Task,
        model: nn.Module,
        settings: Train,
        *,
        backward: Callable[[Tensor], None],
        say: Callable[[str], None],
        loss: Callable[..., Loss] | None = None,
        parameters: Sequence[nn.Parameter] | None = None,
        state: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.recorder, self.task, self.model, self.smoothing = recorder, task, model, settings.label_smoothing
        self._loss_of, self._state = loss or task.loss, state or {}
        self._backward, self._say = backward, say
        trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.parameters = trainable if parameters is None else list(parameters)
        self.recorded: dict[Shape, Recorded] = {}
        self._gradients: dict[nn.Parameter, Tensor] = {}  # shared by all graphs, outside their memory pool
        device = self.parameters[0].device
        self._loss, self._count = torch.zeros((), device=device), torch.zeros((), device=device)
        self.ended = False

    def gradient(self, batch: Any) -> Tensor | None:
        """Put the gradient of the batch's mean loss into the parameters; returns that loss. None: compute it eagerly."""
        if self.ended:
            return None
        if not hasattr(batch, "bucketed"):
            self._end(f"batches of the task {self.task.name!r} come in any shape")
            return None
        batch = self._bucketed(batch)
        tensors = _tensors(batch)
        shape = tuple(tuple(tensor.shape) for tensor in tensors.values())
        known = self.recorded.get(shape)
        if known is None:
            return None if len(self.recorded) >= MOST else self._try_to_record(shape, batch, tensors)
        self._fill(known.buffers, tensors, batch.tokens)
        self._take(known.learning)
        known.replay()
        return self._loss

    def _bucketed(self, batch: Any) -> Any:
        """The batch padded to one of few shapes; unchanged where that would be longer than the network's positions."""
        bucketed, longest = batch.bucketed(), getattr(self.model, "longest", None)
        widths = [tensor.shape[1] for tensor in _tensors(bucketed).values() if tensor.dim() > 1]
        return batch if longest is not None and max(widths, default=0) > longest else bucketed

    def _buffers(self) -> list[Tensor]:
        """What a forward pass may change beside gradients."""
        return [*self.model.buffers(), *self._state.values()]

    def _try_to_record(self, shape: Shape, batch: Any, tensors: dict[str, Tensor]) -> Tensor | None:
        state, buffers = self.recorder.random_state(), [(buffer, buffer.clone()) for buffer in self._buffers()]

        def undo() -> None:
            self.recorder.restore_random_state(state)
            for buffer, content in buffers:
                buffer.copy_(content)

        try:
            recorded = self._record(batch, tensors, undo)
        except Exception as error:  # a network may fail in any way here that it does not when run eagerly
            undo()
            kind = "" if isinstance(error, Unrecordable) else f"{type(error).__name__}: "
            self._end(f"{kind}{str(error).strip().partition(chr(10))[0]}")
            return None
        if recorded is not None:
            self.recorded[shape] = recorded
        return self._loss

    def _record(self, batch: Any, tensors: dict[str, Tensor], undo: Work) -> Recorded | None:
        """Compute eagerly, record, replay and compare; None where the loss is not finite, which ends training."""
        device, own = self._loss.device, self._buffers()
        buffers = {name: torch.empty_like(tensor, device=device) for name, tensor in tensors.items()}
        self._fill(buffers, tensors, batch.tokens)
        batch = replace(batch, **buffers)
        self._take(())
        with self.recorder.refusing_waits():
            self._compute(batch)
        eager = {parameter: parameter.grad for parameter in self.parameters if parameter.grad is not None}
        loss = self._loss.clone()
        if any(before is not after for before, after in zip(own, self._buffers(), strict=True)):
            raise Unrecordable("the network replaces its buffers by other tensors")
        if not bool(loss.isfinite()):
            return None
        undo()
        for parameter in eager:
            self._gradients.setdefault(parameter, torch.zeros_like(parameter))
        self._take(eager)
        replay = self.recorder.record(lambda: self._compute(batch))
        if any(each.grad is not (self._gradients[each] if each in eager else None) for each in self.parameters):
            raise Unrecordable("other parameters have a gradient than before")
        replay()
        self._check(loss, eager)
        return Recorded(buffers, frozenset(eager), replay)

    def _compute(self, batch: Any) -> None:
        """Forward and backward, from the buffers to the gradients; gradients that are there are overwritten."""
        present = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        if present:
            torch._foreach_zero_(present)
        loss = self._loss_of(self.model, batch, smoothing=self.smoothing)
        if loss.count != batch.tokens:
            raise Unrecordable(f"the loss counts {loss.count} of a batch of {batch.tokens}")
        # Loss.mean divides by a number on the host, which would become a constant of the graph.
        mean = loss.total / self._count
        self._backward(mean)
        self._loss.copy_(mean.detach())

    def _check(self, loss: Tensor, eager: dict[nn.Parameter, Tensor]) -> None:
        gap = torch.stack([(self._gradients[each] - grad).float().square().sum() for each, grad in eager.items()]).sum()
        size = torch.stack([grad.float().square().sum() for grad in eager.values()]).sum()
        difference, expected = float((gap / size.clamp_min(1e-30)).sqrt()), float(loss)
        if not (difference <= CLOSE and abs(float(self._loss) - expected) <= CLOSE * max(1.0, abs(expected))):
            found = f"loss {float(self._loss):.6g} for {expected:.6g}, gradient {difference:.1%} off"
            raise Unrecordable(f"a replayed update differs from the eager one ({found})")

    def _fill(self, buffers: dict[str, Tensor], tensors: dict[str, Tensor], count: int) -> None:
        for name, tensor in tensors.items():
            self.recorder.fill(buffers[name], tensor)
        self._count.fill_(max(count, 1))

    def _take(self, learning: Container[nn.Parameter]) -> None:
        for parameter in self.parameters:
            parameter.grad = self._gradients[parameter] if parameter in learning else None

    def _end(self, reason: str) -> None:
        self.ended = True
        self.recorded.clear()
        self._gradients.clear()
        self._say(f"training without CUDA graphs: {reason}")


def _tensors(batch: Any) -> dict[str, Tensor]:
    contents = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: content for name, content in contents.items() if isinstance(content, Tensor)}
