"""The made cohort: one code in the last three visits decides, and an older one does not."""

from __future__ import annotations

from datetime import date
from itertools import pairwise

import pytest

from saccade.data.toy.visits import CAUSE, EXAMPLES, Cohort, deciding, generate

SMALL = Cohort(train=201, valid=7, test=9)


def test_the_outcome_is_the_cause_in_the_last_three_visits() -> None:
    for patient in generate(SMALL)["train"]:
        codes = [visit["codes"] for visit in patient["visits"]]
        assert patient["outcome"] == bool(deciding(codes)) == any(CAUSE in visit for visit in codes[-3:])
        assert all(len(set(visit)) == len(visit) for visit in codes)


def test_half_have_the_outcome_and_half_of_the_others_had_the_cause_long_ago() -> None:
    made = generate(Cohort(train=2000))["train"]
    assert sum(patient["outcome"] for patient in made) == 1000
    older = sum(
        any(CAUSE in visit["codes"] for visit in patient["visits"]) for patient in made if not patient["outcome"]
    )
    assert 430 < older < 570


def test_times_rise_irregularly() -> None:
    gaps = set()
    for patient in generate(SMALL)["train"]:
        days = [date.fromisoformat(visit["time"]) for visit in patient["visits"]]
        assert 4 <= len(days) <= 13 and all(one < other for one, other in pairwise(days))
        gaps |= {(other - one).days for one, other in pairwise(days)}
    assert len(gaps) > 50


def test_splits_share_no_patient_and_are_always_the_same() -> None:
    made = generate(SMALL)
    assert {name: len(part) for name, part in made.items()} == {"train": 201, "valid": 7, "test": 9}
    assert made == generate(SMALL) != generate(Cohort(train=201, valid=7, test=9, seed=2))
    names = [patient["patient"] for part in made.values() for patient in part]
    assert len(set(names)) == len(names)


def test_one_example_of_three_is_without_the_outcome() -> None:
    assert [bool(deciding([visit["codes"] for visit in example["visits"]])) for example in EXAMPLES] == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize("setting", [{"train": 1}, {"least": 3}, {"most": 3}, {"vocabulary": 7}])
def test_sizes_that_leave_no_room_are_refused(setting: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        Cohort(**setting)
