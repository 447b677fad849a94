"""Tables of any width, by names or by numbers; a quotation mark that never closes costs its own row alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from saccade.data.files import tables
from saccade.data.files.records import HEADER, NO_ROW, NOT_UTF8, QUOTE, WIDTH
from saccade.data.pairs.records import Columns, Fault, Found, Pair, header_of, scan, without_header
from saccade.errors import InputError


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def kinds(path: Path, **options: object) -> list[tuple[int, str]]:
    return [(item.line, getattr(item, "reason", "pair")) for item in scan(path, **options)]


def test_numbers_choose_columns_of_a_table_without_a_header(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "eng\tpor\tHi.\tOi.\neng\tpor\tBye.\tTchau.\n")
    found = list(scan(path, columns=Columns(3, 4), format="tsv"))
    assert [item.pair for item in found] == [Pair("Hi.", "Oi."), Pair("Bye.", "Tchau.")]
    assert not without_header(path, 3, "tsv")


@pytest.mark.parametrize("columns", [Columns("de", "en", "doc"), Columns("de", 2, "doc"), Columns("de", "en", 1)])
def test_a_group_is_the_value_of_its_column(tmp_path: Path, columns: Columns) -> None:
    path = write(tmp_path, "a.csv", "doc,en,de\nx,one,eins\n ,two,zwei\n")
    found = list(scan(path, columns=columns))
    assert found == [Found(2, Pair("eins", "one"), "x"), Found(3, Pair("zwei", "two"), None)]


@pytest.mark.parametrize("columns", [Columns(1, 5), Columns(1, "en"), Columns("de", "en", "doc"), Columns("de", 1)])
def test_columns_that_are_not_there_are_reported(tmp_path: Path, columns: Columns) -> None:
    with pytest.raises(InputError, match=r":1: expected the columns .* found the columns 'de', 'x', 'y'") as told:
        list(scan(write(tmp_path, "a.tsv", "de\tx\ty\n1\t2\t3\n"), columns=columns))
    assert all(repr(column) in str(told.value) for column in columns.wanted)


@pytest.mark.parametrize("bad", [{"source": 0}, {"target": -3}, {"group": 0}, {"source": ""}, {"target": "source"}])
def test_impossible_columns_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Columns(**bad)


def test_rows_of_another_width_are_faults_and_the_rest_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "source\ttarget\n1\t2\n3\n4\t5\t6\n7\t8\n")
    assert kinds(path) == [(2, "pair"), (3, WIDTH), (4, WIDTH), (5, "pair")]


def test_a_quotation_mark_that_never_closes_names_where_it_opened_and_reading_continues(tmp_path: Path) -> None:
    rows = [f"a{number},b{number}" for number in range(1, 5001)]
    rows[2] = '"a3,b3'
    found = kinds(write(tmp_path, "a.csv", "\n".join(rows)))
    assert found[:4] == [(1, "pair"), (2, "pair"), (3, QUOTE), (4, "pair")]
    assert len(found) == 5000
    assert sum(kind == "pair" for _, kind in found) == 4999


def test_a_quotation_mark_that_another_one_closes_by_accident_costs_its_own_row(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'a,b\n"c,d\ne,f\ng,"h"\ni,j\n')
    assert kinds(path) == [(1, "pair"), (2, QUOTE), (3, "pair"), (4, "pair"), (5, "pair")]


def test_every_row_with_an_open_quotation_mark_is_its_own_fault(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "a,b\n" + '"c,d\n' * 2000)
    found = kinds(path)
    assert [line for line, _ in found] == list(range(1, 2002))
    assert {kind for _, kind in found[1:]} == {QUOTE}


def test_a_field_of_many_lines_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poem = "\n".join(f"line {number}" for number in range(7))
    path = write(tmp_path, "a.csv", f'source,target\n"{poem}",x\ny,z\n')
    assert [item.pair.source for item in scan(path)] == [poem, "y"]
    monkeypatch.setattr(tables, "ROW_LINES", 5)
    assert kinds(path)[0] == (2, QUOTE)


def test_a_bad_byte_within_a_quoted_field_is_one_fault(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", b'a,b\n"c\nd,\xff\ne",f\ng,h\n')
    assert kinds(path) == [(1, "pair"), (3, NOT_UTF8), (5, "pair")]


def test_what_follows_a_closing_quotation_mark_is_no_row(tmp_path: Path) -> None:
    assert kinds(write(tmp_path, "a.csv", 'a,b\n"c"d,e\nf,g\n')) == [(1, "pair"), (2, NO_ROW), (3, "pair")]


@pytest.mark.parametrize(
    ("name", "content", "hint"),
    [
        ("a.tsv", "source;target\na;b\n", "separated by semicolons: set format: csv"),
        ("a.tsv", "source,target\n", "separated by commas: set format: csv"),
    ],
)
def test_another_divider_is_guessed(tmp_path: Path, name: str, content: str, hint: str) -> None:
    with pytest.raises(InputError, match=hint):
        list(scan(write(tmp_path, name, content)))


@pytest.mark.parametrize(
    ("content", "header"),
    [
        ("source\ttarget\na\tb\n", ["source", "target"]),
        ("id\ten\tpt_BR\n1\ta\tb\n", ["id", "en", "pt_BR"]),
        ("German\tEnglish\tremark\n1\ta\tb\n", ["German", "English", "remark"]),
        ("Haus\thouse\n", None),
        ("eng\tpor\tHow are you today, my dear?\tComo vai?\n", None),
        ("", None),
    ],
)
def test_a_header_is_told_from_a_pair_where_that_can_be_done(
    tmp_path: Path, content: str, header: list[str] | None
) -> None:
    assert header_of(write(tmp_path, "a.tsv", content)) == header
    assert header_of(write(tmp_path, "a.csv", content.replace(",", ";").replace("\t", ","))) == header


TEXTS = [f"the film number {n} was good" for n in range(23)]
LABELS = [("bad", "good")[n % 3 == 0] for n in range(23)]
QUESTIONS = ["Which film did you see last?", "How good was it (1 to 5)?"]  # of a form, as it exports them
SAID = [QUESTIONS[0], "Would you say it was good?"]


def table(header: str, *columns: object, divider: str = ",") -> str:
    rows = zip(*columns, strict=True)  # type: ignore[call-overload]
    return f"{header}\n" + "".join(f"{divider.join(map(str, row))}\n" for row in rows)


@pytest.mark.parametrize(
    ("content", "header"),
    [
        (table(",review,stars", range(23), TEXTS, LABELS), ["", "review", "stars"]),  # DataFrame.to_csv
        (table(",review,verdict", range(5), TEXTS[:5], "abcde"), ["", "review", "verdict"]),  # by its index alone
        (table("review,stars,,", TEXTS, LABELS, [""] * 23, [""] * 23), ["review", "stars", "", ""]),  # a spreadsheet
        (table("review,,stars", TEXTS, range(23), [1, 2, 5] * 7 + [4, 4]), ["review", "", "stars"]),
        (table("said,meant,why", TEXTS, TEXTS, range(23)), ["said", "meant", "why"]),
        (table("said,meant,why", TEXTS, TEXTS, TEXTS), ["said", "meant", "why"]),
        (table("a film,good", TEXTS, LABELS), None),  # a record: its label comes again
        (table(",a film,good", range(23), TEXTS, LABELS), None),
        (table("Wikipedia,Wikipédia", TEXTS, reversed(TEXTS)), None),  # the title of a text, and its translation
        (table("Haus,house", TEXTS, (f"word{n}" for n in range(23))), None),
        (table("sun,sol", ("moon", "sea"), ("lua", "mar")), None),
        (table("5,good", range(6, 29), LABELS), None),
        (table("Which film did you see last?,How good was it (1 to 5)?", TEXTS, [1, 2, 5] * 7 + [4, 4]), QUESTIONS),
        (table("Which film did you see last?,Would you say it was good?", TEXTS, LABELS), SAID),
        (table("the film number 23 was good,dull", TEXTS, LABELS), None),  # a record, whose label is rare
        (table("the film number 23 was good,Would you say it was good?", TEXTS, reversed(TEXTS)), None),
    ],
)
def test_a_header_is_known_by_columns_that_are_unlike_their_names(
    tmp_path: Path, content: str, header: list[str] | None
) -> None:
    assert header_of(write(tmp_path, "a.csv", content)) == header
    assert header_of(write(tmp_path, "a.tsv", content.replace(",", "\t"))) == header


def test_columns_by_number_pass_over_a_header_and_count_it(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", table(",review,stars", range(23), TEXTS, LABELS))
    header, *found = scan(path, columns=Columns(2, 3))
    assert isinstance(header, Fault)
    assert (header.line, header.reason, header.skipped) == (1, HEADER, True)
    assert [item.pair.source for item in found if isinstance(item, Found)] == TEXTS


def test_empty_cells_at_the_end_of_a_row_need_no_column(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "source,target,,\na,b\nc,d,,\ne,f,,,,\ng\nh,i,,,j\n")
    assert kinds(path) == [(2, "pair"), (3, "pair"), (4, "pair"), (5, WIDTH), (6, WIDTH)]


def test_a_fault_before_the_header_does_not_hide_it(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", b"\xff\nen\tde\none\teins\n")
    found = list(scan(path, columns=Columns("de", "en")))
    assert isinstance(found[0], Fault)
    assert found[1:] == [Found(3, Pair("eins", "one"))]


def test_a_published_table_without_a_header_is_read_by_numbers() -> None:
    path = Path(os.environ.get("SACCADE_DATA", "")) / "tatoeba_challenge/tatoeba-test-v2020-07-28.eng-por.txt.gz"
    if not path.exists():
        pytest.skip("SACCADE_DATA names no folder with tatoeba_challenge")
    found = list(scan(path, columns=Columns(3, 4, 1), format="tsv"))
    assert len(found) == 10_000
    assert all(isinstance(item, Found) and item.group == "eng" for item in found)


@pytest.mark.parametrize("divider", [";", "\t", "|"])
def test_a_csv_without_commas_is_read_by_what_divides_it(tmp_path: Path, divider: str) -> None:
    rows = ["source", "target"], ["der Hund, klein", "the dog"], ['"a; b"', "c"]
    path = write(tmp_path, "a.csv", "".join(f"{divider.join(row)}\n" for row in rows))
    pairs = [item.pair for item in scan(path) if isinstance(item, Found)]
    assert [(pair.source, pair.target) for pair in pairs] == [("der Hund, klein", "the dog"), ("a; b", "c")]


def test_the_line_by_which_excel_says_what_divides_is_no_row(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "sep=;\nsource;target\na, b;c\n")
    assert [item.pair.source for item in scan(path) if isinstance(item, Found)] == ["a, b"]


def test_semicolons_within_a_row_of_commas_divide_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'a; b,"c, d"\n')
    assert [(item.pair.source, item.pair.target) for item in scan(path)] == [("a; b", "c, d")]


def test_a_field_may_be_as_long_as_a_line(tmp_path: Path) -> None:
    long, lines = "ab " * 100_000, "\n".join(["cd " * 1000] * 90)
    path = write(tmp_path, "a.csv", f'source,target\n{long},x\n"{lines}",y\n')
    assert [item.record for item in scan(path)] == [Pair(long, "x"), Pair(lines, "y")]
