"""``saccade predict RUN FILE --column NAME``: every row keeps its cells and gets its prediction."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import saccade
from saccade.cli import predict
from saccade.errors import InputError

RECIPE = {
    "task": "classify",
    "data": {"tokens": {"kind": "words", "lower": True}, "max_length": 9, "too_long": "error"},
    "model": {"name": "attentive_classifier", "embedding": 5, "hidden": 7},
    "train": {"epochs": 1, "device": "cpu"},
}
RECORDS = [(f"{'good' if n % 2 else 'dull'} film {n} é", "ab"[n % 2]) for n in range(40)]


@pytest.fixture(scope="module")
def run(tmp_path_factory, module_unchecked) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    saccade.train(RECIPE, RECORDS, folder=folder)
    return folder


def rows_of(text: str, divider: str = ",") -> list[list[str]]:
    return list(csv.reader(text.splitlines(keepends=True), delimiter=divider))


def test_rows_keep_their_cells_and_get_the_prediction_of_their_column(command, run, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(predict, "TOGETHER", 3)
    texts = ["good, film", 'a "dull"\nfilm é', "x", "good film 3", "dull"]
    given = [["id", "text", ""], *([str(n), text, "kept"] for n, text in enumerate(texts))]
    with open(tmp_path / "in.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(given)
    out = tmp_path / "out.csv"
    assert command("predict", run, tmp_path / "in.csv", "--column", "text", "--out", out)[0] == 0
    expected = [[one.value, f"{one.score:.4f}"] for one in saccade.load(run).predict(texts)]
    written = rows_of(out.read_text(encoding="utf-8"))
    assert written == [
        [*given[0], "prediction", "score"],
        *([*a, *b] for a, b in zip(given[1:], expected, strict=True)),
    ]
    status, _, err = command("predict", run, tmp_path / "in.csv", "--column", "2", "--out", out)
    assert status == 1 and "--force" in err
    status, printed, _ = command("predict", run, tmp_path / "in.csv", "--column", "2")
    assert status == 0 and rows_of(printed) == written


def test_the_name_of_a_table_without_column_is_predicted_as_a_text_with_a_note(
    command, run, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("text\ngood film\n")
    status, printed, err = command("predict", run, "in.csv")
    assert status == 0 and printed.strip() in ("a", "b")
    assert "'in.csv'" in err and "--column" in err
    assert "--column" not in command("predict", run, "gone.csv")[2]


def test_a_table_that_was_left_unfinished_continues_where_it_stopped(command, run, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(predict, "TOGETHER", 3)
    rows = ["good", "x", "", "film 3", "dull", "good dull", "film"]
    (tmp_path / "in.csv").write_text("text,n\n" + "".join(f"{row},{n}\n" for n, row in enumerate(rows)))
    asked = ("predict", run, tmp_path / "in.csv", "--column", "text")
    assert command(*asked, "--out", tmp_path / "whole.csv")[0] == 1
    whole, out = (tmp_path / "whole.csv").read_bytes(), tmp_path / "part.csv"
    assert command(*asked, "--out", out, "--on-error", "stop")[0] == 1
    assert whole.startswith(out.read_bytes()) and len(rows_of(out.read_text())) == 4, (
        "the header, and rows read together"
    )
    status, _, err = command("predict", run, tmp_path / "in.csv", "--column", "n", "--out", out)
    assert status == 1 and "another command" in err
    assert command(*asked, "--out", out)[0] == 1
    assert out.read_bytes() == whole


def test_a_bad_row_loses_itself_alone_and_is_reported_by_its_line(command, run, tmp_path) -> None:
    (tmp_path / "in.tsv").write_text(
        f"text\tprediction\ngood\t1\n\t2\n{'long ' * 10}\t3\nonly one\ndull\t4\n", encoding="utf-8"
    )
    status, out, err = command("predict", run, tmp_path / "in.tsv", "--column", "text")
    written = rows_of(out, "\t")
    assert status == 1 and written[0] == ["text", "prediction", "prediction_2", "score"]
    assert [(row[1], bool(row[2])) for row in written[1:]] == [("1", True), ("2", False), ("3", False), ("4", True)]
    assert [f"in.tsv:{line}" in err for line in (2, 3, 4, 5, 6)] == [False, True, True, True, False]


def test_a_row_that_fails_while_it_is_predicted_loses_itself_alone(command, run, tmp_path, monkeypatch) -> None:
    own = saccade.Bundle.predict

    def failing(bundle, inputs, **more):
        if "poison" in inputs:
            raise InputError(f"input {inputs.index('poison') + 1}", expected="finite outputs", found="NaN")
        return own(bundle, inputs, **more)

    monkeypatch.setattr(saccade.Bundle, "predict", failing)
    monkeypatch.setattr(predict, "TOGETHER", 5)
    texts = ["good", "dull", "poison", "film", "x", "good film", "poison"]
    (tmp_path / "in.csv").write_text("text\n" + "".join(f"{text}\n" for text in texts))
    status, out, err = command("predict", run, tmp_path / "in.csv", "--column", "text")
    assert status == 1 and [bool(row[1]) for row in rows_of(out)[1:]] == [text != "poison" for text in texts]
    assert err.count("in.csv:4: expected finite outputs") == err.count("in.csv:8: expected finite outputs") == 1
    (tmp_path / "all.csv").write_text("text\npoison\npoison\n")
    status, out, err = command("predict", run, tmp_path / "all.csv", "--column", "text")
    assert (status, out) == (1, "") and len(err.splitlines()) == 1, "all fail alike: one error"


def test_tables_of_other_kinds_and_encodings_are_read(command, run, tmp_path) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": "good é", "more": [1, "é"]}, ensure_ascii=False) + "\n")
    out = rows_of(command("predict", run, tmp_path / "in.jsonl", "--column", "text")[1])
    assert out[0] == ["text", "more", "prediction", "score"] and out[1][:2] == ["good é", '[1, "é"]']
    (tmp_path / "in.csv").write_text("text,n\ngood é,1\n", encoding="cp1252")
    asked = ("predict", run, tmp_path / "in.csv", "--column", "text")
    assert rows_of(command(*asked, "--encoding", "cp1252")[1])[1][0] == "good é"
    status, _, err = command(*asked)
    assert status == 1 and "in.csv:2" in err and "UTF-8" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("in.csv", "--column", "no"), "--column: expected one of the columns text, n, found 'no'"),
        (("in.csv", "in.csv", "--column", "text"), "--column: expected one table as INPUT, found 2 of them"),
        (("in.csv", "--column", "text", "--json"), "expected one table as INPUT, found --json"),
        (("in.txt", "--column", "text"), "expected a csv, tsv, jsonl or parquet"),
        (("gone.csv", "--column", "text"), "gone.csv: expected a file"),
        (("in.csv", "--column", "text", "--encoding", "utf-16"), "--encoding must be utf-8"),
    ],
)
def test_what_cannot_be_done_is_one_line(command, run, tmp_path, monkeypatch, words, message) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("text,n\na,1\n")
    Path("in.txt").write_text("a\n")
    status, _, err = command("predict", run, *words)
    assert status == 1 and message in err and not Path("x.csv").exists()
