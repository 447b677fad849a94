"""Texts come from wherever a recipe says, and what is no text is named by file and line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from saccade.data.texts.records import PretrainData, Text, TextData, load_texts, read_texts, sentences_of, texts_of
from saccade.errors import InputError

PRETRAIN = PretrainData(train="-")
LINES = ["ein Hund", "zwei  Katzen", "drei Kühe"]


def data(**fields: object) -> TextData:
    return TextData(**{"train": "x", **fields})  # type: ignore[arg-type]


def read(path: Path, **fields: object) -> list[str]:
    return [text.source for text in read_texts(path, data(**fields))]


def test_lines_and_whole_files(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("ein Hund\n\nzwei  Katzen\r\n  \ndrei Kühe", encoding="utf-8")
    assert read(file) == LINES
    assert read(file, unit="file") == ["ein Hund\n\nzwei  Katzen\n  \ndrei Kühe"]
    packed = tmp_path / "b.txt.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert read(packed) == LINES


def test_a_column_of_a_table_by_name_by_number_and_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('label,review\nneg,"ein Hund"\npos,"zwei  Katzen"\npos,drei Kühe\n', encoding="utf-8")
    assert read(file, column="review") == LINES
    assert read(file, column=2) == LINES, "a header that no number names is passed over"
    single = tmp_path / "b.tsv"
    single.write_text("\n".join(LINES), encoding="utf-8")
    assert read(single) == LINES
    with pytest.raises(InputError, match=r"a\.csv:1: expected the column 'text', found the columns 'label', 'review'"):
        read(file)
    file.write_text("text,b\nx,y\nz\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"a\.csv:3: b: expected 2 columns, found 1"):
        read(file)


def test_jsonl_and_what_is_wrong_with_it(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(json.dumps({"body": {"text": line}}) for line in LINES), encoding="utf-8")
    assert read(file, column="body.text") == LINES
    with pytest.raises(InputError, match=r"a\.jsonl:1: text: expected the key 'text', found the keys 'body'"):
        read(file)
    file.write_text('{"text": "x"}\n{"text": 3}\n')
    with pytest.raises(InputError, match=r"a\.jsonl:2: text: expected a string, found a number"):
        read(file)


def test_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    parquet.write_table(arrow.table({"id": [1, 2, 3], "text": LINES}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == LINES == read(tmp_path / "a.parquet", column=2)
    with pytest.raises(InputError, match="the columns 'id', 'text'"):
        read(tmp_path / "a.parquet", column="body")


def test_a_folder_is_all_its_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "one.txt").write_text("drei Kühe\n", encoding="utf-8")
    (tmp_path / "a.jsonl").write_text('{"text": "ein Hund"}\n')
    (tmp_path / "a.txt").write_text("zwei  Katzen\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    assert read(tmp_path) == LINES
    empty = tmp_path / "b" / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="none of them"):
        read(empty)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.pdf", "x", r"expected a file of texts .* found the suffix 'pdf' \(data.format says"),
        ("a", "x", "a name without a suffix"),
        ("a.txt", "\n \n", "expected at least one text, found nothing"),
        ("missing.txt", None, "nothing of that name"),
    ],
)
def test_what_cannot_be_read_is_reported(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read(tmp_path / name)
    if name == "a.pdf":
        assert read(tmp_path / name, format="txt") == ["x"]


def test_splits_are_read_or_held_out(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("\n".join(f"text {number}" for number in range(40)))
    (tmp_path / "test.txt").write_text("text 3\nanother\n")
    splits = load_texts(TextData(train="train.txt", test="test.txt", hold_out=0.1), tmp_path, 1)
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (36, 4, 2)
    assert not {text.source for text in splits.train} & {text.source for text in splits.valid}
    assert any("1 of 2 records also occur in train" in note for note in splits.notes)


def test_texts_in_hand() -> None:
    expected = [Text(line) for line in LINES]
    assert texts_of(LINES, data()) == expected == texts_of([{"text": line} for line in LINES], data())
    assert texts_of(expected, data()) == expected
    pandas = pytest.importorskip("pandas")
    assert texts_of(pandas.DataFrame({"t": LINES}), data(column="t")) == expected
    for bad, message in [
        ("x", "expected a list of texts"),
        ([3], "a number"),
        ([{"t": "x"}], "the keys 't'"),
        ([" "], "none"),
    ]:
        with pytest.raises(InputError, match=message):
            texts_of(bad, data())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": "agreement"}, "source or train must be given, and not both"),
        ({"chunk": 0}, "chunk must be at least 1: got 0"),
        ({"streams": 4}, "streams must be left out unless layout is stream"),
        ({"streams": 4, "layout": "stream", "context": 2}, "context must be 0 with streams"),
        ({"column": 0}, "column must be"),
    ],
)
def test_settings_that_do_not_fit_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        data(**fields)


def sources(documents) -> list[str]:
    return [document.source for document in documents]


def test_sentences_end_where_the_page_says_and_nothing_is_lost():
    text = '"No!" he said. It was 3.5 m.<br /><br />And 你好。我\nnew line… (Yes.) end'
    found = list(sentences_of(text))
    assert found == ['"No!"', "he said.", "It was 3.5 m.<br /><br />", "And 你好。", "我", "new line…", "(Yes.)", "end"]
    assert "".join(found).replace(" ", "") == text.replace(" ", "").replace("\n", "")
    assert list(sentences_of(" \n ")) == []


def test_a_document_is_a_line_a_file_or_ends_at_a_blank_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one.\ntwo.\n\n \nthree.\n", encoding="utf-8")
    units = {
        unit: sources(read_texts(path, PretrainData(train="-", unit=unit))) for unit in ("line", "file", "blank_line")
    }
    assert units["line"] == ["one.", "two.", "three."]
    assert len(units["file"]) == 1
    assert [text.split() for text in units["blank_line"]] == [["one.", "two."], ["three."]]


def test_files_of_several_kinds_are_read_together(tmp_path):
    (tmp_path / "labelled.tsv").write_text("neg\tbad film\npos\tgood film\n", encoding="utf-8")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "x.txt").write_text("a line\n", encoding="utf-8")
    (tmp_path / "more" / "y.jsonl").write_text(json.dumps({"2": "an object"}) + "\n", encoding="utf-8")
    data = PretrainData(train=("labelled.tsv", "more"), valid="more", test="more", column=2)
    splits = load_texts(data, tmp_path, 1)
    assert sources(splits.train) == ["bad film", "good film", "a line", "an object"]


def test_documents_in_hand_are_a_list_of_texts():
    assert sources(texts_of(["a b", " ", "c"], PRETRAIN)) == ["a b", "c"]
    assert sources(texts_of([{"text": "x"}], PRETRAIN)) == ["x"]
    assert sources(texts_of({"text": ["x", "y"]}, PRETRAIN)) == ["x", "y"]
    with pytest.raises(InputError, match="text: expected a column of texts, found 'x'"):
        texts_of({"text": "x"}, PRETRAIN)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({}, "source or train"),
        ({"train": "a", "length": 4}, "length must be at least 5"),
        ({"train": "a", "masked": 0.0}, "masked must be between"),
        ({"train": "a", "column": 0}, "column must be"),
    ],
)
def test_settings_of_pretraining_that_do_not_fit_are_refused(fields, word):
    with pytest.raises(ValueError, match=word):
        PretrainData(**fields)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"gone\.txt"):
        load_texts(PretrainData(train="gone.txt"), Path(tmp_path), 1)


def test_encoding_and_faults_are_those_of_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("drei Kühe\n".encode("latin-1") + b"ein Hund\n" * 30)
    assert read(tmp_path / "a.txt", encoding="latin-1")[0] == "drei Kühe"
    with pytest.raises(InputError, match=r"a\.txt:1: expected UTF-8 text.*data\.faults: drop leaves such texts out"):
        load_texts(data(train="a.txt"), tmp_path, 1)
    texts = [f'{{"text": "text {n}"}}\n' for n in range(30)]
    (tmp_path / "b.jsonl").write_text("".join([*texts, '{"text": 3}\n', "[]\n"]))
    splits = load_texts(data(train="b.jsonl", faults="drop"), tmp_path, 1)
    assert len(splits.train) + len(splits.valid) + len(splits.test) == 30
    assert "dropped 2 of 32 texts: 1 not text (first: 31), 1 not JSON (first: 32)" in splits.notes[0]
    with pytest.raises(InputError, match=r"b\.jsonl:31"):
        read_texts(tmp_path / "b.jsonl", data(faults="drop"))
