"""The benchmark of captions' memory: tables of pictures with their captions, and a line per number of pictures."""

from __future__ import annotations

import csv
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from saccade.data.toy.shapes import Shapes, generate

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "captions" / "memory.py"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = spec_from_file_location("captions_memory", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "captions_memory", module)
    monkeypatch.setattr(sys, "path", list(sys.path))  # the script adds to it
    spec.loader.exec_module(module)
    return module


def test_a_table_names_each_picture_with_its_caption(script: Any, tmp_path: Path) -> None:
    script.write(tmp_path, 7, 19)
    scenes = generate(Shapes(train=7, valid=script.HELD_OUT, test=script.HELD_OUT, size=19))
    for split, count in {"train": 7, "valid": script.HELD_OUT}.items():
        with open(tmp_path / f"{split}.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == count
        for row, scene in zip(rows, scenes[split], strict=True):
            assert row["caption"] in scene.captions
            with Image.open(tmp_path / row["image"]) as picture:
                assert np.array_equal(np.asarray(picture), scene.draw(19))


def test_a_process_trains_on_the_pictures_and_says_its_peak(script: Any, tmp_path: Path) -> None:
    script.main(["--pictures", "21", "--pixels", "16", "--out", str(tmp_path / "memory.md")])
    lines = (tmp_path / "memory.md").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith("| 21 |")]
    assert 50 < float(line.split("|")[4]) < 20_000  # MiB
