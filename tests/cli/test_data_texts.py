"""``saccade data`` with plain text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from saccade.recipes.recipe import read_recipe


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.txt").write_text("".join(f"line {n} of my text\n\n" for n in range(75)))


def test_plain_text_is_counted_and_its_recipe_can_be_read(command) -> None:
    status, out, _ = command("data", "mine.txt", "--recipe", "below/my.yaml")
    assert status == 0 and out.startswith("mine.txt: 75 lines of text, 375 words\n")
    assert "the tasks language" in out and out.endswith("Next:\n  saccade train below/my.yaml\n")
    assert read_recipe("below/my.yaml").task == "language"
    assert command("train", "below/my.yaml", "--dry-run")[0] == 0
    report = json.loads(command("data", "mine.txt", "--json")[1])
    assert report["would_train"] and report["next"][0] == "saccade data mine.txt --recipe my.yaml"
    assert report["sides"]["text"]["vocabulary"]["different"] == 79


def test_a_recipe_for_plain_text_is_surveyed(command) -> None:
    command("data", "mine.txt", "--recipe", "my.yaml")
    Path("test.txt").write_text("line 3 of my text\nwhat is new\n")
    Path("my.yaml").write_text(
        Path("my.yaml").read_text().replace("train: mine.txt", "train: mine.txt\n  test: test.txt")
    )
    status, out, _ = command("data", "my.yaml")
    assert status == 0 and "1 of 2 lines of test.txt" in out and out.endswith("saccade train my.yaml\n")
    Path("pretrain.yaml").write_text("task: pretrain\ndata: {train: [mine.txt, test.txt]}\nmodel: {name: bert}\n")
    report = json.loads(command("data", "pretrain.yaml", "--json")[1])
    assert (report["kind"], report["records"], report["repeated"]) == ("texts", 77, 1)


def test_a_recipe_of_made_up_texts_says_that_there_is_nothing_to_check(command) -> None:
    for name in ("lstm_language_agreement", "bert_topics"):
        status, _, err = command("data", name)
        assert status == 1 and "found a built-in source" in err and f"saccade train {name}" in err


def test_a_line_that_cannot_be_read_would_not_train(command) -> None:
    Path("mine.txt").write_bytes(b"a line\nna\xefve\nmore\nand more\n")
    status, out, _ = command("data", "mine.txt", "--recipe", "my.yaml")
    assert status == 1 and "It would not train:" in out and not Path("my.yaml").exists()
    assert "1 malformed line, the first: mine.txt:2: expected UTF-8 text" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gone.txt",), "gone.txt: expected a file, found nothing of that name"),
        (("mine.txt", "--recipe", "mine.txt"), "expected a name that ends in .yaml"),
        (("mine.txt", "--recipe", "old.yaml"), "expected a new file, found one that exists (add --force)"),
        (("mine.txt", "--column", "source=1", "--column", "target=2"), "expected a file of pairs"),
        (("bert_topics", "--recipe", "my.yaml"), "--recipe: expected a data file, found a recipe"),
        (("empty.txt",), "empty.txt: expected at least one line of text, found none"),
    ],
)
def test_a_mistake_is_one_line(command, words, message) -> None:
    Path("old.yaml").write_text("")
    Path("empty.txt").write_text("\n\n")
    status, out, err = command("data", *words)
    assert (status, out) == (1, "") and message in err and err.count("\n") == 1
