"""The benchmark of SAGAN: sheets of CIFAR-10, how many updates fit into the time, γ over training."""

from __future__ import annotations

import importlib.util
import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from saccade.data.images.records import LabelledImageData, load_labelled_pictures

FOLDER = Path(__file__).parents[2] / "benchmarks/sagan"


def script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"benchmark_sagan_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def run() -> Any:
    before = list(sys.path)
    yield script("run")
    sys.path[:] = before


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Path]:
    """The script, and a package whose sheets have seven rows; picture n of all 42 is filled with n."""
    prepare, folder = script("prepare"), tmp_path / "package"
    monkeypatch.setattr(prepare, "ROWS", 7)
    folder.mkdir()
    for number, name in enumerate([*prepare.SHEETS["train"], *prepare.SHEETS["test"]]):
        rows = np.arange(7, dtype=np.uint8) + 7 * number
        Image.fromarray(rows[:, None, None].repeat(1024, 1).repeat(3, 2)).save(folder / name)
    for split, count in (("train", 35), ("test", 7)):
        (folder / prepare.LABELS[split]).write_text(json.dumps([number % 10 for number in range(count)]))
    return prepare, folder


def test_the_sheets_hold_the_first_pictures_with_their_labels(
    package: tuple[Any, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, folder = package
    out = tmp_path / "sheets"
    monkeypatch.setattr(sys, "argv", ["prepare.py", str(folder), str(out), "--train", "23", "--test", "5"])
    prepare.main()
    data = LabelledImageData(train=str(out / "train.png"), test=str(out / "test.png"), answers=str(out / "labels.json"))
    splits = load_labelled_pictures(data, out, 1)
    train = sorted((int(record.source.read()[0, 0, 0]), record.target) for record in (*splits.train, *splits.valid))
    assert train == [(number, prepare.CLASSES[number % 10]) for number in range(23)]
    test = [(int(record.source.read()[0, 0, 0]), record.target) for record in splits.test]
    assert test == [(35 + number, prepare.CLASSES[number]) for number in range(5)]


def test_a_package_without_a_sheet_or_with_other_labels_is_refused(package: tuple[Any, Path]) -> None:
    prepare, folder = package
    (folder / "data_batch_2.png").unlink()
    assert len(prepare.sheet_of(folder, prepare.SHEETS["train"], 7)) == 7
    with pytest.raises(SystemExit, match=r"data_batch_2.png: expected a sheet"):
        prepare.sheet_of(folder, prepare.SHEETS["train"], 8)
    with pytest.raises(SystemExit, match=r"test_lables.json: expected a list of 8"):
        prepare.labels_of(folder / prepare.LABELS["test"], 8)


def test_the_updates_that_fit_are_those_of_the_slowest_network(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def carried_out(name: str, options: Namespace, updates: int) -> bool:
        second_half = 0.5 if name.endswith("without-1") else 0.25  # seconds per update
        times = [9.0 + number for number in range(4)] + [12 + second_half * number for number in range(1, 4)]
        (tmp_path / name).mkdir(parents=True)
        rows = [f"{number},{seconds}" for number, seconds in enumerate(times, start=1)]
        (tmp_path / name / "log.csv").write_text("\n".join(["update,seconds", *rows]))
        return True

    monkeypatch.setattr(run, "carried_out", carried_out)
    names = ["with-1", "without-1", "with-2", "without-2"]
    options = Namespace(runs=tmp_path, jobs=3, minutes=2.0)
    assert run.updates_within(options, names) == int(120 * run.USED / 2 / 0.5), "two rounds of three at a time"
    monkeypatch.setattr(run, "carried_out", None)
    assert run.updates_within(options, names) == 102, "what was timed is not timed again"


def test_gamma_is_that_of_the_evaluation_next_to_each_quarter(run: Any) -> None:
    evaluations = [
        {"update": str(update), "gamma_generator": str(update / 100), "gamma_discriminator": str(-update / 100)}
        for update in (9, 27, 52, 70, 98, 100)
    ]
    assert run.gammas(evaluations, 100) == ["+0.270 / -0.270", "+0.520 / -0.520", "+0.700 / -0.700", "+1.000 / -1.000"]
