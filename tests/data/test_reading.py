"""Records out of files that may hold faults."""

from dataclasses import replace

import pytest

from saccade.data.files.records import NOT_UTF8, fault
from saccade.data.labels.records import Labelled, LabelledData
from saccade.data.reading import FaultCounts, load_splits, valid_records, warnings_about
from saccade.errors import InputError


def data(faults: str = "error", **settings) -> LabelledData:
    return LabelledData(train="a.txt", test="b.txt", hold_out=0.2, faults=faults, **settings)


def broken(reason: str = "empty", *, skipped: bool = False):
    return fault(7, reason, "a.txt", expected="a text", found="nothing", skipped=skipped)


def test_the_first_fault_is_raised_with_what_a_recipe_can_say() -> None:
    with pytest.raises(InputError, match=r"a\.txt:7: .*; data\.faults: drop leaves such rows out$"):
        list(valid_records(["one", broken(), "two"], data(), FaultCounts(), strict=False, called="rows"))


def test_bytes_that_are_no_utf8_are_told_of_encodings_unless_one_was_named() -> None:
    with pytest.raises(InputError, match=r"data\.encoding: latin-1 or windows-1252"):
        list(valid_records([broken(NOT_UTF8)], data(), FaultCounts(), strict=False, called="rows"))
    with pytest.raises(InputError) as raised:
        list(valid_records([broken(NOT_UTF8)], data(encoding="latin-1"), FaultCounts(), strict=False, called="rows"))
    assert "data.encoding" not in str(raised.value)


def test_dropped_faults_are_counted_and_strict_reading_drops_none() -> None:
    dropped = FaultCounts()
    items = ["one", broken(), "two", broken("odd")]
    assert list(valid_records(items, data("drop"), dropped, strict=False, called="rows")) == ["one", "two"]
    assert len(dropped) == 2
    (warning,) = warnings_about("a.txt", ["one", "two"], dropped, expected="a text", called="rows")
    assert warning == "a.txt: dropped 2 of 4 rows: 1 empty (first: 7), 1 odd (first: 7)"
    with pytest.raises(InputError, match=r"expected a text, found nothing$"):
        list(valid_records(items, data("drop"), FaultCounts(), strict=True, called="rows"))


def test_what_a_file_itself_passes_over_is_not_an_error() -> None:
    dropped = FaultCounts()
    assert list(valid_records([broken(skipped=True), "one"], data(), dropped, strict=True, called="rows")) == ["one"]
    assert len(dropped) == 1


def test_no_record_at_all_is_an_error_that_says_what_was_dropped() -> None:
    dropped = FaultCounts()
    dropped.add(broken())
    with pytest.raises(InputError, match=r"expected at least one, found none: dropped were 1 empty"):
        warnings_about("a.txt", [], dropped, expected="at least one")
    assert warnings_about("a.txt", ["one"], FaultCounts(), expected="at least one") == []


def test_parts_come_from_their_files_with_their_notes_and_the_rest_is_held_out(tmp_path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).touch()

    def read(path, split):
        return [Labelled(f"{path.name} {n}", "x") for n in range(10)], [f"{path.name} was read for {split}"]

    splits = load_splits(data(), tmp_path, 1, None, read)
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (8, 2, 10)
    assert splits.notes[:2] == ("a.txt was read for train", "b.txt was read for test")


def test_generated_splits_are_held_out_where_they_are_missing_and_kept_where_they_were_drawn_independently(
    monkeypatch, tmp_path
) -> None:
    texts = [f"text {n}" for n in range(10)]
    monkeypatch.setattr("saccade.data.reading.generated", lambda data, folder: dict.fromkeys(("train", "test"), texts))
    toy = replace(data(), source="opinions", train=None, test=None, overlap="drop_test", hold_out=0.3)
    splits = load_splits(toy, tmp_path, 1, lambda text: Labelled(text, "x"), None)
    assert (len(splits.train), len(splits.valid)) == (7, 3)
    assert {record.source for record in splits.test} == {record.source for record in splits.valid}
    monkeypatch.setattr(
        "saccade.data.reading.generated", lambda data, folder: dict.fromkeys(("train", "valid", "test"), texts)
    )
    splits = load_splits(toy, tmp_path, 1, lambda text: Labelled(text, "x"), None, independent=True)
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [10, 10, 10] and not splits.notes
