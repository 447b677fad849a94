"""A run that begins from another: its weights, its vocabulary, its own life afterwards."""

import csv
import shutil
import signal
from pathlib import Path

import pytest
import torch

import saccade
from saccade import api
from saccade.errors import Interrupted, SaccadeError
from saccade.nn.cuda_graphs import EagerDevice
from saccade.nn.search.graph_cache import held_recorder
from saccade.recipes.recipe import read_recipe
from saccade.recipes.schema import dump_yaml
from saccade.training.report import Report, Silence
from tests.tiny import tiny
from tests.training.test_loop import StopAt, assert_same_run

SNOW = [(f"{number}. Mai ☃ 2009", f"2009-05-{number:02}") for number in range(1, 29)]


class Heard(Silence):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture(scope="module")
def parent(tmp_path_factory) -> api.Bundle:
    return api.train(tiny("train.epochs=1", "train.lr=0.03"), folder=tmp_path_factory.mktemp("runs") / "parent")


def begun_from(parent: api.Bundle, *more: str):
    return tiny(f"train.from={parent.folder}", *more)


def first_loss(folder: Path) -> float:
    with open(folder / "log.csv", newline="") as file:
        return float(next(csv.DictReader(file))["loss"])


def test_the_first_loss_is_the_parents_loss_on_that_batch(parent, tmp_path):
    recipe = begun_from(parent, "model.dropout=0", "train.updates=1")
    api.train(recipe, folder=tmp_path / "child")
    splits = parent.task.load(recipe.data, recipe.folder, recipe.train.seed)
    corpus = parent.task.corpus(splits.train, "train")
    size = {"tokens": recipe.train.batch_tokens, "records": recipe.train.batch_records}
    numbers = parent.task.plan(corpus, **size, seed=recipe.train.seed, epoch=0)[0]
    with torch.no_grad():
        expected = float(parent.task.loss(parent.network, parent.task.batch(corpus, numbers)).mean)
    assert first_loss(tmp_path / "child") == pytest.approx(expected, rel=1e-6)
    api.train(tiny("model.dropout=0", "train.updates=1"), folder=tmp_path / "fresh")
    assert abs(first_loss(tmp_path / "fresh") - expected) > 0.1


def test_the_vocabulary_is_the_parents_and_what_it_lacks_is_reported(parent, tmp_path):
    heard = Heard()
    child = api.train(begun_from(parent, "train.updates=1"), SNOW, folder=tmp_path / "child", report=heard)
    assert child.task.files() == parent.task.files()
    told = next(text for text in heard.said if "<unk>" in text)
    assert told.startswith("data.train, source: ")
    assert "'☃'" in told
    assert "train from scratch" in told
    assert not any("data.train, target" in text for text in heard.said)


def test_a_model_in_hand_keeps_what_its_predictions_record(parent, monkeypatch):
    lent = []
    predict = parent.task.predict

    def noting(network, *given, **more):
        lent.append(held_recorder(network, EagerDevice()))
        lent[-1].recordings["a size"] = None  # so that there is something to keep
        monkeypatch.setattr(parent._held, "_trim", lambda: None)
        return predict(network, *given, **more)

    monkeypatch.setattr(parent.task, "predict", noting)
    for _ in range(2):
        assert parent.predict(["5. Mai 2009"])
    assert lent[0] is lent[1]
    assert held_recorder(parent.network, EagerDevice()) is not lent[0]
    lent[0].recordings.clear()  # on a GPU later searches count them


def test_frozen_parts_do_not_move_and_the_others_do(parent, tmp_path):
    recipe = begun_from(parent, "train.freeze=[encoder, v]", "train.weight_decay=0.1", "train.updates=3")
    child = api.train(recipe, folder=tmp_path / "child")
    before, after = parent.network.state_dict(), child.network.state_dict()
    for name in before:
        frozen = name.startswith("encoder.") or name == "v"
        assert torch.equal(before[name], after[name]) is frozen, name


def test_a_run_begun_from_another_resumes_without_it(parent, tmp_path):
    gone = tmp_path / "gone"
    shutil.copytree(parent.folder, gone)
    recipe = tiny(f"train.from={gone}", "train.freeze=[encoder]", "train.epochs=1", "train.batch_records=4")
    api.train(recipe, SNOW, folder=tmp_path / "whole")
    with pytest.raises(Interrupted):
        api.train(recipe, SNOW, folder=tmp_path / "stopped", report=StopAt(2, signal.SIGINT))
    shutil.rmtree(gone)
    resumed = api.resume(tmp_path / "stopped", SNOW)
    assert_same_run(tmp_path / "stopped", tmp_path / "whole")
    assert resumed.task.files() == parent.task.files()


def test_a_call_names_the_run_from_the_working_folder(parent, tmp_path, monkeypatch):
    monkeypatch.chdir(parent.folder.parent)
    child = saccade.train(tiny(), SNOW, folder=tmp_path / "child", train={"from": "parent", "updates": 1})
    assert child.recipe.train.from_ == str(parent.folder.resolve())


