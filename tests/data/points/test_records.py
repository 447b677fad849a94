"""Points are read from files and from memory, and every fault in a file is told in one line."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from saccade.data.points.records import (
    PointData,
    Points,
    as_points,
    load_points,
    read_file,
    records_of,
)
from saccade.errors import InputError
from saccade.recipes.located import locate
from saccade.recipes.schema import build

THREE = Points(((0.1, 0.7), (0.4, 0.2), (0.9, 0.5)), (2, 0, 1))


def read(path: Path, **settings: Any) -> list[Points]:
    return read_file(path, PointData(train="-", **settings))


def write(folder: Path, content: str, name: str = "a.jsonl") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


# Reading ---------------------------------------------------------------------------------------------------------


def test_lines_of_json_are_read_and_a_number_may_stand_for_a_point(tmp_path: Path) -> None:
    first = '{"points": [[0.1, 0.7], [0.4, 0.2], [0.9, 0.5]], "order": [2, 0, 1], "id": 7}\n\n'
    assert read(write(tmp_path, first)) == [THREE]
    assert read(write(tmp_path, '{"points": [3, 0.5], "order": []}')) == [Points(((3.0,), (0.5,)), ())]
    packed = tmp_path / "b.jsonl.gz"
    packed.write_bytes(gzip.compress(first.encode()))
    assert read(packed) == [THREE]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[[0.1, 0.2]", "expected a JSON object, found no JSON: Expecting ',' delimiter (character 13)"),
        ("[1, 2]", "expected a JSON object, found a list"),
        ("{}", "points: expected the key 'points', found no keys"),
        ('{"points": [1]}', "order: expected the key 'order', found the keys 'points'"),
        ('{"points": 1, "order": []}', "points: expected a list of points, found a number"),
        ('{"points": [], "order": []}', "points: expected a list of points, found an empty list"),
        ('{"points": "abc", "order": []}', "points: expected a list of points, found text"),
        ('{"points": [[]], "order": []}', "points[0]: expected a point's numbers, found an empty list"),
        ('{"points": [1, [2, 3]], "order": []}', "points[1]: expected as many numbers as in points[0], 1, found 2"),
        ('{"points": [[1, null]], "order": []}', "points[0][1]: expected a number, found null"),
        ('{"points": [true], "order": []}', "points[0]: expected a number, found true or false"),
        ('{"points": [[[1]]], "order": []}', "points[0][0]: expected a number, found a list"),
        ('{"points": [NaN], "order": []}', "points[0]: expected a number that 32 bits hold, found NaN"),
        ('{"points": [-Infinity], "order": []}', "points[0]: expected a number that 32 bits hold, found a larger one"),
        (
            '{"points": [1' + "0" * 400 + '], "order": []}',
            "points[0]: expected a number that 32 bits hold, found a larger one",
        ),
        ('{"points": [1, 2], "order": 1}', "order: expected a list of positions, found a number"),
        ('{"points": [1, 2], "order": [0, 2]}', "order[1]: expected a position from 0 to 1, found 2"),
        ('{"points": [1, 2], "order": [-1]}', "order[0]: expected a position from 0 to 1, found -1"),
        ('{"points": [1, 2], "order": [1.0]}', "order[0]: expected a position from 0 to 1, found 1.0"),
        ('{"points": [1, 2], "order": [true]}', "order[0]: expected a position from 0 to 1, found true or false"),
        ('{"points": [1, 2], "order": ["1"]}', "order[0]: expected a position from 0 to 1, found text"),
    ],
)
def test_a_fault_names_the_file_the_line_the_field_and_what_was_found(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path, '{"points": [1, 2], "order": [1]}\n' + line + "\n")
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == f"{path}:2: {message}"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.tsv",
            "1\t2\n",
            "expected a file of records (.jsonl, also .gz or .xz), found the suffix 'tsv' (set data.format)",
        ),
        ("a.jsonl", "\n\n", "expected at least one record, found nothing"),
    ],
)
def test_a_file_that_holds_no_records_is_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = write(tmp_path, content, name)
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == f"{path}: {message}"


def test_a_missing_file_is_reported_with_what_lies_beside_it(tmp_path: Path) -> None:
    write(tmp_path, "{}", "points.jsonl")
    with pytest.raises(InputError, match=r"found nothing of that name \(did you mean points\.jsonl"):
        read(tmp_path / "point.jsonl")


def test_arrays_and_tuples_are_points_too() -> None:
    expected = ((0.5, 1.0), (2.0, 3.0))
    assert as_points(np.array([[0.5, 1], [2, 3]], dtype=np.float32), "input 1") == expected
    assert as_points([np.array([0.5, 1]), (2, np.int64(3))], "input 1") == expected


def test_a_program_gives_pairs_dicts_records_or_a_table() -> None:
    pair = ([[0.1, 0.7], [0.4, 0.2], [0.9, 0.5]], [2, 0, 1])
    row = {"points": pair[0], "order": np.array(pair[1])}

    class Table:
        columns = ("points", "order")

        def to_dict(self, how: str) -> list[dict[str, Any]]:
            return [row]

    assert records_of([pair, row, THREE]) == [THREE] * 3
    assert records_of(Table()) == [THREE]
    for data, message in (
        ([], "data: expected records of points and their order, found none"),
        ([pair, "x"], "data:2: expected points and the order to choose them in, found 'x'"),
        ([{"points": [1]}], "data:1: order: expected the key 'order', found the keys 'points'"),
    ):
        with pytest.raises(InputError) as caught:
            records_of(data)
        assert str(caught.value) == message


# The recipe's data -----------------------------------------------------------------------------------------------


def test_splits_that_are_not_given_are_held_out_of_the_train_file(tmp_path: Path) -> None:
    lines = [json.dumps({"points": [number, number + 1], "order": [0]}) for number in range(40)]
    write(tmp_path, "\n".join(lines), "train.jsonl")
    splits = load_points(PointData(train="train.jsonl", hold_out=0.1), tmp_path, 3)
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [32, 4, 4]
    assert len(splits.notes) == 2
    assert len({record.source for record in (*splits.train, *splits.valid, *splits.test)}) == 40


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"valid": "v.jsonl"},
            "data.source: expected source or train to be given, e.g. 'source: hull' or 'train: FILE'",
        ),
        (
            {"source": "sorting", "train": "a.jsonl"},
            "data.train: expected train to be how many records to draw (1 or more)",
        ),
        (
            {"source": "sorting", "test": 0},
            "data.test: expected test to be how many records to draw (1 or more) with a source, found 0",
        ),
        ({"train": 100}, "data.train: expected train to be a file (records are drawn with a source only), found 100"),
        ({"source": "hull", "least": 2}, "data.least: expected least to be at least 3, found 2"),
        ({"source": "sorting", "least": 7, "most": 5}, "data.most: expected most to be from least=7 to 10000, found 5"),
        ({"train": "a.jsonl", "hold_out": 0.5}, "data.hold_out: expected hold_out to be above 0 and below 0.5"),
        ({"source": "tsp"}, "data.source: expected one of 'sorting', 'hull', found 'tsp'"),
    ],
)
def test_a_recipe_that_cannot_be_meant_is_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        build(PointData, locate(data, "a.yaml"), "data")
    assert message in str(caught.value)


def test_points_are_read_without_torch() -> None:
    code = "import sys, saccade.data.points.records; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_malformed_points_are_dropped_and_counted_where_the_recipe_says_so(tmp_path: Path) -> None:
    lines = [json.dumps({"points": [number, number + 1], "order": [0]}) for number in range(40)]
    write(tmp_path, "\n".join([*lines, '{"points": [], "order": []}', "[]"]), "train.jsonl")
    splits = load_points(PointData(train="train.jsonl", faults="drop"), tmp_path, 3)
    assert len(splits.train) + len(splits.valid) + len(splits.test) == 40
    assert "dropped 2 of 42 records: 1 malformed points or order (first: 41), 1 not JSON" in splits.notes[0]
