"""A task written from nothing (tests/counting.py): named in a recipe, trained, loaded, looked at, resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

import saccade
from saccade import api
from saccade.errors import InputError, SaccadeError
from saccade.recipes.recipe import read_recipe
from saccade.testing import check_task
from saccade.trace import Lens
from tests.counting import Config, Count, CountData, Counter

COUNT = """\
task: tests.counting:Count
data: {words: 60}
model: {name: tests.counting:Counter, width: 6}
train: {epochs: 2, batch_records: 16, watch: accuracy, device: cpu}
metrics: [accuracy]
expect: {metric: accuracy, at_least: 0.0}
"""


@pytest.fixture
def counting(tmp_path: Path) -> Path:
    path = tmp_path / "count.yaml"
    path.write_text(COUNT)
    return path


def test_a_task_from_nothing_keeps_its_promises():
    assert len(check_task(Count, CountData(), Counter, Config())) == 16


def test_a_task_from_nothing_is_trained_loaded_looked_at_and_resumed(counting, tmp_path):
    bundle = saccade.train(counting, folder=tmp_path / "run")
    assert set(bundle.figures["test"]) == {"accuracy"}
    assert api.verdict(bundle).met
    again = saccade.load(tmp_path / "run", device="cpu", trust=["tests.counting"])
    assert [one.value for one in again.predict(["abba", "c"])] == [one.value for one in bundle.predict(["abba", "c"])]
    assert again.evaluate() == bundle.figures["test"]
    trace = again.predict("abba", lens=Lens())[0].trace
    assert trace.axes["word"].labels == ("a", "b", "b", "a")
    assert trace.map("pool").weights.shape == (1, 4)
    assert api.resume(tmp_path / "run", trust=["tests"]).figures["test"] == bundle.figures["test"]


def test_the_data_of_an_own_task_are_checked_with_file_and_line(counting):
    for old, new, message in (
        (
            "words: 60",
            "wrods: 60",
            r"count\.yaml:2: data\.wrods: expected one of words, longest, .*did you mean 'words'",
        ),
        ("words: 60", "words: 3", r"count\.yaml:2: data\.words: expected words to be at least 10, found 3"),
        (
            "metrics: [accuracy]",
            "metrics: [bleu]",
            r"count\.yaml:5: metrics\[0\]: expected one of accuracy, found 'bleu'",
        ),
    ):
        counting.write_text(COUNT.replace(old, new))
        with pytest.raises(InputError, match=message):
            read_recipe(counting)


def test_an_own_task_without_files_takes_no_data_from_memory(counting):
    with pytest.raises(SaccadeError, match=r"the task 'tests\.counting:Count' does not take data="):
        saccade.train(counting, data=["abba"])