def test_the_card_the_config_and_the_listing_say_where_it_came_from(parent, tmp_path):
    child = api.train(begun_from(parent, "train.updates=1"), folder=tmp_path / "child")
    assert saccade.load(child.folder).recipe.train.from_ == str(parent.folder)
    assert "vocabulary of `parent`" in (child.folder / "card.md").read_text()
    assert api.read_run(child.folder).origin == str(parent.folder)


def test_an_unknown_part_is_refused_before_anything_is_written(parent, tmp_path):
    with pytest.raises(SaccadeError, match=r"train\.freeze: .*encoder, .*found 'encodr' \(did you mean 'encoder'\?\)"):
        api.train(begun_from(parent, "train.freeze=[encodr]"), folder=tmp_path / "child")
    assert not (tmp_path / "child").exists()


def test_a_damaged_parent_is_refused(parent, tmp_path):
    shutil.copytree(parent.folder, tmp_path / "parent")
    weights = tmp_path / "parent" / "model.safetensors"
    recipe = tiny(f"train.from={tmp_path / 'parent'}")
    weights.write_bytes(weights.read_bytes()[:-9])
    with pytest.raises(SaccadeError, match=r"model\.safetensors.*truncated or altered"):
        api.train(recipe, folder=tmp_path / "child")
    assert not (tmp_path / "child").exists()


def test_what_the_parent_was_trained_on_is_told_of_the_held_out_sets(tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"quelle {n}\tziel {n}\n" for n in range(60)))
    recipe = "task: translate\ndata: {train: pairs.tsv, hold_out: 0.2}\nmodel: {name: rnnsearch, hidden: 7}\n"
    (tmp_path / "my.yaml").write_text(f"{recipe}train: {{updates: 1}}\n")
    api.train(tmp_path / "my.yaml", folder=tmp_path / "parent")
    said = []

    class Hearing(Silence):
        def say(self, text):
            said.append(text)

    other = {"train": {"seed": 5, "from": str(tmp_path / "parent")}}
    api.train(tmp_path / "my.yaml", folder=tmp_path / "child", report=Hearing(), **other)
    assert any("scores on them are too optimistic" in line for line in said), said


TEXTS = [
    (f"{thing} {'shone' if number % 2 else 'stank'} {number}", "good" if number % 2 else "bad")
    for number in range(24)
    for thing in ("soup", "wine")
]
PARTS = [
    ("soup shone", "wine shone", "praise"),
    ("soup stank", "wine shone", "both"),
    ("soup stank", "wine stank", "blame"),
]
POLARITIES = [(f"{first} and {second} {number}", label) for number in range(9) for first, second, label in PARTS]
READING = {
    "task": "classify",
    "model": {"name": "attentive_classifier", "embedding": 5, "hidden": 3},
    "train": {"epochs": 1, "batch_records": 8, "device": "cpu"},
}


@pytest.fixture(scope="module")
def reader(tmp_path_factory) -> api.Bundle:
    folder = tmp_path_factory.mktemp("readers")
    recipe = folder / "texts.yaml"
    recipe.write_text(
        dump_yaml({**READING, "data": {"train": "given.tsv", "tokens": {"kind": "words"}, "hold_out": 0.2}})
    )
    return api.train(recipe, TEXTS, folder=folder / "parent")


def fine_tuned(
    reader: api.Bundle, folder: Path, data: list[tuple[str, str]], report: Report, **more: int
) -> api.Bundle:
    recipe = {
        "task": "classify",
        "data": {"train": "given.tsv", "hold_out": 0.2},
        "train": {**READING["train"], "from": str(reader.folder), **more},
    }
    folder.with_suffix(".yaml").write_text(dump_yaml(recipe))
    return api.train(folder.with_suffix(".yaml"), data, folder=folder, report=report)


def test_other_labels_leave_the_output_behind_and_take_all_else_over(reader, tmp_path):
    heard = Heard()
    bundle = fine_tuned(reader, tmp_path / "fine", POLARITIES, heard, lr=1e-12)
    assert bundle.task.labels == ("blame", "both", "praise")
    told = "labels differ from its 2: output.weight, output.bias are initialised at random, the rest is copied"
    assert any(told in text for text in heard.said)
    assert f"- Started from the network and vocabulary of `parent`; {told}\n" in (bundle.folder / "card.md").read_text()
    ours, theirs = bundle.network.state_dict(), reader.network.state_dict()
    assert ours["output.weight"].shape[0] == 3 and theirs["output.weight"].shape[0] == 2
    for name in set(ours) - {"output.weight", "output.bias"}:
        torch.testing.assert_close(ours[name], theirs[name], atol=1e-6, rtol=0)
    again = saccade.load(bundle.folder)
    assert again.predict(["soup stank and wine shone"])[0].value in bundle.task.labels


