"""The benchmark of the essays' three claims: fair networks, a task that only memory solves, a run that can go on."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "benchmarks" / "claims"
PARTS = ("networks", "recall", "speed", "tables", "run")


@pytest.fixture(scope="module")
def claims() -> Any:
    """The scripts, by the names under which they import one another; taken away afterwards."""
    path = list(sys.path)  # the scripts add to it
    sys.path.insert(0, str(FOLDER))
    kept = {name: sys.modules.pop(name) for name in PARTS if name in sys.modules}
    try:
        yield {name: import_module(name) for name in PARTS}
    finally:
        sys.path[:] = path
        for name in PARTS:
            sys.modules.pop(name, None)
        sys.modules |= kept


@pytest.fixture
def networks(claims: Any) -> Any:
    return claims["networks"]


def names() -> list[str]:
    return ["RNN", "RNN + attention", "CNN", "CNN, deep enough", "self-attention"]


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize(("layers", "kernel", "length"), [(1, 2, 5), (3, 5, 70)])
def test_the_formula_of_the_table_counts_every_parameter(
    networks: Any, name: str, layers: int, kernel: int, length: int
) -> None:
    sizes = networks.Sizes(width=12, layers=layers, kernel=kernel, heads=3)
    made = networks.network_of(name, sizes, length)
    assert networks.parameters(made) == networks.formula(name, sizes, length)


@pytest.mark.parametrize("name", names())
def test_no_network_looks_ahead(networks: Any, name: str) -> None:
    network = networks.network_of(name, networks.Sizes(width=12, layers=2, heads=3), 7).eval()
    states = torch.randn(2, 7, 12)
    changed = states.clone()
    changed[:, 4:] = torch.randn(2, 3, 12)
    with torch.no_grad():
        before, after = network(states), network(changed)
    torch.testing.assert_close(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


@pytest.mark.parametrize(("layers", "kernel"), [(2, 3), (3, 2)])
def test_the_cnn_sees_exactly_so_many_steps_back(networks: Any, layers: int, kernel: int) -> None:
    reach = networks.steps_seen(layers, kernel)
    network = networks.network_of("CNN", networks.Sizes(width=24, layers=layers, kernel=kernel, heads=2), 1)
    states = torch.randn(3, reach + 2, 24, requires_grad=True)
    network(states)[:, -1].sum().backward()
    assert states.grad is not None
    moved = states.grad.abs().sum((0, 2))
    assert moved[0] == 0 and moved[1] > 0  # reach + 1 steps back, and reach


@pytest.mark.parametrize("length", [2, 3, 4, 31, 32, 4096])
def test_the_deep_cnn_sees_the_first_place_and_has_no_layer_too_many(networks: Any, length: int) -> None:
    layers = networks.layers_to_see(length, 3)
    assert networks.steps_seen(layers, 3) >= length - 1
    assert layers == 1 or networks.steps_seen(layers - 1, 3) < length - 1


def test_forget_gates_begin_at_a_bias_of_one(networks: Any) -> None:
    lstm = networks.network_of("RNN", networks.Sizes(width=6, layers=2, heads=1), 5)
    biases = [value for name, value in lstm.named_parameters() if "bias" in name]
    assert len(biases) == 4
    for own in (biases[:2], biases[2:]):
        torch.testing.assert_close(sum(own)[6:12], torch.ones(6))


def test_an_item_is_asked_for_exactly_so_many_steps_after_it_was_marked(claims: Any) -> None:
    draw = torch.Generator().manual_seed(3)
    leads = set()
    for _ in range(40):
        symbols, roles, items = claims["recall"].batch(9, 5, draw, "cpu")
        marked, asked = (roles == 1).nonzero()[:, 1], (roles == 2).nonzero()[:, 1]
        assert (asked - marked == 9).all() and (asked == symbols.shape[1] - 1).all() and len(marked) == 5
        assert (symbols.gather(1, marked[:, None]).squeeze(1) == items).all()
        leads.add(int(marked[0]))
    assert leads == set(range(claims["recall"].LEAD))


def test_who_looks_back_recalls_and_who_cannot_see_so_far_is_at_chance(
    claims: Any, shapes_unchecked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = claims["networks"].Sizes(width=32, layers=1, heads=2)
    budget = claims["recall"].Budget(updates=240, sequences=48, lr=5e-3, warmup=10, check_every=20)
    monkeypatch.setattr(claims["recall"], "TESTED", 512)
    looking = claims["recall"].recall("self-attention", sizes, 5, 1, budget, "cpu")
    blind = claims["recall"].recall("CNN", sizes, 5, 1, claims["recall"].Budget(updates=30, sequences=48), "cpu")
    assert looking["accuracy"] > 0.98 and looking["solved"] and looking["updates"] < 240
    assert blind["accuracy"] == pytest.approx(claims["recall"].CHANCE, abs=0.05)
    assert not blind["solved"] and blind["updates"] == 30


def test_a_tiny_run_writes_numbers_tables_and_pictures_and_measures_nothing_twice(
    claims: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    shapes_unchecked: None,
) -> None:
    monkeypatch.setattr(claims["speed"], "MOST", 5)
    monkeypatch.setattr(claims["recall"], "CHECKED", 7)
    monkeypatch.setattr(claims["recall"], "TESTED", 7)
    out = tmp_path / "claims.md"
    words = ["--tiny", "--out", str(out), "--plots", str(tmp_path / "plots"), "--networks", "RNN; CNN, deep enough"]
    claims["run"].main([*words, "--claims", "speed"])
    assert "No loss over distance?" not in out.read_text(encoding="utf-8")
    claims["run"].main(words)
    table = out.read_text(encoding="utf-8")
    for part in ("Fewer parameters?", "Parallel, so faster?", "No loss over distance?", "![memory](plots/memory.png)"):
        assert part in table
    assert "–" not in [cell.strip() for cell in table.split("|")]  # no cell is missing
    for name in ("parameters", "speed", "memory"):
        assert (tmp_path / "plots" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    stored = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))["cells"]
    assert {"speed/RNN/16", "memory/CNN, deep enough/7/1", "parameters/RNN/kernel/9"} <= stored.keys()
    capsys.readouterr()
    claims["run"].main(words)
    assert capsys.readouterr().out.splitlines() == [f"{out}: {len(stored)} cells"]


def test_a_run_whose_time_is_over_says_what_is_left(
    claims: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claims["run"].main(["--tiny", "--out", str(tmp_path / "claims.md"), "--claims", "memory", "--minutes", "-1"])
    assert capsys.readouterr().out.endswith("0 cells, 10 are left: the same command goes on\n")


def test_trainings_that_run_together_are_all_made_once(
    claims: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = claims["run"]
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(run, "ProcessPoolExecutor", lambda jobs, mp_context: ThreadPoolExecutor(jobs))
    made = {"accuracy": 0.5, "updates": 6, "solved": False}
    monkeypatch.setattr(run, "measure", lambda plan, cell: asked.append(cell) or made)
    run.main(["--tiny", "--out", str(tmp_path / "claims.md"), "--claims", "memory", "--jobs", "3"])
    assert len(asked) == len(set(asked)) == 10
    assert capsys.readouterr().out.endswith("10 cells\n")


def test_numbers_of_other_settings_are_not_mixed(claims: Any, tmp_path: Path) -> None:
    words = ["--tiny", "--out", str(tmp_path / "claims.md"), "--claims", "parameters"]
    claims["run"].main(words)
    file = tmp_path / "claims.json"
    settings = json.loads(file.read_text(encoding="utf-8"))["settings"]
    assert claims["run"].Numbers(file, settings).cells
    with pytest.raises(SystemExit, match="its width is 16, this run's is 32: give another --json"):
        claims["run"].Numbers(file, settings | {"width": 32})
    file.write_text("[]", encoding="utf-8")
    with pytest.raises(SystemExit, match="expected a file that this command wrote"):
        claims["run"].main(words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--networks", "RNN;GRU"], "found 'GRU'"),
        (["--lengths", "32,x"], "parted by commas, found '32,x'"),
        (["--seeds", "0"], "whole numbers from 1 on"),
    ],
)
def test_a_wrong_option_is_named(
    claims: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    with pytest.raises(SystemExit):
        claims["run"].main(["--out", str(tmp_path / "claims.md"), *words])
    assert said in capsys.readouterr().err


def test_half_precision_is_for_a_gpu(claims: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="--precision: expected 32 on a CPU, found bf16"):
        claims["run"].main(["--out", str(tmp_path / "claims.md"), "--precision", "bf16"])


def test_heads_that_do_not_divide_the_widths_are_refused_at_once(claims: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="--heads: expected a divisor of half of --width 30, found 4"):
        claims["run"].main(["--out", str(tmp_path / "claims.md"), "--width", "30", "--heads", "4"])
