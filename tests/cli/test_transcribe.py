"""The command line with speech: train, evaluate, predict and view, with CTC, a language model and attention to fewer frames."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import saccade
from saccade.recipes.recipe import read_recipe
from tests.tasks.test_transcribe import manifest

RECIPE = """\
task: transcribe
data:
  {train: train.tsv, valid: valid.tsv, test: test.tsv, features: {kind: given, deltas: 0, hop: 0.02}, max_length: 14}
model: {name: listen_attend, hidden: 8, layers: 1, state: 12, embedding: 4, alignment: 8, filters: 2, reach: 3, maxout: 8,
  ctc: 0.3}
train: {epochs: 2, lr: 1e-2, batch_records: 8, threads: 1, device: cpu}
search: {beam: 2}
metrics: [wer, cer]
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: Any, module_unchecked: None) -> Path:
    home = tmp_path_factory.mktemp("runs")
    for seed, (name, count) in enumerate({"train": 40, "valid": 5, "test": 7}.items()):
        manifest(home, name, count, seed)
    (home / "my.yaml").write_text(RECIPE, encoding="utf-8")
    saccade.train(home / "my.yaml", folder=home / "my")
    said = [line.split("\t")[1] for line in (home / "train.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    (home / "said.txt").write_text("\n".join(said), encoding="utf-8")
    language = {
        "task": "language",
        "data": {"train": str(home / "said.txt"), "tokens": {"kind": "characters"}},
        "model": {"name": "recurrent_lm", "hidden": 4, "embedding": 3},
        "train": {"updates": 2, "threads": 1, "device": "cpu"},
    }
    saccade.train(language, folder=home / "lm")
    return home


def test_error_rates_are_printed_with_the_errors(command: Any, runs: Path) -> None:
    status, out, _ = command("evaluate", runs / "my", "--metric", "wer", "--metric", "per")
    assert status == 0 and out.startswith("wer ") and "\nper " in out
    assert "note: most frequent errors (words, true → heard): " in out and "substituted  deleted  inserted" in out
    found = json.loads(command("evaluate", runs / "my", "--ctc", "0.3", "--json")[1])
    assert set(found["figures"]) == {"wer", "cer"} and found["details"]["all"]["count"] == 14
    assert found["confusion"]["unit"] == "words"


def test_searches_are_set_on_the_command_line(command: Any, runs: Path) -> None:
    frames = runs / "test3.npy"
    options = f"--ctc 0.4 --lm {runs / 'lm'} --lm-weight 0.5 --top-frames 4 --window 5 --sharpen 2".split()
    plain, fused = (json.loads(command("predict", runs / "my", frames, "--json", *more)[1]) for more in ([], options))
    assert fused["log_prob"] != plain["log_prob"]
    status, out, _ = command("view", runs / "my", frames, "--out", runs / "where.png", *options)
    assert status == 0 and (runs / "where.png").stat().st_size > 1000
    status, out, _ = command("predict", runs / "my", runs / "test2.npy", "--n-best", "2")
    assert status == 0 and len(out.splitlines()) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lm-weight", "0.5"], "command line: --lm-weight needs --lm RUN"),
        (["--lm", "my"], "expected a run of the task language, found one of 'transcribe'"),
        (["--lm", "gone"], "gone: expected a run's folder, found no such folder"),
        (["--coverage", "0.2"], "command line: --coverage: expected 0.0: sound has no words to cover or to copy"),
        (["--sharpen", "0"], "command line: sharpen must be above 0: got 0.0"),
    ],
)
def test_settings_that_do_not_apply_are_refused(
    command: Any, runs: Path, options: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs)
    status, _, errors = command("predict", "my", "test3.npy", *options)
    assert status == 1 and message in errors


def test_a_task_that_does_not_listen_refuses_settings_of_speech(command: Any, runs: Path) -> None:
    for option, value in (("--ctc", "0.3"), ("--top-frames", "3"), ("--lm", str(runs / "lm"))):
        status, _, errors = command("predict", runs / "lm", "ab", option, value)
        assert status == 1 and f"command line: {option}: expected nothing: the task language does not listen" in errors


def test_the_run_of_a_language_model_is_found_from_the_recipe_or_from_here(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (runs / "with.yaml").write_text(RECIPE.replace("{beam: 2}", "{beam: 2, lm: {run: lm}}"), encoding="utf-8")
    assert read_recipe(runs / "with.yaml").search.lm.run == str(runs / "lm")
    monkeypatch.chdir(tmp_path)
    assert read_recipe(runs / "with.yaml", ["search.lm.run=other"]).search.lm.run == str(tmp_path / "other")
    bundle = saccade.train(runs / "with.yaml", folder=tmp_path / "with", **{"train.epochs": 1})
    frames = np.load(runs / "test3.npy")
    assert bundle.predict(frames)[0].value == saccade.load(tmp_path / "with").predict(frames)[0].value


def test_recordings_of_a_table_are_found_beside_it_or_from_here(
    command: Any, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = (runs / "test0.npy", runs / "test3.npy")
    expected = command("predict", runs / "my", *features)[1].splitlines()
    (tmp_path / "list").mkdir()
    for number, file in enumerate(features):
        (tmp_path / "list" / f"{number}.npy").write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    for names, table in ((["0.npy", "1.npy"], "list/names.csv"), (["list/0.npy", "list/1.npy"], "list/here.csv")):
        Path(table).write_text("\n".join(["n,audio", *(f"7,{name}" for name in names)]), encoding="utf-8")
        status, out, err = command("predict", runs / "my", table, "--column", "audio")
        assert status == 0 and "error" not in err, err
        rows = [line.split(",") for line in out.splitlines()[1:]]
        assert [row[2] for row in rows] == expected and [row[1] for row in rows] == names
