"""Raw text: documents, sentences, and what a recipe says of them."""

import json
from pathlib import Path

import pytest

from saccade.data.texts.documents import PretrainData, documents_of, load_documents, read_documents, sentences_of
from saccade.data.toy.topics import ACTING, DETERMINERS, RESTING, TOPICS, Topics, generate
from saccade.errors import InputError

DATA = PretrainData(train="-")


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
        unit: sources(read_documents(path, PretrainData(train="-", unit=unit)))
        for unit in ("line", "file", "blank_line")
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
    splits = load_documents(data, tmp_path, 1)
    assert sources(splits.train) == ["bad film", "good film", "a line", "an object"]


def test_documents_in_hand_are_a_list_of_texts():
    assert sources(documents_of(["a b", " ", "c"], DATA)) == ["a b", "c"]
    assert sources(documents_of([{"text": "x"}], DATA)) == ["x"]
    with pytest.raises(InputError, match="found a dictionary"):
        documents_of({"text": "x"}, DATA)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({}, "source or train"),
        ({"train": "a", "length": 4}, "length must be at least 5"),
        ({"train": "a", "masked": 0.0}, "masked must be between"),
        ({"train": "a", "column": 0}, "column must be"),
    ],
)
def test_what_cannot_be_is_refused(fields, word):
    with pytest.raises(ValueError, match=word):
        PretrainData(**fields)


def test_the_made_language_agrees_in_number_and_keeps_to_its_topic():
    made = generate(Topics(train=40, valid=3, test=3))
    assert generate(Topics(train=40, valid=3, test=3)) == made
    number = {word: n for pair in (DETERMINERS, *RESTING, *ACTING) for n, word in enumerate(pair)}
    for text in made["train"]:
        nouns = set()
        for sentence in text.split(" ."):
            words = sentence.split()
            if words:
                assert number[words[0]] == number[words[2]] == (words[1].endswith("s"))
                nouns |= {words[1], *words[4:]}
        singular = {noun.removesuffix("s") if not noun.endswith("ies") else f"{noun[:-3]}y" for noun in nouns}
        assert any(singular <= set(topic) for topic in TOPICS)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"gone\.txt"):
        load_documents(PretrainData(train="gone.txt"), Path(tmp_path), 1)
