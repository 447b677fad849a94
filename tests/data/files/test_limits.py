"""Small files that unpack to a lot: refused by file and line, with the name of the bound, and read where it was raised."""

from __future__ import annotations

import gzip
import lzma
import random

import pytest

from saccade.data.files.conll import scan_conll
from saccade.data.files.limits import MAX_DATA, MAX_RECORD, max_record
from saccade.data.files.lines import lines_of
from saccade.data.files.parquet import scan_parquet
from saccade.data.files.records import LONG, Fault
from saccade.data.labels import records as labels
from saccade.data.labels.records import LabelledData
from saccade.data.tags import records as tags
from saccade.data.tags.records import TaggedData
from saccade.data.texts import records as texts
from saccade.data.texts.records import TextData
from saccade.data.tokenizers.vectors import Vectors, words_in
from saccade.errors import InputError, SaccadeError


def packed(path, text: str):
    path.write_bytes(gzip.compress(text.encode()))
    return path


def only(items) -> Fault:
    (item,) = items
    assert isinstance(item, Fault), item
    return item


def test_a_size_is_a_number_with_a_unit(monkeypatch) -> None:
    for given, size in (("300", 300), ("5MB", 5 << 20), ("2 GiB", 2 << 30), ("7k", 7 << 10)):
        monkeypatch.setenv(MAX_RECORD, given)
        assert max_record() == size
    for given in ("much", "0", "-3MB", "1.5GB", "9" * 99):
        monkeypatch.setenv(MAX_RECORD, given)
        with pytest.raises(SaccadeError, match=f"{MAX_RECORD}: expected a size"):
            max_record()


