"""Labelled texts from every kind of file, from folders and from memory; faults that name their place."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from saccade.data.labels.classes import Classes, described, labels_in
from saccade.data.labels.records import (
    LabelColumns,
    Labelled,
    LabelledData,
    gather,
    labelled_of,
    load_labelled,
    read_file,
)
from saccade.errors import InputError, SaccadeError

SHARED = Path(os.environ.get("SACCADE_DATA", ""))
ROWS = [("good film", "pos"), ('a "bad", long one', "neg"), ("so-so", "pos")]
WANTED = [Labelled(text, label) for text, label in ROWS]


def data(**fields) -> LabelledData:
    return LabelledData(train="x", **fields)


def written(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# Files ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.tsv", 'label\ttext\npos\tgood film\nneg\ta "bad", long one\npos\tso-so\n'),
        ("x.csv", 'text,label\ngood film,pos\n"a ""bad"", long one",neg\nso-so,pos\n'),
        ("x.jsonl", "".join(json.dumps({"label": label, "text": text}) + "\n" for text, label in ROWS)),
        ("x.txt", 'pos good film\n\nneg a "bad", long one\n__label__pos so-so\n'),
    ],
)
def test_the_same_records_come_from_every_kind_of_file(tmp_path, name, content) -> None:
    assert gather(written(tmp_path / name, content), data()) == (WANTED, [])
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(content.encode()))
    assert read_file(packed, data()) == WANTED


def test_parquet_is_read_and_labels_may_be_numbers(tmp_path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"sentence": ["good film", "bad one"], "label": [1, 0]})
    parquet.write_table(table, tmp_path / "x.parquet")
    columns = LabelColumns(text="sentence")
    assert read_file(tmp_path / "x.parquet", data(columns=columns)) == [
        Labelled("good film", "1"),
        Labelled("bad one", "0"),
    ]
    with pytest.raises(
        InputError, match=r"expected the columns 'text' and 'label', found the columns 'sentence', 'label'"
    ):
        read_file(tmp_path / "x.parquet", data())


def test_numbers_count_the_columns_of_a_table_without_a_header(tmp_path) -> None:
    path = written(tmp_path / "x.tsv", "neg\t7\t2\ta bad one\npos\t8\t9\tgood film\n")
    found = read_file(path, data(columns=LabelColumns(text=4, label=1)))
    assert found == [Labelled("a bad one", "neg"), Labelled("good film", "pos")]


def test_a_second_column_makes_pairs_and_a_group_holds_records_together(tmp_path) -> None:
    path = written(tmp_path / "x.tsv", "premise\thypothesis\tgold\tdoc\nit rains\tit is wet\tyes\td1\na\tb\tno\td2\n")
    columns = LabelColumns(text="premise", second="hypothesis", label="gold", group="doc")
    records, _ = gather(path, data(columns=columns))
    assert records == [Labelled(("it rains", "it is wet"), "yes", "d1"), Labelled(("a", "b"), "no", "d2")]


def test_json_labels_that_are_numbers_or_booleans_become_names(tmp_path) -> None:
    labels = ("1", "true", "false", "2.0", "-3.5")
    path = written(tmp_path / "x.jsonl", "".join(f'{{"text": "a", "label": {label}}}\n' for label in labels))
    assert [record.target for record in read_file(path, data())] == ["1", "true", "false", "2", "-3.5"]


@pytest.mark.parametrize("label", ["NaN", "Infinity", "null", "[1]", '{"a": 1}'])
def test_json_labels_that_name_nothing_are_refused(tmp_path, label) -> None:
    path = written(tmp_path / "x.jsonl", f'{{"text": "a", "label": {label}}}\n')
    with pytest.raises(InputError, match=r"x\.jsonl:1.*expected (a label|.*JSON)"):
        read_file(path, data())


def test_a_header_that_has_a_wanted_column_twice_is_refused_in_one_line(tmp_path) -> None:
    path = written(tmp_path / "x.csv", "text,note,label,text\na,b,yes,c\n")
    with pytest.raises(InputError) as error:
        read_file(path, data())
    assert "x.csv:1: text: expected one column of that name, found 2: columns 1, 4" in str(error.value)
    other = LabelColumns(text="note", label="label")  # what is not wanted may be there twice
    assert [record.source for record in read_file(path, data(columns=other))] == ["b"]


def test_latin_1_is_read_where_it_is_said_and_refused_where_not(tmp_path) -> None:
    path = written(tmp_path / "x.txt", "2 Où est Zürich ?\n".encode("latin-1"))
    assert read_file(path, data(encoding="latin-1")) == [Labelled("Où est Zürich ?", "2")]
    with pytest.raises(InputError, match=r"x\.txt:1: expected UTF-8 text, found the byte 0xf9"):
        read_file(path, data())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.tsv", "text\tlabel\ngood\t\n", r"x\.tsv:2: label: expected a label, found nothing"),
        ("x.tsv", "text\tlabel\n \tpos\n", r"x\.tsv:2: text: expected a text, found only spaces"),
        ("x.tsv", "text\tlabel\na\tb\tc\n", r"x\.tsv:2: expected 2 columns, found 3"),
        ("x.tsv", "text\tlabel\n", r"x\.tsv:1: expected at least one record, found only a header"),
        ("x.tsv", "review\tstars\na\tb\n", r"x\.tsv:1: expected the columns 'text' and 'label', found the columns 'review'"),
        ("x.jsonl", '{"text": "a"}\n', r"x\.jsonl:1: label: expected the key 'label', found the keys 'text'"),
        ("x.jsonl", '{"text": "a", "label": null}\n', r"x\.jsonl:1: label: expected a label, found null"),
        ("x.jsonl", '{"text": 3, "label": "b"}\n', r"x\.jsonl:1: text: expected a string, found a number"),
        ("x.txt", "pos\n", r"x\.txt:1: expected a label, a space and a text, found one word, 'pos'"),
        ("x.all", "1 a\n", r"expected a file of labelled texts .*found the suffix 'all'.*data\.format"),
        ("x.csv", "", r"expected at least one text with its label, found nothing"),
    ],
)  # fmt: skip
def test_a_fault_names_its_place_and_what_was_expected(tmp_path, name, content, message) -> None:
    with pytest.raises(InputError, match=message):
        read_file(written(tmp_path / name, content), data())


def test_faults_may_be_dropped_and_are_counted(tmp_path) -> None:
    path = written(tmp_path / "x.tsv", "text\tlabel\ngood\tpos\nbad\t\nworse\tneg\n")
    records, notes = gather(path, data(faults="drop"))
    assert len(records) == 2
    assert notes == [f"{path}: dropped 1 of 3 records: 1 no text or no label (first: 3)"]


def test_a_fault_in_training_says_what_a_recipe_can_do_and_in_evaluation_nothing_that_would_not_help(tmp_path) -> None:
    path = written(tmp_path / "x.tsv", "text\tlabel\ngood\tpos\ncaf\xe9\tneg\n".encode("latin-1"))
    remedy = "data.encoding: latin-1 or windows-1252 reads such files, data.faults: drop leaves such records out"
    with pytest.raises(InputError, match=remedy):
        gather(path, data())
    with pytest.raises(InputError, match="expected UTF-8 text") as found:
        read_file(path, data(faults="drop"))
    assert "data.faults" not in str(found.value)
    path = written(tmp_path / "x.tsv", "text\tlabel\ngood\t\n")
    with pytest.raises(InputError, match=r"found nothing; data\.faults: drop leaves such records out$"):
        gather(path, data())


def test_a_label_that_is_not_listed_is_refused(tmp_path) -> None:
    path = written(tmp_path / "x.tsv", "text\tlabel\ngood\tpos\nbad\tmeh\n")
    with pytest.raises(InputError, match=r"x\.tsv:3: label: expected one of pos, neg, found 'meh'"):
        gather(path, data(labels=("pos", "neg")))


# Folders --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path) -> Path:
    for label, number, text in (
        ("neg", 2, "dull\n"),
        ("neg", 10, "bad"),
        ("pos", 1, "good\nvery"),
        ("unsup", 0, "what"),
    ):
        written(tmp_path / "train" / label / f"{number}_5.txt", text)
    return tmp_path / "train"


def test_a_folder_a_label_and_a_file_a_text(folder) -> None:
    records, notes = gather(folder, data(labels=("neg", "pos")))
    assert records == [Labelled("bad", "neg"), Labelled("dull", "neg"), Labelled("good\nvery", "pos")]
    assert notes == [f"{folder}: dropped 1 of 4 records: 1 of 'unsup', not among data.labels (first: unsup/0_5.txt)"]
    assert {record.target for record in gather(folder, data())[0]} == {"neg", "pos", "unsup"}


def test_files_and_folders_where_no_text_belongs_are_counted(folder) -> None:
    before = gather(folder, data())[0]
    written(folder / "urls.txt", "http://…")
    written(folder / "neg" / "2020" / "3.txt", "never read")
    written(folder / ".hidden", "never mind")
    records, [note] = gather(folder, data())
    assert records == before
    assert "dropped 2 of 6 records" in note and "(first: urls.txt)" in note and "(first: neg/2020)" in note
    assert read_file(folder, data()) == before  # also where a malformed record would be an error


def test_an_empty_file_and_a_folder_without_folders_are_refused(folder) -> None:
    written(folder / "pos" / "2.txt", " \n")
    with pytest.raises(InputError, match=r"pos/2\.txt: expected a text, found nothing"):
        gather(folder, data())
    with pytest.raises(InputError, match="expected one folder for each label, found no folder in it"):
        gather(folder / "neg", data())


# Splits and labels ----------------------------------------------------------------------------------------------------


def test_splits_that_are_not_given_are_held_out(tmp_path) -> None:
    lines = "".join(f"{'pos' if n % 3 else 'neg'} text number {n}\n" for n in range(60))
    written(tmp_path / "x.txt", lines)
    splits = load_labelled(LabelledData(train="x.txt", hold_out=0.1), tmp_path, 1)
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [49, 6, 5]
    assert len({record.source for part in (splits.train, splits.valid, splits.test) for record in part}) == 60


def test_the_built_in_source_needs_no_file() -> None:
    splits = load_labelled(LabelledData(source="opinions"), Path("nowhere"), 1)
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [4000, 500, 1000]


def test_labels_are_counted_in_their_order() -> None:
    records = [Labelled("x", label) for label in ("10", "2", "2")]
    assert list(labels_in(records)) == ["2", "10"]
    assert described({"neg": 3, "pos": 1}) == "neg 3 (75.0 %), pos 1 (25.0 %)"
    assert described({str(n): n + 1 for n in range(14)}, most=2) == "13 14 (13.3 %), 12 13 (12.4 %) and 12 more"


def test_weights_make_every_label_count_alike() -> None:
    classes = Classes.of([Labelled("x", label) for label in "aaabbc"], labels=("a", "b", "c", "never"))
    assert classes.counts == (3, 2, 1, 0)
    assert classes.weights == pytest.approx([6 / 9, 6 / 6, 6 / 3, 0.0])
    assert sum(weight * count for weight, count in zip(classes.weights, classes.counts)) == pytest.approx(6)


def test_one_label_alone_is_not_a_task() -> None:
    with pytest.raises(InputError, match="expected records of two labels at least, found the label 'a' alone"):
        Classes.of([Labelled("x", "a")])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"train": None}, "source or train must be given"),
        ({"labels": ("a",)}, "labels must be two or more different names"),
        ({"max_length": 1}, "max_length must be at least 2"),
        ({"format": "lines", "columns": LabelColumns(second="b")}, "no second text where records are lines"),
    ],
)
def test_settings_that_mean_nothing_are_refused(fields, message) -> None:
    with pytest.raises(ValueError, match=message):
        replace(LabelledData(train="x"), **fields)


def test_columns_must_differ() -> None:
    with pytest.raises(ValueError, match="label must be another column"):
        LabelColumns(text="a", label="a")
    with pytest.raises(ValueError, match="group must be another column than label"):
        LabelColumns(text="a", label="b", group="b")
    with pytest.raises(ValueError, match="second must be another column than text"):
        LabelColumns(text="a", label="b", second="a")


def pairs(count: int) -> str:
    """A table of sentences with three aspects each."""
    rows = [f"sentence {n // 3}\taspect {n % 3}\t{'ab'[n % 2]}" for n in range(count)]
    return "\n".join(["sentence\taspect\tlabel", *rows, ""])


def test_first_texts_on_both_sides_of_the_hold_out_are_reported_with_how_to_keep_them_together(tmp_path) -> None:
    written(tmp_path / "x.tsv", pairs(159))
    columns = LabelColumns(text="sentence", second="aspect")
    splits = load_labelled(LabelledData(train="x.tsv", columns=columns, hold_out=0.1), tmp_path, 1)
    trained = {record.source[0] for record in splits.train}
    for name in ("valid", "test"):
        held = getattr(splits, name)
        shared = sum(record.source[0] in trained for record in held)
        assert shared and any(
            note.startswith(f"{name}: {shared} of {len(held)} records have their first text in common with training")
            and "data.columns.group=COLUMN" in note
            for note in splits.notes
        )


@pytest.mark.parametrize("name", ["x.tsv", "x.jsonl", "x.parquet"])
def test_a_column_may_be_text_and_group_so_that_its_records_are_held_out_together(tmp_path, name) -> None:
    header, *rows = [line.split("\t") for line in pairs(159).splitlines()]
    if name == "x.parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        columns = dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))
        parquet.write_table(arrow.table(columns), tmp_path / name)
    else:
        lines = "".join(json.dumps(dict(zip(header, row, strict=True))) + "\n" for row in rows)
        written(tmp_path / name, pairs(159) if name == "x.tsv" else lines)
    columns = LabelColumns(text="sentence", second="aspect", group="sentence")
    splits = load_labelled(LabelledData(train=name, columns=columns, hold_out=0.1), tmp_path, 1)
    sides = [{record.source[0] for record in part} for part in (splits.train, splits.valid, splits.test)]
    assert not sides[0] & sides[1] | sides[0] & sides[2] | sides[1] & sides[2]
    assert len(sides[1]) == len(splits.valid) / 3 and not any("in common" in note for note in splits.notes)


# Memory ---------------------------------------------------------------------------------------------------------------


def test_lists_dicts_and_tables_give_the_same_records() -> None:
    pandas = pytest.importorskip("pandas")
    texts, labels = [text for text, _ in ROWS], [label for _, label in ROWS]
    given = [
        ROWS, WANTED, [list(row) for row in ROWS], [{"text": text, "label": label} for text, label in ROWS],
        {"text": texts, "label": labels}, pandas.DataFrame({"label": labels, "text": texts}),
    ]  # fmt: skip
    for each in given:
        assert labelled_of(each, data()) == WANTED


def test_pairs_in_memory_are_nested_or_flat_or_named() -> None:
    wanted = [Labelled(("a b", "c"), "1")]
    assert labelled_of([(("a b", "c"), 1)], data()) == wanted
    assert labelled_of([("a b", "c", 1)], data()) == wanted
    columns = LabelColumns(text="x", second="y", label="z")
    assert labelled_of([{"x": "a b", "y": "c", "z": 1}], data(columns=columns)) == wanted


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "expected texts with their labels, found none"),
        ("reviews.csv", "a file is named in the recipe"),
        ([("a", None)], r"data:1: label: expected a label, found null"),
        ([("a", "x"), (3, "x")], "data:2: text: expected a string, found a number"),
        ([("a", "b"), ("a", "b", "c")], "one text in every record, or two in every one"),
        ([{"text": "a"}], "data:1: label: expected the key 'label', found the keys 'text'"),
        (
            {"text": ["a"], "labels": ["b"]},
            "label: expected the columns 'text' and 'label', found the columns 'text', 'labels'",
        ),
        ([("a", np.array([0, 1]))], r"data:1: label: expected a label, found a ndarray"),
        ([3], r"data:1: expected \(text, label\), \(first, second, label\) or a dict, found 3"),
    ],
)
def test_what_is_no_labelled_text_is_reported_with_its_number(given, message) -> None:
    with pytest.raises(SaccadeError, match=message):
        labelled_of(given, data())


def test_a_label_and_its_text_may_have_a_tab_between_them(tmp_path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("pos\tgood film\n__label__neg  bad one \n")
    assert read_file(path, LabelledData(train="x")) == [Labelled("good film", "pos"), Labelled("bad one", "neg")]


# Real data ------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(
    not (SHARED / "sentence_classification").is_dir(), reason="needs sentence_classification in SACCADE_DATA"
)
def test_trec_is_read_whole() -> None:
    found = read_file(SHARED / "sentence_classification/TREC.train.all.gz", data(format="lines", encoding="latin-1"))
    assert len(found) == 5452 and len(labels_in(found)) == 6
