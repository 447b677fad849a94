"""``saccade train``: dry runs, sweeps, and beginning from another run, as a person sees them."""

import json
import os
import shlex
from pathlib import Path

import pytest

from tests.tiny import SMALL

TINY = (*SMALL, "train.updates=2")


@pytest.fixture
def saccade(command, monkeypatch, tmp_path):
    """Runs the command in this process: (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    return command


def test_a_dry_run_says_what_would_be_done_and_leaves_no_file(saccade):
    status, out, err = saccade("train", "rnnsearch_dates", *SMALL, "--dry-run", "--out", "there")
    assert status == 0, err
    for told in (
        "330 records to train on, 35 to choose by, 37 held out",
        "15 target tokens",
        "2 epochs of 11 batches: 22 updates, 2 looks at the validation loss; the best network is kept",
        "parameters  3,307",
        "source_embedding",
        "(estimated)",
        "exact_match at least 0.995",
        "folder      there",
        "nothing is written",
    ):
        assert told in out, told
    assert os.listdir() == []
    status, out, _ = saccade("train", "rnnsearch_dates", *SMALL, "--dry-run", "--json")
    plain = json.loads(out)
    assert (plain["updates"], plain["parameters"], plain["folder"][:5]) == (22, 3307, "runs/")
    assert os.listdir() == []


def test_a_dry_run_says_that_the_last_network_is_kept(saccade):
    status, out, err = saccade("train", "rnnsearch_dates", *SMALL, "train.keep=last", "--dry-run")
    assert status == 0, err
    assert "330 records to train on, 35 to watch, 37 held out" in out
    assert "the validation loss; the last network is kept" in out


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (("average=3", "epochs=4"), "; the best network is kept, or the mean of the last 3 if as good\n"),
        (("average=3",), "; the best network is kept, or the mean of the last 2 if as good\n"),
        (("average=3", "epochs=1"), "; the best network is kept\n"),
        (("average=3", "average_every=5", "keep=last"), "; the mean of the last 3 is kept\n"),
        (("average=3", "average_of=best", "evaluate_every=3"), "; the best network is kept, or the mean of the best 3"),
        (
            ("stop_after=1",),
            "2 epochs of 11 batches: at most 22 updates, 2 looks at the validation loss; the best network",
        ),
    ],
)
def test_a_dry_run_says_what_averaging_and_early_stopping_change(saccade, how, told):
    status, out, err = saccade("train", "rnnsearch_dates", *SMALL, *(f"train.{each}" for each in how), "--dry-run")
    assert status == 0, err
    assert told in out


def test_a_sweep_ends_with_a_table_best_first_and_can_be_resumed(saccade):
    status, out, err = saccade("train", "rnnsearch_dates", *TINY, "model.hidden=5,7", "train.seed=1,2", "--out", "s")
    assert status == 0, err
    assert "run 4 of 4: model.hidden=7 train.seed=2" in out
    assert "4 runs in s, by loss on the validation set (lower is better)" in out
    table = out[out.index("4 runs in s") :].splitlines()
    header = next(line for line in table if "valid loss" in line).split()
    assert header[:2] == ["hidden", "seed"]
    figures = [float(line.split()[3]) for line in table if line[:1].isdigit() and "seed=" in line]
    assert len(figures) == 4
    assert figures == sorted(figures)
    assert " ± " in out
    assert "best: model.hidden=" in out
    status, out, _ = saccade("train", "--resume", "s", "--json")
    assert status == 0
    assert len(json.loads(out)["members"]) == 4


def test_a_failing_member_is_exit_status_1_and_the_table_still_comes(saccade):
    wild = ("train.optimiser=sgd", "train.clip=null", "train.lr=1e-3,1e30", "--out", "s")
    status, out, err = saccade("train", "rnnsearch_dates", *TINY, *wild)
    assert status == 1
    assert err == ""
    assert "failed: train.lr=1e30: " in out
    assert "best: train.lr=1e-3" in out


def test_a_dry_run_of_a_sweep_plans_each_member(saccade):
    status, out, _ = saccade("train", "rnnsearch_dates", *TINY, "model.hidden=5,7", "--dry-run")
    assert status == 0
    assert "a sweep of 2 runs" in out
    assert "together" in out
    _, out, _ = saccade("train", "rnnsearch_dates", *TINY, "model.hidden=5,7", "--dry-run", "--json")
    assert [plan["settings"]["model.hidden"] for plan in json.loads(out)] == ["5", "7"]
    assert os.listdir() == []


def test_brackets_are_a_list_and_no_sweep(saccade):
    status, out, err = saccade("train", "rnnsearch_dates", *TINY, "metrics=[exact_match,cer]", "train.betas=[0.8,0.9]")
    assert status == 0, err
    assert "held-out test set: exact_match" in out


def test_a_run_begins_from_another(saccade):
    assert saccade("train", "rnnsearch_dates", *TINY, "--out", "old")[0] == 0
    Path("new.tsv").write_text("".join(f"{number}. ☃ 2009\t2009-05-{number:02}\n" for number in range(1, 29)))
    Path("my.yaml").write_text(
        "task: translate\ndata: {train: new.tsv}\ntrain: {from: old, freeze: [encoder], updates: 2, device: cpu}\n"
    )
    status, out, err = saccade("train", "my.yaml", "--out", "new")
    assert status == 0, err
    assert "started from" in out
    assert "become <unk>: '☃'" in out
    assert "of them frozen" in out
    status, out, _ = saccade("train", "my.yaml", "--dry-run")
    assert f"begins from {Path('old').resolve()}" in out


def test_the_data_is_read_once(saccade, monkeypatch):
    Path("pairs.tsv").write_text("".join(f"eins {number}\tone {number}\n" for number in range(60)))
    Path("my.yaml").write_text(
        "task: translate\ndata: {train: pairs.tsv}\nmodel: {name: rnnsearch, hidden: 5}\ntrain: {updates: 1}\n"
    )
    from saccade.tasks.translate import Translate

    real, reads = Translate.load, []
    monkeypatch.setattr(Translate, "load", staticmethod(lambda *given: reads.append(given) or real(*given)))
    status, out, err = saccade("train", "my.yaml")
    assert status == 0, err
    assert len(reads) == 1
    assert "eins " in out


def test_programs_are_told_that_nothing_was_judged(saccade):
    Path("pairs.tsv").write_text("".join(f"eins {number}\tone {number}\n" for number in range(60)))
    Path("my.yaml").write_text(
        "task: translate\ndata: {train: pairs.tsv}\nmodel: {name: rnnsearch, hidden: 5}\ntrain: {updates: 1, device: cpu}\n"
        "metrics: [exact_match]\n"
    )
    status, out, _ = saccade("train", "my.yaml", "--json")
    assert status == 0 and json.loads(out)["reached"] is None  # expects nothing
    Path("hard.yaml").write_text(Path("my.yaml").read_text() + "expect: {metric: exact_match, at_least: 0.99}\n")
    status, out, _ = saccade("train", "hard.yaml", "--json")
    assert status == 1 and json.loads(out)["reached"] is False
    status, out, _ = saccade("train", "hard.yaml", "train.seed=3", "--json")
    assert status == 0 and json.loads(out)["reached"] is None  # changed, so not held to it
    Path("easy.yaml").write_text(Path("my.yaml").read_text() + "expect: {metric: exact_match, at_least: 0.0}\n")
    status, out, _ = saccade("train", "easy.yaml", "--json")
    assert status == 0 and json.loads(out)["reached"] is True
    assert "the first line was read as a pair" in json.loads(out)["notes"][0]


def test_programs_are_told_that_a_run_could_not_be_calibrated(saccade, monkeypatch):
    from saccade.errors import SaccadeError

    def refused(*given):
        raise SaccadeError("all of the 9 records are labelled rightly")

    small = (
        "data.opinions.train=30",
        "data.opinions.valid=9",
        "data.opinions.test=9",
        "model.hidden=5",
        "train.epochs=1",
    )
    asked = ("train", "attentive_opinions", *small, "train.calibrate=true", "train.device=cpu", "--json")
    status, out, _ = saccade(*asked)
    notes = json.loads(out)["notes"]
    assert status == 0 and not any("calibrated" in note for note in notes)
    monkeypatch.setattr("saccade.api.calibration.fitted", refused)
    status, out, _ = saccade(*asked)
    assert status == 0
    refusal = "not calibrated: all of the 9 records are labelled rightly"
    assert sorted(json.loads(out)["notes"]) == sorted([*notes, refusal])


FAULTS = {
    "resume and dry run": (["--resume", "x", "--dry-run"], "expected --resume RUN alone, found --dry-run too"),
    "resume and out": (["--resume", "x", "--out", "y"], "expected --resume RUN alone, found --out too"),
    "empty value": (["rnnsearch_dates", "model.hidden=3,"], "expected a value on each side of a comma"),
    "a list without brackets": (["rnnsearch_dates", "metrics=bleu,chrf"], "write metrics=[bleu,chrf]"),
    "no parent": (
        ["rnnsearch_dates", "train.from=nowhere"],
        "train.from: expected a run's folder, found no such folder",
    ),
    "unknown part": (["rnnsearch_dates", *TINY, "train.freeze=[encodr]"], "did you mean 'encoder'?"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_and_leaves_nothing_behind(saccade, fault):
    words, message = FAULTS[fault]
    status, _, err = saccade("train", *words)
    assert status == 1
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert os.listdir() == []


def test_of_many_maps_one_site_of_one_example_is_shown_and_how_to_see_others(saccade):
    Path("pairs.tsv").write_text("".join(f"eins {number}\tone {number}\n" for number in range(60)))
    Path("my.yaml").write_text(
        "task: translate\ndata: {train: pairs.tsv, max_length: 3, tokens: {kind: words}}\nmetrics: [perplexity]\n"
        "model: {name: transformer, width: 6, heads: 3, layers: 1}\ntrain: {updates: 1, device: cpu}\n"
    )
    status, out, err = saccade("train", "my.yaml", "--out", "t")
    assert status == 0, err
    shown = out[out.index("held-out test set") :]
    assert shown.count("decoder.0.cross · head 0") == 1
    assert "encoder.0.self ·" not in shown
    assert "this is decoder.0.cross, one of 3 sites; to see another, or one head: saccade view t" in shown
    assert "--site encoder.0.self --head 0" in shown
    assert shown.count(" → ") >= 3
    assert Path("t/alignment.png").is_file()
    assert "saccade evaluate t --beam 5" in shown


def test_after_a_language_model_samples_are_offered_and_no_beam(saccade):
    Path("mine.txt").write_text("".join(f"a dog sees the cat number {n}\n" for n in range(40)))
    Path("my.yaml").write_text(
        "task: language\ndata: {train: mine.txt, tokens: {kind: words}, longest: 9}\n"
        "model: {name: recurrent_lm, hidden: 5}\ntrain: {updates: 1, device: cpu}\n"
    )
    status, out, err = saccade("train", "my.yaml", "--out", "l")
    assert status == 0, err
    offered = out[out.index("try next:") :].splitlines()
    assert offered[1].startswith("  saccade predict l ") and offered[1].endswith(" --sample")
    assert "--beam" not in "".join(offered)


def test_what_is_offered_next_can_be_pasted_into_a_shell_and_begins_like_the_document(saccade):
    said = 'the "so called" plot costs $5 and a lot of patience, but ' + "the acting is fine and " * 9 + "so is the end"
    rows = [
        f"{'good' if n % 2 else 'bad'},{json.dumps(f'{n} {said}').replace(chr(92) + chr(34), chr(34) * 2)}"
        for n in range(40)
    ]
    Path("films.csv").write_text("label,text\n" + "\n".join(rows) + "\n")
    Path("my.yaml").write_text(
        "task: classify\ndata: {train: films.csv, tokens: {kind: words}, max_length: 90}\n"
        "model: {name: attentive_classifier, hidden: 5, embedding: 6}\ntrain: {updates: 1, device: cpu}\n"
    )
    status, out, err = saccade("train", "my.yaml", "--out", "f")
    assert status == 0, err
    predict, view = out[out.index("try next:") :].splitlines()[1:3]
    for line, command in ((predict, "predict"), (view, "view")):
        words = shlex.split(line)
        assert words[:3] == ["saccade", command, "f"] and 80 < len(words[3]) <= 100
        assert 'the "so called" plot costs $5' in words[3] and words[3].partition(" ")[2] in said
