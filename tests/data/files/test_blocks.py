"""Records of several lines: aspects and relations, with faults that name their place and spoil one record alone."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from pathlib import Path

import pytest

from saccade.data.files.fields import Fields
from saccade.data.files.records import Fault
from saccade.data.files.semeval import scan_blocks
from saccade.data.labels.records import Labelled, LabelledData, gather, load_labelled, read_file
from saccade.errors import InputError

SHARED = Path(os.environ.get("SACCADE_DATA", ""))
ASPECTS = (
    "the $T$ was great -LRB- really -RRB-\nsoup\n1\nbut the $T$ was stale\n rye bread \n-1\n"
    "the $T$ stood there\ntable\n0\n"
)
RELATIONS = (
    '1\t"the <e1>storm</e1> caused a <e2>flood</e2>."\r\nCause-Effect(e1,e2)\r\nComment: as it does\r\n\r\n'
    '2\t""Yes," said the <e1>boy</e1> on the <e2>desk</e2>."\r\nOther\r\nComment:\r\n\r\n'
)


def data(format: str, **fields) -> LabelledData:
    return LabelledData(train="x", format=format, **fields)


def written(path: Path, content: str) -> Path:
    path.write_bytes(content.encode())
    return path


def faults(path: Path, format: str) -> list[str]:
    return [str(item.error) for item in scan_blocks(path, format) if isinstance(item, Fault)]


# Aspects --------------------------------------------------------------------------------------------------------------


def test_an_aspect_is_put_back_into_its_sentence_and_polarities_get_names(tmp_path) -> None:
    records, notes = gather(written(tmp_path / "x.seg", ASPECTS), data("aspects"))
    assert [(record.source, record.target) for record in records] == [
        (("the soup was great ( really )", "soup"), "positive"),
        (("but the rye bread was stale", "rye bread"), "negative"),
        (("the table stood there", "table"), "neutral"),
    ]
    assert notes == []


def test_polarities_may_be_written_out(tmp_path) -> None:
    path = written(tmp_path / "x.seg", "a $T$\nsoup\nneutral\n\nthe $T$\nbread\nnegative\n")
    assert [record.target for record in read_file(path, data("aspects"))] == ["neutral", "negative"]


def test_records_of_one_sentence_are_one_group_however_quotation_marks_are_set(tmp_path) -> None:
    lines = [
        "the $T$ and ` perks '",
        "food",
        "1",
        "The food and the $T$",
        "wine",
        "1",
        "the food and '$T$'",
        "perks",
        "1",
    ]
    path = written(tmp_path / "x.seg", "\n".join(lines))
    first, other, third = gather(path, data("aspects"))[0]
    assert first.group == third.group != other.group


def test_holding_out_never_parts_a_sentence(tmp_path) -> None:
    lines = "".join(f"the $T$ of {n} and the tea\nsoup\n1\nthe soup of {n} and the $T$\ntea\n-1\n" for n in range(40))
    written(tmp_path / "x.seg", lines)
    splits = load_labelled(LabelledData(train="x.seg", format="aspects", hold_out=0.2), tmp_path, 1)
    train, valid, test = ({record.source[0] for record in part} for part in (splits.train, splits.valid, splits.test))
    assert train and valid and test and not (train & valid or train & test or valid & test)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a soup\nsoup\n1\n", "x.seg:1: sentence: expected a sentence with $T$"),
        ("a $T$\nsoup\n2\n", "x.seg:3: polarity: expected -1, 0, 1, or negative, neutral, positive, found '2'"),
        ("a $T$\n\n1\n", "x.seg:2: aspect: expected the text that replaces $T$, found an empty line"),
        (
            "a $T$\nsoup\n",
            "x.seg:1: expected three lines: sentence, aspect, polarity, found 2, then the end of the file",
        ),
        ("a $T$\nsoup\nthe $T$\nbread\n1\n", "found 2, then another sentence with $T$ on line 3"),
    ],
)
def test_a_fault_names_its_line(tmp_path, content, told) -> None:
    path = written(tmp_path / "x.seg", content)
    assert told in faults(path, "aspects")[0]
    with pytest.raises(InputError, match=r"data\.faults: drop"):
        gather(path, data("aspects"))


def test_a_missing_line_spoils_one_record_and_no_other(tmp_path) -> None:
    path = written(tmp_path / "x.seg", "a $T$\nsoup\nthe $T$\nbread\n1\nmy $T$\ntea\n-1\n")
    records, notes = gather(path, data("aspects", faults="drop"))
    assert [record.source[1] for record in records] == ["bread", "tea"]
    assert "dropped 1 of 3" in notes[0]


# Relations ------------------------------------------------------------------------------------------------------------


def test_relations_keep_the_marks_in_the_sentence_and_lose_quotation_marks_around_it(tmp_path) -> None:
    path = tmp_path / "TRAIN_FILE.TXT.gz"
    path.write_bytes(gzip.compress(RELATIONS.encode()))
    assert read_file(path, data("relations")) == [
        Labelled("the <e1>storm</e1> caused a <e2>flood</e2>.", "Cause-Effect(e1,e2)"),
        Labelled('"Yes," said the <e1>boy</e1> on the <e2>desk</e2>.', "Other"),
    ]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('1\t"a <e1>b</e1> c"\nOther\n', "x.txt:1: sentence: expected <e1>…</e1> and <e2>…</e2>, each once"),
        ('1\t"a <e1>b <e2>c</e2></e1>"\nOther\n', "found <e1> <e2> </e2> </e1>"),
        ('1\t"a <e1>b</e1> <e2>c</e2>"\nComment: none\n', "x.txt:1: relation: expected a relation on the line after"),
        ('1\t"a <e1>b</e1> <e2>c</e2>"\n\n2\t"<e1>a</e1> <e2>c</e2>"\nOther\n', "found another sentence on line 3"),
        ('1\t"a <e1>b</e1> <e2>c</e2>"\n', "found the end of the file"),
        ("a sentence\n", "x.txt:1: expected a number, a tab and a sentence in quotation marks"),
    ],
)
def test_a_faulty_block_names_its_line(tmp_path, content, told) -> None:
    assert told in faults(written(tmp_path / "x.txt", content), "relations")[0]


def test_a_faulty_block_spoils_one_record_and_no_other(tmp_path) -> None:
    path = written(tmp_path / "x.txt", f'1\t"no marks"\nOther\n\n{RELATIONS}')
    found = list(scan_blocks(path, "relations"))
    assert [type(item) for item in found] == [Fault, Fields, Fields]


def test_a_table_is_read_as_a_table_whatever_the_training_file_was(tmp_path) -> None:
    path = written(tmp_path / "x.tsv", "text\tlabel\na <e1>b</e1> <e2>c</e2>\tOther\n")
    assert read_file(path, data("relations")) == [Labelled("a <e1>b</e1> <e2>c</e2>", "Other")]


# Real data ------------------------------------------------------------------------------------------------------------

real = pytest.mark.skipif(not SHARED.name, reason="SACCADE_DATA names no folder with the SemEval sets")


@real
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("Laptops_Train", (870, 464, 994)), ("Laptops_Test_Gold", (128, 169, 341)),
        ("Restaurants_Train", (807, 637, 2164)), ("Restaurants_Test_Gold", (196, 196, 728)),
    ],
)  # fmt: skip
def test_the_aspects_of_semeval_2014_are_counted_as_published(name, counts) -> None:
    records, _ = gather(SHARED / f"semeval14_absa/{name}.xml.seg.gz", data("aspects"))
    found = Counter(record.target for record in records)
    assert (found["negative"], found["neutral"], found["positive"]) == counts
    assert not any("$T$" in record.source[0] for record in records)


@real
@pytest.mark.parametrize(("name", "count"), [("TRAIN_FILE", 8000), ("TEST_FILE_FULL", 2717)])
def test_the_relations_of_semeval_2010_are_counted_as_published(name, count) -> None:
    records, _ = gather(SHARED / f"semeval10_task8/{name}.TXT.gz", data("relations"))
    assert len(records) == count
    labels = {record.target for record in records}
    assert len(labels) == (19 if name == "TRAIN_FILE" else 18 + ("Entity-Destination(e2,e1)" in labels))
