"""Trains the networks of a speech benchmark, several at a time within a time limit, and keeps what was measured of each.

A script calls :func:`main` with its networks, a function that measures a trained one, and one that writes the page. Each
network is trained in a process of its own, which writes RUNS/NETWORK-SEED.json; what is there already is not trained again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import cpu_name, device_name

GRACE = 60.0  # seconds after the time is over until what still runs is killed
Result = dict[str, Any]


@dataclass(frozen=True)
class Network:
    """A row of a table: a shipped recipe and what is changed in it."""

    recipe: str
    changes: tuple[str, ...] = ()


def main(
    doc: str,
    networks: Mapping[str, Network],
    measure: Callable[[Any, argparse.Namespace], dict[str, Any]],
    page: Callable[[argparse.Namespace, Sequence[Result]], list[str]],
    *,
    add_arguments: Callable[[argparse.ArgumentParser], None] = lambda parser: None,
    testing: float = 60.0,
    seeds: str = "1,2,3",
) -> None:
    """The command line of a benchmark. ``testing`` is how many seconds a run is left for what follows its training."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="where finished runs are kept")
    parser.add_argument("--out", type=Path, help="the table, as Markdown")
    parser.add_argument("--only", choices=list(networks), action="append")
    parser.add_argument("--seeds", default=seeds)
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--minutes", type=float, default=600.0, help="of all runs together")
    parser.add_argument("changes", nargs="*", metavar="key=value", help="of the recipe of every run")
    add_arguments(parser)
    for name, kind in (("--one", str), ("--until", float), ("--threads", int)):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    options.runs.mkdir(parents=True, exist_ok=True)
    numbers = [int(seed) for seed in options.seeds.split(",")]
    if options.one:
        _train_one(options, networks[options.one], numbers[0], measure, testing)
        return
    wanted = [(name, seed) for seed in numbers for name in options.only or networks]
    _train_all(options, wanted, time.time() + 60 * options.minutes)
    files = [_file(options, *each) for each in wanted]
    results = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.is_file()]
    if not results:
        sys.exit("no run ended")
    text = "\n".join([*page(options, results), ""])
    print(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


def _file(options: argparse.Namespace, name: str, seed: int) -> Path:
    folder: Path = options.runs
    key = "".join(letter if letter.isalnum() else "-" for letter in name)
    return folder / f"{key}-{seed}.json"


def _train_one(
    options: argparse.Namespace,
    network: Network,
    seed: int,
    measure: Callable[[Any, argparse.Namespace], dict[str, Any]],
    testing: float,
) -> None:
    import saccade
    from saccade.recipes.recipe import read_recipe

    file = _file(options, options.one, seed)
    folder = file.with_suffix("")
    shutil.rmtree(folder, ignore_errors=True)  # of a run that did not end
    changes = [*network.changes, f"train.seed={seed}", f"train.threads={options.threads}", "train.save_every=null"]
    changes += [f"train.minutes={max(options.until - time.time() - testing, 1.0) / 60}", "expect=null"]
    changes += [] if options.device is None else [f"train.device={options.device}"]
    bundle = saccade.train(read_recipe(network.recipe, [*changes, *options.changes]), folder=folder)
    figures = bundle.figures
    result = {
        "network": options.one, "seed": seed, "test": figures["test"], "valid": figures["valid"],
        "epoch": figures["epoch"], "updates": figures["updates"], "seconds": figures["seconds"],
        "parameters": bundle.parameters, "notes": list(bundle.notes), **measure(bundle, options),
    }  # fmt: skip
    file.write_text(json.dumps(result), encoding="utf-8")


def _train_all(options: argparse.Namespace, wanted: Sequence[tuple[str, int]], deadline: float) -> None:
    waiting, taking = [each for each in wanted if not _file(options, *each).is_file()], threading.Lock()
    threads = max(1, len(os.sched_getaffinity(0)) // max(1, min(options.jobs, len(waiting))))

    def work() -> None:
        while True:
            with taking:
                if not waiting or time.time() >= deadline:
                    return
                rounds = -(-len(waiting) // options.jobs)
                name, seed = waiting.pop(0)
            _train_in_process(options, name, seed, threads, time.time() + (deadline - time.time()) / rounds)

    with ThreadPoolExecutor(options.jobs) as pool:
        for job in [pool.submit(work) for _ in range(options.jobs)]:
            job.result()
    for name, seed in waiting:
        print(f"{name}, seed {seed}: not begun, the time is over", flush=True)


def _train_in_process(options: argparse.Namespace, name: str, seed: int, threads: int, until: float) -> None:
    """One run in a process, whose output is in a log; what runs much longer than ``until`` is killed."""
    file = _file(options, name, seed)
    words = [*_without(sys.argv[1:], ("--only", "--seeds", "--out")), "--one", name, "--seeds", str(seed)]
    words += ["--until", str(until), "--threads", str(threads)]
    with file.with_suffix(".log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, sys.argv[0], *words], stdout=log, stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        try:
            code: int | str = process.wait(timeout=max(1.0, until + GRACE - time.time()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = f"killed {GRACE:.0f} s after its time was over"
    if code or not file.is_file():
        end = "\n".join(file.with_suffix(".log").read_text(encoding="utf-8").splitlines()[-12:])
        print(f"{name}, seed {seed}: failed ({code}):\n{end}", flush=True)
        return
    found = json.loads(file.read_text(encoding="utf-8"))
    shown = ", ".join(f"{metric} {value:.3f}" for metric, value in found["test"].items())
    print(f"{name}, seed {seed}: {found['updates']:,} updates in {found['seconds']:.0f} s; {shown}", flush=True)


def _without(words: Sequence[str], names: Sequence[str]) -> list[str]:
    """A command line without some options that have a value."""
    left, skipping = list[str](), False
    for word in words:
        if not skipping and word.partition("=")[0] not in names:
            left.append(word)
        skipping = not skipping and word in names
    return left


# Pages ----------------------------------------------------------------------------------------------------------------


def heading(title: str, options: argparse.Namespace) -> list[str]:
    """The title of a page, and on what machine and how it was measured."""
    import torch

    import saccade

    versions = f"Python {platform.python_version()}, torch {torch.__version__}, saccade {saccade.__version__}"
    device = device_name(options.device)
    where = device if device == cpu_name() else f"{device}; {cpu_name()}"
    jobs = getattr(options, "jobs", 1)
    several = f", up to {jobs} runs at a time" if jobs > 1 else ""
    command = f"python benchmarks/speech/{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}"
    return [f"# {title}", "", f"{date.today()}, {where}{several}. {versions}.", "", f"`{command}`", ""]


def row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    return [row(head), "|" + "---|" * len(head), *map(row, rows)]


def by_network(results: Sequence[Result]) -> dict[str, list[Result]]:
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result["network"], []).append(result)
    return groups


def mean_of(values: Sequence[float], digits: int = 1, scale: float = 1.0) -> str:
    """Mean ± standard deviation; of one value, itself."""
    scaled = [scale * value for value in values]
    spread = f" ± {statistics.stdev(scaled):.{digits}f}" if len(scaled) > 1 else ""
    return f"{statistics.mean(scaled):.{digits}f}{spread}"
