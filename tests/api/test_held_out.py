"""Saved records: the same ones again, whatever files and columns they came from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from saccade import api
from saccade.api.held_out import is_saved, read_saved, write_saved
from saccade.data.labels.records import Labelled
from saccade.data.pairs.records import GroupedPair, PairData
from saccade.data.splits import checksum
from saccade.data.visits.records import Patient, Visit, VisitData
from saccade.errors import InputError
from saccade.recipes.recipe import read_recipe
from saccade.tasks import TASKS, task_class

pytestmark = pytest.mark.usefixtures("module_unchecked")

TOYS = {
    "translate": "rnnsearch_spelling", "classify": "attentive_opinions", "label": "tagger_repeats", "rank": "siamese_facts",
    "language": "lstm_language_agreement", "pretrain": "bert_topics", "vectors": "skipgram_topics", "point": "pointer_sorting",
    "visits": "retain_visits", "caption": "captions_shapes", "classify_images": "dots_attention",
    "generate": "sagan_twins", "transcribe": "listen_tones",
}  # fmt: skip


def test_every_shipped_task_restores_the_records_that_it_saved(tmp_path) -> None:
    assert TOYS.keys() == TASKS.keys()
    sizes = {"train": 30, "valid": 5, "test": 9}
    few = {"point": [f"data.{name}={size}" for name, size in sizes.items()]}
    few["caption"] = [f"data.shapes.{name}={size}" for name, size in sizes.items()]
    few["transcribe"] = [f"data.tones.{name}={size}" for name, size in sizes.items()]
    few["visits"] = [f"data.visits.{name}={size}" for name, size in sizes.items()]
    few["generate"] = [f"data.twins.{name}={size}" for name, size in sizes.items()]
    few["classify_images"] = [f"data.dots.{name}={size}" for name, size in sizes.items()]
    for name, recipe in TOYS.items():
        data, task = read_recipe(recipe, few.get(name, [])).data, task_class(name)
        records = list(task.load(data, tmp_path, 1).test[:7])
        path = write_saved(tmp_path / f"{name}.jsonl", records, task)
        assert is_saved(path)
        assert read_saved(path, task, data) == (records, checksum(records)), name


def test_pairs_of_texts_groups_and_outcomes_per_visit_are_restored(tmp_path) -> None:
    visits = (Visit("2020-01-07", ("I10", "E11")), Visit("2020-03-01", ("I10",)))
    cases = [
        (task_class("translate"), PairData(train="x"), [GroupedPair("a", "b", "1"), GroupedPair("c\u2028", "d", "2")]),
        (task_class("classify"), read_recipe(TOYS["classify"]).data, [Labelled(("one", "two"), "x", "g")]),
        (task_class("visits"), VisitData(train="x", at="every"), [Patient(visits, ((0,), (1,)), "17")]),
    ]
    for number, (task, data, records) in enumerate(cases):
        assert read_saved(write_saved(tmp_path / f"{number}.jsonl", records, task), task, data)[0] == records


def test_saved_records_that_were_changed_are_refused_by_file_and_line(tmp_path) -> None:
    task, data = task_class("translate"), PairData(train="x")
    path = write_saved(tmp_path / "a.jsonl", [GroupedPair("a", "b", "1")], task)
    head, row = path.read_text().splitlines()
    for lines, fact in [
        ((head, row.replace('"a"', '"A"')), "changed"),
        ((head,), "changed"),
        ((head, json.dumps({"source": "a", "other": 3})), ":2: "),
        ((head, "[]"), ":2: "),
        ((head.replace('"translate"', '"rank"'), row), "'rank'"),
    ]:
        path.write_text("\n".join(lines) + "\n")
        with pytest.raises(InputError, match=fact):
            read_saved(path, task, data)
    with pytest.raises(InputError, match="new file"):
        write_saved(path, [], task)


# A run and its data ---------------------------------------------------------------------------------------------------

RECIPE = """task: classify
data: {train: train.tsv, max_length: 9}
model: {name: transformer_classifier, width: 6, heads: 2, layers: 1, positions: learned, places: 12}
train: {updates: 2, device: cpu, threads: 1}
metrics: [accuracy]
"""
ROWS = [f"good film number {number}\t{'ab'[number % 2]}" for number in range(41)]


@pytest.fixture(scope="module")
def run(tmp_path_factory, module_unchecked) -> Path:
    home = tmp_path_factory.mktemp("elsewhere")
    (home / "train.tsv").write_text("\n".join(["text\tlabel", *ROWS, ""]))
    (home / "my.yaml").write_text(RECIPE)
    api.train(read_recipe(home / "my.yaml"), folder=home / "runs" / "my")
    faulty = [*ROWS[:5], "one column", "good " * 11 + "\tb"]
    (home / "faulty.tsv").write_text("\n".join(["text\tlabel", *faulty, ""]))
    return home / "runs" / "my"


def test_a_run_is_evaluated_without_its_data_on_the_records_that_it_saved(run, command, tmp_path) -> None:
    status, before, _ = command("evaluate", run, "--save-records", tmp_path / "test.jsonl")
    assert status == 0
    data = run.parent.parent / "train.tsv"
    moved = data.rename(tmp_path / "moved.tsv")
    try:
        status, _, said = command("evaluate", run)
        assert status == 1 and "train.tsv" in said and "--data FILE" in said and "data.train=FILE" in said
        assert command("evaluate", run, "--data", tmp_path / "test.jsonl") == (0, before, "")
        assert command("evaluate", run, f"data.train={moved}") == (0, before, "")
    finally:
        moved.rename(data)


def test_records_of_another_test_set_are_told_apart(run, command, tmp_path) -> None:
    bundle = api.load(run, device="cpu")
    path = bundle.save_records(tmp_path / "other.jsonl", run.parent.parent / "train.tsv")
    (note,) = (note for note in bundle.evaluation(path).notes if "not the test records" in note)
    assert str(run) in note


def test_a_run_keeps_no_record(run) -> None:
    with pytest.raises(InputError, match="outside the run's folder"):
        api.load(run, device="cpu").save_records(run / "inner" / "test.jsonl")
    assert not any("good film number" in path.read_text(errors="replace") for path in run.rglob("*.json*"))


def test_a_bundle_trained_in_memory_is_evaluated_on_what_was_held_out(run, tmp_path) -> None:
    records = [tuple(row.split("\t")) for row in ROWS]
    bundle = api.train(read_recipe(run.parent.parent / "my.yaml"), records, folder=tmp_path / "memory")
    figures = bundle.evaluate()
    assert figures == bundle.figures["test"]
    path = bundle.save_records(tmp_path / "test.jsonl")
    assert api.load(tmp_path / "memory", device="cpu").evaluate(path) == figures


# What is read, and how ------------------------------------------------------------------------------------------------


def test_faulty_and_overlong_rows_are_dropped_and_cut_where_that_is_asked_for_and_told(run, command) -> None:
    faulty = run.parent.parent / "faulty.tsv"
    status, _, said = command("evaluate", run, "--data", faulty)
    assert status == 1 and "faulty.tsv:7" in said and "data.faults=drop" in said
    status, _, said = command("evaluate", run, "--data", faulty, "data.faults=drop")
    assert status == 1 and "data.too_long=truncate" in said and "11" in said
    status, out, _ = command("evaluate", run, "--data", faulty, "data.faults=drop", "data.too_long=truncate", "--json")
    notes = " ".join(json.loads(out)["notes"])
    assert status == 0 and "dropped 1 of 7" in notes and "1 of 6 texts cut" in notes
    settings = {"data.faults": "drop", "data.too_long": "truncate"}
    assert " ".join(api.load(run, device="cpu").evaluation(faulty, **settings).notes) == notes


def test_records_in_memory_are_dropped_as_those_of_a_file(run) -> None:
    bundle, given = api.load(run, device="cpu"), [("good film", "a"), ("", "b"), ("bad", "b")]
    with pytest.raises(InputError, match="data:2"):
        bundle.evaluate(given)
    assert "dropped 1 of 3" in bundle.evaluation(given, **{"data.faults": "drop"}).notes[0]


def test_what_training_has_fixed_is_refused_by_its_name(run, command) -> None:
    for setting in ("data.tokens.size=7", "model.width=4", "data.nothing=3", "train.epochs=2"):
        status, _, said = command("evaluate", run, setting)
        assert status == 1 and setting.split("=")[0] in said and "data.faults" in said
    status, _, said = command("evaluate", run, "faulty.tsv")
    assert status == 1 and "--data" in said
    status, _, said = command("evaluate", run, "data.max_length=13")
    assert status == 1 and "data.max_length" in said and "at most" in said and "13" in said


def test_the_recipe_drops_faulty_rows_of_other_files_too(run, command, tmp_path) -> None:
    recipe = read_recipe(run.parent.parent / "my.yaml", ["data.faults=drop", "data.too_long=truncate"])
    bundle = api.train(recipe, folder=tmp_path / "dropping")
    faulty = run.parent.parent / "faulty.tsv"
    assert any("dropped 1 of 7" in note for note in bundle.evaluation(faulty).notes)
    assert any("dropped 1 of 7" in note for note in api.calibrate(bundle, faulty).notes)
    status, out, _ = command("compare", tmp_path / "dropping", run, "--data", faulty, "--json", "--samples", 3,
                             "--repeats", 0)  # fmt: skip
    assert status == 1  # the other recipe does not cut what is too long
    other = tmp_path / "dropping"
    status, out, _ = command("compare", other, other, "--data", faulty, "--json", "--samples", 3, "--repeats", 0)
    assert status == 0 and any("dropped 1 of 7" in note for note in json.loads(out)["notes"])


PAIRS = """task: translate
data: {train: {source: train.de, target: train.en}, tokens: {kind: characters}}
model: {name: rnnsearch, hidden: 5, embedding: 3}
train: {updates: 1, device: cpu, threads: 1}
metrics: [exact_match]
"""


def test_two_aligned_files_are_a_test_set(tmp_path, command) -> None:
    for name, count in (("train", 60), ("test", 7)):
        words = [f"{name}{number}" for number in range(count)]
        (tmp_path / f"{name}.de").write_text("\n".join(words) + "\n")
        (tmp_path / f"{name}.en").write_text("\n".join(word[::-1] for word in words) + "\n")
    (tmp_path / "my.yaml").write_text(PAIRS)
    bundle = api.train(read_recipe(tmp_path / "my.yaml"), folder=tmp_path / "run")
    files = tmp_path / "test.de", tmp_path / "test.en"
    assert len(bundle.evaluation(files).outputs) == 7
    assert (
        len(bundle.evaluation(**{"data.test": dict(zip(("source", "target"), map(str, files), strict=True))}).outputs)
        == 7
    )
    status, _, _ = command("evaluate", tmp_path / "run", "--data", files[0], "--data", files[1])
    assert status == 0
    (tmp_path / "test.en").write_text("one line\n")
    status, _, said = command("evaluate", tmp_path / "run", "--data", files[0], "--data", files[1])
    assert status == 1 and "test.en:2" in said


def test_more_files_than_a_record_has_sides_are_refused(run, command) -> None:
    file = run.parent.parent / "train.tsv"
    status, _, said = command("evaluate", run, "--data", file, "--data", file)
    assert status == 1 and "one file" in said