def test_a_file_is_read_up_to_the_bound_which_its_user_raises(tmp_path, monkeypatch) -> None:
    path = packed(tmp_path / "a.tsv.gz", "one line\tx\n" * 3000)
    monkeypatch.setenv(MAX_DATA, "100KB")
    with pytest.raises(InputError, match=rf"a\.tsv\.gz:\d+: .*102,400.*export {MAX_DATA}=") as refused:
        list(lines_of(path))
    assert refused.value.line is not None and 400 < refused.value.line < 600  # what lines cost in memory counts too
    monkeypatch.setenv(MAX_DATA, "1MB")
    assert len(list(lines_of(path))) == 3000


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_file_that_unpacks_to_far_more_than_text_does_is_refused_unless_its_user_sets_the_bound(
    tmp_path, monkeypatch, ending, pack
) -> None:
    path, line = tmp_path / f"a.tsv{ending}", b"the same line\tagain and again, and again\n"
    path.write_bytes(pack(line * ((20 << 20) // len(line))))
    with pytest.raises(InputError, match=rf"a\.tsv{ending}:\d+: .*50 times.*export {MAX_DATA}=") as refused:
        for _ in lines_of(path):
            pass
    assert refused.value.line is not None and refused.value.line * len(line) < 17 << 20
    monkeypatch.setenv(MAX_DATA, "1GB")
    assert sum(1 for _ in lines_of(path)) == (20 << 20) // len(line)


def test_a_compressed_file_of_text_is_read_whatever_its_size(tmp_path) -> None:
    words = random.Random(3)
    text = "".join(f"{words.randrange(10**6)} words with a number\t{words.random()}\n" for _ in range(420_001))
    assert len(text) > 17 << 20
    assert sum(1 for _ in lines_of(packed(tmp_path / "a.tsv.gz", text))) == 420_001


def test_a_line_is_longer_where_the_user_says_so(tmp_path, monkeypatch) -> None:
    path = packed(tmp_path / "a.txt.gz", "x" * (3 << 20) + "\nshort\n")
    first, second = lines_of(path)
    assert first.fault is not None and first.fault.reason == LONG and MAX_RECORD in str(first.fault.error)
    assert second.text == "short\n"
    monkeypatch.setenv(MAX_RECORD, "4MB")
    assert [len(line.text) for line in lines_of(path)] == [(3 << 20) + 1, 6]


def test_word_vectors_of_any_size_are_read_since_few_are_kept(tmp_path, monkeypatch) -> None:
    path = packed(tmp_path / "v.txt.gz", "".join(f"w{number} 0.5 0.25\n" for number in range(3000)))
    monkeypatch.setenv(MAX_DATA, "100KB")
    assert len(list(words_in(Vectors(str(path)), tmp_path))) == 3000


def test_a_sentence_without_an_end_is_one_fault_and_the_next_one_is_read(tmp_path, monkeypatch) -> None:
    text = "a X\n\n" + "word X\n" * 900 + "\nb X\nc X\n\n"
    path = packed(tmp_path / "a.conll.gz", text)
    monkeypatch.setenv(MAX_RECORD, "1KB")
    first, broken, last = scan_conll(path, 1, -1, format="conll")
    assert isinstance(broken, Fault) and (broken.line, broken.reason) == (3, LONG) and MAX_RECORD in str(broken.error)
    assert (first.words, last.words) == (["a"], ["b", "c"])
    monkeypatch.setenv(MAX_RECORD, "1MB")
    assert [len(sentence.words) for sentence in scan_conll(path, 1, -1, format="conll")] == [1, 900, 2]


def test_a_sentence_of_a_table_with_one_row_per_word_is_bounded_too(tmp_path, monkeypatch) -> None:
    path = packed(tmp_path / "a.csv.gz", "sentence,word,tag\n" + "1,word,X\n" * 900 + "2,b,X\n")
    monkeypatch.setenv(MAX_RECORD, "1KB")
    broken, last = tags.scan(path, TaggedData(train=str(path)))
    assert isinstance(broken, Fault) and (broken.line, broken.reason) == (2, LONG) and MAX_RECORD in str(broken.error)
    assert last.source == ("b",)


def test_texts_that_are_files_are_bounded_each_and_together(tmp_path, monkeypatch) -> None:
    for label in ("good", "bad"):
        (tmp_path / "films" / label).mkdir(parents=True)
        for number in range(5):
            packed(tmp_path / "films" / label / f"{number}.txt.gz", "word " * 100)
    packed(tmp_path / "films" / "bad" / "long.txt.gz", "word " * 900)
    folder = tmp_path / "films"
    monkeypatch.setenv(MAX_RECORD, "1KB")
    broken = only(item for item in labels.scan(folder, LabelledData(train="x")) if isinstance(item, Fault))
    assert (broken.name, broken.reason) == ("bad/long.txt.gz", LONG) and MAX_RECORD in str(broken.error)
    whole = only(texts.scan(folder / "bad" / "long.txt.gz", TextData(train="x", unit="file")))
    assert whole.reason == LONG and "long.txt.gz" in str(whole.error) and MAX_RECORD in str(whole.error)
    monkeypatch.setenv(MAX_DATA, "3KB")
    for scan, data in ((labels.scan, LabelledData(train="x")), (texts.scan, TextData(train="x", unit="file"))):
        with pytest.raises(InputError, match=f"films: .*{MAX_DATA}"):
            list(scan(folder, data))


# Parquet --------------------------------------------------------------------------------------------------------------


def written(path, **columns):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.table(columns), path, compression="zstd")
    return path


def test_a_cell_that_unpacks_to_a_lot_is_refused_before_it_is(tmp_path, monkeypatch) -> None:
    path = written(tmp_path / "a.parquet", text=["a" * 5_000_000, "b"], label=["x", "y"])
    assert path.stat().st_size < 5000
    monkeypatch.setenv(MAX_RECORD, "1MB")
    monkeypatch.setattr("saccade.data.files.parquet.rows_of", None)
    with pytest.raises(InputError, match=rf"a\.parquet: rows 1 to 2: .*1,048,576.*export {MAX_RECORD}="):
        list(scan_parquet(path, ["text", "label"]))
    monkeypatch.undo()
    assert [len(fields.values[0]) for fields in scan_parquet(path, ["text", "label"])] == [5_000_000, 1]


def test_columns_that_are_not_read_do_not_count(tmp_path, monkeypatch) -> None:
    path = written(tmp_path / "a.parquet", text=["a" * 5_000_000, "b"], label=["x", "y"])
    monkeypatch.setenv(MAX_RECORD, "1MB")
    assert [fields.values for fields in scan_parquet(path, ["label"])] == [("x",), ("y",)]


def test_a_long_record_among_short_ones_is_a_fault_of_its_row(tmp_path, monkeypatch) -> None:
    path = written(tmp_path / "a.parquet", text=["one", "".join(map(chr, range(33, 9000))), "three"])
    monkeypatch.setenv(MAX_RECORD, "20KB")
    first, broken, last = scan_parquet(path, ["text"])
    assert (first.values, last.values) == (("one",), ("three",))
    assert isinstance(broken, Fault) and broken.reason == LONG and "row 2" in str(broken.error)
    assert MAX_RECORD in str(broken.error)


def test_one_long_value_that_all_rows_refer_to_is_counted_in_each(tmp_path, monkeypatch) -> None:
    arrow = pytest.importorskip("pyarrow")
    path = written(tmp_path / "a.parquet", text=arrow.array(["c" * 2_000_000] * 60).dictionary_encode())
    monkeypatch.setenv(MAX_DATA, "40MB")
    rows = scan_parquet(path, ["text"])
    with pytest.raises(InputError, match=rf"a\.parquet: .*{MAX_DATA}"):
        list(rows)


def test_a_list_of_many_equal_values_is_counted_before_it_is_unpacked(tmp_path, monkeypatch) -> None:
    path = written(tmp_path / "a.parquet", tokens=[["a"] * 500_000], tags=[["X"]])
    assert path.stat().st_size < 5000
    monkeypatch.setenv(MAX_DATA, "3MB")
    monkeypatch.setattr("saccade.data.files.parquet.rows_of", None)
    with pytest.raises(InputError, match=rf"a\.parquet: .*{MAX_DATA}"):
        list(scan_parquet(path, ["tokens", "tags"]))


# What a person meets --------------------------------------------------------------------------------------------------


def test_survey_and_training_say_which_bound_a_file_exceeds(tmp_path, monkeypatch, command) -> None:
    path = packed(tmp_path / "a.tsv.gz", "text\tlabel\n" + "".join(f"film {n}\t{'ab'[n % 2]}\n" for n in range(900)))
    recipe = tmp_path / "my.yaml"
    recipe.write_text(
        "task: classify\ndata: {train: a.tsv.gz}\nmodel: {name: attentive_classifier, hidden: 5, embedding: 3}\n"
        "train: {updates: 1, device: cpu, threads: 1}\n"
    )
    monkeypatch.setenv(MAX_DATA, "50KB")
    for words in (("data", path), ("data", recipe), ("train", recipe, "--out", tmp_path / "run")):
        status, out, said = command(*words)
        assert status == 1 and "a.tsv.gz:2" in out + said and f"export {MAX_DATA}=" in out + said, words
    monkeypatch.setenv(MAX_DATA, "1MB")
    assert command("data", path)[0] == 0
