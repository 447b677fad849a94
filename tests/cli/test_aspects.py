"""A person trains on aspects and on relations, asks, and sees one picture of a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import saccade
from saccade.cli import app
from saccade.errors import InputError
from saccade.recipes.recipe import read_recipe

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
    assert "(columns sentence → relation)" in run("data", "TRAIN.TXT", "--format", "relations")
    run("train", "my.yaml", "--out", "run", *TINY)
    figures = json.loads(run("evaluate", "run", "--data", "TRAIN.TXT", "--json"))
    assert "relation_f1" in json.dumps(figures)


def test_aspects_are_surveyed_and_the_recipe_trains(tmp_path, monkeypatch) -> None:
    (tmp_path / "x.seg").write_text("".join(f"the $T$ of day {n}\nsoup\n{n % 3 - 1}\n" for n in range(60)))
    monkeypatch.chdir(tmp_path)
    run("data", "x.seg", "--format", "aspects", "--recipe", "my.yaml")
    assert "(columns sentence and aspect → polarity)" in run("data", "x.seg", "--format", "aspects")
    run("train", "my.yaml", "--out", "run", *TINY)
    assert run("predict", "run", "the soup of day 3\tsoup").strip() in ("negative", "neutral", "positive")


MARKED = "the <e1>storm</e1> caused {} <e2>floods</e2>"
MARKS = ("<e1>", "</e1>", "<e2>", "</e2>")


@pytest.fixture
def related(tmp_path, monkeypatch) -> None:
    """A folder with blocks of relations and with a table of the same."""
    labels = ["Cause(e1,e2)" if number % 2 else "Other" for number in range(60)]
    texts = [MARKED.format(number) for number in range(60)]
    blocks = [f'{n}\t"{text}"\n{label}\n\n' for n, (text, label) in enumerate(zip(texts, labels, strict=True))]
    (tmp_path / "TRAIN.TXT").write_text("".join(blocks))
    rows = [f"{text}\t{label}\n" for text, label in zip(texts, labels, strict=True)]
    (tmp_path / "table.tsv").write_text("".join(["sentence\trelation\n", *rows]))
    monkeypatch.chdir(tmp_path)


def test_a_sentence_without_its_marks_is_refused_where_relations_were_trained(related) -> None:
    run("data", "TRAIN.TXT", "--format", "relations", "--recipe", "my.yaml")
    run("train", "my.yaml", "--out", "run", *TINY)
    bundle = saccade.load("run")
    assert bundle.predict(MARKED.format("many"))[0].value in ("Cause(e1,e2)", "Other")
    expected = "expected <e1>…</e1> and <e2>…</e2>, each once, around two parts of the sentence, found "
    for text, found in (("the storm", "no marks"), ("the <e1>storm</e1> of <e2>May", "<e1> </e1> <e2>")):
        with pytest.raises(InputError, match=f"input 2: {expected}{found}"):
            bundle.predict([MARKED.format("few"), text])
        assert list(bundle.refusals([MARKED.format("few"), text])) == [1]
        refused = CliRunner().invoke(app, ["view", "run", text])
        assert refused.exit_code != 0 and f"{expected}{found}" in str(refused.exception) + refused.output
        with pytest.raises(InputError, match=f"record 1.*: {expected}{found}"):
            bundle.evaluate([(text, "Other")])


def test_marks_of_relations_that_would_be_cut_are_refused_with_what_to_write(related, tmp_path) -> None:
    (tmp_path / "my.yaml").write_text(
        "task: classify\ndata: {train: TRAIN.TXT, format: relations, tokens: {kind: words, whole: ['<e1>']}}\n"
        "model: {name: att_blstm}\nmetrics: [accuracy]\n"
    )
    refused = CliRunner().invoke(app, ["train", "my.yaml", "--out", "run", *TINY])
    said = "my.yaml:2: data.tokens.whole: expected "
    marks = '["<e1>", "</e1>", "<e2>", "</e2>"], the marks of relations, found ["<e1>"]'
    assert refused.exit_code != 0 and f"{said}{marks}" in str(refused.exception) + refused.output
    run("train", "my.yaml", "--out", "run", *TINY, f"data.tokens.whole={json.dumps(MARKS)}")


def test_a_table_of_marked_sentences_gets_a_recipe_that_keeps_the_marks_whole(related) -> None:
    run("data", "table.tsv", "--column", "text=sentence", "--column", "label=relation", "--recipe", "my.yaml")
    recipe = read_recipe("my.yaml")
    assert recipe.data.tokens.whole == MARKS and recipe.metrics == ("relation_f1", "accuracy", "f1")


def test_a_table_without_marks_keeps_nothing_whole(related, tmp_path) -> None:
    table = (tmp_path / "table.tsv").read_text().replace("<e1>", "").replace("(e1,e2)", "")
    (tmp_path / "table.tsv").write_text(table)
    run("data", "table.tsv", "--column", "text=sentence", "--column", "label=relation", "--recipe", "my.yaml")
    recipe = read_recipe("my.yaml")
    assert not recipe.data.tokens.whole and recipe.metrics == ("accuracy", "f1")
