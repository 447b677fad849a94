"""Columns of texts and of labels, told from the rows."""

from __future__ import annotations

import json

import pytest

from saccade.data.survey.labels import LabelledColumns, labelled_columns

TEXTS = [f"text number {n}" for n in range(35)]


def table(path, rows, header=""):
    path.write_text(header + "".join("\t".join(map(str, row)) + "\n" for row in rows))
    return path


def test_a_header_is_known_by_what_never_comes_again(tmp_path) -> None:
    rows = [(text, "yes" if n % 3 else "no") for n, text in enumerate(TEXTS)]
    assert labelled_columns(table(tmp_path / "x.tsv", rows, "said\tmeant\n")) == LabelledColumns("said", "meant", 2, 35)
    found = labelled_columns(table(tmp_path / "x.tsv", rows))
    assert found == LabelledColumns(1, 2, 2, 35) and str(found) == "column 2 has 2 different values in 35 rows"


def test_rows_may_be_sorted_by_their_label(tmp_path) -> None:
    rows = [(f"text number {n}", "neg" if n < 3000 else "pos") for n in range(5000)]
    assert labelled_columns(table(tmp_path / "x.tsv", rows)) == LabelledColumns(1, 2, 2, 5000)


def test_labels_of_json_may_be_numbers(tmp_path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps({"stars": n % 5, "review": text}) + "\n" for n, text in enumerate(TEXTS)))
    assert labelled_columns(path) == LabelledColumns("review", "stars", 5, 35)


def test_a_column_called_label_is_preferred_and_the_choice_may_be_narrowed(tmp_path) -> None:
    rows = [("ab"[n % 2], text, n % 3, "de") for n, text in enumerate(TEXTS)]
    path = table(tmp_path / "x.tsv", rows, "label\ttext\tfold\tlanguage\n")
    assert labelled_columns(path) == LabelledColumns("text", "label", 2, 35)
    assert labelled_columns(path, among=("text", "fold")) == LabelledColumns("text", "fold", 3, 35)


@pytest.mark.parametrize(
    "rows",
    [
        [(text, text[::-1]) for text in TEXTS],  # pairs
        [(text, "yes") for text in TEXTS],  # one value is no label
        [(text, f"{n % 8}") for n, text in enumerate(TEXTS)],  # not far fewer values than rows
        [(text, "yes"[n % 2 :]) for n, text in enumerate(TEXTS[:9])],  # too few rows to know
        [(text, text[::-1], n % 2) for n, text in enumerate(TEXTS)],  # pairs, and something beside them
        [(f"w{n}", n % 2) for n in range(35)],  # words, not texts
    ],
)
def test_what_may_be_something_else_is_left_alone(tmp_path, rows) -> None:
    assert labelled_columns(table(tmp_path / "x.tsv", rows)) is None


def test_what_cannot_be_read_is_left_to_whoever_reads_it(tmp_path) -> None:
    assert labelled_columns(tmp_path / "gone.tsv") is None
    assert labelled_columns(tmp_path / "x.po") is None
