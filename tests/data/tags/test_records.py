"""Tagged sentences from files and from memory: every form gives the same records, and every fault says where it is."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from saccade.data.tags.records import (
    TagColumns,
    Tagged,
    TaggedData,
    TagTokens,
    gather,
    load_tagged,
    read_file,
    tagged_of,
)
from saccade.data.tags.schemes import spans_of
from saccade.errors import InputError

RECORDS = [
    Tagged(("El", "Capitan", "!"), ("B-LOC", "I-LOC", "O")),
    Tagged(("Alex", "climbs"), ("B-PER", "O")),
]
CONLL = "El B-LOC\nCapitan I-LOC\n! O\n\nAlex B-PER\nclimbs O\n"
BIO = TaggedData(train="x", scheme="bio")
REAL = os.environ.get("SACCADE_DATA")


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def rows() -> list[dict[str, list[str]]]:
    return [{"tokens": list(record.source), "tags": list(record.target)} for record in RECORDS]


def test_files_of_every_format_give_the_same_records(tmp_path) -> None:
    (tmp_path / "x.conll").write_text(CONLL)
    (tmp_path / "x.jsonl").write_text(lines(*rows()))
    assert gather(tmp_path / "x.conll", BIO) == (RECORDS, []) and gather(tmp_path / "x.jsonl", BIO)[0] == RECORDS
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    parquet.write_table(arrow.Table.from_pylist(rows()), tmp_path / "x.parquet")
    assert read_file(tmp_path / "x.parquet", BIO) == RECORDS


def test_records_in_hand_may_be_pairs_dicts_columns_or_a_row_a_word() -> None:
    pairs = [(record.source, list(record.target)) for record in RECORDS]
    by_sentence = {name: [row[name] for row in rows()] for name in ("tokens", "tags")}
    words = [word for record in RECORDS for word in record.source]
    tags = [tag for record in RECORDS for tag in record.target]
    by_word = {"sentence": ["s1", "s1", "s1", "s2", "s2"], "word": words, "tag": tags}
    gaps = {"Sentence #": ["Sentence: 1", None, float("nan"), "Sentence: 2", ""], "Word": words, "Tag": tags}
    named = replace(BIO, columns=TagColumns(word="Word", tag="Tag", sentence="Sentence #"))
    for given, data in ((pairs, BIO), (rows(), BIO), (by_sentence, BIO), (by_word, BIO), (gaps, named), (RECORDS, BIO)):
        assert tagged_of(given, data) == RECORDS
    pandas = pytest.importorskip("pandas")
    assert tagged_of(pandas.DataFrame(by_word), BIO) == tagged_of(pandas.DataFrame(rows()), BIO) == RECORDS


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([(["a"], ["O", "O"])], "data:1: tags: expected 1 tags, as many as words, found 2"),
        ([("a text", ["O"])], r"data:1: tokens: expected a list, found a string \(split"),
        (
            [(["a"], ["O"]), (["b"], ["I-A"])],
            r"data:2: tags\[0\]: expected a tag that bio allows at the beginning, found I-A",
        ),
        ([(["a"], [None])], r"data:1: tags\[0\]: expected a tag without blanks, found None"),
        ([([""], ["O"])], r"data:1: tokens\[0\]: expected a word, found ''"),
        ([{"tokens": ["a"]}], "data:1: tags: expected the key 'tags', found the keys 'tokens'"),
        (
            {"tokens": [["a"]], "labels": [["O"]]},
            "expected the columns 'tokens' and 'tags', found the columns 'tokens', 'labels'",
        ),
        ([], "expected sentences with their tags, found none"),
        ("x.conll", "a file is named in the recipe"),
    ],
)
def test_faults_in_hand_name_the_sentence(given, message) -> None:
    with pytest.raises(InputError, match=message):
        tagged_of(given, BIO)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ({"tokens": ["a"], "tags": ["O", "O"]}, r"x.jsonl:1: tags: expected 1 tags"),
        ({"tokens": ["a", 3], "tags": ["O", "O"]}, r"x.jsonl:1: tokens\[1\]: expected a string, found a number"),
        ({"tokens": ["a"], "tags": ["I-A"]}, r"x.jsonl:1: tags\[0\]: expected a tag that bio allows"),
        ({"tokens": "a b", "tags": ["O"]}, "x.jsonl:1: tokens: expected a list, found a string"),
        ({"tokens": [], "tags": []}, "x.jsonl:1: tokens: expected a list, found an empty list"),
        ({"tokens": ["a"], "tags": ["B A"]}, r"x.jsonl:1: tags\[0\]: expected a tag without blanks"),
        ({"words": ["a"]}, "x.jsonl:1: tokens: expected the key 'tokens'"),
    ],
)
def test_faults_of_lists_name_line_and_field_and_can_be_dropped(tmp_path, text, message) -> None:
    (tmp_path / "x.jsonl").write_text(lines(text, *rows()))
    with pytest.raises(InputError, match=message + ".*data.faults: drop leaves such sentences out"):
        gather(tmp_path / "x.jsonl", BIO)
    records, notes = gather(tmp_path / "x.jsonl", replace(BIO, faults="drop"))
    assert records == RECORDS and "dropped 1 of 3 sentences" in notes[0]
    with pytest.raises(InputError, match=message):  # a figure on what happens to be left would mean nothing
        read_file(tmp_path / "x.jsonl", replace(BIO, faults="drop"))


def test_tags_that_the_scheme_forbids_are_reported_with_their_line(tmp_path) -> None:
    (tmp_path / "x.conll").write_text("a O\nb I-A\n\nc O\n")
    with pytest.raises(InputError, match=r"x.conll:2: expected a tag that bio allows after O, found I-A"):
        gather(tmp_path / "x.conll", BIO)
    assert len(gather(tmp_path / "x.conll", replace(BIO, scheme="iob1"))[0]) == 2


def test_numbers_are_the_places_of_listed_labels_and_other_names_are_refused(tmp_path) -> None:
    (tmp_path / "x.jsonl").write_text(lines({"tokens": ["El", "Capitan"], "tags": [1, 2]}))
    data = replace(BIO, labels=("O", "B-LOC", "I-LOC"))
    assert gather(tmp_path / "x.jsonl", data)[0][0].target == ("B-LOC", "I-LOC")
    assert tagged_of([(["El", "Capitan"], [1, 2])], data)[0].target == ("B-LOC", "I-LOC")
    with pytest.raises(InputError, match="expected one of O, B-LOC, I-LOC, found B-PER"):
        tagged_of(RECORDS, data)


def test_documents_keep_their_sentences_together_where_there_are_enough_of_them(tmp_path) -> None:
    def written(documents: int) -> Path:
        path = tmp_path / f"{documents}.conll"
        path.write_text("".join(f"-DOCSTART- O\n\nw{n} A\n\nv{n} B\n\n" for n in range(documents)))
        return path

    many, few = (gather(written(count), TaggedData(train="x"))[0] for count in (12, 3))
    assert many[0].group == many[1].group == "document 1" and {record.group for record in few} == {None}
    splits = load_tagged(TaggedData(train=str(written(12)), hold_out=0.2), tmp_path, seed=1)
    held = {record.group for record in splits.test}
    assert held and not held & {record.group for record in splits.train}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"train": None}, "source or train must be given"),
        ({"learn": "bioes"}, "learn must be left out where data.scheme is none"),
        ({"scheme": "bio", "labels": ("O", "LOC")}, "labels must be tags of the scheme bio: got 'LOC'"),
        ({"labels": ("A",)}, "two or more different names"),
        ({"max_length": 1}, "max_length must be at least 2"),
        (
            {"tokens": TagTokens(kind="bert"), "vectors": "x.txt"},
            "vectors must be left out unless tokens.kind is words",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(fields, message) -> None:
    with pytest.raises(ValueError, match=message):
        TaggedData(**{"train": "x", **fields})


def test_columns_that_are_none_are_refused() -> None:
    for columns in ({"tag": 0}, {"word": ""}, {"word": 2, "tag": 2}):
        with pytest.raises(ValueError, match=r"column"):
            TagColumns(**columns)


def test_a_suffix_that_says_nothing_asks_for_the_format(tmp_path) -> None:
    (tmp_path / "x.dat").write_text(CONLL)
    with pytest.raises(InputError, match=r"expected a file of tagged words.*set data.format"):
        gather(tmp_path / "x.dat", BIO)
    assert gather(tmp_path / "x.dat", replace(BIO, format="conll"))[0] == RECORDS


@pytest.mark.skipif(not REAL, reason="SACCADE_DATA is not set")
@pytest.mark.parametrize(
    ("file", "scheme", "sentences", "words", "spans"),
    [
        ("conll2000_chunking/test.txt.gz", "bio", 2012, 47377, 23852),
        ("ner_open/wnut17.test.conll.gz", "bio", 1287, 23394, 1079),
        ("ner_open/lener_br.test.conll.gz", "bio", 1389, 47630, 1536),
        ("ud_portuguese_bosque/pt_bosque-ud-test.conllu.gz", "none", 1167, 27604, 0),
    ],
)
def test_public_files_have_the_counts_that_they_are_known_for(file, scheme, sentences, words, spans) -> None:
    records = read_file(Path(REAL) / file, TaggedData(train="x", scheme=scheme))
    assert (len(records), sum(len(record.source) for record in records)) == (sentences, words)
    assert sum(len(spans_of(record.target)) for record in records if scheme != "none") == spans


def test_groups_that_are_named_hold_however_few_they_are(tmp_path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(lines(*({"tokens": [f"w{n}", "x"], "tags": ["A", "B"], "by": f"p{n % 4}"} for n in range(40))))
    splits = load_tagged(TaggedData(train=str(path), columns=TagColumns(group="by")), tmp_path, 1)
    sides = [{record.group for record in side} for side in (splits.train, splits.valid, splits.test)]
    assert [len(side) for side in sides] == [2, 1, 1] and not sides[0] & (sides[1] | sides[2])


def test_columns_that_a_format_cannot_have_are_refused(tmp_path) -> None:
    (tmp_path / "x.conll").write_text(CONLL)
    for columns in (TagColumns(group=3), TagColumns(sentence="s")):
        with pytest.raises(
            InputError, match=r"x\.conll: columns: expected no column (group|sentence), .*found (3|'s')"
        ):
            gather(tmp_path / "x.conll", replace(BIO, columns=columns))
        assert read_file(tmp_path / "x.conll", replace(BIO, columns=columns)) == RECORDS
    with pytest.raises(ValueError, match=r"^group must be another column than word: got 'a'"):
        TagColumns(word="a", tag="b", group="a")
    with pytest.raises(ValueError, match=r"^tag must be a column's name or its number"):
        TagColumns(tag=0)


def test_tags_have_no_blanks(tmp_path) -> None:
    for text in ("El\tB LOC\n", "El B\u00a0LOC\n"):
        (tmp_path / "x.conll").write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=r"x\.conll:1: expected a tag without blanks, found 'B.{1,4}LOC'"):
            gather(tmp_path / "x.conll", TaggedData(train="x"))
    with pytest.raises(ValueError, match="labels must be names without blanks: got 'a b'"):
        TaggedData(train="x", labels=("a b", "c"))


def test_a_csv_with_one_row_per_word_is_read_as_the_same_table_in_memory(tmp_path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("Sentence #,Word,POS,Tag\nS1,Eva,N,B-PER\n,sings,V,O\nS2,in,P,O\n,Rom,N,B-LOC\n")
    data = replace(BIO, columns=TagColumns(word="Word", tag="Tag", sentence="Sentence #"))
    assert read_file(path, data) == [Tagged(("Eva", "sings"), ("B-PER", "O")), Tagged(("in", "Rom"), ("O", "B-LOC"))]
    path.write_text("sentence,word,tag\n1,Eva,O\n1,\n2,Rom,O\n")
    with pytest.raises(InputError, match=r"x\.csv:3: tag: expected 3 columns, found 2"):
        read_file(path, BIO)
    records, notes = gather(path, replace(BIO, faults="drop"))
    assert [record.source for record in records] == [("Rom",)] and "dropped 1 of 2 sentences" in notes[0]


def test_a_sentence_that_comes_again_after_another_is_an_error_unless_its_group_differs(tmp_path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("sentence,word,tag,file\n1,Eva,O,a\n2,Rom,O,a\n1,sings,O,b\n")
    table = {"sentence": [1, 2, 1], "word": ["Eva", "Rom", "sings"], "tag": "OOO", "file": "aab"}
    with pytest.raises(InputError, match=r"x\.csv:4: sentence: expected the rows of a sentence.*found '1' again"):
        read_file(path, BIO)
    with pytest.raises(InputError, match=r"row 3: sentence: expected the rows of a sentence.*found 1 again"):
        tagged_of({name: list(column) for name, column in table.items()}, BIO)
    grouped = replace(BIO, columns=TagColumns(group="file"))
    assert [record.source for record in gather(path, grouped)[0]] == [("Eva",), ("Rom",), ("sings",)]
