"""The benchmark of two engines and one curve counts who served, and says how far the ways are apart."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import torch

from saccade.attention import fast
from saccade.kernels.additive import engines
from saccade.kernels.additive.attention import additive_attention
from saccade.kernels.visibility import Visibility

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kernels" / "curves.py"


@pytest.fixture
def curves(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script; what it puts in other modules is taken back."""
    spec = spec_from_file_location("curves", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "curves", module)  # where its dataclasses look for their names
    monkeypatch.setattr(sys, "path", list(sys.path))  # the script adds to it
    monkeypatch.setattr(engines, "engine", engines.engine)
    monkeypatch.setattr(fast, "additive_attention", fast.additive_attention)
    spec.loader.exec_module(module)
    return module


def run_of(curves: Any, way: str, seed: int, curve: list[float], test: float) -> Any:
    return curves.Run(way, seed, {"direct": 7}, curve, "bleu", test, 3.0)


@pytest.mark.parametrize("asked", ["blocked", "separable"])
def test_each_backward_pass_is_counted_for_the_engine_that_was_asked_for(curves: Any, asked: str) -> None:
    calls = curves.count_calls(asked)
    assert fast.additive_attention.keywords == {"engine": asked}
    inputs = [torch.randn(*shape).requires_grad_() for shape in ((2, 3, 5), (2, 7, 5), (2, 7, 4), (1, 5))]
    for _ in range(3):
        fast.additive_attention(*inputs, Visibility()).sum().backward()
    with torch.no_grad():
        additive_attention(*inputs, Visibility(), engine=asked)
    assert calls == {asked: 3}


@pytest.mark.usefixtures("shapes_unchecked")
def test_a_model_that_asks_one_query_at_a_time_is_refused_since_no_engine_serves_it(
    curves: Any, tmp_path: Path
) -> None:
    torch.set_default_device(None)  # a run says by itself where each tensor goes
    few = [
        "train.device=cpu",
        "data.dates.train=64",
        "data.dates.valid=10",
        "data.dates.test=10",
        "train.epochs=1",
        "model.hidden=16",
    ]
    changes = [*curves.SETTINGS, *curves.TINY, *few, "model.input_feeding=true"]
    with pytest.raises(SystemExit, match="no gradient went through additive"):
        curves.train_one("32", 1, "luong_dates", changes, tmp_path / "run")


def test_ways_are_compared_by_their_means_and_from_each_seed_beside_the_seeds_of_one_way(curves: Any) -> None:
    found = curves.Apart.of({"32": {1: 1.0, 2: 3.0}, "bf16": {1: 1.5, 2: 3.1}})
    assert (found.ways, found.same_seed, found.seeds) == pytest.approx((0.3, 0.5, 2.0))


def test_the_table_has_a_row_an_epoch_and_ends_with_the_differences(curves: Any) -> None:
    runs = [
        run_of(curves, "32", 1, [2.0, 1.0], 30.0),
        run_of(curves, "32", 2, [2.5, 1.25], 31.0),
        run_of(curves, "bf16", 1, [2.25, 1.0], 30.5),
        run_of(curves, "bf16", 2, [2.5, 1.25], 31.0),
    ]
    text = curves.table(runs, ["train.epochs=2"], "luong_multi30k", 1)
    assert "| 1 | 2.0000 | 2.5000 | 2.2500 | 2.5000 | 0.12 | 0.25 | 0.5 |" in text
    assert "| 2 | 1.0000 | 1.2500 | 1.0000 | 1.2500 | 0 | 0 | 0.25 |" in text
    assert "at most 0.12 apart at any epoch, seeds of one way 0.5; after the last epoch 0 and 0.25" in text
    assert "Of bleu on test: 0.25 and 1." in text