def test_a_resumed_run_says_again_what_started_again_and_its_card_does(reader, tmp_path):
    with pytest.raises(Interrupted):
        fine_tuned(reader, tmp_path / "fine", POLARITIES, StopAt(2, signal.SIGINT))
    heard = Heard()
    bundle = api.resume(tmp_path / "fine", POLARITIES, report=heard)
    told = "labels differ from its 2: output.weight, output.bias are initialised at random"
    assert any(told in text for text in heard.said)
    assert told in (bundle.folder / "card.md").read_text()


def test_as_many_labels_of_other_names_start_again_too(reader, tmp_path):
    renamed = [(text, {"good": "fine", "bad": "foul"}[label]) for text, label in TEXTS]
    bundle = fine_tuned(reader, tmp_path / "fine", renamed, Heard(), lr=1e-12)
    assert bundle.task.labels == ("fine", "foul")
    assert not torch.allclose(bundle.network.output.weight, reader.network.output.weight)


def test_some_of_the_labels_keep_the_output_and_all_labels(reader, tmp_path):
    heard = Heard()
    bundle = fine_tuned(reader, tmp_path / "fine", [each for each in TEXTS if each[1] == "good"], heard, lr=1e-12)
    assert bundle.task.labels == reader.task.labels == ("bad", "good")
    assert not any("initialised at random" in text for text in heard.said)
    torch.testing.assert_close(bundle.network.output.weight, reader.network.output.weight, atol=1e-6, rtol=0)


def test_texts_may_become_pairs_where_the_labels_are_the_same(reader, tmp_path):
    pairs = [((text, "what of it?"), label) for text, label in TEXTS]
    bundle = fine_tuned(reader, tmp_path / "fine", pairs, Heard(), lr=1e-12)
    assert bundle.task.labels == reader.task.labels and bundle.task.classes.pairs
    torch.testing.assert_close(bundle.network.output.weight, reader.network.output.weight, atol=1e-6, rtol=0)


def test_labels_that_records_lack_and_tokens_that_the_vocabulary_lacks_are_reported(reader, tmp_path):
    heard = Heard()
    fine_tuned(
        reader, tmp_path / "fine", [("soup zürnte", "good"), *[(f"wine shone {n}", "good") for n in range(20)]], heard
    )
    said = "\n".join(heard.said)
    assert "its 2 labels are kept" in said and "no training record has the label bad" in said
    assert "are not in the vocabulary and are read as one unknown. The vocabulary is fixed" in said


def test_listed_labels_decide(reader, tmp_path):
    recipe = {"task": "classify", "data": {"train": "given.tsv", "hold_out": 0.2, "labels": ["good", "bad", "odd"]}}
    path = tmp_path / "fine.yaml"
    path.write_text(dump_yaml({**recipe, "train": {**READING["train"], "from": str(reader.folder)}}))
    assert api.train(path, TEXTS, folder=tmp_path / "fine").task.labels == ("good", "bad", "odd")


def test_what_starts_again_cannot_be_frozen(reader, tmp_path):
    with pytest.raises(SaccadeError) as told:
        fine_tuned(reader, tmp_path / "fine", POLARITIES, Heard(), freeze=["encoder", "output"])
    assert "train.freeze: expected only copied parts: output.weight" in str(told.value)
    assert "found encoder, output" in str(told.value)
    assert not (tmp_path / "fine").exists()


def test_nothing_left_to_learn_is_one_clear_error(reader, tmp_path):
    with pytest.raises(SaccadeError, match=r"train\.freeze: expected trainable parameters .*, found none"):
        fine_tuned(reader, tmp_path / "fine", TEXTS, Heard(), freeze=["embedding", "encoder", "pool", "output"])


def test_every_dropout_is_the_new_runs_own(tmp_path):
    parent = api.train(
        read_recipe(
            "att_blstm_verbs",
            [
                "train.updates=1",
                "train.epochs=1",
                "data.verbs.train=40",
                "data.verbs.valid=9",
                "data.verbs.test=9",
                "model.hidden=4",
            ],
        ),
        folder=tmp_path / "verbs",
    )
    recipe = read_recipe(
        "att_blstm_verbs",
        [f"train.from={parent.folder}", "model.hidden=4", "model.dropout_output=0.2", "model.dropout_states=0.1"],
    )
    assert (recipe.model.dropout_output, recipe.model.dropout_states) == (0.2, 0.1)


def test_an_empty_name_of_a_run_is_refused_and_null_is_none():
    with pytest.raises(SaccadeError) as told:
        read_recipe("rnnsearch_dates", ["train.from="])
    assert (
        str(told.value)
        == "command line: train.from: expected a run's folder, found nothing (train.from=null starts from random weights)"
    )
    assert read_recipe("rnnsearch_dates", ["train.from=null"]).train.from_ is None
