"""Pairs are read as written, and every fault in a file is told in one line that names the place."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest

from saccade.data.files import lines
from saccade.data.pairs.records import Pair, read_pairs
from saccade.errors import InputError

TWO = [Pair("ein Haus", "a house"), Pair("zwei", "two")]


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def fault(path: object, **options: str) -> str:
    with pytest.raises(InputError) as caught:
        read_pairs(path, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("header.tsv", "source\ttarget\nein Haus\ta house\nzwei\ttwo\n"),
        ("plain.tsv", "ein Haus\ta house\nzwei\ttwo\n"),
        ("no_last_newline.tsv", "ein Haus\ta house\nzwei\ttwo"),
        ("windows.tsv", "source\ttarget\r\nein Haus\ta house\r\nzwei\ttwo\r\n"),
        ("byte_order_mark.tsv", "\ufeffsource\ttarget\nein Haus\ta house\nzwei\ttwo\n"),
        ("other_columns.tsv", "target\tid\tsource\na house\t1\tein Haus\ntwo\t2\tzwei\n"),
        ("blank_lines.tsv", "\nein Haus\ta house\n\nzwei\ttwo\n\n"),
        ("header.csv", "source,target\nein Haus,a house\nzwei,two\n"),
        ("plain.csv", '"ein Haus",a house\n\nzwei,"two"\n'),
        ("a.jsonl", '{"source": "ein Haus", "target": "a house", "id": 7}\n\n{"target": "two", "source": "zwei"}\n'),
        ("UPPER.TSV", "ein Haus\ta house\nzwei\ttwo\n"),
    ],
)
def test_each_format_gives_the_same_pairs(tmp_path: Path, name: str, content: str) -> None:
    assert read_pairs(write(tmp_path, name, content)) == TWO


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_files_are_read_as_if_they_were_not(tmp_path: Path, suffix: str, compress: object) -> None:
    squeeze = compress
    content = squeeze(b"ein Haus\ta house\nzwei\ttwo\n")  # type: ignore[operator]
    assert read_pairs(write(tmp_path, "a.tsv" + suffix, content)) == TWO
    german = write(tmp_path, "a.de" + suffix, squeeze(b"ein Haus\nzwei\n"))  # type: ignore[operator]
    assert read_pairs((german, write(tmp_path, "a.en", "a house\ntwo\n"))) == TWO


def test_named_columns_are_taken_from_the_header(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "en\tde\nhouse\tHaus\n")
    assert read_pairs(path, source="de", target="en") == [Pair("Haus", "house")]
    lines = write(tmp_path, "a.jsonl", '{"de": "Haus", "en": "house"}\n')
    assert read_pairs(lines, source="de", target="en") == [Pair("Haus", "house")]


def test_the_format_can_be_said_when_the_name_does_not(tmp_path: Path) -> None:
    assert read_pairs(write(tmp_path, "corpus.txt", "ein Haus\ta house\nzwei\ttwo\n"), format="tsv") == TWO


def test_two_files_belong_together_line_by_line_and_lines_blank_in_both_are_skipped(tmp_path: Path) -> None:
    first = write(tmp_path, "a.de", "ein Haus\n\nzwei\n")
    assert read_pairs((first, write(tmp_path, "a.en", "a house\n\ntwo"))) == TWO


def test_text_is_kept_as_written(tmp_path: Path) -> None:
    # U+2028 and U+0085 end lines for str.splitlines; quotation marks mean nothing in a TSV.
    strange = ' "a\u2028b\x85c"" नमस्ते 👩‍👧 שלום </script>'
    assert read_pairs(write(tmp_path, "a.tsv", f"{strange}\t'\"\n")) == [Pair(strange, "'\"")]
    quoted = write(tmp_path, "a.csv", 'source,target\n"one\ntwo, ""three""",x\n')
    assert read_pairs(quoted) == [Pair('one\ntwo, "three"', "x")]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.tsv", "", "expected at least one pair, found nothing"),
        ("a.tsv", "\n\n", "expected at least one pair, found nothing"),
        ("a.jsonl", "", "expected at least one pair, found nothing"),
        ("a.tsv", "source\ttarget\n", ":1: expected at least one record, found only a header"),
        ("a.csv", "source,target\n", ":1: expected at least one record, found only a header"),
        (
            "a.tsv",
            "src\ttarget\nx\ty\n",
            ":1: expected the columns 'source' and 'target', found the columns 'src', 'target'",
        ),
        (
            "a.tsv",
            "Source\tTarget\nx\ty\n",
            ":1: expected the columns 'source' and 'target', found the columns 'Source'",
        ),
        (
            "a.tsv",
            "source\tsource\ttarget\n",
            ":1: source: expected one column of that name, found 2: columns 1, 2",
        ),
        ("a.tsv", "one\n", ":1: expected the columns 'source' and 'target', found the columns 'one'"),
        ("a.tsv", "a\tb\tc\n", ":1: expected the columns 'source' and 'target', found the columns 'a', 'b', 'c'"),
        ("a.tsv", "source\ttarget\nx\ty\nz\n", ":3: target: expected 2 columns, found 1"),
        ("a.tsv", "x\ty\nz\n", ":2: expected 2 columns, found 1"),
        ("a.tsv", "x\ty\nx\ty\tz\n", ":2: expected 2 columns, found 3"),
        ("a.csv", 'source,target\n"x\ny",z\na,b,c\n', ":4: expected 2 columns, found 3"),
        ("a.tsv", "x\ty\nz\t\n", ":2: target: expected text on both sides of a pair, found nothing"),
        ("a.tsv", "x\ty\n \ty\n", ":2: source: expected text on both sides of a pair, found only spaces"),
        ("a.tsv", "\tonly a target\n", ":1: source: expected text on both sides"),
        (
            "a.csv",
            'source,target\nx,y\n"a\nb,c\nd,e\n',
            ":3: expected a CSV row, found unexpected end of data (a quotation",
        ),
        ("a.csv", 'x,y\n"a"b,c\n', ":2: expected a CSV row, found ',' expected after '\"'"),
        ("a.tsv", b"x\ty\nabc\xe9\tz\n", ":2: expected UTF-8 text, found the byte 0xe9 at offset 3 of the line"),
        ("a.tsv", b"\xef\xbb\xbfab\xff\tz\n", ":1: expected UTF-8 text, found the byte 0xff at offset 5 of the line"),
        ("a.tsv", "x\ty\n".encode("utf-16"), ":1: expected UTF-8 text, found the byte 0xff at offset 0"),
        ("a.tsv", "x\ty\n".encode("utf-16"), "this looks like UTF-16: save it as UTF-8"),
        ("a.tsv", gzip.compress(b"x\ty\n", mtime=0), "this looks like gzip data: its name should end in .gz"),
        ("a.tsv", b"x\ty\nab\x00c\tz\n", ":2: expected UTF-8 text, found a NUL byte at offset 2 of the line"),
        ("a.jsonl", "[1]\n", ":1: expected a JSON object, found a list"),
        (
            "a.jsonl",
            '{"source": "x", "target": "y"}\nx y\n',
            ":2: expected a JSON object, found no JSON: Expecting value",
        ),
        ("a.jsonl", '{"source": "x"}\n', ":1: target: expected the key 'target', found the keys 'source'"),
        ("a.jsonl", "{}\n", ":1: source: expected the key 'source', found no keys"),
        ("a.jsonl", '{"source": "x", "target": 3}\n', ":1: target: expected a string, found a number"),
        ("a.jsonl", '{"source": null, "target": "y"}\n', ":1: source: expected a string, found null"),
        (
            "a.jsonl",
            '{"source": "x", "target": ""}\n',
            ":1: target: expected text on both sides of a pair, found nothing",
        ),
        ("a.jsonl", '{"source": "a\\ud83d", "target": "y"}\n', "found half of a surrogate pair at character 1"),
        ("a.jsonl", '{"source": "a\\u0000", "target": "y"}\n', ":1: source: expected text, found a NUL character"),
        ("a.jsonl", "[" * 100_000 + "\n", ":1: expected a JSON object, found no JSON"),
        ("a.jsonl", "9" * 5000 + "\n", ":1: expected a JSON object, found no JSON"),
        ("a.tsv.gz", b"x\ty\n", ":1: expected whole gz data, found truncated or damaged data"),
        ("a.tsv.gz", gzip.compress(os.urandom(5000).hex().encode())[:700], "expected whole gz data"),
        ("a.tsv.xz", lzma.compress(b"x\ty\n" * 99)[:-20], "expected whole xz data"),
        ("a.tsv.xz", b"x\ty\n", "expected whole xz data"),
        (
            "a.txt",
            "x\ty\n",
            "expected a file of pairs (tsv, csv, jsonl, parquet, also .gz or .xz), found the suffix 'txt'",
        ),
        ("a.txt.gz", "x\ty\n", "found the suffix 'txt'"),
        ("pairs", "x\ty\n", "found a name without a suffix"),
    ],
)
def test_a_fault_names_the_file_the_line_and_what_was_found(
    tmp_path: Path, name: str, content: str | bytes, told: str
) -> None:
    path = write(tmp_path, name, content)
    message = fault(path)
    assert message.startswith(str(path))
    assert told in message


