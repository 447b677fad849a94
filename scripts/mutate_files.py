"""Tries changed bundles and traces, each in a process of its own, and writes how they ended as Markdown.

    PYTHONPATH=src:. python scripts/mutate_files.py --bundles 2000 --traces 2000

Small true files of every task and kind (``tests/mutations.py``) are changed at random, from seed 0 on, and sealed again. Each
is used as a person would: loaded, described, run, drawn. It may be used or refused, but not with a traceback, in 5 seconds of
processor time and 1 GB of memory at most. The exit status is 1 if any was otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

import saccade
from tests import mutations

SECONDS, MEGABYTES, PATIENCE = 5.0, 1000, 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundles", type=int, default=2000)
    parser.add_argument("--traces", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    home = Path(tempfile.mkdtemp(prefix="mutations-"))
    try:
        for name in mutations.BUNDLES:
            mutations.make_bundle(name, home / "bundles" / name)
            mutations.use_bundle(home / "bundles" / name, name)
        traces = mutations.make_traces(home / "bundles", home / "traces")
        for path in traces:
            mutations.use_trace(path, picture=True)
        print("| files | tried | used | refused | otherwise | most seconds | most MB |\n|---|---|---|---|---|---|---|")
        faults = _tried("bundles", options.bundles, options.first, home, traces)
        faults += _tried("traces", options.traces, options.first, home, traces)
    finally:
        shutil.rmtree(home)
    print("".join(f"\n- {fault}" for fault in faults))
    sys.exit(1 if faults else 0)


def _tried(kind: str, count: int, first: int, home: Path, traces: list[Path]) -> list[str]:
    ends, faults, seconds, memory = Counter[str](), list[str](), 0.0, 0.0
    for seed in range(first, first + count):
        result = in_a_process(home / str(seed), partial(_change, kind, seed, home, traces))
        ends[result["end"]] += 1
        seconds, memory = max(seconds, result["seconds"]), max(memory, result["memory"])
        if result["end"] not in ("used", "refused") or result["seconds"] > SECONDS or result["memory"] > MEGABYTES:
            faults.append(f"{kind}, seed {seed}: {json.dumps(result)}")
    other = sum(ends.values()) - ends["used"] - ends["refused"]
    print(
        f"| {kind} | {count:,} | {ends['used']:,} | {ends['refused']:,} | {other} | {seconds:.1f} | {memory:,.0f} |",
        flush=True,
    )
    return faults


def _change(kind: str, seed: int, home: Path, traces: list[Path], folder: Path) -> tuple[str, Callable[[], None]]:
    """What was changed, and what uses it."""
    draw = random.Random(seed)
    if kind == "bundles":
        name = list(mutations.BUNDLES)[seed % len(mutations.BUNDLES)]
        change = f"{name}: {mutations.mutate_bundle(home / 'bundles' / name, folder / 'm', draw)}"
        return change, lambda: mutations.use_bundle(folder / "m", name)
    source = traces[seed % len(traces)]
    change = f"{source.stem}: {mutations.mutate_trace(source, folder / 'm.trace', draw)}"
    return change, lambda: mutations.use_trace(folder / "m.trace", picture=True)


def in_a_process(folder: Path, change: Callable[[Path], tuple[str, Callable[[], None]]]) -> dict[str, Any]:
    """How one changed file ended: used, refused, a traceback, or (with no answer) killed. ``change`` makes it in the folder,
    which is removed again, and returns what was changed and what uses it."""
    folder.mkdir()
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        signal.alarm(PATIENCE)  # ends the process, whatever it waits for
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        os.write(writer, json.dumps(_outcome(*change(folder))).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        told = file.read()
    os.waitpid(process, 0)
    shutil.rmtree(folder, ignore_errors=True)
    return json.loads(told) if told else {"end": "killed", "seconds": float(PATIENCE), "memory": 0.0}


def _outcome(change: str, use: Callable[[], None]) -> dict[str, Any]:
    end, message = "used", ""
    start = time.process_time()
    try:
        use()
    except saccade.SaccadeError as error:
        end, message = "refused", str(error)[:200]
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        end, message = (
            "traceback",
            f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"[:300],
        )
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    seconds = round(time.process_time() - start, 2)
    return {"end": end, "seconds": seconds, "memory": memory, "change": change[:200], "message": message}


if __name__ == "__main__":
    main()
