"""Local attention as the keys grow: time and memory of the reference, of the seen keys alone, and of one Triton launch.

    python benchmarks/kernels/local.py [--out FILE] [--device cuda] [--queries 1 512] [--keys 1024 … 65536]

Each query sees 21 keys (radius 10) whatever S is. *local-m* is a band around the query's own position, *local-p* a Gaussian
around a centre anywhere. Forward is without gradients; training is forward and backward to queries, keys, values, v and centre.
Peak memory is what a call holds at most beyond its inputs: in training the gradients of keys and values, 2 · N · S · D numbers,
are in it, and stated beside it. Where the reference would hold more than --most-gigabytes it is left out. The last table is a
decoder's loop, one query a call.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import gc
import importlib
import statistics
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import device_name

KERNELS = ("reference", "blocked", "fused")
RADIUS = 10


class LiveBytes(TorchDispatchMode):
    """The most bytes that tensors made here, and not yet freed, took together: what a CPU has no counter for."""

    def __init__(self, given: list[Tensor]) -> None:
        super().__init__()
        self.given = {tensor.untyped_storage()._cdata for tensor in given}
        self.live: dict[int, int] = {}
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor) and tensor.numel():
                storage = tensor.untyped_storage()
                if storage._cdata not in self.live and storage._cdata not in self.given:
                    self.live[storage._cdata] = storage.nbytes()
                    weakref.finalize(storage, self.live.pop, storage._cdata, None)
        self.peak = max(self.peak, sum(self.live.values()))
        return result


def inputs(args: argparse.Namespace, T: int, S: int, kind: str, score: str) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(1)
    shapes = {
        "query": (args.batch, T, args.width),
        "key": (args.batch, S, args.width),
        "value": (args.batch, S, args.width),
    }
    dtype = getattr(torch, args.dtype)
    made: dict[str, Any] = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    if score == "additive":
        made["v"] = torch.randn(args.width, generator=generator) / args.width**0.5
    made = {name: tensor.to(args.device, dtype).requires_grad_() for name, tensor in made.items()}
    if kind == "local-p":
        centre = torch.rand(args.batch, T, generator=generator) * S
        made |= {"centre": centre.to(args.device).requires_grad_(), "sigma": RADIUS / 2}
    else:
        made["shift"] = (S - T) // 2
    return made


def peak_bytes(step: Callable[[], object], given: list[Tensor]) -> int:
    gc.collect()
    if given[0].is_cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        return int(torch.cuda.max_memory_allocated() - before)
    with LiveBytes(given) as memory:
        step()
    return memory.peak


def milliseconds(step: Callable[[], object], seconds: float, cuda: bool) -> float:
    """The median of the calls that fit into some seconds, and of three at least."""
    step()
    taken: list[float] = []
    until = time.perf_counter() + seconds
    while len(taken) < 3 or (time.perf_counter() < until and len(taken) < 200):
        if cuda:
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda.synchronize()
            start.record()
            step()
            stop.record()
            torch.cuda.synchronize()
            taken.append(start.elapsed_time(stop))
        else:
            began = time.perf_counter()
            step()
            taken.append(1e3 * (time.perf_counter() - began))
    return statistics.median(taken)


def fits(args: argparse.Namespace, kernel: str, T: int, S: int, score: str) -> bool:
    """Whether the reference's largest tensors, about three of them, stay within the limit."""
    pairs = args.batch * T * S * (args.width if score == "additive" else 1)
    return kernel != "reference" or 3 * 4 * pairs <= args.most_gigabytes * 1e9


def measured(
    args: argparse.Namespace, kernel: str, T: int, S: int, kind: str, score: str
) -> tuple[float, float, float, float]:
    """Milliseconds and MB of the forward pass, then of training."""
    attention = importlib.import_module(f"saccade.kernels.local.{kernel}").local_attention
    made = inputs(args, T, S, kind, score)
    tensors = [tensor for tensor in made.values() if isinstance(tensor, Tensor)]
    grad = torch.randn_like(made["query"])

    def forward() -> None:
        with torch.no_grad():
            attention(**made, radius=RADIUS)

    def training() -> None:
        torch.autograd.grad(attention(**made, radius=RADIUS), tensors, grad)

    found: list[float] = []
    for step in (forward, training):
        found.append(milliseconds(step, args.seconds, made["query"].is_cuda))
        found.append(peak_bytes(step, [*tensors, grad]) / 1e6)
    return found[0], found[1], found[2], found[3]


