"""Tries damaged pictures and lists of pictures, each in a process of its own, and writes how they ended as Markdown.

    PYTHONPATH=src:. python scripts/mutate_pictures.py --changes 8

The cases are those of ``tests/hostile_pictures.py``: whole pictures of every format, random changes of each, files that lie
about their size, bombs, and lists (CSV, JSONL, COCO's JSON, Flickr8k's lines, folders, zip archives) that are damaged or
malicious. Each is used as a person would: predicted on the command line and by the server, read for training with ``faults:
error`` and with ``drop``, and surveyed. It may be used or refused with one error, but not with a traceback, in 10 seconds of
processor time and 1 GB of memory at most; and one damaged picture among whole ones must not stop training with ``drop``. The
exit status is 1 if any was otherwise.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from mutate_files import in_a_process
from PIL import Image

from tests import hostile_pictures as hostile

SECONDS, MEGABYTES = 10.0, 1000
Use = Callable[[Path], tuple[str, Callable[[], None]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=8, help="of each whole picture")
    parser.add_argument("--log", type=argparse.FileType("w"), help="a file for every outcome")
    parser.add_argument("--only", default="", help="ways and cases that contain this")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    Image.init()
    log = options.log
    home, faults = Path(tempfile.mkdtemp(prefix="pictures-")), list[str]()
    print("| used as | tried | used | refused | otherwise | most seconds | most MB |\n|---|---|---|---|---|---|---|")
    try:
        runs = hostile.make_runs(home / "runs")
        tried: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for number, (way, name, use) in enumerate(_cases(options.changes, home, runs)):
            if options.only not in f"{way}: {name}":
                continue
            result = in_a_process(home / f"{number}-{way.split()[-1]}", use)
            tried[way].append(result)
            if log is not None:
                print(f"{way}: {name}: {json.dumps(result, ensure_ascii=False)}", file=log, flush=True)
            told = json.dumps(result, ensure_ascii=False)
            slow = result["seconds"] > SECONDS or result["memory"] > MEGABYTES
            if slow or result["end"] not in ("used", "refused"):
                faults.append(f"{way}: {name}: {told}")
            elif "drop" in way and "pictures" in way and result["end"] == "refused":
                faults.append(f"{way}: {name}: one picture stops training: {told}")
            elif (name.startswith("whole") or name.endswith(", whole")) and result["end"] == "refused":
                faults.append(f"{way}: {name}: a whole picture is refused: {told}")
            if faults and faults[-1].startswith(f"{way}: {name}:"):
                print(f"- {faults[-1]}", file=sys.stderr, flush=True)
        for way, results in tried.items():
            print_row(way, results)
    finally:
        shutil.rmtree(home)
    print("".join(f"\n- {fault}" for fault in faults))
    sys.exit(1 if faults else 0)


def print_row(way: str, results: list[dict[str, Any]]) -> None:
    ends = Counter(result["end"] for result in results)
    other = len(results) - ends["used"] - ends["refused"]
    seconds, memory = (max(result[name] for result in results) for name in ("seconds", "memory"))
    print(
        f"| {way} | {len(results):,} | {ends['used']:,} | {ends['refused']:,} | {other} | {seconds:.1f} | {memory:,.0f} |"
    )


def _cases(changes: int, home: Path, runs: dict[str, Any]) -> Iterator[tuple[str, str, Use]]:
    """(how it is used, what it is, what makes it and returns what uses it)."""
    for name, file, make in hostile.picture_cases(changes):
        for task in hostile.TASKS:
            yield (
                f"pictures: predict, {task}",
                name,
                partial(_predicted, name, file, make, home / "runs" / task / "run"),
            )
        yield "pictures: server", name, partial(_served, name, make, runs["classify_images"])
        for faults in ("error", "drop"):
            yield f"pictures: training, faults: {faults}", name, partial(_among, name, file, make, faults)
    for name, task, make_list in hostile.list_cases():
        for faults in ("error", "drop"):
            yield f"lists: training, faults: {faults}", name, partial(_listed, name, task, make_list, faults)
        yield "lists: saccade data", name, partial(_surveyed, name, task, make_list)


def _predicted(name: str, file: str, make: Callable[[], bytes], run: Path, folder: Path) -> tuple[str, Any]:
    (folder / file).write_bytes(make())
    return name, partial(hostile.use_command, "predict", run, folder / file)


def _served(name: str, make: Callable[[], bytes], bundle: Any, folder: Path) -> tuple[str, Any]:
    content = make()
    return name, lambda: hostile.use_server(bundle, content)


def _among(name: str, file: str, make: Callable[[], bytes], faults: str, folder: Path) -> tuple[str, Any]:
    """The picture beside whole ones, in a folder of class folders."""
    data = hostile.class_folders(folder / "classify_images", {f"circle/bad-{file}": make()})
    recipe = hostile.write_recipe(folder / "classify_images", "classify_images", data, faults)
    return name, lambda: hostile.use_training(recipe)


def _listed(name: str, task: str, make: Any, faults: str, folder: Path) -> tuple[str, Any]:
    home, data = hostile.written(folder, task, make)
    recipe = hostile.write_recipe(home, task, data, faults)
    return name, lambda: hostile.use_training(recipe)


def _surveyed(name: str, task: str, make: Any, folder: Path) -> tuple[str, Any]:
    """The file or folder alone, or the recipe where that says more of it."""
    home, data = hostile.written(folder, task, make)
    recipe = hostile.write_recipe(home, task, data, "error")
    return name, partial(hostile.use_command, "data", home / data["train"] if len(data) == 1 else recipe)


if __name__ == "__main__":
    main()
