"""Which columns a file has, which two are likely the pair, and which hold texts and labels."""

import json

import pytest

from saccade.data.pairs.records import Columns
from saccade.data.survey import surveys
from saccade.data.survey.columns import LabelGuess, UnknownColumns, label_columns, likely_pair, samples_of
from saccade.errors import InputError
from tests.surveyed import look

TEXTS = [f"text number {n}" for n in range(35)]


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def rows_in(path, rows, header=""):
    path.write_text(header + "".join("\t".join(map(str, row)) + "\n" for row in rows))
    return str(path)


# Pairs


def test_a_header_of_two_names_gives_the_columns(tmp_path):
    survey = look(written(tmp_path / "pairs.tsv", "en\tpt_BR\nyes\tsim\n"))
    assert survey.data.columns == Columns("en", "pt_BR")
    assert (survey.train.records, survey.headless, survey.first_row) == (1, False, None)


def test_the_index_of_a_data_frame_is_no_side_of_a_pair(tmp_path):
    rows = "".join(f"{n},word {n},palavra {n}\n" for n in range(7))
    survey = look(written(tmp_path / "pairs.csv", ",colA,colB\n" + rows))
    assert (survey.data.columns, survey.train.records) == (Columns("colA", "colB"), 7)
    assert any("no name for column 1" in note for note in survey.notes)


@pytest.mark.parametrize("first", ["Good morning to you.\tBom dia.", "cat\tgat", "snake_case\tcamel_case"])
def test_two_columns_without_a_header_are_pairs_from_the_first_row(tmp_path, first):
    survey = look(written(tmp_path / "pairs.tsv", f"{first}\nyes\tsim\n"))
    assert (survey.data.columns, survey.train.records, survey.headless) == (Columns(), 2, True)


def test_columns_that_were_named_stay_as_they_are(tmp_path):
    path = written(tmp_path / "pairs.csv", "en,pt\nyes,sim\n")
    assert look(path, columns=Columns("pt", "en")).data.columns == Columns("pt", "en")


def test_the_columns_of_a_headed_table_come_with_a_text_each(tmp_path):
    path = written(tmp_path / "pairs.csv", "id,question,answer\n1,,no\n2,Who?,me\n")
    assert samples_of(str(path)) == [("id", "1"), ("question", "Who?"), ("answer", "no")]


def test_the_columns_of_a_bare_table_are_numbered(tmp_path):
    path = written(tmp_path / "pairs.txt", "eng\tpor\tThe cat.\tO gato.\n" * 2)
    assert [name for name, _ in samples_of(str(path), "tsv")] == [1, 2, 3, 4]


def test_the_keys_of_json_come_with_a_text_each_where_they_have_one(tmp_path):
    record = {"n": 7, "translation": {"en": "yes", "pt": "sim"}}
    path = written(tmp_path / "pairs.jsonl", json.dumps(record) + "\n")
    assert samples_of(str(path)) == [("n", None), ("translation.en", "yes"), ("translation.pt", "sim")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pairs.csv", "id,question,answer\n1,Who?,me\n"),
        ("pairs.jsonl", '{"id": "1", "question": "Who?", "answer": "me"}\n'),
    ],
)
def test_columns_that_cannot_be_known_are_reported(tmp_path, name, text):
    path = written(tmp_path / name, text)
    with pytest.raises(UnknownColumns) as unknown:
        look(path)
    assert [column for column, _ in unknown.value.available] == ["id", "question", "answer"]
    assert "'source'" in str(unknown.value) and "'question'" in str(unknown.value)
    with pytest.raises(UnknownColumns):
        look(path, columns=Columns("questions", "answer"))


def test_a_missing_key_in_some_lines_is_a_fault_and_not_an_unknown_column(tmp_path):
    path = written(tmp_path / "pairs.jsonl", '{"a": "x"}\n{"source": "a", "target": "b"}\n')
    survey = look(path)
    assert (survey.data.columns, survey.train.records, survey.train.fault_count) == (Columns(), 1, 1)


def test_one_column_is_an_error_with_its_hint(tmp_path):
    with pytest.raises(InputError, match="separated by semicolons") as error:
        look(written(tmp_path / "pairs.tsv", "a;b\nc;d\n"))
    assert not isinstance(error.value, UnknownColumns)


def test_a_file_that_is_not_there_is_reported_missing(tmp_path):
    with pytest.raises(InputError, match="nothing of that name") as error:
        look(tmp_path / "pairs.tsv")
    assert not isinstance(error.value, UnknownColumns)


def test_the_likely_pair_is_the_two_longest_texts_in_the_files_order():
    columns = [("b", "a long text indeed"), ("id", "123456789012345678901"), ("x", None)]
    assert likely_pair([*columns, ("lang", "en"), ("a", "a text")]) == ("b", "a")
    assert likely_pair(columns) is None


def test_columns_named_after_a_language_are_likelier():
    columns = [("note", "a text of some length"), ("en", "yes"), ("t.pt-BR", "sim"), ("de", "doch")]
    assert likely_pair(columns) == ("en", "t.pt-BR")


@pytest.mark.parametrize(
    ("header", "source"), [("target,source", "source"), ("tgt,src", "src"), ("answer,question", "question")]
)
def test_names_that_say_their_side_count_whatever_their_order(tmp_path, header, source):
    columns = look(written(tmp_path / "pairs.csv", f"{header}\na,b\n")).data.columns
    assert (columns.source, columns.target) == (source, header.split(",")[0])


