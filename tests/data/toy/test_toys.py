"""Every generated data set that a recipe can name is listed, makes its records and has its examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from saccade.data.toy import TOYS, examples, generated, toy
from saccade.tasks import TASKS, data_class

SOURCES = sorted({(name, task) for task in TASKS for name in data_class(task).toys()})


def test_the_sources_of_all_kinds_of_data_are_those_that_are_listed() -> None:
    assert {name for name, _ in SOURCES} == set(TOYS)


@pytest.mark.parametrize(
    ("source", "task"), [each for each in SOURCES if each[0] not in ("phonemes", "dates", "spelling")]
)
def test_a_source_makes_its_splits_and_has_examples(source: str, task: str) -> None:
    made = generated(data_class(task)(source=source), Path())
    assert set(made) == {"train", "valid", "test"} and all(made.values())
    assert examples(source) == list(toy(source).EXAMPLES)


def test_what_is_not_generated_has_no_examples() -> None:
    assert examples(None) == examples("digits") == []
