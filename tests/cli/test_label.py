"""The command line with tagged words: data, train, predict, evaluate, compare, view."""

from __future__ import annotations

import json

import pytest

import saccade
from saccade.recipes.recipe import read_recipe

CONLL = "".join(f"Kim{n % 7} B-PER\nsits O\nin{n % 3} O\nEl B-LOC\nPlace{n % 5} I-LOC\n\n" for n in range(30))
TEXT = "kefo 2 kelu 0 kefo"
RECIPE = """\
task: label
data: {train: x.conll, scheme: bio, learn: bioes, hold_out: 0.2, max_length: 9}
model: {name: attentive_tagger, embedding: 6, hidden: 5, character_hidden: 4, dropout: 0.0}
train: {epochs: 12, batch_records: 5, lr: 2e-2, threads: 1, device: cpu, watch: f1}
metrics: [f1, accuracy]
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory, module_unchecked):
    home = tmp_path_factory.mktemp("runs")
    tiny = {
        "train": {"epochs": 1, "threads": 1, "device": "cpu"},
        "data.repeats": {"train": 60, "valid": 9, "test": 25},
    }
    for name, attention in (("looking", "scaled_dot"), ("blind", "none")):
        model = {"hidden": 4, "embedding": 6, "attention": attention, "compare": "states"}
        saccade.train(read_recipe("tagger_repeats", changes={**tiny, "model": model}), folder=home / name)
    (home / "x.conll").write_text(CONLL)
    (home / "names.yaml").write_text(RECIPE)
    saccade.train(home / "names.yaml", folder=home / "names")
    return home


def test_words_are_printed_with_their_tags_and_json_has_spans(command, runs) -> None:
    status, out, _ = command("predict", runs / "names", "Kim1 sits in2 El Place3", "Kim2 sits")
    first, second = out.rstrip("\n").split("\n\n")
    assert status == 0 and first.splitlines()[0] == "Kim1    B-PER" and len(second.splitlines()) == 2
    status, out, _ = command("predict", runs / "names", "Kim1 sits in2 El Place3", "--json")
    found = json.loads(out)
    assert found["output"] == ["B-PER", "O", "O", "B-LOC", "I-LOC"] and len(found["tokens"]) == 5
    assert found["spans"][1] == {"type": "LOC", "text": "El Place3", "start": 14, "end": 23, "first": 3, "last": 4}
    assert command("predict", runs / "names", '["Kim1", "sits"]')[1] == "Kim1  B-PER\nsits  O\n"


def found_words(run) -> int:
    bundle = saccade.load(run)
    return sum(len(record.target) for record in bundle.records_of(None)[0])


def test_figures_are_printed_with_those_of_each_type(command, runs) -> None:
    status, out, _ = command("evaluate", runs / "names", "--metric", "f1", "--metric", "precision")
    assert status == 0 and "f1           1.0000  spans, micro" in out and "note: f1 by type (spans): " in out
    found = json.loads(command("evaluate", runs / "names", "--json")[1])
    assert set(found["figures"]) == {"f1", "accuracy"} and found["details"]["PER"]["f1"] == 1.0
    assert found["confusion"]["unit"] == "spans" and {"PER", "LOC"} <= set(found["confusion"]["labels"])
    assert json.loads((runs / "names" / "by-label.json").read_text())["confusion"]["unit"] == "spans"
    words = json.loads(command("evaluate", runs / "looking", "--json")[1])["confusion"]
    assert words["unit"] == "words" and sum(map(sum, words["counts"])) == found_words(runs / "looking")
    status, out, _ = command("evaluate", runs / "names", "--data", runs / "x.conll")
    assert status == 0 and "accuracy" in out


def test_what_a_tagger_cannot_do_is_one_line(command, runs) -> None:
    for words, message in (
        (
            ("predict", runs / "looking", "x", "--sample"),
            "error: command line: --sample: expected nothing: the task label",
        ),
        (
            ("predict", runs / "looking", "x", "--n-best", "3"),
            "error: command line: --n-best: expected 1: the task label",
        ),
        (("predict", runs / "looking", "x", "--beam", "5"), "--beam: expected nothing: the task label"),
        (
            ("predict", runs / "looking", "x", "--prefix", "y"),
            "error: the task 'label' does not take prefix, require or forbid",
        ),
        (("evaluate", runs / "looking", "--metric", "f1"), "expected any of accuracy, found 'f1' (f1, precision"),
        (
            ("compare", runs / "looking", "--metric", "bleu"),
            "unknown metric 'bleu': expected one of accuracy",
        ),
        (("view", runs / "blind", "x"), "has no attention"),
        (("data", runs / "x.conll", "--column", "source=1"), "expected a file of pairs"),
        (("data", "tagger_repeats"), "data.train: expected a file of your own, found a built-in source"),
    ):
        status, _, err = command(*words)
        assert status == 1 and message in err and "Traceback" not in err, err


def test_runs_are_compared(command, runs) -> None:
    status, out, _ = command("compare", runs / "looking", runs / "blind", "--samples", 20, "--repeats", 1, "--json")
    found = json.loads(out)
    assert status == 0 and found["metrics"] == ["accuracy"] and found["count"] == 25
    assert found["systems"][1]["against_first"]["accuracy"]["bootstrap_p"] > 0
    status, out, _ = command(
        "compare", runs / "names", runs / "names", "--samples", 20, "--repeats", 0, "--by", "source_tokens"
    )
    assert status == 0 and "spans, micro" in out and "Kim" not in out  # nothing differs


def test_where_it_looked_is_drawn_with_the_tags(command, runs, tmp_path) -> None:
    status, out, _ = command("view", runs / "looking", TEXT)
    assert status == 0 and "kefo [" in out and "tag ↓ text →" in out
    for name in ("look.png", "look.html"):
        assert command("view", runs / "looking", TEXT, "--out", tmp_path / name)[0] == 0
        assert (tmp_path / name).stat().st_size > 1000
    assert command("view", runs / "looking", TEXT, "--truth", "--out", tmp_path / "truth.html")[0] == 0


def test_a_dry_run_counts_tokens_and_tags(command, runs) -> None:
    status, out, _ = command("train", runs / "names.yaml", "--dry-run", "--json")
    plan = json.loads(out)
    assert status == 0 and plan["vocabulary"]["text"] > 10 and plan["tokens"]["train"]["text"] > 50
    assert any(note.startswith("data.train:") and "spans: LOC" in note for note in plan["notes"])


def test_a_server_answers_with_tokens_and_spans(runs) -> None:
    pytest.importorskip("fastapi", reason="FastAPI is not installed")
    from saccade.server.requests import Limits, read_ask
    from saccade.server.responses import answer, described

    bundle = saccade.load(runs / "names")
    ask = read_ask(json.dumps({"inputs": ["Kim1 sits"], "trace": True}).encode(), Limits())
    (found,) = json.loads(answer(bundle, ask, Limits()))["predictions"]
    assert [token["tag"] for token in found["tokens"]] == found["output"] == ["B-PER", "O"] and found["page"]
    assert found["spans"][0]["text"] == "Kim1"
    assert "B-PER" in described("names", bundle, Limits())["labels"]


# saccade data -----------------------------------------------------------------------------------------------------------


def test_a_page_counts_what_there_is_and_its_recipe_trains(command, tmp_path, monkeypatch, shapes_unchecked) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.txt").write_text(CONLL)
    status, out, _ = command("data", "x.txt", "--column", "tag=-1", "--recipe", "my.yaml")
    assert status == 0 and "60 spans of 2 types, scheme bio" in out and "It would train." in out
    small = ["train.epochs=1", "train.threads=1", "model.hidden=4", "model.embedding=4", "train.device=cpu"]
    assert command("train", "my.yaml", *small, "--out", "run")[0] == 0
    status, out, _ = command("data", "my.yaml", "--json")
    assert status == 0 and json.loads(out)["scheme"] == "bio"
    assert command("data", "x.txt", "--column", "tag=-1", "--recipe", "my.yaml")[0] == 1  # it exists


def test_a_file_that_is_known_by_its_name_needs_no_option(command, tmp_path) -> None:
    rows = "".join(f"{n}\tw{n}\tw\t{'NOUN' if n % 2 else 'VERB'}\tX\t_\t0\troot\t_\t_\n\n" for n in range(1, 30))
    (tmp_path / "x.conllu").write_text(rows)
    status, out, _ = command("data", tmp_path / "x.conllu", "--json")
    found = json.loads(out)
    assert status == 0 and found["tags"] == {"NOUN": 15, "VERB": 14} and found["scheme"] == "none"
    status, out, _ = command("data", tmp_path / "x.conllu", "--column", "tag=xpos")
    assert status == 1 and "a tagger needs at least two tags, found only X" in out
    assert command("data", tmp_path / "x.conllu", "--column", "tag=xp")[2].startswith("error: ")
