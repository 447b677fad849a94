"""The benchmark of captions: mass and pointing of maps whose answer is plain."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from saccade.data.images.pictures import Framing
from saccade.data.images.places import Picture
from saccade.data.images.records import Captioned
from saccade.data.toy.shapes import EXAMPLES
from saccade.task import Scored

SCRIPT = Path(__file__).parents[2] / "benchmarks/captions/run.py"
FRAMING = Framing((0, 0, 40, 20), (20, 40), (8, 8))


@pytest.fixture(scope="module")
def run() -> Any:
    spec = importlib.util.spec_from_file_location("benchmark_captions", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["benchmark_captions"] = module  # its dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_mass_counts_each_cell_by_its_part_in_the_box(run: Any) -> None:
    weights = np.array([[0.1, 0.2, 0.3, 0.0], [0.0, 0.4, 0.0, 0.0]])
    assert run.inside(weights, (0.0, 0.0, 0.375, 1.0), FRAMING) == pytest.approx(0.1 + (0.2 + 0.4) / 2)
    assert run.inside(weights, (0.0, 0.0, 1.0, 1.0), FRAMING) == pytest.approx(1.0)


def test_a_map_points_at_the_middle_of_its_largest_cell(run: Any) -> None:
    weights = np.array([[0.1, 0.2, 0.3, 0.0], [0.0, 0.4, 0.0, 0.0]])  # row 1, column 1: its middle is at (15, 15)
    assert run.points_at(weights, (0.3, 0.6, 0.4, 0.9), FRAMING)
    assert not run.points_at(weights, (0.0, 0.0, 0.37, 1.0), FRAMING)
    assert not run.points_at(weights, (0.3, 0.0, 0.4, 0.7), FRAMING)


def test_a_noun_is_looked_up_by_its_own_step_and_another_word_is_another(run: Any) -> None:
    scene = EXAMPLES[0]  # a red circle left of a blue square
    record = Captioned(Picture.of_scene(scene), scene.captions, scene.places)
    maps = torch.eye(9, 16)  # word t looks at cell t
    trace = SimpleNamespace(map=lambda site: SimpleNamespace(weights=maps), signals={})

    def scorer(network: Any, given: Any, output: Any) -> Any:
        assert output == "a red circle left of a blue square"
        return lambda lens: Scored((), lens.records.append(trace))  # type: ignore[arg-type]

    network = SimpleNamespace(grid=(4, 4))
    run.Lens = lambda: SimpleNamespace(records=[], trace=trace)
    looks, moves = run.looks_of(SimpleNamespace(scorer=scorer), network, [record], random.Random(1))
    assert [int(look.own.argmax()) for look in looks] == [2, 7] and moves == 1.0
    assert [look.box for look in looks] == [box for _, box in scene.places]
    assert all(look.other.argmax() != look.own.argmax() for look in looks)
    trace.signals["decoder.chosen"] = SimpleNamespace(values=torch.full((9, 1), 5.0))  # the cell that was read counts
    looks, moves = run.looks_of(SimpleNamespace(scorer=scorer), network, [record], random.Random(1))
    assert [int(look.own.argmax()) for look in looks] == [5, 5] and moves == 0.0
