"""Parquet is read in batches, by name, number or inner field; without PyArrow one line says what to install."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import pytest

from saccade.data.files import parquet as reader
from saccade.data.files.records import EMPTY, NOT_TEXT, NOT_UTF8, NUL
from saccade.data.pairs.records import Columns, Found, Pair, header_of, read_pairs, scan
from saccade.errors import InputError, SaccadeError

pa: Any = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'saccade[parquet]'")


def write(folder: Path, columns: dict[str, Any], name: str = "a.parquet", **options: Any) -> Path:
    import pyarrow.parquet as pq

    path = folder / name
    pq.write_table(pa.table(columns), path, **options)
    return path


def test_rows_are_pairs_over_batches_and_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "BATCH", 3)
    sources, targets = [f"s{n}" for n in range(17)], [f"t{n}" for n in range(17)]
    path = write(tmp_path, {"id": list(range(17)), "target": targets, "source": sources}, row_group_size=5)
    assert read_pairs(path) == [Pair(*pair) for pair in zip(sources, targets, strict=True)]
    assert [item.line for item in scan(path)] == list(range(1, 18))
    assert header_of(path) == ["id", "target", "source"]
    (tmp_path / "b.parquet.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert read_pairs(tmp_path / "b.parquet.gz") == read_pairs(path)


def test_columns_are_named_numbered_or_inside_a_struct(tmp_path: Path) -> None:
    inner = [{"en": "one", "de": "eins"}, {"en": "two", "de": "zwei"}]
    path = write(tmp_path, {"doc": [7, None], "translation": inner, "note": pa.array(["x", "y"]).dictionary_encode()})
    assert header_of(path) == ["doc", "translation.en", "translation.de", "note"]
    found = list(scan(path, columns=Columns("translation.de", "translation.en", "doc")))
    assert found == [Found(1, Pair("eins", "one"), "7"), Found(2, Pair("zwei", "two"), None)]
    flat = write(tmp_path, {"a": ["x"], "b": ["1"], "c": pa.array(["z"], pa.large_string())})
    assert read_pairs(flat, source=3, target=1) == [Pair("z", "x")]


def test_bad_values_are_faults_of_their_rows(tmp_path: Path) -> None:
    data = pa.py_buffer(b"abc\xffd")
    bad = pa.Array.from_buffers(
        pa.string(), 5, [None, pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in range(6))), data]
    )
    path = write(tmp_path, {"source": bad, "target": ["1", None, " ", "4", "5\0"]})
    kinds = [getattr(item, "reason", "pair") for item in scan(path)]
    assert kinds == ["pair", NOT_TEXT, EMPTY, NOT_UTF8, NUL]
    with pytest.raises(InputError, match=r"a\.parquet: row 2: target: expected a string, found null"):
        read_pairs(path)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (Columns("source", "en"), "expected the columns 'source' and 'en', found the columns 'source', 'number'"),
        (Columns(1, 3), "expected the columns 1 and 3"),
        (Columns("source", "number"), "number: expected a column of text, found one of int64"),
    ],
)
def test_wrong_columns_are_reported(tmp_path: Path, columns: Columns, told: str) -> None:
    with pytest.raises(InputError, match=told):
        list(scan(write(tmp_path, {"source": ["x"], "number": [3]}), columns=columns))


@pytest.mark.parametrize("cut", [0, 3, 40, -9])
def test_a_damaged_file_is_reported(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path, {"source": ["x"] * 99, "target": ["y"] * 99})
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(InputError, match="expected a whole Parquet file"):
        list(scan(path))


def test_damage_in_the_middle_is_reported(tmp_path: Path) -> None:
    texts = [str(number) * 9 for number in range(500)]
    path = write(tmp_path, {"source": texts, "target": texts}, compression="zstd", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[200:400] = b"\xff" * 200
    path.write_bytes(content)
    with pytest.raises(InputError, match="expected a whole Parquet file"):
        list(scan(path))


def test_without_pyarrow_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, {"source": ["x"], "target": ["y"]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SaccadeError, match=r"Parquet needs .*pyarrow.*saccade\[parquet\]"):
        read_pairs(path)
