"""What a person hands to ``predict``: texts, lists, tables and dicts give the same inputs, or are refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest

from saccade.data.labels.records import LabelColumns, LabelledData
from saccade.data.memory import IN_MEMORY
from saccade.data.pairs.records import Columns, PairData
from saccade.data.points.records import PointData
from saccade.data.rankings.records import RankColumns, RankedData
from saccade.data.tags.records import TagColumns, TaggedData
from saccade.data.texts.records import PretrainData, TextData, WordData
from saccade.data.visits.records import Visit, VisitData
from saccade.errors import InputError
from saccade.tasks.classify import Classify
from saccade.tasks.label import Label
from saccade.tasks.language import Language
from saccade.tasks.point import Point
from saccade.tasks.pretrain import Pretrain
from saccade.tasks.rank import Rank
from saccade.tasks.translate import Translate
from saccade.tasks.vectors import WordVectors
from saccade.tasks.visits import VisitTask

THREE = ["a good film", "a bad film", "soup"]


def task(kind: type, data: Any) -> Any:
    """A task that has read no records: what its inputs are depends on its data alone."""
    made = object.__new__(kind)
    made.data = data
    return made


def classify(**columns: Any) -> Any:
    return task(Classify, LabelledData(train=IN_MEMORY, columns=LabelColumns(**columns)))


TEXTS = {
    "classify": (classify(), "text"),
    "classify, renamed": (classify(text="review"), "review"),
    "translate": (task(Translate, PairData(train=IN_MEMORY)), "source"),
    "translate, renamed": (task(Translate, PairData(train=IN_MEMORY, columns=Columns("de", "en"))), "de"),
    "translate, by its usual name": (task(Translate, PairData(train=IN_MEMORY, columns=Columns("de", "en"))), "source"),
    "language": (task(Language, TextData(train=IN_MEMORY)), "text"),
    "pretrain": (task(Pretrain, PretrainData(train=IN_MEMORY)), "text"),
    "vectors": (task(WordVectors, WordData(train=IN_MEMORY)), "text"),
}
FORMS = {
    "list": lambda name: THREE,
    "tuple": lambda name: tuple(THREE),
    "generator": lambda name: (text for text in THREE),
    "array": lambda name: np.array(THREE),
    "array of objects": lambda name: np.array(THREE, dtype=object),
    "Series": lambda name: pandas.Series(THREE, index=[7, 3, 5]),
    "Series of categories": lambda name: pandas.Series(THREE, dtype="category"),
    "Index": lambda name: pandas.Index(THREE),
    "Arrow array": lambda name: pyarrow.chunked_array([THREE]),
    "DataFrame": lambda name: pandas.DataFrame({"id": [1, 2, 3], name: THREE, "label": ["x", "y", "x"]}),
    "Arrow table": lambda name: pyarrow.table({"id": [1, 2, 3], name: THREE}),
    "dict of columns": lambda name: {name: THREE, "id": [1, 2, 3]},
    "dicts": lambda name: [{name: text, "id": 4} for text in THREE],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", TEXTS)
def test_texts_come_in_any_form_that_holds_them(kind, form) -> None:
    made, name = TEXTS[kind]
    found = made.inputs(FORMS[form](name))
    assert found == THREE and all(type(text) is str for text in found)


@pytest.mark.parametrize("kind", TEXTS)
def test_one_text_and_one_dict_are_one_input(kind) -> None:
    made, name = TEXTS[kind]
    assert made.inputs("soup") == made.inputs({name: "soup", "id": 3}) == ["soup"]


@pytest.mark.parametrize("kind", TEXTS)
def test_a_table_without_the_column_is_refused_by_the_names_that_it_has(kind) -> None:
    made = TEXTS[kind][0]
    for table in (pandas.DataFrame({"comment": THREE}), {"comment": THREE}, [{"comment": "soup"}]):
        with pytest.raises(InputError) as refused:
            made.inputs(table)
        assert "comment" in str(refused.value) and made.input_columns(["comment"])[0] in str(refused.value)


@pytest.mark.parametrize("given", [b"soup", Path("soup.txt"), {"soup", "film"}, 3, None, np.array("soup")])
@pytest.mark.parametrize("kind", TEXTS)
def test_what_holds_no_inputs_is_refused_by_its_type(kind, given) -> None:
    with pytest.raises(InputError, match=type(given).__name__) as refused:
        TEXTS[kind][0].inputs(given)
    assert "inputs" in str(refused.value)


def test_a_gap_in_a_column_names_the_input() -> None:
    (_, gap) = classify().inputs(pandas.Series(["soup", None]))
    assert gap is None


def test_pairs_are_two_columns() -> None:
    made = classify(text="first", second="second")
    table = pandas.DataFrame({"second": ["b", "d"], "first": ["a", "c"]})
    assert made.inputs(table) == made.inputs(table.to_dict("records")) == [("a", "b"), ("c", "d")]
    assert made.inputs([("a", "b"), ["c", "d"], "e\tf"]) == [("a", "b"), ["c", "d"], "e\tf"]


def test_words_come_as_lists_or_one_row_per_word() -> None:
    made = task(Label, TaggedData(train=IN_MEMORY))
    sentences = [["a", "good", "film"], ["soup"]]
    assert made.inputs(pandas.DataFrame({"tokens": sentences})) == sentences
    assert made.inputs({"tokens": sentences}) == sentences
    assert made.inputs({"tokens": sentences[0]}) == sentences[:1]
    by_word = pandas.DataFrame({"sentence": [1, None, None, 2], "word": ["a", "good", "film", "soup"]})
    assert made.inputs(by_word) == sentences
    named = task(Label, TaggedData(train=IN_MEMORY, columns=TagColumns(sentence="s", word="w")))
    assert named.inputs(by_word.rename(columns={"sentence": "s", "word": "w"})) == sentences


def test_candidates_come_in_one_row_or_in_several() -> None:
    made = task(Rank, RankedData(train=IN_MEMORY))
    expected = [("who", ("he", "she", "it")), ("where", ("here", "there"))]
    rows = {"question": ["who", "who", "where", "who", "where"], "candidate": ["he", "she", "here", "it", "there"]}
    assert made.inputs(pandas.DataFrame(rows)) == made.inputs(rows) == expected
    lists = {"question": ["who", "where"], "candidates": [["he", "she", "it"], ["here", "there"]]}
    assert made.inputs(pandas.DataFrame(lists)) == made.inputs(lists) == expected
    one = {"question": "who", "candidates": ["he", "she"]}
    assert made.inputs(one) == [one] and made.inputs([one, one]) == [one, one]
    grouped = task(Rank, RankedData(train=IN_MEMORY, columns=RankColumns(group="id")))
    assert grouped.inputs(pandas.DataFrame({**rows, "id": [1, 1, 2, 1, 2]})) == expected
    with pytest.raises(InputError, match="candidate"):
        made.inputs(pandas.DataFrame({"question": ["who"], "candidate": [None]}))


def test_points_come_as_a_column_of_arrays() -> None:
    made = task(Point, PointData(train="points.jsonl"))
    sets = [[[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]], [[0.7, 0.8], [0.9, 0.1]]]
    assert made.inputs(pandas.DataFrame({"points": sets})) == made.inputs({"points": sets}) == sets
    assert made.inputs({"points": sets[0]}) == sets[:1]


def test_visits_come_as_whole_patients_or_one_row_per_code() -> None:
    made = task(VisitTask, VisitData(train=IN_MEMORY))
    visits = [{"time": "2020-01-03", "codes": ["a", "b"]}, {"time": "2020-05-07", "codes": ["c"]}]
    assert made.inputs({"visits": visits}) == [{"visits": visits}]
    assert made.inputs(pandas.DataFrame({"patient": ["p"], "visits": [visits]})) == [visits]
    long = pandas.DataFrame(
        [("p", "2020-05-07", "c"), ("q", "2021-01-01", "a"), ("p", "2020-01-03", "a"), ("p", "2020-01-03", "b")],
        columns=["patient", "time", "code"],
    )
    expected = [(Visit("2020-01-03", ("a", "b")), Visit("2020-05-07", ("c",))), (Visit("2021-01-01", ("a",)),)]
    assert made.inputs(long) == made.inputs(long.to_dict("list")) == expected
