"""The command line with questions and candidates: data, train, predict, view, evaluate, compare, serve."""

from __future__ import annotations

import json

import pytest

import saccade
from saccade.recipes.recipe import read_recipe

TINY = {
    "train": {"epochs": 1, "updates": 5, "threads": 1, "device": "cpu"},
    "data.facts": {"train": 50, "valid": 9, "test": 25},
}
INPUT = "where does anna live ?\tletters reach tom in rome .\tanna has rooms in paris .\tanna walks with a dog ."


@pytest.fixture(scope="module")
def runs(tmp_path_factory, module_unchecked):
    home = tmp_path_factory.mktemp("runs")
    for compare in ("alignment", "pooled"):
        small = {"hidden": 5, "embedding": 6, "mlp": 7, "compare": compare}
        recipe = read_recipe("siamese_facts", changes={**TINY, "model": small})
        saccade.train(recipe, folder=home / compare)
    return home


@pytest.fixture
def answers(tmp_path):
    rows = [(f"who is {n} ?", f"{n + m} it is", int(m == 0)) for n in range(40) for m in range(3)]
    path = tmp_path / "answers.tsv"
    path.write_text("question\tcandidate\trelevance\n" + "".join(f"{q}\t{c}\t{g}\n" for q, c, g in rows))
    return path


def test_candidates_come_best_first(command, runs) -> None:
    status, out, _ = command("predict", runs / "alignment", INPUT, "--json")
    found = json.loads(out)
    assert status == 0 and found["output"] == next(iter(found["probabilities"]))
    assert set(found["probabilities"]) == set(INPUT.split("\t")[1:])
    assert sum(found["probabilities"].values()) == pytest.approx(1.0)
    status, out, _ = command("predict", runs / "alignment", INPUT, "--n-best", 3)
    lines = [line.split("\t") for line in out.splitlines()]
    assert status == 0 and [text for _, text in lines] == list(found["probabilities"])


def test_what_a_ranker_cannot_do_is_one_line(command, runs) -> None:
    for words, message in (
        (
            ("predict", runs / "pooled", "where does anna live ?"),
            "error: input 1: expected at least one candidate, found none",
        ),
        (
            ("predict", runs / "pooled", INPUT, "--sample"),
            "error: command line: --sample: expected nothing: the task rank",
        ),
        (
            ("predict", runs / "pooled", INPUT, "--beam", "5"),
            "error: command line: --beam: expected nothing: the task rank",
        ),
        (("evaluate", runs / "pooled", "--metric", "f1"), "expected any of map, mrr, precision_at_1, found 'f1'"),
        (
            ("compare", runs / "pooled", "--metric", "bleu"),
            "error: unknown metric 'bleu': expected one of map, mrr",
        ),
        (("train", "siamese_facts", "model.name=luong", "--dry-run"), "error"),
    ):
        status, _, err = command(*words)
        assert status == 1 and message in err and "Traceback" not in err


def test_where_it_looks_is_drawn(command, runs, tmp_path) -> None:
    status, out, _ = command("view", runs / "alignment", INPUT)
    assert status == 0 and "candidate ↓ question →" in out
    for name in ("x.png", "x.html", "x.trace"):
        assert command("view", runs / "alignment", INPUT, "--out", tmp_path / name)[0] == 0
    status, out, _ = command("view", runs / "pooled", INPUT)
    assert status == 0 and "anna" in out
    assert command("view", runs / "pooled", INPUT, "--truth", "--out", tmp_path / "y.html")[0] == 0


def test_figures_are_computed_and_runs_compared(command, runs, answers) -> None:
    status, out, _ = command("evaluate", runs / "pooled", "--json")
    found = json.loads(out)
    assert status == 0 and set(found["figures"]) == {"map", "mrr", "precision_at_1"}
    assert any("a random order has a map of 0.40" in note for note in found["notes"])
    status, out, _ = command("evaluate", runs / "pooled", "--data", answers, "--metric", "mrr")
    assert status == 0 and out.startswith("mrr ")
    words = ("compare", runs / "alignment", runs / "pooled", "--samples", 20, "--repeats", 1)
    status, out, _ = command(*words, "--json", "--show", 2)
    found = json.loads(out)
    assert status == 0 and found["metrics"] == ["map", "mrr", "precision_at_1"] and found["count"] == 25
    assert found["systems"][1]["against_first"]["map"]["bootstrap_p"] > 0 and found["systems"][0]["search"] == {}
    for example in found["examples"]:
        assert example["source"].endswith("?") and all(text.endswith(".") for text in example["outputs"].values())
    status, out, _ = command(*words, "--by", "source_tokens")
    assert status == 0 and "map by source_tokens" in out


def test_a_file_is_surveyed_and_its_recipe_trains(command, answers, tmp_path) -> None:
    status, out, _ = command("data", answers, "--recipe", tmp_path / "my.yaml")
    assert (
        status == 0
        and "40 questions with 120 candidates, 40 of them relevant (33.3 %)" in out
        and "It would train." in out
    )
    assert command("data", tmp_path / "my.yaml")[0] == 0
    assert command("train", tmp_path / "my.yaml", "--dry-run", "model.hidden=4", "model.embedding=5")[0] == 0
    status, out, _ = command("data", answers, "--json")
    assert (
        status == 0 and json.loads(out)["task"] == "rank" and json.loads(out)["candidates_per_question"]["longest"] == 3
    )
    other = answers.with_name("other.csv")
    other.write_text("q,a,right\n" + "".join(f"who {n % 3} ?,b{n},{n % 2}\n" for n in range(9)))
    options = ("--column", "question=q", "--column", "candidate=a", "--column", "relevance=right")
    status, out, _ = command("data", other, *options)
    assert status == 0 and "columns:\n      question: q\n      candidate: a\n      relevance: right\n" in out
    status, out, _ = command("data", answers, "--test", answers)
    assert "40 of 40 questions of" in out


def test_a_file_that_would_not_train_is_reported_why(command, tmp_path) -> None:
    path = tmp_path / "x.tsv"
    for rows, message in (
        ("q ?\ta\t0\nr ?\tb\t0\ns ?\tc\t0\n", "no candidate is relevant"),
        ("q ?\ta\t1\nr ?\tb\t1\ns ?\tc\t1\n", "every candidate is relevant"),
        ("q ?\ta\t1\nq ?\tb\t0\n", "1 different source are too few"),
        ("q ?\ta\t1\nr ?\tb\tx\ns ?\tc\t0\n", "1 malformed line"),
    ):
        path.write_text(f"question\tcandidate\trelevance\n{rows}")
        status, out, _ = command("data", path)
        assert status == 1 and message in out
    status, _, err = command("data", path, "--column", "relevance=relevance", "--column", "label=x")
    assert status == 1 and "rankings: question, candidate, relevance, group" in err and "found relevance, label" in err


def test_a_server_answers_with_the_candidates_in_order(runs) -> None:
    pytest.importorskip("fastapi")
    from saccade.server.requests import Limits, read_ask
    from saccade.server.responses import answer, described

    bundle = saccade.load(runs / "alignment", device="cpu")
    body = json.dumps({"inputs": [INPUT], "trace": True, "search": {"n_best": 2}}).encode()
    (found,) = json.loads(answer(bundle, read_ask(body, Limits()), Limits()))["predictions"]
    assert found["output"] == next(iter(found["probabilities"])) and len(found["alternatives"]) == 1 and found["page"]
    assert described("facts", bundle, Limits())["task"] == "rank"
