"""Which columns a file has, and which two are likely the pair."""

import json

import pytest

from saccade.data.pairs.records import Columns
from saccade.data.survey.columns import Column, UnknownColumns, columns_of, first_row, likely_pair, settle_columns
from saccade.data.survey.pairs import Reading
from saccade.errors import InputError


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_a_header_of_two_names_is_taken_at_its_word(tmp_path):
    path = written(tmp_path / "pairs.tsv", "en\tpt_BR\nyes\tsim\n")
    settled = settle_columns(Reading(path))
    assert settled.columns == Columns("en", "pt_BR")
    assert [item.pair.source for item in settled] == ["yes"]


@pytest.mark.parametrize("first", ["Good morning to you.\tBom dia.", "cat\tgat", "snake_case\tcamel_case"])
def test_two_columns_without_a_header_stay_as_they_are(tmp_path, first):
    reading = Reading(written(tmp_path / "pairs.tsv", f"{first}\nyes\tsim\n"))
    assert settle_columns(reading) == reading


def test_columns_that_were_named_stay_as_they_are(tmp_path):
    reading = Reading(written(tmp_path / "pairs.csv", "en,pt\nyes,sim\n"), Columns("pt", "en"))
    assert settle_columns(reading) == reading


def test_two_text_files_have_no_columns(tmp_path):
    reading = Reading((tmp_path / "a", tmp_path / "b"))
    assert settle_columns(reading) is reading


def test_the_columns_of_a_headed_table_come_with_a_text_each(tmp_path):
    path = written(tmp_path / "pairs.csv", "id,question,answer\n1,,no\n2,Who?,me\n")
    assert columns_of(path) == [Column("id", "1"), Column("question", "Who?"), Column("answer", "no")]


def test_the_columns_of_a_bare_table_are_numbered(tmp_path):
    path = written(tmp_path / "pairs.txt", "eng\tpor\tThe cat.\tO gato.\n" * 2)
    assert [column.name for column in columns_of(path, "tsv")] == [1, 2, 3, 4]


def test_the_keys_of_json_come_with_a_text_each_where_they_have_one(tmp_path):
    record = {"n": 7, "translation": {"en": "yes", "pt": "sim"}}
    path = written(tmp_path / "pairs.jsonl", json.dumps(record) + "\n")
    assert columns_of(path) == [Column("n", None), Column("translation.en", "yes"), Column("translation.pt", "sim")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pairs.csv", "id,question,answer\n1,Who?,me\n"),
        ("pairs.jsonl", '{"id": "1", "question": "Who?", "answer": "me"}\n'),
    ],
)
def test_columns_that_cannot_be_known_are_told(tmp_path, name, text):
    path = written(tmp_path / name, text)
    with pytest.raises(UnknownColumns) as unknown:
        settle_columns(Reading(path))
    assert [column.name for column in unknown.value.available] == ["id", "question", "answer"]
    assert "'source'" in str(unknown.value) and "'question'" in str(unknown.value)
    with pytest.raises(UnknownColumns):
        settle_columns(Reading(path, Columns("questions", "answer")))


def test_a_missing_key_in_some_lines_is_a_fault_and_no_unknown_column(tmp_path):
    path = written(tmp_path / "pairs.jsonl", '{"a": "x"}\n{"source": "a", "target": "b"}\n')
    assert settle_columns(Reading(path)).columns == Columns()


def test_one_column_is_an_error_with_its_hint(tmp_path):
    path = written(tmp_path / "pairs.tsv", "a;b\nc;d\n")
    with pytest.raises(InputError, match="divided by semicolons") as error:
        settle_columns(Reading(path))
    assert not isinstance(error.value, UnknownColumns)


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(InputError, match="nothing of that name") as error:
        settle_columns(Reading(tmp_path / "pairs.tsv"))
    assert not isinstance(error.value, UnknownColumns)


def test_the_likely_pair_is_the_two_longest_texts_in_the_files_order():
    columns = [Column("b", "a long text indeed"), Column("id", "123456789012345678901"), Column("x", None)]
    assert likely_pair([*columns, Column("lang", "en"), Column("a", "a text")]) == ("b", "a")
    assert likely_pair(columns) is None


def test_columns_called_by_a_language_are_likelier():
    columns = [
        Column("note", "a text of some length"),
        Column("en", "yes"),
        Column("t.pt-BR", "sim"),
        Column("de", "doch"),
    ]
    assert likely_pair(columns) == ("en", "t.pt-BR")


@pytest.mark.parametrize(
    ("header", "source"), [("target,source", "source"), ("tgt,src", "src"), ("answer,question", "question")]
)
def test_names_that_say_their_side_count_whatever_their_order(tmp_path, header, source):
    columns = settle_columns(Reading(written(tmp_path / "pairs.csv", f"{header}\na,b\n"))).columns
    assert (columns.source, columns.target) == (source, header.split(",")[0])


def test_a_first_row_that_may_be_a_header_is_shown_and_a_sentence_or_a_known_header_is_not(tmp_path):
    for text, row in (
        ("Hund,dog\na,b\n", ("Hund", "dog")),
        ("what is this thing?,a b\n", None),
        ("source,target\na,b\n", None),
    ):
        assert first_row(settle_columns(Reading(written(tmp_path / "pairs.csv", text)))) == row
