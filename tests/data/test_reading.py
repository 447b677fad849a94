"""Records out of files that may hold faults."""

from dataclasses import dataclass
from typing import Literal

import pytest

from saccade.data.files.records import NOT_UTF8, fault
from saccade.data.labels.records import Labelled
from saccade.data.reading import FaultCounts, load_parts, valid_records, warnings_about
from saccade.errors import InputError


@dataclass(frozen=True)
class Data:
    faults: Literal["error", "drop"] = "error"
    encoding: str = "utf-8"
    train: str | None = "a.txt"
    valid: str | None = None
    test: str | None = "b.txt"
    hold_out: float = 0.2
    overlap: Literal["keep", "drop_train"] = "keep"


def broken(reason: str = "empty", *, skipped: bool = False):
    return fault(7, reason, "a.txt", expected="a text", found="nothing", skipped=skipped)


def test_the_first_fault_is_raised_with_what_a_recipe_can_say() -> None:
    with pytest.raises(InputError, match=r"a\.txt:7: .*; data\.faults: drop leaves such rows out$"):
        list(valid_records(["one", broken(), "two"], Data(), FaultCounts(), strict=False, called="rows"))


def test_bytes_that_are_no_utf8_are_told_of_encodings_unless_one_was_named() -> None:
    with pytest.raises(InputError, match=r"data\.encoding: latin-1 or windows-1252"):
        list(valid_records([broken(NOT_UTF8)], Data(), FaultCounts(), strict=False, called="rows"))
    with pytest.raises(InputError) as raised:
        list(valid_records([broken(NOT_UTF8)], Data(encoding="latin-1"), FaultCounts(), strict=False, called="rows"))
    assert "data.encoding" not in str(raised.value)


def test_dropped_faults_are_counted_and_strict_reading_drops_none() -> None:
    left_out = FaultCounts()
    items = ["one", broken(), "two", broken("odd")]
    assert list(valid_records(items, Data("drop"), left_out, strict=False, called="rows")) == ["one", "two"]
    assert len(left_out) == 2 and warnings_about(
        "a.txt", ["one", "two"], left_out, expected="a text", called="row(s)"
    ) == ["a.txt: 2 row(s) left out beside 2: 1 empty (first: 7), 1 odd (first: 7)"]
    with pytest.raises(InputError, match=r"expected a text, found nothing$"):
        list(valid_records(items, Data("drop"), FaultCounts(), strict=True, called="rows"))


def test_what_a_file_itself_passes_over_is_no_error() -> None:
    left_out = FaultCounts()
    assert list(valid_records([broken(skipped=True), "one"], Data(), left_out, strict=True, called="rows")) == ["one"]
    assert len(left_out) == 1


def test_no_record_at_all_is_an_error_that_says_what_was_left_out() -> None:
    left_out = FaultCounts()
    left_out.add(broken())
    with pytest.raises(InputError, match=r"expected at least one, found none: left out were 1 empty"):
        warnings_about("a.txt", [], left_out, expected="at least one")
    assert warnings_about("a.txt", ["one"], FaultCounts(), expected="at least one") == []


def test_parts_come_from_their_files_with_their_notes_and_the_rest_is_held_out(tmp_path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).touch()

    def gather(path, data):
        return [Labelled(f"{path.name} {n}", "x") for n in range(10)], [f"{path.name} was read"]

    splits = load_parts(Data(), tmp_path, 1, {}, gather)
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (8, 2, 10)
    assert splits.notes[:2] == ("a.txt was read", "b.txt was read")
