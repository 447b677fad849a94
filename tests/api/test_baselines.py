"""A network's metrics beside those of trivial predictors: after training, and whenever the run is evaluated."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from saccade import api
from saccade.recipes.recipe import read_recipe
from saccade.task import UNBEATEN, Evaluation

pytestmark = pytest.mark.usefixtures("module_unchecked")

RECIPE = """task: classify
data: {train: train.tsv, hold_out: 0.2}
model: {name: attentive_classifier, hidden: 5, embedding: 3}
train: {updates: 2, device: cpu, threads: 1}
metrics: [accuracy, nll]
"""
WORDS = ("soup", "film", "hotel", "novel", "song", "play", "garden")


def table(count: int, seed: int) -> str:
    """Texts whose last word is their label: tf-idf knows it, a network after two updates does not. Label b is rarer."""
    draw, rows = random.Random(seed), ["text\tlabel"]
    for number in range(count):
        label = "ab"[number % 3 == 0]
        rows.append(f"{' '.join(draw.choices(WORDS, k=5))} {label}{label} {number}\t{label}")
    return "\n".join([*rows, ""])


@pytest.fixture(scope="module")
def trained(tmp_path_factory, module_unchecked) -> Path:
    folder = tmp_path_factory.mktemp("baselines")
    for name, seed in (("train", 1), ("other", 2)):
        (folder / f"{name}.tsv").write_text(table(93, seed))
    (folder / "my.yaml").write_text(RECIPE)
    api.train(read_recipe(folder / "my.yaml"), folder=folder / "run")
    return folder


@pytest.fixture
def home(trained, tmp_path, monkeypatch) -> Path:
    """A copy, whose run knows it as its home."""
    home = shutil.copytree(trained, tmp_path / "home")
    bundle = api.load(home / "run", device="cpu")
    object.__setattr__(bundle.recipe, "folder", home)
    bundle.save(home / "run")
    monkeypatch.chdir(home)
    return home


def test_training_keeps_the_metrics_of_baselines_and_notes_that_the_network_does_not_beat_them(trained) -> None:
    figures = json.loads((trained / "run" / "metrics.json").read_text())
    assert figures["baselines"]["tf-idf + logistic regression"] == {"accuracy": 1.0}
    assert 0.5 < figures["baselines"]["most frequent label"]["accuracy"] < 1
    card = (trained / "run" / "card.md").read_text()
    assert "tf-idf + logistic regression: accuracy 1.0000" in card


def test_every_evaluation_names_the_baselines_on_its_own_records(home, command) -> None:
    kept = json.loads((home / "run" / "metrics.json").read_text())["baselines"]
    status, out, _ = command("evaluate", "run", "--json")
    own = json.loads(out)
    assert status == 0 and own["baselines"] == kept
    assert any(note.startswith(UNBEATEN) and "tf-idf" in note for note in own["notes"])
    other = json.loads(command("evaluate", "run", "--data", "other.tsv", "--json")[1])
    assert other["baselines"]["most frequent label"]["accuracy"] == pytest.approx(62 / 93)  # of other's own records
    assert "tf-idf + logistic regression: accuracy" in command("evaluate", "run")[1]


def test_what_was_kept_needs_no_training_records_and_what_was_not_is_never_taken_from_changed_ones(home) -> None:
    bundle = api.load(home / "run", device="cpu")
    assert bundle.evaluation("other.tsv").baselines
    (home / "train.tsv").write_text(table(131, 5))
    found = bundle.evaluation("other.tsv")
    assert not found.baselines
    assert any("training records" in note and "tf-idf" in note for note in found.notes)
    (home / "train.tsv").unlink()
    assert not bundle.evaluation("other.tsv").baselines
    assert bundle.evaluate("other.tsv").keys() == {"accuracy", "nll"}


def test_the_result_of_training_names_what_was_not_beaten_for_programs_too(home, command) -> None:
    status, out, _ = command("train", "my.yaml", "--out", "again", "--json")
    found = json.loads(out)
    assert status == 0 and found["figures"]["baselines"]
    assert any(note.startswith(UNBEATEN) for note in found["notes"])


def test_a_baseline_is_beaten_by_more_or_by_less_as_the_metric_is_better_and_not_by_as_much() -> None:
    ours = Evaluation({"accuracy": 0.5, "loss": 0.5, "nll": 3.0}, higher_is_better={"accuracy": True, "loss": False})
    found = ours.beside({"first": {"accuracy": 0.5, "loss": 0.7}, "second": {"accuracy": 0.4, "loss": 0.6, "f1": 1.0}})
    assert found.baselines == {"first": {"accuracy": 0.5, "loss": 0.7}, "second": {"accuracy": 0.4, "loss": 0.6}}
    unbeaten = [note for note in found.notes if note.startswith(UNBEATEN)]
    assert len(unbeaten) == 1 and "first" in unbeaten[0] and "accuracy" in unbeaten[0] and "loss" not in unbeaten[0]
    assert ours.beside({}) == ours == ours.beside({"third": {"f1": 1.0}})