def test_columns_that_were_named_must_be_in_the_header(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "Haus\thouse\n")
    assert "expected the columns 'de' and 'en', found the columns 'Haus', 'house'" in fault(
        path, source="de", target="en"
    )


def test_a_missing_file_is_reported_with_its_near_names(tmp_path: Path) -> None:
    write(tmp_path, "train.tsv", "x\ty\n")
    assert "found nothing of that name (did you mean train.tsv?)" in fault(tmp_path / "trian.tsv")
    assert "has no similar name" in fault(tmp_path / "zzzzzz.jsonl")
    assert f"there is no folder {tmp_path / 'nowhere'}" in fault(tmp_path / "nowhere" / "a.tsv")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").mkdir()
    assert "expected a file, found a folder" in fault(tmp_path / "a.tsv")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "x\ty\n")
    path.chmod(0)
    assert "expected a file that can be read, found Permission denied" in fault(path)


def test_an_unknown_format_is_reported_with_the_known_ones(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "x\ty\n")
    assert "format: expected one of tsv, csv, jsonl, parquet, found 'xls'" in fault(path, format="xls")


@pytest.mark.parametrize(("name", "tool"), [("a.po", "po2csv"), ("a.tmx.gz", "TMX-to-TSV")])
def test_catalogues_and_translation_memories_say_how_to_convert_them(tmp_path, name, tool):
    (tmp_path / name).write_text("")
    said = fault(tmp_path / name)
    assert name in said and tool in said and "\n" not in said


