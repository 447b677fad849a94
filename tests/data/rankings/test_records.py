"""Questions with candidates from every kind of file, from folders and from memory; faults that name their place."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from saccade.data.rankings.records import RankColumns, Ranked, RankedData, gather, load_ranked, ranked_of, read_file
from saccade.errors import InputError, SaccadeError

SHARED = Path(os.environ.get("SACCADE_DATA", ""))
WANTED = [
    Ranked("who is it ?", ("it is anna", "a dog", 'the "other" one'), (1.0, 0.0, 0.0)),
    Ranked("where ?", ("in rome",), (1.0,)),
]
ROWS = [(each.source, text, int(grade)) for each in WANTED for text, grade in zip(each.candidates, each.target)]


def data(**fields) -> RankedData:
    return RankedData(train="x", **fields)


def written(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def toks(folder: Path, rows=ROWS, ending: str = "") -> Path:
    for place, name in enumerate(("a.toks", "b.toks", "sim.txt")):
        content = "".join(f"{row[place]}\n" for row in rows).encode()
        written(folder / f"{name}{ending}", gzip.compress(content) if ending else content)
    return folder


# Files ----------------------------------------------------------------------------------------------------------------


DICTS = [{"question": question, "candidate": text, "relevance": bool(grade)} for question, text, grade in ROWS]
LISTS = [{"question": each.source, "candidates": each.candidates, "relevance": each.target} for each in WANTED]
QUOTED = [(question, text.replace('"', '""'), grade) for question, text, grade in ROWS]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.tsv", "relevance\tquestion\tcandidate\n" + "".join(f"{g}\t{q}\t{c}\n" for q, c, g in ROWS)),
        ("x.csv", "question,candidate,relevance\n" + "".join(f'{q},"{c}",{g}\n' for q, c, g in QUOTED)),
        ("x.jsonl", "".join(json.dumps(each) + "\n" for each in DICTS)),
        ("y.jsonl", "".join(json.dumps(each) + "\n" for each in LISTS)),
    ],
)
def test_the_same_records_come_from_every_kind_of_file(tmp_path, name, content) -> None:
    assert gather(written(tmp_path / name, content), data()) == (WANTED, [])
    packed = written(tmp_path / f"{name}.gz", gzip.compress(content.encode()))
    assert read_file(packed, data()) == WANTED


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_folder_of_parallel_files_gives_them_too(tmp_path, ending) -> None:
    folder = toks(tmp_path / "train", ending=ending)
    assert gather(folder, data()) == gather(folder, data(format="toks")) == (WANTED, [])
    assert read_file(folder, data(format="tsv")) == WANTED


def test_parquet_gives_rows_and_lists(tmp_path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = dict(zip(("question", "candidate", "relevance"), map(list, zip(*ROWS))))
    parquet.write_table(arrow.table(columns), tmp_path / "rows.parquet")
    lists = {"question": [r.source for r in WANTED], "candidates": [list(r.candidates) for r in WANTED],
             "relevance": [list(r.target) for r in WANTED]}  # fmt: skip
    parquet.write_table(arrow.table(lists), tmp_path / "lists.parquet")
    for name in ("rows", "lists"):
        assert read_file(tmp_path / f"{name}.parquet", data()) == WANTED


def test_rows_of_a_question_belong_together_wherever_they_stand(tmp_path) -> None:
    apart = [ROWS[0], ROWS[3], ROWS[1], ROWS[2]]
    path = written(tmp_path / "x.tsv", "".join(f"{q}\t{c}\t{g}\n" for q, c, g in apart))
    assert read_file(path, data(columns=RankColumns(1, 2, 3))) == WANTED


def test_a_group_tells_questions_of_the_same_words_apart(tmp_path) -> None:
    rows = "id\tquestion\tcandidate\trelevance\n1\twho ?\ta\t1\n2\twho ?\tb\t0\n1\twho ?\tc\t0.5\n"
    path = written(tmp_path / "x.tsv", rows)
    found = read_file(path, data(columns=RankColumns(group="id")))
    assert found == [Ranked("who ?", ("a", "c"), (1.0, 0.5)), Ranked("who ?", ("b",), (0.0,))]
    written(path, rows + "2\twhere ?\td\t0\n")
    with pytest.raises(InputError, match=r"x.tsv:5: .*'who \?', as in the rows of the group '2' before"):
        read_file(path, data(columns=RankColumns(group="id")))


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("q\tc\tyes", r":3: .*relevance.*expected a relevance: 0, 1 or a grade above 0, found 'yes'"),
        ("q\tc\t-1", r":3: .*relevance.*found '-1'"),
        ("q\tc\tnan", r":3: .*relevance"),
        ("q\tc\t1e300", r":3: .*relevance"),
        ("q\tc\t1e-50", r":3: .*relevance"),
        ("q\tc\t", r":3: .*relevance"),
        ("q\t \t1", r":3: .*candidate.*expected a text, found only spaces"),
        ("\tc\t1", r":3: .*question.*expected a text, found nothing"),
        ("q\tc", r":3: .*expected 3 columns, found 2"),
    ],
)
def test_a_fault_names_its_line_or_is_left_out_and_counted(tmp_path, row, told) -> None:
    path = written(tmp_path / "x.tsv", f"question\tcandidate\trelevance\nwho ?\ta\t1\n{row}\nwho ?\tb\t0\n")
    with pytest.raises(InputError, match=told) as error:
        gather(path, data())
    assert "data.faults: drop" in str(error.value)
    records, notes = gather(path, data(faults="drop"))
    assert records == [Ranked("who ?", ("a", "b"), (1.0, 0.0))] and "dropped 1 of 3 rows" in notes[0]
    with pytest.raises(InputError):  # a figure is of all records
        read_file(path, data(faults="drop"))


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({"question": "q", "candidates": ["a", "b"], "relevance": [1]}, "as many as there are candidates \\(2\\), found 1"),
        ({"question": "q", "candidates": [], "relevance": []}, "at least one candidate, found none"),
        ({"question": "q", "candidates": ["a", 3], "relevance": [1, 0]}, "expected a string, found a number"),
        ({"question": "q", "candidates": ["a"], "relevance": [{}]}, "found an object"),
        ({"question": "q", "candidates": ["a"]}, "the key 'relevance'"),
    ],
)  # fmt: skip
def test_lists_that_do_not_fit_are_reported(tmp_path, record, told) -> None:
    path = written(tmp_path / "x.jsonl", json.dumps(record) + "\n")
    with pytest.raises(InputError, match=rf"x.jsonl:1: .*{told}"):
        gather(path, data())


def test_folders_that_do_not_fit_are_reported(tmp_path) -> None:
    folder = toks(tmp_path / "short")
    written(folder / "b.toks", "one\n")
    with pytest.raises(
        InputError, match=r"b.toks:2: expected as many lines as in a.toks and sim.txt, found the end after 1 lines"
    ):
        gather(folder, data())
    toks(folder)
    (folder / "sim.txt").unlink()
    with pytest.raises(InputError, match=r"expected the file sim.txt"):
        gather(folder, data())
    toks(folder, [("q", "c", "x")])
    with pytest.raises(InputError, match=r"short:1: .*sim.txt.*found 'x'"):
        gather(folder, data())
    with pytest.raises(InputError, match=r"a folder with a.toks, b.toks, sim.txt, found a file"):
        gather(written(tmp_path / "x.tsv", "a"), data(format="toks"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="found a folder without them"):
        gather(tmp_path / "empty", data())
    with pytest.raises(InputError, match=r"expected questions with candidates .*found the suffix 'doc'"):
        gather(written(tmp_path / "x.doc", "a"), data())


def test_fields_that_contradict_each_other_are_refused() -> None:
    for fields, told in (
        ({"source": "facts"}, "not both"),
        ({"hold_out": 0.5}, "below 0.5"),
        ({"max_length": 0}, "at least 1"),
    ):
        with pytest.raises(ValueError, match=told):
            data(**fields)
    for columns, told in (
        ({"question": 0}, "^question must be a column's name"),
        ({"candidate": ""}, "^candidate must be a column's name"),
        ({"candidate": "question"}, "^candidate must be another column than question: got 'question'"),
        ({"relevance": "question"}, "^relevance must be another column than question: got 'question'"),
    ):
        with pytest.raises(ValueError, match=told):
            RankColumns(**columns)


# Splits ---------------------------------------------------------------------------------------------------------------


def test_questions_are_held_out_whole_and_shared_ones_are_reported(tmp_path) -> None:
    many = [(f"q{n} ?", f"c{m}", int(m == 0)) for n in range(30) for m in range(3)]
    toks(tmp_path / "train", many)
    splits = load_ranked(RankedData(train="train", hold_out=0.2), tmp_path, 1)
    parts = [{each.source for each in part} for part in (splits.train, splits.valid, splits.test)]
    assert sum(map(len, parts)) == 30 and len(parts[1]) == 6 and not parts[0] & (parts[1] | parts[2])
    assert all(len(each.candidates) == 3 for each in splits.test)
    toks(tmp_path / "test", many[:9])
    shared = RankedData(train="train", test="test", hold_out=0.2)
    assert "test: the sources of 3 of 3 records also occur in train" in " ".join(load_ranked(shared, tmp_path, 1).notes)
    with pytest.raises(SaccadeError, match="also occur in train"):
        load_ranked(replace(shared, overlap="error"), tmp_path, 1)
    assert len(load_ranked(replace(shared, overlap="drop_train"), tmp_path, 1).train) <= 21


def test_training_questions_without_an_answer_are_kept_or_dropped_as_said(tmp_path) -> None:
    toks(tmp_path / "x", [(f"q{n} ?", f"c{m}", int(m == 0 and n % 2)) for n in range(8) for m in range(2)])
    kept = load_ranked(RankedData(train="x", valid="x", test="x"), tmp_path, 1)
    dropped = load_ranked(RankedData(train="x", valid="x", test="x", unanswered="drop"), tmp_path, 1)
    assert (len(kept.train), len(dropped.train), len(dropped.test)) == (8, 4, 8)
    assert "4 of 8 questions have no relevant candidate: dropped" in dropped.notes[-1]
    toks(tmp_path / "x", [("q ?", "c", 0)])
    with pytest.raises(InputError, match="a question with a relevant candidate"):
        load_ranked(RankedData(train="x", valid="x", test="x", unanswered="drop"), tmp_path, 1)


# Memory ---------------------------------------------------------------------------------------------------------------


def test_the_same_records_come_from_memory() -> None:
    pandas = pytest.importorskip("pandas")
    columns = dict(zip(("question", "candidate", "relevance"), map(list, zip(*ROWS))))
    lists = [(each.source, list(each.candidates), list(each.target)) for each in WANTED]
    dicts = [{"question": q, "candidates": c, "relevance": np.array(r)} for q, c, r in lists]
    for given in (ROWS, lists, dicts, columns, pandas.DataFrame(columns), pandas.DataFrame(dicts), WANTED):
        assert ranked_of(given, data()) == WANTED


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("x.tsv", "a file is named in the recipe"),
        (7, "found a int"),
        ([], "expected questions with candidates, found none"),
        ([("q", "c")], r":1: .*\(question, candidates, relevance\)"),
        ([("q", "c", 1), ("q", "", 1)], ":2: .*candidate.*found nothing"),
        ([{"question": "q", "candidate": "c"}], "the key 'relevance'"),
        ([("q", ["a", "b"], [1, None])], ":1: .*relevance"),
        ({"question": ["q"], "candidate": ["c"]}, "found the columns 'question', 'candidate'"),
        ({"question": ["q"], "candidate": ["c", "d"], "relevance": [1]}, "1 values, as in 'question', found 2"),
    ],
)
def test_what_is_not_a_record_is_reported_with_its_number(given, told) -> None:
    with pytest.raises(InputError, match=told):
        ranked_of(given, data())


# Real data ------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not (SHARED / "answer_selection").is_dir(), reason="SACCADE_DATA has no folder answer_selection")
def test_wikiqa_has_the_counts_that_its_readme_says() -> None:
    counts = {
        "dev": (126, 1130, 140),
        "test": (243, 2351, 293),
        "train": (874, 8672, 1040),
    }  # its boundary file has 873
    for split, expected in counts.items():
        records = read_file(SHARED / "answer_selection" / "WikiQA" / split, data())
        grades = [grade for record in records for grade in record.target]
        assert (len(records), len(grades), sum(grades)) == expected
        assert split == "train" or all(record.answered for record in records)
