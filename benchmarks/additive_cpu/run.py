"""Additive attention on a CPU, peers side by side in one run: `python benchmarks/additive_cpu/run.py --out DATE.md`.

Whole attention, scores → softmax → context, with equal inputs: memory and time of the forward pass and of forward +
backward, for saccade, eager PyTorch, torch.compile (with `--compile`; it needs a C++ compiler) and Keras'
AdditiveAttention on its torch backend. Keras is no dependency of this project; to have it measured,

    pip install --no-deps --target FOLDER keras absl-py namex h5py optree ml-dtypes
    python benchmarks/additive_cpu/run.py --keras FOLDER --out benchmarks/results/DATE-additive-cpu.md
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import cpu_name

Size = tuple[int, int, int, int]
SIZES: list[Size] = [(8, 256, 256, 256), *((4, length, length, 256) for length in (64, 128, 256, 512, 1024))]
MOST_BYTES = 8e9
WHOLE_SUMS = {  # how many tensors of T × S × D a training step holds at once
    "saccade": 0,
    "eager PyTorch": 3,
    "torch.compile": 2,
    "Keras AdditiveAttention": 3,
}
MEASURE = Path(__file__).with_name("measure.py")
GRADIENTS = ("context", "∂query", "∂key", "∂value", "∂v")


def main() -> None:
    options = parsed()
    contenders = ["saccade", "eager PyTorch"]
    if options.compile:
        contenders.append("torch.compile")
    keras = keras_version(options.keras)
    if keras is None:
        print("Keras is not installed, so it is left out; the docstring of this script says how to add it.")
    else:
        contenders.append("Keras AdditiveAttention")

    rows: list[str] = []
    agreements: list[str] = []
    for size in options.sizes:
        for threads in options.threads:
            with tempfile.TemporaryDirectory() as folder:
                for contender in contenders:
                    rows.append(measured_row(contender, size, threads, options, Path(folder)))
                    print(rows[-1], flush=True)
                agreements += agreement(contenders, size, threads, Path(folder))
    text = report(rows, agreements, keras, options.repeats)
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Additive attention on a CPU, peers side by side.")
    parser.add_argument("--out", type=Path, help="markdown file to write")
    parser.add_argument("--keras", metavar="FOLDER", help="folder with Keras, from pip install --target")
    parser.add_argument("--compile", action="store_true", help="measure torch.compile too")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--sizes", type=size, nargs="+", default=SIZES, metavar="BxTxSxD")
    return parser.parse_args()


def size(text: str) -> Size:
    B, T, S, D = (int(part) for part in text.split("x"))
    return B, T, S, D


def keras_version(folder: str | None) -> str | None:
    try:
        found = importlib.metadata.distributions(name="keras", path=[*sys.path, *([folder] if folder else [])])
        return next(iter(found)).version
    except StopIteration:
        return None


def measured_row(contender: str, size: Size, threads: int, options: argparse.Namespace, folder: Path) -> str:
    B, T, S, D = size
    cells = [f"{B} × {T} × {S} × {D}", str(threads), contender]
    need = WHOLE_SUMS[contender] * B * T * S * D * 4
    if need > MOST_BYTES:
        return table_row([*cells, f"left out: would hold {need / 1e9:.0f} GB", "", "", ""])
    request = {
        "contender": contender, "B": B, "T": T, "S": S, "D": D, "threads": threads, "repeats": options.repeats,
        "keep": str(kept(folder, contender)), "keras_folder": options.keras,
    }  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    done = subprocess.run(
        [sys.executable, MEASURE, json.dumps(request)], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return table_row([*cells, f"failed: {reason[:80]}", "", "", ""])
    result = json.loads(done.stdout.splitlines()[-1])
    return table_row([
        *cells,
        f"{result['forward_seconds'] * 1e3:.1f}",
        f"{result['training_seconds'] * 1e3:.1f}",
        f"{result['forward_bytes'] / 1e6:.0f}",
        f"{result['training_bytes'] / 1e6:.0f}",
    ])  # fmt: skip


def kept(folder: Path, contender: str) -> Path:
    return folder / f"{contender}.pt"


def agreement(contenders: list[str], size: Size, threads: int, folder: Path) -> list[str]:
    """How far each contender's context and gradients lie from ours, relative to the largest value."""
    ours_path, *others = [kept(folder, contender) for contender in contenders]
    if not ours_path.exists():
        return []
    ours: tuple[Tensor, ...] = torch.load(ours_path)
    lines = []
    for path in others:
        if path.exists():
            theirs: tuple[Tensor, ...] = torch.load(path)
            apart = [
                f"{name} {(a - b).abs().max() / b.abs().max():.0e}"
                for name, a, b in zip(GRADIENTS, ours, theirs, strict=True)
            ]
            lines.append(f"- {' × '.join(map(str, size))}, {threads} threads, {path.stem}: {', '.join(apart)}")
    return lines


def table_row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def report(rows: list[str], agreements: list[str], keras: str | None, repeats: int) -> str:
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, keras {keras or 'not installed'}"
    table = "\n".join(rows)
    distances = "\n".join(agreements)
    return f"""# Additive attention on a CPU

{datetime.date.today()} · {cpu_name()}, {os.cpu_count()} cores · {versions}

Whole attention in float32: scores vᵀ tanh(q + k), softmax, context. Each line is a process of its own; times are
medians of {repeats} repeats, memory is the rise of the process's peak resident size above its inputs.

| B × T × S × D | threads | contender | forward, ms | forward + backward, ms | forward, MB | forward + backward, MB |
|---|---|---|---|---|---|---|
{table}

Distance of each contender's results from saccade's, relative to the largest value:

{distances}
"""


if __name__ == "__main__":
    main()
