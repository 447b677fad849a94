"""A dry run: nothing is written, and what it counts is what training then does."""

import csv
import os
import weakref

import pytest
import torch

from saccade import api
from saccade.errors import InputError
from saccade.training import stepping
from tests.tiny import tiny
from tests.training.recorders import Repeater


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "how",
    [
        ("train.evaluate_every=4",),
        ("train.batch_records=null", "train.batch_tokens=500", "train.epochs=3"),
        ("train.updates=7",),
    ],
)
def test_the_counts_are_what_training_does(here, how):
    recipe = tiny(*how)
    plan = api.plan(recipe)
    assert os.listdir(here) == []
    bundle = api.train(recipe, folder=here / "run")
    with open(here / "run" / "evaluations.csv", newline="") as file:
        looks = len(list(csv.DictReader(file)))
    assert (plan.updates, plan.looks, plan.parameters) == (bundle.figures["updates"], looks, bundle.parameters)
    assert plan.records == {"train": 330, "valid": 35, "test": 37}
    assert plan.vocabulary == {"source": bundle.task.source.size, "target": bundle.task.target.size}
    if "train.updates=7" not in how:
        assert plan.tokens["train"]["target"] * plan.epochs == bundle.figures["tokens"]


def test_the_network_and_the_random_numbers_stay_as_they_were(here):
    before = torch.get_rng_state()
    threads = torch.get_num_threads()
    api.plan(tiny("train.threads=3"))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_memory_follows_the_optimiser_the_frozen_parts_and_the_batch(here):
    adam = api.plan(tiny("train.watch=exact_match", "train.watch_records=3")).memory
    assert adam.weights == adam.gradients == 4 * 3307
    assert 2 * adam.weights <= adam.optimiser < 2.05 * adam.weights  # two moments, and a count of each tensor's updates
    assert adam.total == adam.weights + adam.gradients + adam.optimiser + adam.activations
    other = api.plan(tiny("train.optimiser=sgd", "train.freeze=[encoder]", "train.batch_records=99"))
    assert other.memory.optimiser == 0
    assert other.memory.gradients == 4 * (3307 - 972)
    assert other.memory.activations > 2 * adam.activations
    assert [(part.parameters, part.frozen) for part in other.parts if part.name == "encoder"] == [(972, 972)]


def test_the_activations_are_what_is_kept_for_the_gradient():
    from saccade.api.dry_run import _activations

    class Toy:  # x → tanh(x w) keeps x, which is the batch, and the tanh; w is a weight
        def loss(self, x):
            kept = torch.tanh(x @ network.weight.T)
            alive.append(weakref.ref(kept))
            return kept.sum()

    alive: list[weakref.ref] = []
    network = torch.nn.Linear(5, 7, bias=False)
    assert _activations(Toy(), network, torch.randn(3, 5)) == 4 * (3 * 5 + 3 * 7)
    assert alive[0]() is None  # nothing is held any longer


def test_the_time_is_a_range_that_grows_with_the_updates(here):
    short, long = api.plan(tiny("train.epochs=1")).time, api.plan(tiny("train.epochs=1000")).time
    assert 0 < short.least <= short.most
    assert long.least > 20 * short.least
    assert short.timed == 6


def test_updates_are_timed_as_training_makes_them_recorded_where_they_can_be(here, monkeypatch):
    recorder = Repeater()
    monkeypatch.setattr(stepping, "recorder_for", lambda device: recorder)
    assert api.plan(tiny("train.epochs=1")).time.timed == 6
    assert recorder.recorded >= 1
    assert recorder.repeated == 3 + 6, "those that are recorded come first and are not timed"
    assert api.plan(tiny("train.epochs=1", "train.graphs=off")).time.timed == 6
    assert recorder.repeated == 3 + 6


def test_a_rate_that_would_diverge_is_no_matter_to_a_dry_run(here):
    plan = api.plan(tiny("train.lr=1e30", "train.clip=null", "train.optimiser=sgd", "train.watch=exact_match"))
    assert plan.updates == 22


def test_it_says_where_it_would_write_and_what_is_expected(here):
    plan = api.plan("rnnsearch_dates", [("a", "b")] * 3 + [("c", "d"), ("e", "f")], train={"device": "cpu"})
    assert str(plan.folder).startswith("runs/rnnsearch_dates-")
    assert plan.expect == "exact_match at least 0.995 of the recipe as shipped; not checked, since it was changed"
    assert any("held out of train" in note for note in plan.notes)
    assert api.plan(tiny(), folder="there").to_plain()["folder"] == "there"


def test_points_are_planned_too(here):
    plan = api.plan("pointer_sorting", **{"data.train": 33, "data.valid": 5, "data.test": 7, "train.device": "cpu"})
    assert plan.records == {"train": 33, "valid": 5, "test": 7}
    assert plan.vocabulary == {}
    assert plan.time.most > 0


def test_bad_data_is_the_same_error_as_in_training(here):
    (here / "my.yaml").write_text("task: translate\ndata: {train: absent.tsv}\nmodel: {name: luong}\n")
    with pytest.raises(InputError, match=r"absent\.tsv"):
        api.plan("my.yaml")
