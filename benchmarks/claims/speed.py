"""Parallel speed: the time of a training step (forward, backward, update) by length, with as many tokens in every batch."""

from __future__ import annotations

import statistics
import time
from contextlib import nullcontext
from typing import Any

import torch
from networks import Reader, Sizes, network_of, parameters
from torch.nn import functional

SYMBOLS = 256
WARM, LEAST, MOST = 3, 5, 30
SECONDS = 2.0  # how long a cell is repeated, between LEAST and MOST times


def step_time(name: str, sizes: Sizes, length: int, tokens: int, device: str, precision: str) -> dict[str, Any]:
    """The median and the quartiles of repeated steps, after some that are not counted; every place guesses a symbol."""
    torch.manual_seed(1)
    network = network_of(name, sizes, length)
    reader = Reader(network, sizes.width, SYMBOLS).to(device)
    optimiser = torch.optim.Adam(reader.parameters(), lr=1e-4)
    symbols = torch.randint(SYMBOLS, (max(1, tokens // length), length), device=device)
    roles = torch.zeros_like(symbols)
    autocast = torch.autocast(device, torch.bfloat16) if precision == "bf16" else nullcontext()

    def step() -> None:
        with autocast:
            logits = reader(symbols, roles)
        loss = functional.cross_entropy(logits.float().flatten(0, 1), symbols.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    try:
        times = repeated(step, device)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return {"failed": "out of memory", "sequences": len(symbols)}
    lower, middle, upper = statistics.quantiles(times, n=4, method="inclusive")
    found: dict[str, Any] = {"ms": middle, "lower": lower, "upper": upper}
    found |= {"repeats": len(times), "sequences": len(symbols), "parameters": parameters(network)}
    if device == "cuda":
        found["peak_mb"] = torch.cuda.max_memory_allocated() / 1e6
    return found


def repeated(step: Any, device: str) -> list[float]:
    """Milliseconds of each step; a GPU's by its own events."""
    for _ in range(WARM):
        step()
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < LEAST or (len(times) < MOST and time.perf_counter() - begin < SECONDS):
        if device == "cuda":
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda.synchronize()
            start.record()
            step()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        else:
            started = time.perf_counter()
            step()
            times.append(1000 * (time.perf_counter() - started))
    return times
