"""A person trains on aspects and on relations, asks, and sees one picture of a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from saccade.cli import app

SENTENCE = "the soup was lovely but the waiter is clumsy"
TINY = ["model.embedding=5", "model.hidden=4", "train.updates=2", "train.device=cpu"]


def run(*words: str) -> str:
    found = CliRunner().invoke(app, list(words))
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("aspects") / "run"
    sizes = ["data.contrasts.train=30", "data.contrasts.valid=3", "data.contrasts.test=5"]
    run("train", "atae_aspects", "--out", str(folder), *sizes, *TINY)
    return folder


def test_several_aspects_of_a_sentence_are_one_picture(trained, tmp_path) -> None:
    told = run("view", str(trained), f"{SENTENCE}\tsoup", f"{SENTENCE}\twaiter", "--out", str(tmp_path / "x.png"))
    assert [file.name for file in tmp_path.iterdir()] == ["x.png"]
    assert f"{SENTENCE} → soup: " in told and "; waiter: " in told


def test_in_the_terminal_they_are_one_map_and_on_a_page_two_inputs(trained, tmp_path) -> None:
    shown = run("view", str(trained), f"{SENTENCE}\tsoup", f"{SENTENCE}\twaiter")
    assert "soup → " in shown and "waiter → " in shown and shown.count("aspect ↓") == 1
    assert "2 inputs" in run(
        "view", str(trained), f"{SENTENCE}\tsoup", f"{SENTENCE}\twaiter", "--out", str(tmp_path / "x.html")
    )


def test_a_sentence_without_its_aspect_is_refused(trained) -> None:
    found = CliRunner().invoke(app, ["predict", str(trained), SENTENCE])
    assert found.exit_code != 0
    assert "expected two texts, as in training" in str(found.exception) + found.output


def test_relations_are_surveyed_and_the_recipe_trains(tmp_path, monkeypatch) -> None:
    lines = [
        f'{n}\t"the <e1>storm</e1> caused {n} <e2>floods</e2>"\n{"Cause(e1,e2)" if n % 2 else "Other"}\nComment:\n\n'
        for n in range(1, 61)
    ]
    (tmp_path / "TRAIN.TXT").write_text("".join(lines))
    monkeypatch.chdir(tmp_path)
    found = json.loads(run("data", "TRAIN.TXT", "--format", "relations", "--recipe", "my.yaml", "--json"))
    assert (found["records"], found["labels"], found["would_train"]) == (60, {"Cause(e1,e2)": 30, "Other": 30}, True)
    assert "(sentence → relation)" in run("data", "TRAIN.TXT", "--format", "relations")
    run("train", "my.yaml", "--out", "run", *TINY)
    figures = json.loads(run("evaluate", "run", "--data", "TRAIN.TXT", "--json"))
    assert "relation_f1" in json.dumps(figures)


def test_aspects_are_surveyed_and_the_recipe_trains(tmp_path, monkeypatch) -> None:
    (tmp_path / "x.seg").write_text("".join(f"the $T$ of day {n}\nsoup\n{n % 3 - 1}\n" for n in range(60)))
    monkeypatch.chdir(tmp_path)
    run("data", "x.seg", "--format", "aspects", "--recipe", "my.yaml")
    assert "(sentence and aspect → polarity)" in run("data", "x.seg", "--format", "aspects")
    run("train", "my.yaml", "--out", "run", *TINY)
    assert run("predict", "run", "the soup of day 3\tsoup").strip() in ("negative", "neutral", "positive")
