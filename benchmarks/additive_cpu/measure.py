"""One contender at one size, in a process of its own: memory, time, and what it computed. Started by run.py.

Memory is the rise of the process's peak resident size above what it held with everything imported, warmed up on a
small input, and its inputs made. Time is the median of several repeats.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

Attention = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""(query [B, T, D], key [B, S, D], value [B, S, D], v [D]) → context [B, T, D], through scores and softmax."""


def our_attention(query: Tensor, key: Tensor, value: Tensor, v: Tensor) -> Tensor:
    from saccade import attend
    from saccade.attention.scores import additive

    return attend(query, key, value, score=additive(v))


def eager_attention(query: Tensor, key: Tensor, value: Tensor, v: Tensor) -> Tensor:
    scores = torch.tanh(query.unsqueeze(2) + key.unsqueeze(1)) @ v
    return torch.softmax(scores, -1) @ value


def keras_attention(v: Tensor) -> tuple[Attention, Tensor]:
    """Keras' layer holds its v (`scale`) itself: that tensor's gradient is the one to compare."""
    os.environ["KERAS_BACKEND"] = "torch"
    import keras  # type: ignore[import-not-found]

    layer = keras.layers.AdditiveAttention()
    layer.build([(None, None, v.shape[0])] * 3)
    layer.scale.assign(v.detach())
    return lambda query, key, value, v: layer([query, value, key]), layer.scale.value


def contestant(name: str, v: Tensor) -> tuple[Attention, Tensor]:
    """The contender's attention, and the tensor that is its v."""
    if name == "Keras AdditiveAttention":
        return keras_attention(v)
    if name == "torch.compile":
        return torch.compile(eager_attention, dynamic=False), v
    return {"saccade": our_attention, "eager PyTorch": eager_attention}[name], v


def peak_bytes() -> int:
    """The process's largest resident size so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def resident_bytes() -> int:
    """Its resident size now, its peak set back to it where the system lets us (Linux); else the peak so far."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
    except OSError:
        return peak_bytes()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def peak_since_reset() -> int:
    try:
        return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
    except OSError:
        return peak_bytes()


def inputs(B: int, T: int, S: int, D: int) -> tuple[list[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = ((B, T, D), (B, S, D), (B, S, D), (D,))
    tensors = [torch.randn(shape, generator=generator) for shape in shapes]
    tensors[3] /= D**0.5
    return [tensor.requires_grad_() for tensor in tensors], torch.randn(B, T, D, generator=generator)


def median_seconds(step: Callable[[], object], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def measure(contender: str, B: int, T: int, S: int, D: int, threads: int, repeats: int, keep: str) -> dict[str, float]:
    torch.set_num_threads(threads)
    (query, key, value, v), grad_context = inputs(B, T, S, D)
    attention, trained_v = contestant(contender, v)

    def forward() -> Tensor:
        with torch.no_grad():
            return attention(query, key, value, v)

    def training() -> tuple[Tensor, ...]:
        context = attention(query, key, value, v)
        return context.detach(), *torch.autograd.grad(context, (query, key, value, trained_v), grad_context)

    # A small input loads code and starts threads; compiled code is made for its size, so it warms up at full size.
    warm = slice(None) if contender == "torch.compile" else slice(0, 4)
    attention(query[:1, warm], key[:1, warm], value[:1, warm], v).sum().backward()
    if contender == "torch.compile":
        forward()
        training()

    before = resident_bytes()
    forward()
    forward_bytes = peak_since_reset() - before
    results = training()
    training_bytes = peak_since_reset() - before
    torch.save(results, keep)
    del results
    return {
        "forward_bytes": forward_bytes,
        "training_bytes": training_bytes,
        "forward_seconds": median_seconds(forward, repeats),
        "training_seconds": median_seconds(training, repeats),
    }


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    if folder := request.pop("keras_folder"):
        sys.path.append(folder)  # last, so that it shadows nothing the other contenders use
    print(json.dumps(measure(**request)))
