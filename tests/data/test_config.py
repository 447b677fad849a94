"""The settings of data that all kinds share; over-long inputs are an error that says what to set, or a cut that is counted."""

from __future__ import annotations

from dataclasses import fields

import pytest

from saccade.data.config import DataConfig, check_least, fit, fit_all
from saccade.errors import InputError, SaccadeError
from saccade.tasks import TASKS, data_class

CORPUS = [([4, 5, 6], [4]), ([4], [5, 6, 7, 8, 9]), ([5, 5, 5, 5], [6, 6, 6, 6])]


def test_what_fits_is_left_alone() -> None:
    assert fit([4, 5, 6], 3, "error", "x") == ([4, 5, 6], False)


def test_an_over_long_input_is_an_error_that_says_what_to_set() -> None:
    with pytest.raises(InputError) as caught:
        fit_all(CORPUS, 4, "error", "train.tsv")
    assert str(caught.value) == (
        "train.tsv: pair 2: target: expected at most 4 tokens, found 5 "
        "(set data.too_long: truncate, or data.max_length: 5)"
    )


def test_truncation_keeps_the_beginning_and_is_counted() -> None:
    fitted = fit_all(CORPUS, 3, "truncate", "train.tsv")
    assert fitted.pairs == [([4, 5, 6], [4]), ([4], [5, 6, 7]), ([5, 5, 5], [6, 6, 6])]
    assert (fitted.cut_sources, fitted.cut_targets, fitted.cut_pairs) == (1, 2, 2)
    assert str(fitted) == "2 of 3 pairs cut to 3 tokens (1 sources, 2 targets)"
    assert str(fit_all(CORPUS, 5, "truncate", "train.tsv")) == "all 3 pairs are within 5 tokens"


def test_a_limit_below_one_and_an_unknown_policy_are_refused() -> None:
    with pytest.raises(SaccadeError, match=r"data\.max_length must be at least 1: got 0"):
        fit([4], 0, "truncate", "x")
    with pytest.raises(SaccadeError, match=r"data\.too_long: expected one of error, truncate, found 'drop'"):
        fit([4], 3, "drop", "x")  # type: ignore[arg-type]


def test_a_pair_that_is_too_long_is_called_by_how_its_source_begins() -> None:
    sources = ["short", "a source that begins so and goes on for quite a while", "x"]
    with pytest.raises(InputError, match=r"train: pair 2 \('a source that begins so and goes on for…'\): target: "):
        fit_all(CORPUS, 4, "error", "train", sources)


@pytest.mark.parametrize("task", sorted(TASKS))
def test_every_kind_of_data_shares_the_same_settings_and_checks(task: str) -> None:
    data = data_class(task)
    shared = {field.name: field.default for field in fields(DataConfig)}
    assert {field.name: field.default for field in fields(data) if field.name in shared} == shared
    with pytest.raises(ValueError, match="source or train must be given"):
        data()
    for share in (0, 0.5):
        with pytest.raises(ValueError, match=f"hold_out must be above 0 and below 0.5: got {share}"):
            data(train="a", hold_out=share)
    assert data.toys()
    for name in data.toys():
        assert data(source=name).source == name


@pytest.mark.parametrize("task", sorted(set(TASKS) - {"point"}))  # points: train says how many records to draw
def test_a_generated_data_set_goes_with_no_training_file(task: str) -> None:
    data = data_class(task)
    with pytest.raises(ValueError, match=f"not both: 'source: {data.toys()[0]}' or 'train: FILE'"):
        data(source=data.toys()[0], train="a")


def test_a_field_below_its_least_value_is_named() -> None:
    check_least(DataConfig(train="a", hold_out=0.1), hold_out=0.1, valid=3)  # valid is None
    with pytest.raises(ValueError, match=r"hold_out must be at least 0\.2: got 0\.1"):
        check_least(DataConfig(train="a", hold_out=0.1), hold_out=0.2)
