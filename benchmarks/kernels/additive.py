"""Additive attention, vᵀ tanh(q + k) → softmax → values, on a GPU beside its peers: time, memory, and how exact it is.

    python benchmarks/kernels/additive.py --out TABLE.md [--parts speed,sweep,heads,exact]

- ``speed``: B=16, T=S=D=512, from q, k, v to the contexts and back; eager PyTorch, torch.compile, Keras and JAX where they
  are installed, and scaled-dot attention (SDPA) for comparison. The floor is stated: one special-function operation a tanh.
- ``sweep``: T=S from 64 to 16,384. ``heads``: 8 heads of 64.
- ``exact``: inputs of 1e-4 to 1e2 against float64: the error of contexts and gradients beside eager's own in that dtype.

Times are medians between CUDA events of calls that follow each other, after a warm-up; memory is the peak above what was
there before the call.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

import saccade
from saccade import attend
from saccade.attention.scores import additive

Attention = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def eager(query: Tensor, key: Tensor, value: Tensor, v: Tensor) -> Tensor:
    scores = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)) @ v
    return torch.softmax(scores, -1) @ value


def ours(query: Tensor, key: Tensor, value: Tensor, v: Tensor) -> Tensor:
    return attend(query, key, value, score=additive(v))


def scaled_dot(query: Tensor, key: Tensor, value: Tensor, v: Tensor | None = None) -> Tensor:
    return torch.nn.functional.scaled_dot_product_attention(query, key, value)


# ---- Measuring


def tensors(dtype: torch.dtype, *shape: int, S: int | None = None, size: float = 0.5, seed: int = 1) -> list[Tensor]:
    """query, key, value, v of standard deviation ``size`` (v: 1/√D), which want gradients."""
    *batch, T, D = shape
    chance = torch.Generator("cuda").manual_seed(seed)

    def normal(*dims: int, scale: float) -> Tensor:
        return (torch.randn(*dims, generator=chance, device="cuda") * scale).to(dtype).requires_grad_()

    keys = (*batch, S or T, D)
    return [normal(*shape, scale=size), normal(*keys, scale=size), normal(*keys, scale=1.0), normal(D, scale=D**-0.5)]


def milliseconds(function: Callable[[], object], least: float = 100.0) -> float:
    """The median of calls that follow each other as they would in a training loop: the host does not wait between them, and
    where it is slower than the device, that shows."""
    for _ in range(3):
        function()
    torch.cuda.synchronize()
    once = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    once[0].record()
    function()
    once[1].record()
    torch.cuda.synchronize()
    calls = max(10, min(200, int(least / once[0].elapsed_time(once[1]))))
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(calls + 1)]
    for mark in marks[:-1]:
        mark.record()
        function()
    marks[-1].record()
    torch.cuda.synchronize()
    times = sorted(before.elapsed_time(after) for before, after in itertools.pairwise(marks))
    return times[len(times) // 2]


def peak(function: Callable[[], object]) -> float:
    """Megabytes above what was allocated before."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    function()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 1e6


def passes(attention: Attention, inputs: list[Tensor]) -> tuple[Callable[[], None], Callable[[], None]]:
    """Forward alone, and forward with backward from a gradient of the contexts."""
    grad = inputs[2].new_ones(*inputs[0].shape[:-1], inputs[2].shape[-1])

    def forward() -> None:
        with torch.no_grad():
            attention(*inputs)

    def both() -> None:
        torch.autograd.grad(attention(*inputs), inputs, grad)

    return forward, both


def measure(attention: Attention, inputs: list[Tensor]) -> str:
    """A row's three figures: forward, forward + backward, peak memory; or what went wrong."""
    forward, both = passes(attention, inputs)
    try:
        return f"{milliseconds(forward):.3f} | {milliseconds(both):.3f} | {peak(both):,.0f}"
    except torch.OutOfMemoryError:
        return "out of memory | – | –"
    except Exception as fault:
        return f"failed: {type(fault).__name__} {str(fault).splitlines()[0][:60] if str(fault) else ''} | – | –"
    finally:
        torch.cuda.empty_cache()


def measure_replayed(attention: Attention, inputs: list[Tensor]) -> str:
    """The same for calls that were recorded as CUDA graphs, as ``train.graphs`` does: the host's share is gone."""
    figures = []
    for function in passes(attention, inputs):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            function()
            function()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # JAX has threads of its own
            function()
        figures.append(f"{milliseconds(graph.replay):.3f}")
        graph.reset()
    return " | ".join([*figures, "–"])


