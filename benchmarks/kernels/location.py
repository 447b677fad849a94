"""A step of location-aware scores: the kernel that serves, beside the formula in PyTorch's own operations.

    python benchmarks/kernels/location.py [--out TABLE.md] [--device cuda] [--threads 1] [--repeats 20]

Forward, backward, and forward without gradients, each the fastest of the repeats.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from pathlib import Path

import torch
from torch import Tensor

from saccade.kernels.choose import choose_location_aware
from saccade.kernels.location import reference

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import device_name

SIZES = [  # items, keys, width, filters, taps
    (16, 300, 512, 10, 201),
    (1, 300, 512, 10, 201),
    (16, 150, 128, 10, 201),
    (32, 800, 512, 10, 201),
    (8, 60, 64, 4, 21),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    lines = [
        f"{datetime.date.today()}, {device_name(options.device)}, {options.threads} threads, torch {torch.__version__}.",
        "",
        "| items, keys, width, filters, taps | kernel | forward, ms | backward, ms | without gradients, ms |",
        "|---|---|---|---|---|",
    ]
    for size in SIZES:
        for name, times in measured(size, options.device, options.repeats).items():
            shown = " | ".join(f"{1000 * seconds:.2f}" for seconds in times)
            lines.append(f"| {', '.join(map(str, size))} | {name} | {shown} |")
    text = "\n".join([*lines, ""])
    print(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


def measured(size: tuple[int, int, int, int, int], device: str, repeats: int) -> dict[str, list[float]]:
    """Seconds of forward, backward and forward without gradients, by the name of the kernel."""
    N, S, D, C, K = size
    shapes = ((N, 1, D), (N, S, D), (D,), (N, 1, S), (C, K), (D, C))
    inputs = [0.3 * torch.randn(shape, device=device) for shape in shapes]
    inputs[3] = torch.softmax(inputs[3], -1)
    inputs = [tensor.requires_grad_() for tensor in inputs]
    grad = torch.randn(N, 1, S, device=device)
    query, key, v, _, filters, _ = inputs
    choice = choose_location_aware(query, key, v, filters)
    kernels = {"location_aware.reference": reference.location_aware_scores, choice.kernel: choice.function}
    return {name: fastest(function, inputs, grad, repeats) for name, function in kernels.items()}


def fastest(function: object, inputs: list[Tensor], grad: Tensor, repeats: int) -> list[float]:
    best = [float("inf")] * 3
    for _ in range(repeats):
        times = [clock(grad)]
        scores = function(*inputs)  # type: ignore[operator]
        times.append(clock(grad))
        torch.autograd.grad(scores, inputs, grad)
        times.append(clock(grad))
        with torch.no_grad():
            function(*inputs)  # type: ignore[operator]
        times.append(clock(grad))
        best = [min(old, after - before) for old, before, after in zip(best, times, times[1:], strict=False)]
    return best


def clock(tensor: Tensor) -> float:
    if tensor.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    main()