def table(args: argparse.Namespace, kernels: list[str], T: int, kind: str, score: str) -> Iterator[str]:
    yield f"\n### {kind}, {score}, {T} {'query' if T == 1 else 'queries'}\n"
    yield (
        "| S | "
        + " | ".join(f"{kernel}: forward | training" for kernel in kernels)
        + " | gradients of keys and values |"
    )
    yield "|---|" + "---|---|" * len(kernels) + "---|"
    for S in args.keys:
        cells = [f"{S:,}"]
        for kernel in kernels:
            if not fits(args, kernel, T, S, score):
                cells += ["–", "–"]
                continue
            forward, forward_size, training, training_size = measured(args, kernel, T, S, kind, score)
            cells += [f"{forward:.3f} ms, {forward_size:.1f} MB", f"{training:.3f} ms, {training_size:.1f} MB"]
        size = 2 * args.batch * S * args.width * getattr(torch, args.dtype).itemsize
        yield "| " + " | ".join([*cells, f"{size / 1e6:.1f} MB"]) + " |"


def decode(attention: Callable[..., Tensor], made: dict[str, Any]) -> None:
    """One query a call, as a decoder asks, and the gradients of all of them."""
    query, key, value, centre = tensors = [made[name] for name in ("query", "key", "value", "centre")]
    rows = [
        attention(
            query[:, t : t + 1],
            key,
            value,
            centre=centre[:, t : t + 1],
            radius=RADIUS,
            sigma=made["sigma"],
        )
        for t in range(query.shape[1])
    ]
    torch.autograd.grad(torch.cat(rows, 1).sum(), tensors)


def decoder_table(args: argparse.Namespace, kernels: list[str]) -> Iterator[str]:
    kernels = [kernel for kernel in kernels if kernel != "reference"]
    yield f"\n### a decoder's loop of {args.steps} steps, local-p, dot: training; time a step\n"
    yield "| S | " + " | ".join(kernels) + " |"
    yield "|---|" + "---|" * len(kernels)
    for S in args.keys:
        made = inputs(args, args.steps, S, "local-p", "dot")
        given = [tensor for tensor in made.values() if isinstance(tensor, Tensor)]
        cells = [f"{S:,}"]
        for kernel in kernels:
            attention = importlib.import_module(f"saccade.kernels.local.{kernel}").local_attention
            loop = functools.partial(decode, attention, made)
            taken = milliseconds(loop, args.seconds, given[0].is_cuda) / args.steps
            cells.append(f"{taken:.3f} ms, {peak_bytes(loop, given) / 1e6:.1f} MB")
        yield "| " + " | ".join(cells) + " |"


def report(args: argparse.Namespace) -> Iterator[str]:
    cuda = args.device.startswith("cuda")
    device = device_name("cuda") if cuda else f"{device_name('cpu')}, {torch.get_num_threads()} threads"
    kernels = [kernel for kernel in KERNELS if cuda or kernel != "fused"]
    yield f"# Local attention, {datetime.date.today()}\n"
    yield f"{device}; torch {torch.__version__}; N = {args.batch}, D = E = {args.width}, {args.dtype}, radius {RADIUS}."
    for kind in ("local-m", "local-p"):
        for score in args.scores:
            for T in args.queries:
                yield from table(args, kernels, T, kind, score)
    yield from decoder_table(args, kernels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the table here too")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 512])
    parser.add_argument("--keys", type=int, nargs="+", default=[1024 << power for power in range(7)])
    parser.add_argument("--scores", nargs="+", default=["dot", "additive"], choices=["dot", "additive"])
    parser.add_argument("--steps", type=int, default=32, help="of the decoder's loop")
    parser.add_argument("--seconds", type=float, default=0.3, help="spent on each time")
    parser.add_argument("--most-gigabytes", type=float, default=60.0, help="what the reference may hold")
    args = parser.parse_args()
    lines = []
    for line in report(args):
        print(line, flush=True)
        lines.append(line)
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