def test_a_first_row_that_may_be_a_header_is_noted_and_a_sentence_or_a_known_header_is_not(tmp_path):
    for text, row in (
        ("Hund,dog\na,b\n", ("Hund", "dog")),
        ("what is this thing?,a b\n", None),
        ("source,target\na,b\n", None),
    ):
        survey = look(written(tmp_path / "pairs.csv", text))
        assert survey.first_row == row
        assert any("--column" in note and "source=Hund" in note for note in survey.notes) == (row is not None)


# Labels


def test_a_header_is_known_by_what_never_comes_again(tmp_path) -> None:
    rows = [(text, "yes" if n % 3 else "no") for n, text in enumerate(TEXTS)]
    assert label_columns(rows_in(tmp_path / "x.tsv", rows, "said\tmeant\n")) == LabelGuess("said", "meant", 2, 35)
    found = label_columns(rows_in(tmp_path / "x.tsv", rows))
    assert found == LabelGuess(1, 2, 2, 35) and "column 2 has 2 different values in 35 rows" in str(found)


def test_rows_may_be_sorted_by_their_label(tmp_path) -> None:
    rows = [(f"text number {n}", "neg" if n < 3000 else "pos") for n in range(5000)]
    assert label_columns(rows_in(tmp_path / "x.tsv", rows)) == LabelGuess(1, 2, 2, 5000)


def test_labels_of_json_may_be_numbers(tmp_path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps({"stars": n % 5, "review": text}) + "\n" for n, text in enumerate(TEXTS)))
    assert label_columns(str(path)) == LabelGuess("review", "stars", 5, 35)


def test_a_column_called_label_is_preferred_and_then_names_to_numbers(tmp_path) -> None:
    rows = [("ab"[n % 2], text, n % 3, "de") for n, text in enumerate(TEXTS)]
    for name in ("label", "verdict"):
        path = rows_in(tmp_path / "x.tsv", rows, f"{name}\ttext\tfold\tlanguage\n")
        assert label_columns(path) == LabelGuess("text", name, 2, 35)


def test_empty_cells_do_not_hide_a_label_unless_they_are_many(tmp_path) -> None:
    rows = [("" if n == 4 else text, "" if n in (0, 9) else f"{n % 2}.0") for n, text in enumerate(TEXTS)]
    path = rows_in(tmp_path / "x.tsv", rows, "review\tstars\n")
    assert label_columns(path) == LabelGuess("review", "stars", 2, 35)
    sparse = [(text, f"{n % 2}.0" if n < 27 else "") for n, text in enumerate(TEXTS)]
    assert label_columns(rows_in(tmp_path / "x.tsv", sparse, "review\tstars\n")) is None


def test_times_beside_a_text_are_no_second_text(tmp_path) -> None:
    rows = [(f"2026/01/{n + 1:02} 10:{n}:00", text, "ab"[n % 2]) for n, text in enumerate(TEXTS)]
    path = rows_in(tmp_path / "x.tsv", rows, "time\tcomment\tfold\n")
    assert label_columns(path) == LabelGuess("comment", "fold", 2, 35)


def test_of_several_columns_of_text_the_longest_is_only_a_suggestion(tmp_path) -> None:
    rows = [(f"title {n}", text + " and more", "ab"[n % 2]) for n, text in enumerate(TEXTS)]
    path = rows_in(tmp_path / "x.tsv", rows, "title\tbody\tlabel\n")
    assert label_columns(path) is None
    assert label_columns(path, sure=False) == LabelGuess("body", "label", 2, 35)


@pytest.mark.parametrize(
    "rows",
    [
        [(text, text[::-1]) for text in TEXTS],  # pairs
        [(text, "yes") for text in TEXTS],  # one value is not a label
        [(text, f"{n % 8}") for n, text in enumerate(TEXTS)],  # not far fewer values than rows
        [(text, "yes"[n % 2 :]) for n, text in enumerate(TEXTS[:9])],  # too few rows to know
        [(text, text[::-1], n % 2) for n, text in enumerate(TEXTS)],  # pairs, and something beside them
        [(f"w{n}", n % 2) for n in range(35)],  # words, not texts
        [(f"a premise {n % 27}", f"a text {n}", "ab"[n % 2]) for n in range(70)],  # first texts that come again
    ],
)
def test_what_may_be_something_else_is_not_guessed(tmp_path, rows) -> None:
    assert label_columns(rows_in(tmp_path / "x.tsv", rows)) is None


def test_what_cannot_be_read_is_left_to_whoever_reads_it(tmp_path) -> None:
    assert label_columns(str(tmp_path / "gone.tsv")) is None
    (tmp_path / "x.po").write_text("")
    assert label_columns(str(tmp_path / "x.po")) is None
    twice = rows_in(tmp_path / "x.tsv", [("a b", "x")] * 30, "text\ttext\n")
    assert label_columns(twice) is None


@pytest.mark.parametrize("names", [("text", "label"), ("review", "stars")])
def test_labels_are_found_in_jsonl_whose_first_line_has_none(tmp_path, names) -> None:
    rows = [dict(zip(names, (text, "ab"[n % 2]), strict=True)) for n, text in enumerate(TEXTS)]
    del rows[0][names[1]]
    path = written(tmp_path / "x.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    kinds = [kind.kind for kind in surveys() if kind.recognises([str(path)], {}, None, "utf-8")]
    assert kinds[0] == "labels"
