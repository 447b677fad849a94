"""What a program has in hand becomes pairs, or one line that names the record."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from saccade.data.pairs.records import Columns, GroupedPair, Pair, pairs_of
from saccade.errors import InputError

TWO = [Pair("ein Haus", "a house"), Pair("zwei", "two")]
SOURCES, TARGETS = ["ein Haus", "zwei"], ["a house", "two"]


class Polars:
    """What a polars DataFrame offers."""

    columns = ("target", "source")

    def __getitem__(self, name: str) -> Any:
        return SimpleNamespace(to_list=lambda: {"source": SOURCES, "target": TARGETS}[name])


@pytest.mark.parametrize(
    "data",
    [
        list(zip(SOURCES, TARGETS)),
        [list(pair) for pair in zip(SOURCES, TARGETS)],
        (pair for pair in zip(SOURCES, TARGETS)),
        [{"source": source, "target": target, "id": 3} for source, target in zip(SOURCES, TARGETS)],
        TWO,
        {"source": SOURCES, "target": TARGETS},
        {"source": np.array(SOURCES), "target": tuple(TARGETS), "id": [1, 2]},
        Polars(),
    ],
    ids=["tuples", "lists", "generator", "dicts", "pairs", "dict of lists", "dict of arrays", "polars"],
)
def test_each_shape_gives_the_same_pairs(data: Any) -> None:
    pairs = pairs_of(data)
    assert pairs == TWO
    assert {type(pair.source) for pair in pairs} == {str}


def test_frames_and_arrow_tables_give_the_same_pairs() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"id": [1, 2], "source": SOURCES, "target": TARGETS})
    assert pairs_of(frame) == pairs_of(frame.convert_dtypes()) == TWO
    assert pairs_of(frame, Columns(2, 3, "id")) == [
        GroupedPair("ein Haus", "a house", "1"),
        GroupedPair("zwei", "two", "2"),
    ]
    with pytest.raises(InputError, match="data:2: target: expected a string, found null"):
        pairs_of(pandas.DataFrame({"source": SOURCES, "target": ["a", None]}))
    with pytest.raises(InputError, match="data:2: source: expected a string, found null"):
        pairs_of(pandas.DataFrame({"source": pandas.array(["a", None], dtype="string"), "target": TARGETS}))
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = arrow.table({"target": TARGETS, "source": SOURCES})
    assert pairs_of(table) == pairs_of(table.to_batches()[0]) == TWO
    nested = arrow.table({"translation": [{"de": s, "en": t} for s, t in zip(SOURCES, TARGETS)]})
    assert pairs_of(nested, Columns("translation.de", "translation.en")) == TWO


def test_columns_that_are_named_are_taken_and_source_and_target_in_their_stead() -> None:
    named = Columns("de", "en", "doc")
    rows = [
        {"de": "eins", "en": "one", "doc": "x", "source": "?", "target": "?"},
        {"de": "zwei", "en": "two", "doc": None},
    ]
    assert pairs_of(rows, named) == [GroupedPair("eins", "one", "x"), Pair("zwei", "two")]
    assert pairs_of({"de": ["eins"], "en": ["one"], "doc": [float("nan")]}, named) == [Pair("eins", "one")]
    plain = Columns("de", "en")
    assert pairs_of([{"source": "eins", "target": "one"}], plain) == [Pair("eins", "one")]
    assert pairs_of({"source": ["eins"], "target": ["one"]}, plain) == [Pair("eins", "one")]
    assert pairs_of([("eins", "one")], plain) == [Pair("eins", "one")]
    assert pairs_of([("x", "eins", "one")], Columns(2, 3)) == [Pair("eins", "one")]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([("a", "b"), ("a", float("nan"))], r"data:2: target: expected a string, found null"),
        ([("a", "b"), (None, "b")], r"data:2: source: expected a string, found null"),
        ([("a", b"b")], r"data:1: target: expected a string, found bytes"),
        ([("a", "")], "data:1: target: expected text on both sides of a pair, found nothing"),
        ([("a", "b\0")], "data:1: target: expected text, found a NUL character"),
        ([("\ud83d", "b")], "data:1: source: expected whole characters, found half of a surrogate pair"),
        (["ab"], "data:1: expected a pair of texts, found 'ab'"),
        ([3], "data:1: expected a pair of texts, found 3"),
        ([{}], "data:1: source: expected the key 'source', found no keys"),
        ("pairs.tsv", r"expected pairs of texts, dicts, .* found 'pairs.tsv' \(a file is named in the recipe"),
        (7, "expected pairs of texts, dicts, a DataFrame or a dict of columns, found a int"),
        ({"source": ["a"], "target": ["b", "c"]}, "data: target: expected 1 values, as in 'source', found 2"),
        ({"source": ["a"]}, "data: target: expected the columns 'source' and 'target', found the columns 'source'"),
        ({"source": "a", "target": "b"}, r"data: source: expected a column of texts, found 'a' \(for one record"),
        ({"source": [], "target": []}, "expected pairs of texts, found none"),
    ],
)
def test_bad_records_are_reported_with_their_number(data: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as told:
        pairs_of(data)
    assert "\n" not in str(told.value)


def test_a_long_value_is_shown_in_part() -> None:
    with pytest.raises(InputError) as told:
        pairs_of([("a", "b", "c" * 1000)])
    assert len(str(told.value)) < 120
