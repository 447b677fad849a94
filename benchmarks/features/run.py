"""How fast features of pictures are computed, beside the backbone alone, and how much memory that takes.

    python benchmarks/features/run.py [--pictures 96] [--rounds 5] [--threads 2] [--out benchmarks/results/DATE-features.md]
    python benchmarks/features/run.py --tiny

Computing features reads and frames each picture, runs the backbone, rounds to float16 and writes the cache. The backbone alone
gets the same framed pictures, which are in memory, in batches of the same size. Both take turns, so that other work on the
machine hits both; a round's ratio is of processor time, which other work changes little, and of wall time. Peak memory is
that of a process that computes the features of a number of pictures and reads them all once, with a backbone of one
convolution. Reads Flickr8k from $SACCADE_DATA.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import machine
import torch
from torch import nn

from saccade.data.images.batch import ImageStore
from saccade.data.images.config import FeatureConfig
from saccade.data.images.features import ON_CPU, FeatureStore, backbone_of
from saccade.data.images.pictures import ImageConfig
from saccade.data.images.places import InFile, Picture, check_picture, files_in, is_picture
from saccade.nn.backbones import Backbone

FRAME = ImageConfig()
LAYER = "blocks.10"  # 14 × 14 cells
SIZES = (750, 6000)  # pictures of the two sets


def pictures_of(count: int) -> list[Picture]:
    archives = sorted(Path(os.environ["SACCADE_DATA"], "flickr8k").glob("images_train*.zip"))
    members = [(name, origin) for archive in archives for name, origin in files_in(archive).items() if is_picture(name)]
    return [check_picture(InFile(origin.path, origin.member), name, whole=False) for name, origin in members[:count]]


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Processor and wall time."""
    processor, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - processor, time.perf_counter() - wall


def speed(count: int, rounds: int, batch: int) -> list[str]:
    given, backbone = pictures_of(count), backbone_of(FeatureConfig("efficientnet_lite0", layer=LAYER))
    framed = ImageStore(given, FRAME).pixels(range(count))
    with torch.inference_mode():
        backbone(framed[:batch])

        def alone() -> None:
            for start in range(0, count, batch):
                backbone(framed[start : start + batch])

        ratios: dict[str, list[float]] = {"processor": [], "wall": []}
        own, whole = [], []
        for _ in range(rounds):
            alone_took = seconds(alone)
            with tempfile.TemporaryDirectory() as cache:
                took = seconds(
                    lambda cache=cache: FeatureStore(given, FRAME, backbone, Path(cache), batch=batch, progress=False)
                )
            ratios["processor"].append(alone_took[0] / took[0])
            ratios["wall"].append(alone_took[1] / took[1])
            own.append(count / alone_took[0])
            whole.append(count / took[0])
    share = {clock: f"{statistics.median(values):.1%}" for clock, values in ratios.items()}
    spread = {clock: f"{min(values):.1%} to {max(values):.1%}" for clock, values in ratios.items()}
    reached = "reached" if statistics.median(ratios["processor"]) >= 0.9 else "missed"
    return [
        f"## Throughput: {backbone.name}, layer {backbone.layer}, {count} pictures, batches of {batch}",
        "",
        "| | pictures per second of processor time | share of the backbone's own throughput |",
        "|---|---|---|",
        f"| the backbone alone | {statistics.median(own):.1f} | |",
        f"| computing and keeping features | {statistics.median(whole):.1f} | {share['processor']} ({spread['processor']}) |",
        "",
        f"By wall time the share is {share['wall']} ({spread['wall']}). Medians of {rounds} rounds.",
        f"Goal: at least 90 %, {reached}.",
        "",
    ]


def peak(count: int, cache: Path) -> None:
    """Compute and read the features of some pictures; print this process's peak memory in MiB."""
    given = pictures_of(count)
    torch.manual_seed(1)
    backbone = Backbone(nn.Conv2d(3, 64, 16, stride=16), name="one convolution")
    store = FeatureStore(given, FRAME, backbone, cache, progress=False, device="cpu")
    for start in range(0, len(store), 64):
        store.features(range(start, min(start + 64, len(store))))
    size = sum(path.stat().st_size for path in store.folder.iterdir()) / 2**20
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} {size:.0f}")


def memory(sizes: tuple[int, ...]) -> list[str]:
    lines = ["## Peak memory", "", "| pictures | MiB of features on disk | peak MiB of the process |", "|---|---|---|"]
    for count in sizes:
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, __file__, "--peak", str(count), cache]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        top, size = done.stdout.split()
        lines.append(f"| {count:,} | {size} | {top} |")
    return [*lines, "", "Pages of the memory map that were read are counted in the peak; the system takes them back."]


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=ON_CPU)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tiny", action="store_true", help="few pictures, to see that it runs")
    parser.add_argument("--peak", nargs=2, metavar=("PICTURES", "CACHE"), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(words)
    torch.set_num_threads(options.threads)
    if options.peak is not None:
        peak(int(options.peak[0]), Path(options.peak[1]))
        return
    count, rounds, sizes = (8, 1, (8, 24)) if options.tiny else (options.pictures, options.rounds, SIZES)
    where = (
        f"{machine.cpu_name()}, 2 CPU cores, {options.threads} thread(s) for the backbone, torch {torch.__version__}"
    )
    lines = ["# Features of pictures", "", f"`benchmarks/features/run.py`; {where}.", ""]
    text = "\n".join([*lines, *speed(count, rounds, options.batch), *memory(sizes), ""])
    print(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
