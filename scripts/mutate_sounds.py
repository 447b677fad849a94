"""Tries damaged recordings and manifests, each in a process of its own, and writes how they ended as Markdown.

    PYTHONPATH=src:. python scripts/mutate_sounds.py --changes 8

The cases are those of ``tests/hostile_sounds.py``: whole recordings of every format, random changes of each, files that lie
about their length, bombs, and manifests (CSV, JSONL, Kaldi folders, folders, given frames) that are damaged or malicious. Each
is used as a person would: transcribed on the command line and by the server, read for training with ``faults: error`` and with
``drop``, and surveyed. It may be used or refused with one error, but not with a traceback, in 10 seconds of processor time and
1 GB of memory at most; and one damaged recording among whole ones must not stop training with ``drop``. The exit status is 1 if
any was otherwise.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from mutate_files import in_a_process
from mutate_pictures import MEGABYTES, SECONDS, Use, print_row

from tests import hostile_pictures, hostile_sounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=8, help="of each whole recording")
    parser.add_argument("--log", type=argparse.FileType("w"), help="a file for every outcome")
    parser.add_argument("--only", default="", help="ways and cases that contain this")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    home, faults = Path(tempfile.mkdtemp(prefix="sounds-")), list[str]()
    print("| used as | tried | used | refused | otherwise | most seconds | most MB |\n|---|---|---|---|---|---|---|")
    try:
        bundle = hostile_sounds.make_run(home / "good")
        tried: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for number, (way, name, use) in enumerate(_cases(options.changes, home / "good" / "run", bundle)):
            if options.only not in f"{way}: {name}":
                continue
            result = in_a_process(home / f"{number}", use)
            tried[way].append(result)
            told = json.dumps(result, ensure_ascii=False)
            if options.log is not None:
                print(f"{way}: {name}: {told}", file=options.log, flush=True)
            fault = None
            if result["seconds"] > SECONDS or result["memory"] > MEGABYTES or result["end"] not in ("used", "refused"):
                fault = told
            elif "drop" in way and way.startswith("recordings") and result["end"] == "refused":
                fault = f"one recording stops training: {told}"
            elif (name.startswith("whole") or name.endswith(", whole")) and result["end"] == "refused":
                fault = f"what is whole is refused: {told}"
            if fault is not None:
                faults.append(f"{way}: {name}: {fault}")
                print(f"- {faults[-1]}", file=sys.stderr, flush=True)
        for way, results in tried.items():
            print_row(way, results)
    finally:
        shutil.rmtree(home)
    print("".join(f"\n- {fault}" for fault in faults))
    sys.exit(1 if faults else 0)


def _cases(changes: int, run: Path, bundle: Any) -> Iterator[tuple[str, str, Use]]:
    """(how it is used, what it is, what makes it and returns what uses it)."""
    for name, file, make in hostile_sounds.sound_cases(changes):
        yield "recordings: predict", name, partial(_predicted, name, file, make, run)
        yield "recordings: server", name, partial(_served, name, make, bundle)
        for faults in ("error", "drop"):
            yield f"recordings: training, faults: {faults}", name, partial(_among, name, file, make, faults)
    for name, make_manifest in hostile_sounds.manifest_cases().items():
        for faults in ("error", "drop"):
            yield f"manifests: training, faults: {faults}", name, partial(_listed, name, make_manifest, faults)
        yield "manifests: saccade data", name, partial(_surveyed, name, make_manifest)


def _predicted(name: str, file: str, make: Callable[[], bytes], run: Path, folder: Path) -> tuple[str, Any]:
    (folder / file).write_bytes(make())
    return name, partial(hostile_pictures.use_command, "predict", run, folder / file)


def _served(name: str, make: Callable[[], bytes], bundle: Any, folder: Path) -> tuple[str, Any]:
    content = make()
    return name, lambda: hostile_pictures.use_server(bundle, content)


def _among(name: str, file: str, make: Callable[[], bytes], faults: str, folder: Path) -> tuple[str, Any]:
    """The recording in a table of whole ones."""
    rows = hostile_sounds.good_sounds(folder / "set")
    (folder / "set" / "wav" / f"bad-{file}").write_bytes(make())
    lines = ["audio,text", *(",".join(row) for row in rows), f"wav/bad-{file},ab"]
    (folder / "set" / "list.csv").write_text("\n".join(lines))
    recipe = hostile_sounds.write_recipe(folder / "set", {"train": "list.csv"}, faults)
    return name, lambda: hostile_pictures.use_training(recipe)


def _written(make: hostile_sounds.Make, faults: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    home = folder / "set"
    data = make(home, hostile_sounds.good_sounds(home))
    return hostile_sounds.write_recipe(home, data, faults), data


def _listed(name: str, make: hostile_sounds.Make, faults: str, folder: Path) -> tuple[str, Any]:
    recipe, _ = _written(make, faults, folder)
    return name, lambda: hostile_pictures.use_training(recipe)


def _surveyed(name: str, make: hostile_sounds.Make, folder: Path) -> tuple[str, Any]:
    """The file or folder alone, or the recipe where that says more of it."""
    recipe, data = _written(make, "error", folder)
    surveyed = recipe.parent / data["train"] if len(data) == 1 else recipe
    return name, partial(hostile_pictures.use_command, "data", surveyed)


if __name__ == "__main__":
    main()
