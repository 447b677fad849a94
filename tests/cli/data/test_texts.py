"""``saccade data`` with raw text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from saccade.recipes.recipe import read_recipe


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.txt").write_text("".join(f"line {n} of my text\n\n" for n in range(75)))


def test_raw_text_is_data_as_it_stands_and_its_recipe_can_be_read(command) -> None:
    status, out, _ = command("data", "mine.txt", "--recipe", "below/my.yaml")
    assert status == 0 and out.startswith("mine.txt: 75 lines of text, 375 words\n")
    assert "data as it stands for the tasks language" in out and out.endswith("Next:\n  saccade train below/my.yaml\n")
    assert read_recipe("below/my.yaml").task == "language"
    assert command("train", "below/my.yaml", "--dry-run")[0] == 0
    found = json.loads(command("data", "mine.txt", "--json")[1])
    assert found["verdict"]["would_train"] and found["next"][0] == "saccade data mine.txt --recipe my.yaml"


def test_a_recipe_for_raw_text_is_told_how_to_train(command) -> None:
    for name in ("lstm_language_agreement", "bert_topics"):
        status, out, _ = command("data", name)
        assert status == 0 and "data as it stands" in out and f"saccade train {name} --dry-run\n" in out


def test_a_line_that_cannot_be_read_would_not_train(command) -> None:
    Path("mine.txt").write_bytes(b"a line\nna\xefve\n")
    status, out, _ = command("data", "mine.txt", "--recipe", "my.yaml")
    assert status == 1 and "It would not train: mine.txt:2: expected UTF-8 text" in out and not Path("my.yaml").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gone.txt",), "gone.txt: expected a file, found nothing of that name"),
        (("mine.txt", "--clean", "x.tsv"), "--clean: expected pairs or labelled texts beside it, found raw text"),
        (("mine.txt", "--recipe", "mine.txt"), "expected a name that ends in .yaml"),
        (("mine.txt", "--recipe", "old.yaml"), "expected a new file, found one that exists (add --force)"),
        (("mine.txt", "--source", "1", "--target", "2"), "expected a file of pairs"),
        (("bert_topics", "--recipe", "my.yaml"), "--recipe: expected pairs or labelled texts beside it"),
        (("empty.txt",), "empty.txt: expected at least one line of text, found none"),
    ],
)
def test_a_mistake_is_one_line(command, words, message) -> None:
    Path("old.yaml").write_text("")
    Path("empty.txt").write_text("\n\n")
    status, out, err = command("data", *words)
    assert (status, out) == (1, "") and message in err and err.count("\n") == 1