@contextmanager
def precision(name: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


# ---- The parts


def keras_attention() -> Attention | None:
    try:
        import os

        os.environ.setdefault("KERAS_BACKEND", "torch")
        import keras
    except ImportError:
        return None

    def attention(query: Tensor, key: Tensor, value: Tensor, v: Tensor) -> Tensor:
        layer = keras.layers.AdditiveAttention()
        layer.build([query.shape, value.shape, key.shape])
        scores = layer._calculate_scores  # the layer's own arithmetic, with our v in its scale's place
        layer.scale = v
        return torch.softmax(scores(query, key), -1) @ value

    return attention


def jax_rows(dtype: str, inputs: list[Tensor]) -> str:
    try:
        import os

        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import jax
        import jax.numpy as jnp
    except ImportError:
        return "not installed | – | –"
    arrays = [jnp.asarray(each.detach().float().cpu().numpy()).astype(dtype) for each in inputs]

    def attention(query: jax.Array, key: jax.Array, value: jax.Array, v: jax.Array) -> jax.Array:
        scores = jnp.einsum("ntsd,d->nts", jnp.tanh(query[:, :, None] + key[:, None]), v)
        return jnp.einsum("nts,nse->nte", jax.nn.softmax(scores, -1), value)

    forward = jax.jit(attention)
    both = jax.jit(jax.grad(lambda *given: attention(*given).sum(), argnums=(0, 1, 2, 3)))
    import time

    figures = []
    for function in (forward, both):
        jax.block_until_ready(function(*arrays))
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            jax.block_until_ready(function(*arrays))
            times.append(1e3 * (time.perf_counter() - begin))
        figures.append(f"{sorted(times)[10]:.3f}")
    return " | ".join([*figures, "–"])


def speed() -> Iterator[str]:
    yield from ("| dtype | who | forward, ms | forward + backward, ms | peak MB |", "|---|---|---|---|---|")
    for name, dtype in DTYPES.items():
        inputs = tensors(dtype, 16, 512, 512)
        rows: dict[str, Attention | None] = {
            "saccade": ours,
            "eager PyTorch": eager,
            "torch.compile": torch.compile(eager),
            "Keras, torch backend": keras_attention(),
        }
        for who, attention in rows.items():
            figures = "not installed | – | –" if attention is None else measure(attention, inputs)
            yield f"| {name} | {who} | {figures} |"
        yield f"| {name} | saccade, replayed from a CUDA graph | {measure_replayed(ours, inputs)} |"
        if dtype == torch.float32:
            with precision("high"):
                yield f"| {name}, TF32 welcome | saccade | {measure(ours, inputs)} |"
                yield f"| {name}, TF32 welcome | saccade, replayed | {measure_replayed(ours, inputs)} |"
        yield f"| {name} | JAX, jit | {jax_rows(name, inputs)} |"
        split = [each.detach().unflatten(-1, (8, 64)).transpose(1, 2).requires_grad_() for each in inputs[:3]]
        yield f"| {name} | SDPA, 8 heads of 64 | {measure(scaled_dot, split)} |"
    properties = torch.cuda.get_device_properties(0)
    clock = 1e3 * getattr(properties, "clock_rate", 1.98e6)  # in kHz; torch before 2.12 does not tell it
    floor = 16 * 512**3 / (16 * properties.multi_processor_count * clock) * 1e3
    yield f"\nOne special-function operation a tanh would take {floor:.2f} ms forward at {clock / 1e9:.2f} GHz."


def sweep() -> Iterator[str]:
    yield "| T = S | B | dtype | forward, ms | forward + backward, ms | peak MB | eager forward + backward |"
    yield "|---|---|---|---|---|---|---|"
    for T in (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384):
        B = max(1, min(16, 4096 // T))
        for name in ("float32", "bfloat16"):
            inputs = tensors(DTYPES[name], B, T, 512)
            beside = measure(eager, inputs).split(" | ")[1] if B * T * T * 512 * 4 < 20e9 else "–"
            yield f"| {T} | {B} | {name} | {measure(ours, inputs)} | {beside} |"


def heads() -> Iterator[str]:
    yield from ("| dtype | who | forward, ms | forward + backward, ms | peak MB |", "|---|---|---|---|---|")
    for name, dtype in DTYPES.items():
        inputs = tensors(dtype, 16, 8, 512, 64)
        yield f"| {name} | saccade, 8 heads of 64 | {measure(ours, inputs)} |"


def exact() -> Iterator[str]:
    """The greatest of ‖error‖ / ‖exact‖ over contexts and gradients, ours and eager's."""
    names = ("context", "∂q", "∂k", "∂value", "∂v")
    yield from (f"| dtype | size | {' | '.join(names)} |", "|---" * 7 + "|")
    worst = 0.0
    for name, dtype in DTYPES.items():
        for size in (1e-4, 1e-2, 0.1, 0.5, 1.0, 3.0, 10.0, 100.0):
            inputs = tensors(dtype, 3, 65, 96, S=131, size=size)
            true = [each.detach().double().requires_grad_() for each in inputs]
            weight = torch.randn(3, 65, 96, device="cuda", generator=torch.Generator("cuda").manual_seed(7))
            figures = []
            for given, attention in ((true, eager), (inputs, eager), (inputs, ours)):
                context = attention(*given)
                found = torch.autograd.grad((context * weight.to(context.dtype)).sum(), given)
                figures.append([context, *found])
            errors = [
                tuple(float((each.double() - goal).norm() / goal.norm()) for each in (theirs, mine))
                for goal, theirs, mine in zip(*figures, strict=True)
            ]
            cells = [f"{mine:.1e} / {theirs:.1e}" for theirs, mine in errors]
            worst = max([worst, *(mine / max(theirs, 1e-12) for theirs, mine in errors)])
            yield f"| {name} | {size:g} | {' | '.join(cells)} |"
    yield f"\nRelative errors against float64, ours / eager's. The greatest ratio: {worst:.2f}."


PARTS = {"speed": speed, "sweep": sweep, "heads": heads, "exact": exact}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parts", default=",".join(PARTS))
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this benchmark measures a GPU, and PyTorch finds none")
    asked = options.parts.split(",")
    if unknown := [part for part in asked if part not in PARTS]:
        sys.exit(f"--parts: expected any of {', '.join(PARTS)}, found {unknown[0]!r}")
    head = (
        f"# Additive attention on a GPU\n\n{datetime.date.today()}, {torch.cuda.get_device_name()}. Python "
        f"{platform.python_version()}, torch {torch.__version__}, saccade {saccade.__version__}. "
        f"`python benchmarks/kernels/additive.py --parts {options.parts}`\n"
    )
    with options.out.open(
        "w", encoding="utf-8", buffering=1
    ) as out:  # row by row: what was measured is there if it is cut off
        out.write(head)
        for part in asked:
            out.write(f"\n## {part}\n\n")
            for line in PARTS[part]():
                out.write(line + "\n")
                print(line, flush=True)


if __name__ == "__main__":
    main()