def test_files_of_different_lengths_name_the_shorter_one_and_both_ends(tmp_path: Path) -> None:
    first, second = write(tmp_path, "a.de", "1\n2\n3\n4\n5\n"), write(tmp_path, "a.en", "1\n2\n3\n")
    told = f"{second}:4: expected as many lines as in {first.name}, found the end after 3 lines"
    assert fault((first, second)) == told
    assert fault((second, first)) == told


def test_a_line_that_is_blank_in_one_file_alone_is_reported(tmp_path: Path) -> None:
    first, second = write(tmp_path, "a.de", "1\n2\n3\n"), write(tmp_path, "a.en", "1\n\n3\n")
    assert fault((first, second)).startswith(f"{second}:2: a.en: expected text on both sides")
    assert fault((second, first)).startswith(f"{second}:2: a.en: expected text on both sides")


def test_two_empty_files_hold_no_pair(tmp_path: Path) -> None:
    assert "expected at least one pair" in fault((write(tmp_path, "a.de", ""), write(tmp_path, "a.en", "")))


def test_three_files_or_a_format_for_two_are_reported(tmp_path: Path) -> None:
    assert "expected two text files, plain lines, found 3 files" in fault(("a", "b", "c"))
    assert "found format 'tsv'" in fault(("a", "b"), format="tsv")


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "LINE_LIMIT", 1000)
    longest = "x" * 997 + "\ty\n"
    assert len(read_pairs(write(tmp_path, "a.tsv", longest))[0].source) == 997
    bomb = write(tmp_path, "b.tsv.gz", gzip.compress(b"a\tb\n" + b"x" * 50_000_000, mtime=0))
    assert fault(bomb).startswith(f"{bomb}:2: expected lines of at most 1,000 bytes, found a longer one")


def test_a_csv_field_that_never_ends_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'source,target\n"x,y\n' + "a,b\n" * 50_000)
    message = fault(path)
    assert message.startswith(f"{path}:2: expected a CSV row, found one of more than 100 lines")
    assert "a quotation mark that is never closed?" in message


def test_reading_pairs_needs_no_torch() -> None:
    modules = "saccade.data.pairs.records, saccade.data.tokenizers.tokenizer, saccade.data.config"
    code = f"import sys, {modules}; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(out.lower()) is False
