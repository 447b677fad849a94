"""The defaults of the task contract, and the checks that every task shares."""

from __future__ import annotations

import pytest

from saccade.data.labels.records import LabelledData
from saccade.errors import InputError
from saccade.nn.search.beam_search import Search
from saccade.task import check_positions, check_text
from saccade.tasks import TASKS, task_class

SEARCHED = {"translate", "language", "point", "caption", "transcribe"}


@pytest.mark.parametrize("name", TASKS)
def test_only_tasks_that_search_use_the_settings_of_a_search(name) -> None:
    unused = task_class(name).unused_settings({"beam": 5, "length_penalty": 1.0, "stop": "exact", "sample": None})
    assert list(unused) == ([] if name in SEARCHED else ["beam", "length_penalty"])  # the others have their defaults
    assert all(expected.startswith("nothing: ") and name in expected for expected in unused.values())


def test_a_list_of_labels_needs_no_beam_but_one_of_its_size() -> None:
    of = task_class("classify").unused_settings
    assert of({"n_best": 3}) == of({"n_best": 3, "beam": 3}) == of({"n_best": 3, "beam": 1}) == {}
    assert of({"n_best": 3, "beam": 5})["beam"].startswith("3, as n_best: ")
    assert task_class("label").unused_settings({"n_best": 2})["n_best"].startswith("1: ")
    assert of(vars(Search())) == of({"no such setting": 3}) == {}  # which the reader of the search reports


def test_a_text_has_a_visible_character() -> None:
    assert check_text(" a ", "input 3") == " a "
    for given, found in (("", "nothing"), (" \t\n", "whitespace only"), (7, "int"), (None, "NoneType")):
        with pytest.raises(InputError, match=rf"^input 3: require: expected words, found {found}$"):
            check_text(given, "input 3", "require", "words")


def test_special_tokens_count_among_the_positions_of_a_network() -> None:
    data = LabelledData(source="opinions", max_length=11)
    check_positions(13, data, 2)
    check_positions(None, data, 2)
    with pytest.raises(InputError, match=r"data\.max_length: expected at most 10: .* 12 positions .*, found 11"):
        check_positions(12, data, 2)
