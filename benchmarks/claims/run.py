"""The essays' three claims about attention, measured: fewer parameters, parallel and so faster, no loss over distance.

    python benchmarks/claims/run.py --device cpu|cuda --out TABLE.md [--plots DIR] [--jobs 5] [--minutes 9]

Networks of one width and one number of layers (networks.py): an LSTM, an LSTM whose states look back, causal dilated
convolutions, the same as deep as the sequence asks for, and self-attention. All run as PyTorch runs them: no recorded graphs,
no compilation.

1. Parameters are counted, by width, by kernel and by length; input and output layers, equal for all, are left out.
2. Speed is the time of a training step (forward, backward, update) at each of ``--lengths``, with ``--tokens`` in every batch:
   the median of up to 30 steps after three that are not counted (speed.py).
3. Memory is the share of items recalled, ``--distances`` steps after they were shown, by a network trained on that distance for
   at most ``--updates`` updates, for each of ``--seeds`` (recall.py). Several train at once on a GPU with ``--jobs``.

Numbers go into one JSON file (``--json``; beside the table unless given) as they are made. What stands there already is not
measured again, so a run that was cut off is started anew with the same command; ``--minutes`` ends one in good order.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import shlex
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from networks import NAMES, Sizes, network_of, parameters
from recall import Budget, recall
from speed import step_time
from tables import draw_plots, written_table

import saccade
from saccade.storage import write_bytes

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import device_name

CLAIMS = ("parameters", "speed", "memory")
Cell = tuple[Any, ...]  # (claim, network, what it is measured at …)


@dataclass(frozen=True)
class Plan:
    """What is measured; numbers of different plans do not stand in one file (but for the lists)."""

    device: str
    tokens: int
    precision: str
    sizes: Sizes
    budget: Budget
    networks: tuple[str, ...]
    lengths: tuple[int, ...]
    distances: tuple[int, ...]
    seeds: tuple[int, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.sizes.width // 2, self.sizes.width, 2 * self.sizes.width)

    @property
    def kernels(self) -> tuple[int, ...]:
        return (self.sizes.kernel, 2 * self.sizes.kernel - 1, 4 * self.sizes.kernel - 3)

    def settings(self) -> dict[str, Any]:
        """What must agree where numbers are added to a file."""
        cores = "" if self.device == "cuda" else f", {torch.get_num_threads()} of {os.cpu_count()} cores"
        machine = device_name(self.device) + cores
        own = {"device": self.device, "machine": machine, "tokens": self.tokens, "precision": self.precision}
        versions = {"python": platform.python_version(), "torch": torch.__version__, "saccade": saccade.__version__}
        return own | versions | asdict(self.sizes) | asdict(self.budget)

    def cells(self, claims: list[str]) -> Iterator[Cell]:
        """All that is to be measured, the quickest first."""
        if "parameters" in claims:
            yield from (("parameters", name, "width", width) for width in self.widths for name in self.networks)
            yield from (("parameters", name, "kernel", kernel) for kernel in self.kernels for name in self.networks)
            yield from (("parameters", name, "length", length) for length in self.lengths for name in self.networks)
        if "speed" in claims:
            yield from (("speed", name, length) for length in self.lengths for name in self.networks)
        if "memory" in claims:
            for distance in self.distances:
                yield from (("memory", name, distance, seed) for seed in self.seeds for name in self.networks)


def measure(plan: Plan, cell: Cell) -> dict[str, Any]:
    """One cell's numbers."""
    claim, name, *where = cell
    if claim == "parameters":
        kind, value = where
        sizes = plan.sizes if kind == "length" else replace(plan.sizes, **{kind: value})
        with torch.device("meta"):
            network = network_of(name, sizes, value if kind == "length" else plan.lengths[-1])
        return {"parameters": parameters(network)}
    rounded = plan.precision == "tf32"  # cuDNN, which runs LSTMs and convolutions, would round unless it is told not to
    torch.backends.cudnn.allow_tf32 = rounded
    torch.backends.cudnn.benchmark = True  # left to its guess, it took 43 GB and 30 times as long for short sequences
    torch.set_float32_matmul_precision("high" if rounded else "highest")
    if claim == "speed":
        return step_time(name, plan.sizes, where[0], plan.tokens, plan.device, plan.precision)
    distance, seed = where
    return recall(name, plan.sizes, distance, seed, plan.budget, plan.device)


def key_of(cell: Cell) -> str:
    return "/".join(str(part) for part in cell)


