"""The benchmarks of what recipes reach and of whether attention helps: runs that go on, and tables that say the truth."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
NAMES = ("trained", "reading_run", "pooling_run")

pytestmark = pytest.mark.usefixtures("shapes_unchecked")


def script(name: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # where its dataclasses look for their names
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", list(sys.path))
    module = script("trained", FOLDER / "reading" / "trained.py", monkeypatch)
    module.asked = []

    def here(command: list[str], name: str, seconds: float) -> bool:
        module.asked.append(name)
        module.train_one(Path(command[2]), command[3], command[4:])
        return True

    monkeypatch.setattr(module, "_carried_out", here)
    return module


@pytest.fixture
def reading(trained: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    return script("reading_run", FOLDER / "reading" / "run.py", monkeypatch)


@pytest.fixture
def pooling(trained: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    return script("pooling_run", FOLDER / "pooling" / "run.py", monkeypatch)


def table(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]


def result(seed: int, test: float, valid: float, watch: str = "accuracy") -> dict[str, Any]:
    figures = {"metric": "accuracy", "watch": watch, "test": {"accuracy": test}, "valid": {watch: valid}}
    return {**figures, "seed": seed, "parameters": 1234, "seconds": 7.0}


def test_a_recipe_is_trained_with_each_seed_once_and_the_table_says_what_it_reached(
    reading: Any, trained: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out" / "t.md"
    words = ["--tiny", "--seeds", "2", "--device", "cpu", "--runs", str(tmp_path / "runs"), "--out", str(out)]
    reading.main(words)
    assert trained.asked == ["attentive_opinions-1", "attentive_opinions-2"]
    head, _, row = table(out.read_text(encoding="utf-8"))
    assert head == list(reading.HEAD) and len(row) == len(head) and row[2] == "accuracy"
    each = [float(value) for value in row[4].split()]
    assert len(each) == 2 and row[3].startswith(f"{sum(each) / 2:.4f} ± ")
    assert not (tmp_path / "runs" / "attentive_opinions-1" / "checkpoints").exists()
    reading.main(words)
    assert len(trained.asked) == 2


def test_runs_that_are_missing_are_told_and_nothing_is_begun_when_the_time_is_over(
    reading: Any, trained: Any, tmp_path: Path
) -> None:
    with pytest.raises(SystemExit, match="2 runs are missing: the same command goes on"):
        reading.main(["--tiny", "--seeds", "2", "--runs", str(tmp_path), "--minutes", "-1"])
    assert trained.asked == []


def test_a_run_that_was_cut_off_continues_where_it_stood(trained: Any, reading: Any, tmp_path: Path) -> None:
    from saccade.errors import Interrupted

    changes = [*reading.TINY["attentive_opinions"], "train.device=cpu", "train.epochs=2", "train.batch_records=8"]
    stopped: list[int] = []

    def stop(*_: Any) -> None:
        stopped.append(1)
        raise Interrupted("stopped")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("saccade.api.training._finish", stop)
        with pytest.raises(Interrupted):
            trained.train_one(tmp_path / "run", "attentive_opinions", changes)
    assert stopped and not (tmp_path / "run" / "result.json").exists()
    log = (tmp_path / "run" / "log.csv").read_text()
    trained.train_one(tmp_path / "run", "attentive_opinions", changes)
    assert (tmp_path / "run" / "result.json").is_file()
    assert (tmp_path / "run" / "log.csv").read_text() == log  # no update was made twice


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--recipes", "han_imbd"], "--recipes: expected names of shipped recipes, found 'han_imbd'"),
        (["--tiny", "--set", "attentive_opinions.model.hidden=3"], "--set: expected RECIPE:key=value"),
        (["--tiny", "--seeds", "0"], "--seeds and --jobs: expected whole numbers from 1 on"),
    ],
)
def test_a_wrong_option_is_named(reading: Any, tmp_path: Path, words: list[str], said: str) -> None:
    with pytest.raises(SystemExit, match=said):
        reading.main([*words, "--runs", str(tmp_path)])


def test_a_field_of_one_recipe_can_be_set(reading: Any) -> None:
    options = reading.argparse.Namespace(
        tiny=False,
        recipes=["attentive_trec", "attentive_imdb"],
        set=["attentive_imdb:model.hidden=64"],
        seeds=3,
        device="cpu",
    )
    runs = reading.runs_of(options)
    assert [run.name for run in runs["attentive_imdb"]] == [f"attentive_imdb-{seed}" for seed in (1, 2, 3)]
    assert (
        "model.hidden=64" in runs["attentive_imdb"][2].changes and "train.seed=3" in runs["attentive_imdb"][2].changes
    )
    assert all("model.hidden=64" not in run.changes for run in runs["attentive_trec"])


def test_goals_are_judged_by_the_mean(reading: Any) -> None:
    found = [result(seed, test, 0.9) for seed, test in ((1, 0.89), (2, 0.92))]
    assert "≥ 0.9, reached" in reading.row("attentive_imdb", found)
    assert "≥ 0.9, missed" in reading.row("attentive_imdb", found[:1])
    assert reading.row("attentive_imdb", []).count("|") == len(reading.HEAD) + 1


def test_shipped_recipes_with_a_goal_are_held_to_a_figure_of_the_same_kind(reading: Any) -> None:
    from saccade.recipes.recipe import read_recipe, shipped_recipes

    shipped = shipped_recipes()
    known = {name: aim for name, aim in reading.AIMS.items() if name in shipped}
    assert {"attentive_imdb", "attentive_trec"} <= set(known)
    for name, aim in known.items():
        expect = read_recipe(name).expect
        assert expect is not None and expect.metric in ("accuracy", "f1", "relation_f1", "map")
        assert aim.goal is None or abs(aim.goal - (expect.at_least or 0)) < 0.1, name


def test_every_way_of_pooling_is_trained_with_every_seed(pooling: Any, trained: Any, tmp_path: Path) -> None:
    out = tmp_path / "t.md"
    pooling.main(["--tiny", "--seeds", "2", "--device", "cpu", "--runs", str(tmp_path / "runs"), "--out", str(out)])
    assert len(trained.asked) == len(set(trained.asked)) == 10
    text = out.read_text(encoding="utf-8")
    rows = table(text)
    assert [row[0] for row in rows[2:]] == list(pooling.POOLS) and {len(row) for row in rows} == {len(pooling.HEAD) + 1}
    assert "each the best of its kind on dev" in text
    differing = {row[0]: row[-1] for row in rows[2:]}
    assert differing["additive"] == "" and all("±" in differing[pool] for pool in pooling.POOLS[1:])


def test_runs_of_one_seed_are_compared_with_each_other(pooling: Any) -> None:
    first = {1: result(1, 0.9, 0.9), 2: result(2, 0.5, 0.9), 4: result(4, 0.7, 0.9)}
    other = {2: result(2, 0.4, 0.9), 1: result(1, 0.8, 0.9), 3: result(3, 0.0, 0.9)}
    assert pooling.differences(first, other, "accuracy") == pytest.approx([0.1, 0.1])


def test_the_best_of_each_kind_is_chosen_by_dev_and_judged_by_test(pooling: Any) -> None:
    found = {
        "additive": {1: result(1, 0.80, 0.7), 2: result(2, 0.81, 0.7)},
        "dot": {1: result(1, 0.60, 0.9), 2: result(2, 0.62, 0.9)},
        "mean": {1: result(1, 0.90, 0.5), 2: result(2, 0.90, 0.5)},
        "max": {1: result(1, 0.55, 0.6), 2: result(2, 0.56, 0.6)},
    }
    said = pooling.verdict(found)
    assert said.startswith("dot against max") and "+0.0550 accuracy" in said and said.endswith("attention helps.")
    losses = {
        pool: {
            seed: {**each, "watch": "loss", "valid": {"loss": each["valid"]["accuracy"]}} for seed, each in part.items()
        }
        for pool, part in found.items()
    }
    assert pooling.verdict(losses).startswith("additive against mean") and "harms" in pooling.verdict(losses)
    same = {
        "dot": {1: result(1, 0.5, 0.9), 2: result(2, 0.7, 0.9)},
        "max": {1: result(1, 0.6, 0.9), 2: result(2, 0.6, 0.9)},
    }
    assert "no difference that these seeds can show" in pooling.verdict(same)
    assert pooling.verdict({"dot": found["dot"], "max": {}}) == "Too few runs to say."
