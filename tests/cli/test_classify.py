"""The command line with labelled texts: data, train, predict, evaluate, compare."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import saccade
from saccade.recipes.recipe import read_recipe
from tests.tiny import tiny

TINY = {"train": {"epochs": 1, "threads": 1, "device": "cpu"}, "data.opinions": {"train": 99, "valid": 9, "test": 25}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory, module_unchecked):
    home = tmp_path_factory.mktemp("runs")
    for name, pool in (("looking", "additive"), ("mean", "mean")):
        recipe = read_recipe(
            "attentive_opinions", changes={**TINY, "model": {"hidden": 5, "embedding": 6, "pool": pool}}
        )
        saccade.train(recipe, folder=home / name)
    return home


@pytest.fixture
def reviews(tmp_path):
    rows = (
        [("a good film", "pos")] * 2
        + [("a good film", "neg"), ("dull !", "neg")]
        + [(f"fine {n}", "pos") for n in range(20)]
    )
    path = tmp_path / "reviews.csv"
    path.write_text("review,stars\n" + "".join(f"{text},{label}\n" for text, label in rows))
    return path


def test_predictions_say_the_probabilities(command, runs) -> None:
    text = "about the cake : i found it dull ."
    status, out, _ = command("predict", runs / "looking", text, "--json")
    found = json.loads(out)
    assert status == 0 and found["output"] == next(iter(found["probabilities"]))
    assert sum(found["probabilities"].values()) == pytest.approx(1.0)
    status, out, _ = command("predict", runs / "looking", text, "--n-best", 3)
    shares = [float(line.split("\t")[0]) for line in out.splitlines()]
    assert status == 0 and shares == sorted(shares, reverse=True) and sum(shares) == pytest.approx(1.0, abs=1e-3)


def test_what_a_classifier_cannot_do_is_one_line(command, runs) -> None:
    for words, message in (
        (
            ("predict", runs / "looking", "x", "--sample"),
            "error: command line: --sample: expected nothing: the task classify",
        ),
        (
            ("predict", runs / "looking", "x", "--beam", "5"),
            "error: command line: --beam: expected nothing: the task classify",
        ),
        (
            ("evaluate", runs / "looking", "--length-penalty", "1"),
            "error: command line: --length-penalty: expected nothing",
        ),
        (
            ("predict", runs / "looking", "x", "--prefix", "y"),
            "error: the task 'classify' does not take prefix, require or forbid",
        ),
        (
            ("evaluate", runs / "looking", "--metric", "bleu"),
            "error: metrics: expected any of accuracy, f1, relation_f1, ece, brier, nll, found 'bleu'",
        ),
        (
            ("compare", runs / "looking", "--metric", "bleu"),
            "error: unknown metric 'bleu': expected one of accuracy, f1",
        ),
        (("view", runs / "mean", "x"), "has no attention"),
    ):
        status, _, err = command(*words)
        assert status == 1 and message in err and "Traceback" not in err


def test_how_sure_runs_are_is_compared(command, runs) -> None:
    two = runs / "looking", runs / "mean"
    asked = ("--metric", "ece", "--metric", "accuracy", "--metric", "nll", "--metric", "brier")
    status, out, err = command("compare", *two, *asked, "--samples", 20, "--repeats", 0, "--json")
    assert status == 0, err
    found = json.loads(out)
    assert found["metrics"] == ["ece", "accuracy", "nll", "brier"]
    for run, system in zip(two, found["systems"], strict=True):
        expected = json.loads(command("evaluate", run, *asked, "--json")[1])
        for name, figure in system["figures"].items():
            assert figure["value"] == pytest.approx(expected["figures"][name])
            assert figure["low"] <= figure["high"] and figure["signature"] == expected["signatures"].get(name)
    assert list(found["systems"][1]["against_first"]) == found["metrics"]
    status, out, _ = command("compare", *two, "--metric", "nll", "--samples", 20, "--repeats", 0)
    assert status == 0 and "nll by source_words" in out and "accuracy" not in out


def test_how_sure_runs_are_is_compared_where_the_recipe_asks_for_it(command, tmp_path, shapes_unchecked) -> None:
    changes = {**TINY, "model": {"hidden": 5, "embedding": 6}, "metrics": ["accuracy", "ece"]}
    saccade.train(read_recipe("attentive_opinions", changes=changes), folder=tmp_path / "run")
    status, out, _ = command("compare", tmp_path / "run", "--samples", 20, "--repeats", 0, "--json")
    assert status == 0 and list(json.loads(out)["systems"][0]["figures"]) == ["accuracy", "ece"]


def test_each_label_has_its_figures_and_its_confusions(command, runs, tmp_path) -> None:
    picture = tmp_path / "confusion.svg"
    status, out, _ = command("evaluate", runs / "looking", "--picture", picture)
    found = json.loads(command("evaluate", runs / "looking", "--json")[1])
    labels, counts = found["confusion"]["labels"], found["confusion"]["counts"]
    assert status == 0 and sum(map(sum, counts)) == 25 and picture.read_bytes().startswith(b"<?xml")
    right = sum(counts[number][number] for number in range(len(labels)))
    assert right / 25 == pytest.approx(found["figures"]["accuracy"])
    assert set(found["details"]) == set(labels)
    for number, label in enumerate(labels):
        figures = found["details"][label]
        shown = [f"{figures[name]:.4f}" for name in ("precision", "recall", "f1")]
        rows = [line.split() for line in out.splitlines() if line.startswith(label)]
        assert rows[0] == [label, *shown, str(sum(counts[number])), str(figures["said"])]
        assert rows[1] == [label, *map(str, counts[number])]
    saved = json.loads((runs / "looking" / "by-label.json").read_text())
    assert saved == {name: found[name] for name in ("details", "confusion")}
    assert (runs / "looking" / "confusion.png").read_bytes().startswith(b"\x89PNG")


def test_a_task_without_labels_has_no_confusion_to_draw(command, tmp_path) -> None:
    saccade.train(tiny("train.updates=1"), folder=tmp_path / "run")
    status, _, err = command("evaluate", tmp_path / "run", "--picture", tmp_path / "x.png")
    assert status == 1 and "--picture: expected a task with labels" in err
    assert not (tmp_path / "run" / "by-label.json").exists() and not (tmp_path / "x.png").exists()


def test_figures_are_computed_and_runs_compared(command, runs) -> None:
    status, out, _ = command("evaluate", runs / "looking", "--json")
    assert status == 0 and set(json.loads(out)["figures"]) == {"accuracy", "f1"}
    status, out, _ = command("compare", runs / "looking", runs / "mean", "--samples", 20, "--repeats", 1, "--json")
    found = json.loads(out)
    assert status == 0 and found["metrics"] == ["accuracy", "f1"] and found["count"] == 25
    assert found["systems"][1]["against_first"]["f1"]["bootstrap_p"] > 0
    assert command("compare", runs / "looking", runs / "mean", "--samples", 20, "--by", "source_tokens")[0] == 0


def test_where_it_looked_is_drawn(command, runs, tmp_path) -> None:
    picture = tmp_path / "look.png"
    assert command("view", runs / "looking", "about the cake : i found it dull .", "--out", picture)[0] == 0
    assert picture.stat().st_size > 1000


def test_training_ends_with_what_to_try_next(command, tmp_path, shapes_unchecked) -> None:
    small = [
        "train.epochs=1",
        "train.threads=1",
        "data.opinions.train=60",
        "data.opinions.valid=9",
        "data.opinions.test=9",
    ]
    status, out, _ = command("train", "attentive_opinions", *small, "model.hidden=4", "--out", tmp_path / "run")
    assert (
        status == 0
        and "data.train: blame" in out
        and "--beam" not in out
        and f"evaluate {tmp_path / 'run'} --json" in out
    )


def test_a_dry_run_counts_tokens_and_labels(command) -> None:
    status, out, _ = command("train", "attentive_opinions", "data.opinions.train=60", "--dry-run", "--json")
    plan = json.loads(out)
    assert status == 0 and plan["vocabulary"]["text"] > 20 and plan["tokens"]["train"]["text"] > 600
    assert any(note.startswith("data.train: blame") for note in plan["notes"])


# saccade data -----------------------------------------------------------------------------------------------------------


def test_labels_are_counted_and_contradictions_found(command, reviews) -> None:
    status, out, _ = command("data", reviews, "--column", "text=review", "--column", "label=stars", "--json")
    found = json.loads(out)
    assert status == 0 and found["would_train"] and found["labels"] == {"neg": 2, "pos": 22}
    assert found["repeated"] == 1 and found["contradicted"] == 1
    assert any("11.0 times" in note for note in found["notes"]) and "balance: weights" in found["recipe"]


def test_its_recipe_trains(command, reviews, tmp_path, shapes_unchecked) -> None:
    recipe = tmp_path / "below" / "my.yaml"
    status, out, _ = command("data", reviews, "--column", "text=review", "--column", "label=stars", "--recipe", recipe)
    assert status == 0 and "It would train." in out and "22   91.7 %" in out
    small = ["train.epochs=1", "train.threads=1", "model.hidden=4", "train.stop_after=null"]
    assert command("train", recipe, *small, "--out", tmp_path / "run")[0] == 0
    status, out, _ = command("data", recipe)
    assert status == 0 and "24 texts with a label each (columns review → stars)" in out


def test_a_folder_of_folders_is_known_for_labelled_texts(command, tmp_path) -> None:
    for label in ("neg", "pos"):
        (tmp_path / label).mkdir()
        for number in range(5):
            (tmp_path / label / f"{number}.txt").write_text(f"{label} text {number}")
    status, out, _ = command("data", tmp_path)
    assert status == 0 and "10 texts with a label each (one folder per label)" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "expected the columns 'text' and 'label'"),
        (("--column", "text=review"), "found the columns 'review', 'stars'"),
        (("--column", "text=review", "--column", "label=review"), "expected label to be another column"),
        (("--column", "text=review", "--column", "label=stars", "--encoding", "utf-16"), "--encoding must be utf-8"),
    ],
)  # fmt: skip
def test_a_fault_is_one_line(command, reviews, words, message) -> None:
    words = words or ("--column", "label=label")
    status, _, err = command("data", reviews, *words)
    assert status == 1 and message in err and "Traceback" not in err


def test_one_label_alone_would_not_train(command, tmp_path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("text\tlabel\n" + "a b\tpos\n" * 3)
    status, out, _ = command("data", path)
    assert status == 1 and "a classifier needs at least two labels, found only pos" in out


def test_a_recipe_quotes_names_that_yaml_would_misread(command, tmp_path, shapes_unchecked) -> None:
    path, recipe = tmp_path / "odd #1: x.csv", tmp_path / "odd.yaml"
    path.write_text('"the text, long","a: b"\n' + "".join(f"word{n % 7} {n},{'xy'[n % 2]}\n" for n in range(40)))
    given = ("--column", "text=the text, long", "--column", "label=a: b")
    assert command("data", path, *given, "--recipe", recipe)[0] == 0
    small = ["train.epochs=1", "train.threads=1", "model.hidden=4", "train.stop_after=null"]
    assert command("train", recipe, *small, "--out", tmp_path / "run")[0] == 0


def test_a_test_set_that_cannot_be_read_would_not_train(command, reviews, tmp_path) -> None:
    test = tmp_path / "test.csv"
    test.write_text("review,stars\ngood,pos\n,neg\n")
    status, out, _ = command("data", reviews, "--column", "text=review", "--column", "label=stars", "--test", test)
    assert status == 1 and f"{test}:3: review: expected a text, found nothing" in out
    recipe = tmp_path / "my.yaml"
    test.write_text("review,stars\ngood,pos\nodd,neither\n")
    recipe.write_text(
        f"task: classify\ndata: {{train: {reviews}, test: {test}, labels: [neg, neither, pos],"
        " columns: {text: review, label: stars}}\nmodel: {name: attentive_classifier}\n"
    )
    status, out, _ = command("data", recipe)  # a label that is listed needs no training record
    assert status == 0 and "It would train." in out


MEALS = [(f"the {food} was {how} {n}", "good" if how in ("fine", "fresh") else "bad")
         for n in range(12) for food in ("soup", "cake", "rice") for how in ("fine", "dull", "fresh", "stale")]  # fmt: skip


@pytest.fixture
def meals(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("meals.csv").write_text("comment,verdict\n" + "".join(f"{text},{label}\n" for text, label in MEALS))
    return "meals.csv", "--column", "text=comment", "--column", "label=verdict"


def test_the_recipe_for_a_small_file_learns_it(command, meals, shapes_unchecked) -> None:
    assert command("data", *meals, "--recipe", "my.yaml")[0] == 0
    small = ("model.hidden=16", "model.embedding=16", "train.threads=1", "data.hold_out=0.2")
    assert command("train", "my.yaml", *small, "--out", "run")[0] == 0
    _, out, _ = command("evaluate", "run", "--json")
    assert json.loads(out)["figures"]["accuracy"] > 0.9


def test_few_held_out_records_and_labels_without_any_are_noted(command, meals) -> None:
    notes = json.loads(command("data", *meals, "--json")[1])["notes"]
    (rough,) = notes
    assert rough.startswith("valid and test: about 22 texts held out of train") and "data.hold_out to 0.2" in rough
    Path("meals.csv").write_text(Path("meals.csv").read_text() + "so so,meh\n" * 11)
    notes = json.loads(command("data", *meals, "--test", "meals.csv", "--json")[1])["notes"]
    assert "valid may have no text of meh" in notes


def test_faulty_rows_are_left_out_by_the_recipe_and_many_of_them_refused(command, meals) -> None:
    faulty = Path("meals.csv").read_text() + ",bad\na,b,c\n"
    Path("meals.csv").write_text(faulty)
    status, out, _ = command("data", *meals, "--recipe", "my.yaml")
    assert status == 0 and "faults: drop\n" in Path("my.yaml").read_text()
    assert "note: meals.csv: 2 malformed lines" in out and "meals.csv:146: " in out
    Path("my.yaml").write_text(Path("my.yaml").read_text().replace("faults: drop", "faults: error"))
    status, out, _ = command("data", "my.yaml")
    assert status == 1 and "2 malformed lines" in out and "(data.faults: drop leaves them out)" in out
    _, _, err = command("train", "my.yaml", "--dry-run")
    assert "found nothing; data.faults: drop leaves such records out" in err
    Path("meals.csv").write_text(faulty + ",bad\n" * 60)
    status, out, _ = command("data", *meals)
    assert status == 1 and "62 malformed lines" in out and "fix the file" in out


def test_a_file_in_another_encoding_is_told_so(command, meals) -> None:
    rows = "".join(f"{text} é,{label}\n" for text, label in MEALS)
    Path("meals.csv").write_bytes(f"comment,verdict\n{rows}".encode("latin-1"))
    status, _, err = command("data", *meals)
    assert status == 1 and "found none: 144 not UTF-8 (first: 2); the first: meals.csv:2" in err
    assert "--encoding latin-1" in err and "only a header" not in err
    assert command("data", *meals, "--encoding", "latin-1")[0] == 0
    Path("meals.csv").write_bytes(b"\xe9t\xe9,verdict\na b,good\n")  # the header alone
    assert "meals.csv:1: expected UTF-8 text, found the byte 0xe9" in command("data", *meals)[2]


def test_columns_of_labels_are_guessed_unless_pairs_are_named(command, meals) -> None:
    report = json.loads(command("data", "meals.csv", "--json")[1])
    assert (report["kind"], report["columns"]["text"], report["columns"]["label"]) == ("labels", "comment", "verdict")
    (note,) = [note for note in report["notes"] if "the label" in note]
    assert note.startswith("'verdict' has 2 different values in 144 rows") and "--column source=" in note
    named = command("data", "meals.csv", "--column", "source=comment", "--column", "target=verdict", "--json")
    assert json.loads(named[1])["kind"] == "pairs"
    wide = "id,comment,verdict\n" + "".join(f"{n},{text},{label}\n" for n, (text, label) in enumerate(MEALS))
    Path("meals.csv").write_text(wide)
    assert "columns comment → verdict" in command("data", "meals.csv", "--recipe", "my.yaml")[1]
    assert read_recipe("my.yaml").data.columns.label == "verdict"


def test_a_label_that_may_belong_to_one_of_two_texts_is_suggested(command, meals) -> None:
    rows = "".join(f"title {n},{text},{label}\n" for n, (text, label) in enumerate(MEALS))
    Path("meals.csv").write_text("title,comment,verdict\n" + rows)
    status, out, _ = command("data", "meals.csv")
    assert status == 1 and out.endswith("  saccade data meals.csv --column text=comment --column label=verdict\n")


def test_pairs_that_share_their_first_text_get_a_recipe_that_holds_them_out_together(command, tmp_path) -> None:
    rows = [f"sentence {n // 3}\taspect {n % 3}\t{'ab'[n % 2]}\n" for n in range(159)]
    (tmp_path / "shared.tsv").write_text("".join(["sentence\taspect\tlabel\n", *rows]))
    (tmp_path / "single.tsv").write_text("".join(["sentence\taspect\tlabel\n", *rows[::3]]))
    columns = ("--column", "text=sentence", "--column", "second=aspect", "--column", "label=label")
    for name, group in (("shared", "sentence"), ("single", None)):
        status, out, _ = command("data", tmp_path / f"{name}.tsv", *columns, "--recipe", tmp_path / f"{name}.yaml")
        assert status == 0 and read_recipe(tmp_path / f"{name}.yaml").data.columns.group == group
        assert ("106 pairs with the first text of another pair: data.columns.group: sentence" in out) == (
            group is not None
        )