class Numbers:
    """The file of raw numbers: read where it exists, written after every cell."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path, self.settings = path, settings
        self.cells: dict[str, dict[str, Any]] = {}
        if path.exists():
            try:
                stored = json.loads(path.read_text(encoding="utf-8"))
                found, self.cells = stored["settings"], stored["cells"]
            except (ValueError, KeyError, TypeError) as error:
                sys.exit(f"{path}: expected a file that this command wrote, found something else ({error})")
            for name, value in settings.items():
                if found.get(name) != value:
                    sys.exit(
                        f"{path}: its {name} is {found.get(name)!r}, this run's is {value!r}: give another --json, or the same"
                    )

    def add(self, cell: Cell, made: dict[str, Any]) -> None:
        self.cells[key_of(cell)] = made
        text = json.dumps({"settings": self.settings, "cells": self.cells}, indent=1, ensure_ascii=False)
        write_bytes(self.path, text.encode())
        shown = ", ".join(f"{name} {value:,.4g}" if isinstance(value, float) else f"{name} {value}"
                          for name, value in made.items())  # fmt: skip
        print(f"{' · '.join(str(part) for part in cell)}: {shown}", flush=True)


def work(plan: Plan, claims: list[str], numbers: Numbers, jobs: int, until: float) -> int:
    """Measure what is missing; how many cells are left when the time is over."""
    left = [cell for cell in plan.cells(claims) if key_of(cell) not in numbers.cells]
    together = [cell for cell in left if cell[0] == "memory" and jobs > 1]
    for cell in [cell for cell in left if cell not in together]:  # a clock wants the machine to itself
        if time.monotonic() > until:
            break
        numbers.add(cell, measure(plan, cell))
    if together and time.monotonic() <= until:
        work_together(plan, together, numbers, jobs, until)
    return sum(key_of(cell) not in numbers.cells for cell in left)


def work_together(plan: Plan, cells: list[Cell], numbers: Numbers, jobs: int, until: float) -> None:
    """Several trainings at a time, each in a process; no new one begins once the time is over."""
    waiting = iter(cells)
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(measure, plan, cell): cell for cell in islice(waiting, jobs)}
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                numbers.add(running.pop(future), future.result())
                following = next(waiting, None) if time.monotonic() <= until else None
                if following is not None:
                    running[pool.submit(measure, plan, following)] = following


def plan_of(options: argparse.Namespace) -> Plan:
    sizes = Sizes(options.width, options.layers, options.kernel, options.heads)
    budget = Budget(updates=options.updates, sequences=options.sequences, lr=options.lr)
    if options.tiny:
        sizes = Sizes(width=16, layers=2, kernel=3, heads=2)
        budget = Budget(updates=6, sequences=3, check_every=3)
        options.tokens, options.lengths, options.distances, options.seeds = 64, (8, 16), (5, 7), (1,)
    for name, least in (("width", 2), ("layers", 1), ("kernel", 2), ("heads", 1)):
        if getattr(sizes, name) < least:
            sys.exit(f"--{name}: expected {least} or more, found {getattr(sizes, name)}")
    if sizes.width // 2 % sizes.heads:
        sys.exit(f"--heads: expected a divisor of half of --width {sizes.width}, found {sizes.heads}")
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("--device cuda: PyTorch finds no GPU; use --device cpu")
    if options.device == "cpu" and options.precision != "32":
        sys.exit(f"--precision: expected 32 on a CPU, found {options.precision}; the others are for --device cuda")
    if max(options.lengths) > options.tokens:
        sys.exit(f"--tokens: expected no fewer than the greatest length {max(options.lengths)}, found {options.tokens}")
    return Plan(options.device, options.tokens, options.precision, sizes, budget, options.networks,
                options.lengths, options.distances, options.seeds)  # fmt: skip


def whole_numbers(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        numbers = ()
    if not numbers or numbers[0] < 1:
        raise argparse.ArgumentTypeError(f"expected whole numbers from 1 on, parted by commas, found {text!r}")
    return numbers


def some_of(names: tuple[str, ...], mark: str) -> Any:
    def read(text: str) -> tuple[str, ...]:
        asked = {part.strip() for part in text.split(mark)}
        if unknown := asked - set(names):
            expected = f"{mark} ".join(names)
            raise argparse.ArgumentTypeError(f"expected some of {expected!r}, found {', '.join(sorted(unknown))!r}")
        return tuple(name for name in names if name in asked)

    return read


def options_of(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--out", type=Path, required=True, help="the tables, as Markdown")
    parser.add_argument("--json", type=Path, help="the raw numbers; unless given, beside the tables")
    parser.add_argument("--plots", type=Path, help="a folder for three pictures")
    parser.add_argument("--claims", type=some_of(CLAIMS, ","), default=CLAIMS, help="some of: " + ",".join(CLAIMS))
    parser.add_argument("--networks", type=some_of(NAMES, ";"), default=NAMES, help="some of: " + "; ".join(NAMES))
    parser.add_argument("--lengths", type=whole_numbers, default=(32, 64, 128, 256, 512, 1024, 2048, 4096))
    parser.add_argument("--distances", type=whole_numbers, default=(10, 30, 100, 300, 1000))
    parser.add_argument("--seeds", type=whole_numbers, default=(1, 2, 3))
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--kernel", type=int, default=3)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=8192, help="in a batch, when speed is measured")
    parser.add_argument("--precision", choices=["32", "tf32", "bf16"], default="32", help="bf16: of the speed alone")
    parser.add_argument("--updates", type=int, default=1000, help="at most, when memory is measured")
    parser.add_argument("--sequences", type=int, default=64, help="an update, when memory is measured")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time, when memory is measured")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no cell after so many")
    parser.add_argument("--tiny", action="store_true", help="sizes that take seconds: does it work?")
    return parser.parse_args(words)


def main(words: list[str]) -> None:
    until = time.monotonic()
    options = options_of(words)
    until += 60 * options.minutes
    plan = plan_of(options)
    numbers = Numbers(options.json or options.out.with_suffix(".json"), plan.settings())
    left = work(plan, list(options.claims), numbers, options.jobs, until)
    pictures = {} if options.plots is None else draw_plots(plan, numbers.cells, options.plots)
    command = f"python benchmarks/claims/run.py {shlex.join(words)}"
    table = written_table(plan, numbers.settings, numbers.cells, command, pictures, options.out.parent)
    write_bytes(options.out, table.encode())
    print(
        f"{options.out}: {len(numbers.cells)} cells" + (f", {left} are left: the same command goes on" if left else "")
    )


if __name__ == "__main__":
    main(sys.argv[1:])
