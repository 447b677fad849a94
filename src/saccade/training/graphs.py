"""Updates that are not bound by launches: the gradient of a batch as a CUDA graph, one for each shape of batch.

    batch → the nearest of few shapes → buffers → forward and backward, repeated with one call → the parameters' gradients

Padding weighs nothing, so neither the loss nor its gradient changes. A shape is computed live when it first comes, then
recorded, and repeated once with the same random numbers: where loss or gradient are not the live ones, or anything fails,
nothing is recorded any more and training goes on live. Clipping and the optimiser's step stay outside.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from saccade.nn.cuda_graphs import Unrecordable
from saccade.task import Task
from saccade.training.config import Train
from saccade.training.recording import Recorder, Work

MOST = 64  # shapes: each holds its launches on the device, some megabytes; what comes beyond is computed live
CLOSE = 1e-2  # a repeated gradient may differ from the live one by this share: sums are done in another order at most

Shape = tuple[tuple[int, ...], ...]


def why_not(settings: Train) -> str | None:
    """What in a recipe forbids graphs; None: nothing."""
    if settings.graphs == "off":
        return "train.graphs is off"
    if settings.sampling:
        return "train.sampling feeds a network its own outputs at a rate that changes with every update"
    if settings.precision == "16":
        return "train.precision=16 looks at every gradient before it is used; bf16 does not"
    return None


@dataclass(frozen=True)
class Recorded:
    """A batch's place on the device, and what computes its gradient there."""

    buffers: dict[str, Tensor]
    learning: frozenset[nn.Parameter]  # the parameters that have a gradient
    repeat: Work


class Graphs:
    """The gradient of a batch, from a recording where there is one.

    Args:
        backward: puts the gradient of a scalar into the parameters.
        say: where it is told, once, that recording ended and why.
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
    ) -> None:
        self.recorder, self.task, self.model, self.smoothing = recorder, task, model, settings.label_smoothing
        self._backward, self._say = backward, say
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.recorded: dict[Shape, Recorded] = {}
        self._gradients: dict[nn.Parameter, Tensor] = {}  # one for all graphs, outside their memory
        device = self.parameters[0].device
        self._loss, self._count = torch.zeros((), device=device), torch.zeros((), device=device)
        self.ended = False

    def gradient(self, batch: Any) -> Tensor | None:
        """Put the gradient of the batch's mean loss into the parameters; returns that loss. None: compute it live."""
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
        known.repeat()
        return self._loss

    def _bucketed(self, batch: Any) -> Any:
        """The batch in one of few shapes; as it is where that would be wider than what the network has places for."""
        bucketed, longest = batch.bucketed(), getattr(self.model, "longest", None)
        widths = [tensor.shape[1] for tensor in _tensors(bucketed).values() if tensor.dim() > 1]
        return batch if longest is not None and max(widths, default=0) > longest else bucketed

    def _try_to_record(self, shape: Shape, batch: Any, tensors: dict[str, Tensor]) -> Tensor | None:
        state, buffers = self.recorder.random_state(), [(each, each.clone()) for each in self.model.buffers()]

        def undo() -> None:
            self.recorder.restore_random_state(state)
            for buffer, content in buffers:
                buffer.copy_(content)

        try:
            found = self._record(batch, tensors, undo)
        except Exception as error:  # a network may fail in any way here that it does not when live
            undo()
            kind = "" if isinstance(error, Unrecordable) else f"{type(error).__name__}: "
            self._end(f"{kind}{str(error).strip().partition(chr(10))[0]}")
            return None
        if found is not None:
            self.recorded[shape] = found
        return self._loss

    def _record(self, batch: Any, tensors: dict[str, Tensor], undo: Work) -> Recorded | None:
        """Live, recorded and repeated; None where the loss is not finite, with which training ends."""
        device, own = self._loss.device, list(self.model.buffers())
        buffers = {name: torch.empty_like(tensor, device=device) for name, tensor in tensors.items()}
        self._fill(buffers, tensors, batch.tokens)
        batch = replace(batch, **buffers)
        self._take(())
        with self.recorder.refusing_waits():
            self._compute(batch)
        live, loss = {each: each.grad for each in self.parameters if each.grad is not None}, self._loss.clone()
        if any(one is not other for one, other in zip(own, self.model.buffers(), strict=True)):
            raise Unrecordable("the network puts other tensors in its buffers' place")
        if not bool(loss.isfinite()):
            return None
        undo()
        for parameter in live:
            self._gradients.setdefault(parameter, torch.zeros_like(parameter))
        self._take(live)
        repeat = self.recorder.record(lambda: self._compute(batch))
        if any(each.grad is not (self._gradients[each] if each in live else None) for each in self.parameters):
            raise Unrecordable("other parameters have a gradient than before")
        repeat()
        self._check(loss, live)
        return Recorded(buffers, frozenset(live), repeat)

    def _compute(self, batch: Any) -> None:
        """Forward and backward: from the buffers to the gradients, of which those that are there are written over."""
        present = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        if present:
            torch._foreach_zero_(present)
        loss = self.task.loss(self.model, batch, smoothing=self.smoothing)
        if loss.count != batch.tokens:
            raise Unrecordable(f"the loss counts {loss.count} of a batch of {batch.tokens}")
        # Loss.mean divides by a number of the host's, which a recording would keep for good.
        mean = loss.total / self._count
        self._backward(mean)
        self._loss.copy_(mean.detach())

    def _check(self, loss: Tensor, live: dict[nn.Parameter, Tensor]) -> None:
        gap = torch.stack([(self._gradients[each] - grad).float().square().sum() for each, grad in live.items()]).sum()
        size = torch.stack([grad.float().square().sum() for grad in live.values()]).sum()
        apart, whole = float((gap / size.clamp_min(1e-30)).sqrt()), float(loss)
        if not (apart <= CLOSE and abs(float(self._loss) - whole) <= CLOSE * max(1.0, abs(whole))):
            found = f"loss {float(self._loss):.6g} for {whole:.6g}, gradient {apart:.1%} off"
            raise Unrecordable(f"a repeated update is not the live one ({found})")

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
