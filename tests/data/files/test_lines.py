"""Whatever a text file holds, its lines come in bounded memory, each with its own fault."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from pathlib import Path

import pytest

from saccade.data.files import lines
from saccade.data.files.lines import lines_of, text_lines
from saccade.data.files.records import GROWING, LONG, NOT_UTF8, NUL
from saccade.data.pairs.records import Found, PairData, scan
from saccade.errors import InputError


def write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def reasons(path: Path) -> list[str | None]:
    return [line.fault.reason if line.fault else None for line in lines_of(path)]


def test_each_line_has_its_own_fault_and_the_others_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", b"\xef\xbb\xbfone\ncaf\xe9\nthr\x00ee\n\xed\xa0\x80\nfive \xc3\xa9")
    assert reasons(path) == [None, NOT_UTF8, NUL, NOT_UTF8, None]
    assert [line.text for line in lines_of(path)][0::4] == ["one\n", "five é"]
    assert [line.number for line in lines_of(path)] == [1, 2, 3, 4, 5]


def test_strict_lines_raise_the_first_fault(tmp_path: Path) -> None:
    read = text_lines(write(tmp_path, "a.txt", b"one\nt\xffo\n"))
    assert next(read) == "one\n"
    with pytest.raises(InputError, match=r":2: expected UTF-8 text, found the byte 0xff at offset 1"):
        next(read)


@pytest.mark.parametrize("content", ["a\n".encode("utf-16"), b"PK\x03\x04\xff", b"\x1f\x8b\x08", b"PAR1\xff"])
def test_a_file_that_is_not_a_text_at_all_is_refused_at_once(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match="this looks like"):
        reasons(write(tmp_path, "a.txt", content + b"\nfine\n"))


def test_text_of_two_bytes_a_character_is_all_fault(tmp_path: Path) -> None:
    assert set(reasons(write(tmp_path, "a.txt", "one\ntwo\n".encode("utf-16-be")))) == {NUL}


def test_an_over_long_line_is_passed_over_without_being_held(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", b"one\n" + b"x" * 10_000_000 + b"\nthree\n")
    tracemalloc.start()
    assert reasons(path) == [None, LONG, None]
    assert tracemalloc.get_traced_memory()[1] < 4_000_000
    tracemalloc.stop()


def test_a_line_without_end_is_given_up_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_LIMIT", 1000)
    monkeypatch.setattr(lines, "SKIP_LIMIT", 300_000)
    path = write(tmp_path, "a.txt.gz", gzip.compress(b"one\n" + b"\0" * 3_000_000, mtime=0))
    read = lines_of(path)
    assert next(read).text == "one\n"
    assert next(read).fault.reason == LONG
    with pytest.raises(
        InputError, match=r":2: expected lines of at most 1,000 bytes, found one that does not end within"
    ):
        next(read)


def test_a_file_that_grows_is_read_as_it_was_when_opened(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", b"one\ntwo\n")
    read = lines_of(path)
    assert next(read).text == "one\n"
    with path.open("ab") as file:
        file.write(b"three\n" * 100_000)
    assert [line.text for line in read] == ["two\n"]


def test_a_last_line_that_is_still_being_written_is_a_fault(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", b"one\nthe beg")
    read = lines_of(path)
    assert next(read).fault is None
    with path.open("ab") as file:
        file.write(b"inning\n")
    last = list(read)
    assert [line.fault.reason for line in last] == [GROWING]
    assert "expected a whole last line, found one that is still being written" in str(last[0].fault.error)
    assert reasons(path) == [None, None]


def test_a_file_that_shrinks_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", b"one\n" * 100_000)
    read = lines_of(path)
    next(read)
    os.truncate(path, 4)
    with pytest.raises(
        InputError, match=r"expected a file that does not change while it is read, found [\d,]+ bytes fewer"
    ):
        list(read)


def test_a_file_that_vanishes_is_read_on_and_missed_the_next_time(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", b"one\ntwo\n")
    read = lines_of(path)
    next(read)
    path.unlink()
    assert [line.text for line in read] == ["two\n"]
    with pytest.raises(InputError, match="found nothing of that name"):
        list(lines_of(path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_a_pipe_and_a_device_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.tsv")
    with pytest.raises(InputError, match=r"expected a file, found a pipe \(data are read more than once"):
        list(scan(tmp_path / "a.tsv"))
    with pytest.raises(InputError, match="expected a file, found a device"):
        list(scan("/dev/zero", format="tsv"))


@pytest.mark.parametrize("name", ["a" * 300 + ".tsv", "a\0b.tsv"])
def test_a_name_that_no_file_can_have_is_reported(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="expected a file"):
        list(scan(tmp_path / name))


def test_what_stood_before_the_damage_of_a_packed_file_was_given(tmp_path: Path) -> None:
    packed = gzip.compress(b"".join(b"%d\t%d\n" % (n, n * n) for n in range(30_000)), mtime=0)
    read = scan(write(tmp_path, "a.tsv.gz", packed[: len(packed) // 2]))
    seen = []
    with pytest.raises(InputError, match="expected whole gz data"):
        seen.extend(read)
    assert len(seen) > 5000
    assert all(isinstance(item, Found) for item in seen)


def test_lines_that_end_in_a_carriage_return_alone_are_reported(tmp_path: Path) -> None:
    found = list(scan(write(tmp_path, "a.tsv", b"a\tb\rc\td\r")))
    assert [fault.reason for fault in found] == ["a carriage return within a line"]
    assert "save the file with LF" in str(found[0].error)
    mixed = list(scan(write(tmp_path, "b.tsv", b"a\tb\r\nc\td\ne\rf\tg\nh\ti\r\n")))
    assert [getattr(item, "reason", "pair") for item in mixed] == ["pair", "pair", found[0].reason, "pair"]
    assert [fault.reason for fault in scan(write(tmp_path, "c.csv", b"a,b\rc,d\r"))] == [found[0].reason]


@pytest.mark.parametrize("encoding", ["cp1252", "windows-1252", "Windows_1252", "cp1251", "shift_jis"])
def test_an_encoding_goes_by_any_of_its_names(tmp_path: Path, encoding: str) -> None:
    text = {"cp1251": "мир\n", "shift_jis": "日本\n"}.get(encoding, "“café”\n")
    path = write(tmp_path, "a.txt", text.encode(encoding))
    assert [line.text for line in lines_of(path, encoding)] == [text]


@pytest.mark.parametrize("encoding", ["utf-16", "no-such", "rot13", "unicode_escape", "punycode"])
def test_an_encoding_whose_lines_cannot_be_told_apart_is_refused(encoding: str) -> None:
    with pytest.raises(ValueError, match=rf"encoding must be utf-8.*got '{encoding}'"):
        PairData(train="x.tsv", encoding=encoding)
