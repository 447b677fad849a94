"""The cleaned file and its log: whole or absent, and never over what is read."""

import gzip
import json
import lzma

import pytest

from saccade.data.pairs.records import Columns, Fault, Found, Pair, read_pairs, scan
from saccade.data.survey.cleaning import Cleaned
from saccade.errors import InputError, SaccadeError

PAIRS = [Pair("a, b", 'say "x"'), Pair("=é", "日本 語"), Pair("' \u2028", "\u200d\\n"), Pair("source", "target")]


def write(path, pairs, groups=None, **options):
    with Cleaned(path, grouped=groups is not None, **options) as cleaned:
        for number, pair in enumerate(pairs, start=2):
            cleaned.keep(Found(number, pair, None if groups is None else groups[number - 2]))
    return cleaned


def broken_off(error):
    """A pair, and then an error."""
    yield PAIRS[0]
    raise error


@pytest.mark.parametrize("name", ["out.tsv", "out.csv", "out.jsonl", "out.tsv.gz", "out.csv.xz", "OUT.JSONL.GZ"])
def test_what_is_written_reads_back_the_same(tmp_path, name):
    cleaned = write(tmp_path / name, PAIRS)
    assert read_pairs(tmp_path / name) == PAIRS
    assert (cleaned.written, cleaned.left_out) == (4, 0)


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl"])
def test_tabs_and_line_ends_survive_where_the_format_can_hold_them(tmp_path, name):
    pairs = [Pair("a\tb", "c\nd"), Pair("e\r\nf", "g\rh"), Pair("i", "j")]
    write(tmp_path / name, pairs)
    assert read_pairs(tmp_path / name) == pairs


@pytest.mark.parametrize("name", ["out.tsv", "out.csv", "out.jsonl"])
def test_groups_are_a_third_column(tmp_path, name):
    write(tmp_path / name, PAIRS[:2], ["one", None])
    found = list(scan(tmp_path / name, columns=Columns(group="group")))
    assert [(item.pair, item.group) for item in found] == [(PAIRS[0], "one"), (PAIRS[1], None)]


def test_the_log_has_each_line_left_out_with_its_texts_cut(tmp_path):
    broken = InputError("x.tsv", line=3, expected="2 columns", found="1")
    with Cleaned(tmp_path / "out.tsv") as cleaned:
        cleaned.leave(Fault(3, "wrong number of columns", broken), "fault", "wrong number of columns")
        cleaned.leave(Found(5, Pair("é" * 300, "b")), "ratio", "too long")
    entries = [json.loads(line) for line in (tmp_path / "out.tsv.log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert entries == [
        {
            "line": 3,
            "rule": "fault",
            "reason": "wrong number of columns",
            "text": "x.tsv:3: expected 2 columns, found 1",
        },
        {"line": 5, "rule": "ratio", "reason": "too long", "source": "é" * 200, "target": "b"},
    ]
    assert cleaned.left_out == 2


def test_the_same_pairs_give_the_same_bytes(tmp_path):
    for name in ("one.tsv.gz", "two.tsv.gz"):
        write(tmp_path / name, PAIRS)
    packed = (tmp_path / "one.tsv.gz").read_bytes()
    assert packed == (tmp_path / "two.tsv.gz").read_bytes()
    assert packed[4:8] == bytes(4)  # gzip's field for the time


@pytest.mark.parametrize(("name", "opener"), [("out.tsv.gz", gzip.open), ("out.tsv.xz", lzma.open)])
def test_packed_files_are_whole(tmp_path, name, opener):
    write(tmp_path / name, [Pair(f"a{number}", "b") for number in range(5000)])
    with opener(tmp_path / name, "rt") as file:
        assert len(file.readlines()) == 5001


def test_a_failure_leaves_nothing_behind(tmp_path):
    with pytest.raises(InputError):
        write(tmp_path / "out.tsv", broken_off(InputError("x", expected="a", found="b")))
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_what_stood_there(tmp_path):
    (tmp_path / "out.tsv").write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "out.tsv", broken_off(KeyboardInterrupt()), force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out.tsv"]
    assert (tmp_path / "out.tsv").read_text() == "old"


def test_nothing_stands_in_its_place_before_the_end(tmp_path):
    with Cleaned(tmp_path / "out.tsv") as cleaned:
        cleaned.keep(Found(1, PAIRS[0]))
        assert not (tmp_path / "out.tsv").exists()
    assert (tmp_path / "out.tsv").exists()


def test_an_existing_file_is_only_replaced_by_force(tmp_path):
    (tmp_path / "out.tsv").write_text("old")
    with pytest.raises(SaccadeError, match="found one that exists"):
        Cleaned(tmp_path / "out.tsv")
    write(tmp_path / "out.tsv", PAIRS, force=True)
    assert read_pairs(tmp_path / "out.tsv") == PAIRS


def test_a_reader_of_the_old_file_goes_on_reading_it(tmp_path):
    (tmp_path / "out.tsv").write_text("old")
    with (tmp_path / "out.tsv").open() as reader:
        write(tmp_path / "out.tsv", PAIRS, force=True)
        assert reader.read() == "old"


def test_an_existing_log_is_only_replaced_by_force(tmp_path):
    (tmp_path / "out.tsv.log.jsonl").write_text("old")
    with pytest.raises(SaccadeError, match=r"log\.jsonl: expected a new file"):
        Cleaned(tmp_path / "out.tsv")


def test_what_is_read_is_never_written_over_not_even_by_force_or_through_a_link(tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a\tb\n")
    (tmp_path / "soft.tsv").symlink_to(pairs)
    (tmp_path / "hard.tsv").hardlink_to(pairs)
    for name in ("pairs.tsv", "soft.tsv", "hard.tsv", "../" + tmp_path.name + "/pairs.tsv"):
        with pytest.raises(SaccadeError, match="found the one that is read"):
            Cleaned(tmp_path / name, reads=[pairs], force=True)
    with pytest.raises(SaccadeError, match="found the one that is read"):
        Cleaned(tmp_path / "out.tsv", pairs, reads=[pairs], force=True)
    assert pairs.read_text() == "a\tb\n"


@pytest.mark.parametrize("name", ["out.txt", "out", "out.gz", "out.parquet"])
def test_a_name_that_says_no_format_is_refused(tmp_path, name):
    with pytest.raises(SaccadeError, match=r"expected a name that ends in \.tsv, \.csv or \.jsonl"):
        Cleaned(tmp_path / name)


def test_the_log_needs_a_name_of_its_own(tmp_path):
    with pytest.raises(SaccadeError, match="expected another file for the log"):
        Cleaned(tmp_path / "out.tsv", tmp_path / "out.tsv")


def test_a_folder_is_no_file_to_write(tmp_path):
    (tmp_path / "out.tsv").mkdir()
    with pytest.raises(SaccadeError, match="found a folder"):
        Cleaned(tmp_path / "out.tsv", force=True)


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SaccadeError, match=r"could not write it: .*; what stood there is unchanged"):
        write(tmp_path / "file" / "out.tsv", PAIRS)
