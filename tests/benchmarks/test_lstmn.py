"""The benchmark of LSTMN beside LSTMs: networks of one size, and a table of what each reached."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import yaml

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "lstmn" / "run.py"

pytestmark = pytest.mark.usefixtures("shapes_unchecked")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = spec_from_file_location("lstmn_run", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "lstmn_run", module)  # where its dataclasses look for their names
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("table", ["language", "labels"])
def test_the_lstm_of_as_many_parameters_has_a_few_more(script: Any, table: str) -> None:
    models = {
        network: script.document(script.Run(table, network, 3), tiny=False, device="cpu")["model"]
        for network in (script.LSTMN, script.LSTM, script.AS_MANY)
    }
    counts = {network: script.parameters(table, model) for network, model in models.items()}
    assert counts[script.LSTM] < counts[script.LSTMN] <= counts[script.AS_MANY] < 1.01 * counts[script.LSTMN]
    assert models[script.LSTM]["hidden"] == models[script.LSTMN]["hidden"]


def test_all_networks_of_a_table_read_the_same_data_by_the_same_schedule_but_the_one_that_is_carried(
    script: Any,
) -> None:
    made = {
        network: script.document(script.Run("language", network, 3), tiny=False, device="cpu")
        for network in script.ROWS["language"]
    }
    for network, recipe in made.items():
        same = all(recipe[part] == made[script.LSTMN][part] for part in ("data", "train"))
        assert same == (network != script.CARRIED)
        assert recipe["train"]["seed"] == 3
        assert "expect" not in recipe


def test_the_tables_are_written_and_what_is_finished_is_not_trained_again(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[str] = []

    def here(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        table, network, seed = command[3:6]
        trained.append(network)
        script.train_one(script.Run(table, network, int(seed)), Path(command[7]), tiny=True, device="cpu")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(script.subprocess, "run", here)
    words = [
        "--tiny",
        "--seeds",
        "2",
        "--runs",
        str(tmp_path / "runs"),
        "--device",
        "cpu",
        "--out",
        str(tmp_path / "t.md"),
    ]
    monkeypatch.setattr(sys, "argv", ["run.py", *words])
    script.main()
    assert len(trained) == 2 * 7
    text = (tmp_path / "t.md").read_text()
    for table in script.ROWS:
        for network in script.ROWS[table]:
            assert f"| {network} | " in text
    assert {line.count("|") for line in text.splitlines() if line.startswith("|")} == {10}
    recipe = yaml.safe_load((tmp_path / "runs" / "language-lstmn-2.yaml").read_text())
    assert recipe["model"]["name"] == "lstmn_lm" and recipe["train"]["seed"] == 2
    script.main()
    assert len(trained) == 2 * 7
