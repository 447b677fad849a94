"""Every generated data set that a recipe can name is listed, makes its records and has its examples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from saccade.data.toy import TOYS, distinct_splits, examples, generated, toy
from saccade.errors import InputError
from saccade.recipes.located import locate
from saccade.recipes.schema import build
from saccade.tasks import TASKS, data_class

SOURCES = sorted({(name, task) for task in TASKS for name in data_class(task).toys()})


def test_the_sources_of_all_kinds_of_data_are_those_that_are_listed() -> None:
    assert {name for name, _ in SOURCES} == set(TOYS)


@pytest.mark.parametrize(
    ("source", "task"), [each for each in SOURCES if each[0] not in ("phonemes", "dates", "spelling", "digits")]
)
def test_a_source_makes_its_splits_and_has_examples(source: str, task: str) -> None:
    made = generated(data_class(task)(source=source), Path())
    assert set(made) == {"train", "valid", "test"} and all(made.values())
    assert examples(source) == list(toy(source).EXAMPLES)


def test_what_is_not_generated_has_no_examples() -> None:
    assert examples(None) == examples("numbers") == []


@pytest.mark.parametrize(
    ("task", "settings", "found"),
    [
        ("translate", {"source": "copies", "copies": {"train": 10**12}}, "longest 200"),
        (
            "translate",
            {"source": "copies", "copies": {"train": 3, "valid": 5, "test": 7, "longest": 10**9}},
            "15 records",
        ),
        ("translate", {"source": "dates", "dates": {"test": 10**10}}, "10,000,061,000 records"),
        ("point", {"source": "sorting", "train": 10**10}, "records"),
        ("visits", {"source": "visits", "visits": {"vocabulary": 10**10}}, "vocabulary 10,000,000,000"),
    ],
)
def test_more_than_fits_into_memory_is_refused_before_any_is_made(task: str, settings: Any, found: str) -> None:
    data = build(data_class(task), locate(settings, "x.yaml"), "data")
    with pytest.raises(InputError, match=f"expected at most 2,147,483,648 values to generate, found .*{found}"):
        generated(data, Path())


def test_splits_that_cannot_be_told_apart_are_refused_instead_of_drawn_for_ever() -> None:
    with pytest.raises(InputError, match=r"data\.few: valid: expected settings that give enough different records"):
        distinct_splits(Few(), "few", lambda draw: (draw.randrange(3), None))


@dataclass(frozen=True)
class Few:
    train: int = 57
    valid: int = 31
    test: int = 83
    seed: int = 1
