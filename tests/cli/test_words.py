"""``saccade words``: tables, files and pictures of what a classifier looks at."""

from __future__ import annotations

import csv
import json

import pytest

import saccade
from saccade.recipes.recipe import read_recipe
from tests.tiny import tiny

CHANGES = {
    "train": {"epochs": 1, "threads": 1, "device": "cpu"},
    "data.opinions": {"train": 66, "valid": 9, "test": 45},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory, module_unchecked):
    home = tmp_path_factory.mktemp("runs")
    for name, pool in (("looking", "additive"), ("mean", "mean")):
        model = {"hidden": 5, "embedding": 6, "pool": pool}
        saccade.train(read_recipe("attentive_opinions", changes={**CHANGES, "model": model}), folder=home / name)
    saccade.train(tiny("train.epochs=1"), folder=home / "texts")
    return home


def test_a_table_a_label_is_printed(command, runs) -> None:
    status, out, _ = command("words", runs / "looking", "--labels", "given", "--top", 3)
    assert status == 0 and "45 texts of test; labels as given; weights of pool" in out
    assert all(f"{label} (" in out for label in ("praise", "blame", "neither")) and "× even" in out


def test_programs_get_all_of_it(command, runs) -> None:
    status, out, _ = command(
        "words", runs / "looking", "--labels", "given", "--top", 4, "--rank", "total", "--min-count", 2, "--json"
    )
    found = json.loads(out)
    totals = [word["total"] for word in found["labels"]["praise"]["words"]]
    assert status == 0 and len(totals) == 4 and totals == sorted(totals, reverse=True)
    assert sum(part["texts"] for part in found["labels"].values()) == 45
    assert all(word["count"] >= 2 for part in found["labels"].values() for word in part["words"])
    status, out, _ = command("words", runs / "looking", "--limit", 7, "--json", "--word", "about")
    found = json.loads(out)
    assert status == 0 and sum(len(weights) for weights in found["weights"]["about"].values()) == 7


def test_how_a_word_varies_is_printed(command, runs) -> None:
    status, out, _ = command("words", runs / "looking", "--word", "about", "--labels", "given")
    assert status == 0 and "the weight of about" in out and "median" in out


@pytest.mark.parametrize("ending", ["png", "svg", "html", "csv"])
def test_files_are_written(command, runs, tmp_path, ending) -> None:
    path = tmp_path / f"words.{ending}"
    status, out, _ = command("words", runs / "looking", "--labels", "given", "--out", path)
    assert status == 0 and out.strip() == str(path) and path.stat().st_size > 500
    if ending == "csv":
        rows = list(csv.DictReader(path.open()))
        assert (
            set(rows[0]) == {"label", "word", "count", "mean", "total", "lift"}
            and len({row["label"] for row in rows}) == 3
        )


@pytest.mark.parametrize("ending", ["png", "html", "csv"])
def test_a_file_that_exists_is_only_replaced_with_force(command, runs, tmp_path, ending) -> None:
    path = tmp_path / f"mine.{ending}"
    path.write_text("text,label\n")
    status, out, err = command("words", runs / "looking", "--out", path)
    assert (status, out) == (1, "") and path.read_text() == "text,label\n"
    assert f"{path}: --out: expected a new file" in err and "--force" in err
    assert command("words", runs / "looking", "--out", path, "--force")[0] == 0
    assert path.stat().st_size > 500


def test_what_force_cannot_be_for_is_one_line(command, runs, tmp_path) -> None:
    status, _, err = command("words", runs / "looking", "--force")
    assert status == 1 and "--force: expected --out FILE" in err
    (tmp_path / "folder.csv").mkdir()
    status, _, err = command("words", runs / "looking", "--out", tmp_path / "folder.csv", "--force")
    assert status == 1 and "--out: expected the name of a file to write, found a folder" in err


def test_a_list_has_as_many_words_as_asked_for_in_the_order_asked_for(command, runs, tmp_path) -> None:
    path = tmp_path / "words.csv"
    asked = ("words", runs / "looking", "--labels", "given", "--min-count", 1, "--rank", "total", "--out", path)
    assert command(*asked, "--top", 3, "--json")[0] == 0
    rows = [row for row in csv.DictReader(path.open()) if row["label"] == "praise"]
    totals = [float(row["total"]) for row in rows]
    assert len(totals) == 3 and totals == sorted(totals, reverse=True)
    assert command(*asked, "--force")[0] == 0
    assert sum(row["label"] == "praise" for row in csv.DictReader(path.open())) > 20  # all of them


def test_the_weights_of_single_words_are_drawn_or_listed(command, runs, tmp_path) -> None:
    for name in ("weights.png", "weights.csv"):
        words = ("--word", "about", "--word", "the", "--labels", "given", "--out", tmp_path / name)
        assert command("words", runs / "looking", *words)[0] == 0
    status, out, _ = command("words", runs / "looking", "--word", "about", "--out", tmp_path / "one.csv", "--json")
    assert status == 0 and json.loads(out)["weights"]["about"] and (tmp_path / "one.csv").is_file()
    rows = list(csv.DictReader((tmp_path / "weights.csv").open()))
    assert sum(row["word"] == "about" for row in rows) == 45


def test_what_cannot_be_shown_is_one_line(command, runs) -> None:
    for words, message in (
        ((runs / "texts",), "error: expected a classifier, found the task 'translate'"),
        ((runs / "mean",), "expected attention from the label on the words, found none"),
        ((runs / "looking", "--site", "x"), "error: site: expected one of pool, found 'x'"),
        (
            (runs / "looking", "--out", "x.gif"),
            "expected a file ending in one of .png, .svg, .pdf, .csv, .html, found '.gif'",
        ),
        ((runs / "looking", "--word", "zebra"), "error: --word: expected words of these texts, found none of 'zebra'"),
    ):
        status, _, err = command("words", *words)
        assert status == 1 and message in err and "Traceback" not in err
