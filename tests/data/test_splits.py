"""What is held out stays apart, by source or by group; what given splits have in common is counted or dropped."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from saccade.data.splits import HELD_OUT_AT_MOST, Splits, hold_out, settle_overlap
from saccade.errors import SaccadeError


@dataclass(frozen=True)
class Record:
    source: str
    group: str | None = None


def records(*sources: str) -> list[Record]:
    return [Record(source) for source in sources]


def test_a_group_is_held_out_whole_or_not_at_all() -> None:
    train = [Record(f"sentence {number % 11}", f"document {number // 7}") for number in range(7 * 53)]
    splits = hold_out({"train": train}, 0.1, seed=3)
    sides = [{record.group for record in part} for part in (splits.train, splits.valid, splits.test)]
    assert not sides[0] & sides[1] | sides[0] & sides[2] | sides[1] & sides[2]
    assert len(splits.train) + len(splits.valid) + len(splits.test) == len(train)
    assert 35 <= len(splits.valid) <= 42  # a tenth of 371, up to whole groups
    assert splits.notes[0] == "valid: 42 records in 6 groups held out of train (no data.valid was given)"
    assert hold_out({"train": train}, 0.1, seed=3) == splits
    assert hold_out({"train": train}, 0.1, seed=4) != splits


def test_a_group_larger_than_the_share_is_passed_over() -> None:
    train = [Record(f"a {n}", "huge") for n in range(900)] + [Record(f"b {n}", f"small {n % 20}") for n in range(100)]
    for seed in range(7):
        splits = hold_out({"train": train}, 0.02, seed)
        assert "huge" in {record.group for record in splits.train}
        assert 20 <= len(splits.valid) < 40


def test_where_every_group_is_large_the_smallest_is_taken() -> None:
    train = [Record(str(n), "abcc"[n % 4]) for n in range(40)]
    splits = hold_out({"train": train}, 0.05, seed=1)
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (20, 10, 10)
    with pytest.raises(
        SaccadeError, match="10 training records with 1 different group are too few to hold out a valid"
    ):
        hold_out({"train": [Record(str(n), "one") for n in range(10)]}, 0.05, seed=1)


def test_not_records_but_different_sources_are_too_few_and_are_counted_so() -> None:
    with pytest.raises(
        SaccadeError, match=r"^60 training records with 1 different source are too few to hold out a test set"
    ):
        hold_out({"train": records(*["a"] * 60, *["b"] * 60)}, 0.05, seed=1)
    with pytest.raises(SaccadeError, match=r"^1 training record with 1 different source .*give data\.valid, or more"):
        hold_out({"train": records("a")}, 0.05, seed=1)


def test_questions_that_are_held_out_without_any_answer_are_refused_at_once() -> None:
    @dataclass(frozen=True)
    class Question(Record):
        answered: bool = False

    train = [Question(f"q{n}", answered=n < 6) for n in range(56)]
    with pytest.raises(
        SaccadeError, match=r"^valid: none of 3 questions held out.*data\.hold_out \(now 0\.05\), or give data\.v"
    ):
        hold_out({"train": train}, 0.05, seed=1)
    assert any(each.answered for each in hold_out({"train": train}, 0.4, seed=1).test)
    hold_out({"train": [Question(f"q{n}") for n in range(56)]}, 0.05, seed=1)  # none is: no share would help


def test_records_without_a_group_stand_by_their_source() -> None:
    train = [Record(f"s{n // 2}") for n in range(200)] + [Record(f"t{n}", "document") for n in range(5)]
    splits = hold_out({"train": train}, 0.1, seed=2)
    sides = [{(record.source, record.group) for record in part} for part in (splits.train, splits.valid, splits.test)]
    assert not sides[0] & sides[1] | sides[0] & sides[2] | sides[1] & sides[2]


def test_groups_too_are_held_out_up_to_a_limit() -> None:
    train = [Record(str(n), str(n // 3)) for n in range(90_000)]
    assert len(hold_out({"train": train}, 0.4, seed=1).valid) <= HELD_OUT_AT_MOST + 3


def common() -> Splits:
    return Splits(records("a", "b", "b", "c", "d"), records("e", "a"), records("b", "b", "f", "B"), ("first",))


def test_kept_overlap_is_counted_in_a_note() -> None:
    splits = settle_overlap(common(), "keep")
    assert (splits.train, splits.valid, splits.test) == (common().train, common().valid, common().test)
    assert splits.notes == (
        "first",
        "valid: the sources of 1 of 2 records also occur in train (data.overlap may drop them)",
        "test: the sources of 2 of 4 records also occur in train (data.overlap may drop them)",
    )


def test_overlap_is_dropped_from_the_test_side_and_counted() -> None:
    splits = settle_overlap(common(), "drop_test")
    assert (splits.train, splits.valid, splits.test) == (common().train, records("e"), records("f", "B"))
    assert splits.notes[1:] == (
        "valid: the sources of 1 of 2 records also occur in train: dropped from valid, 1 are left",
        "test: the sources of 2 of 4 records also occur in train: dropped from test, 2 are left",
    )


def test_overlap_is_dropped_from_the_training_side_and_counted() -> None:
    splits = settle_overlap(common(), "drop_train")
    assert (splits.train, splits.valid, splits.test) == (records("c", "d"), common().valid, common().test)
    assert splits.notes[1:] == ("train: 3 of 5 records have sources of valid or test: dropped, 2 are left",)


def test_overlap_can_be_refused() -> None:
    with pytest.raises(SaccadeError, match="valid: the sources of 1 of 2 records also occur in train, such as 'a'"):
        settle_overlap(common(), "error")


def test_nothing_left_is_refused() -> None:
    same = Splits(records("a"), records("a"), records("b"))
    with pytest.raises(SaccadeError, match="drop_test nothing is left of it"):
        settle_overlap(same, "drop_test")
    with pytest.raises(SaccadeError, match="drop_train nothing is left to train on"):
        settle_overlap(same, "drop_train")


@pytest.mark.parametrize("rule", ["keep", "drop_test", "drop_train", "error"])
def test_splits_without_overlap_are_left_as_they_are(rule: str) -> None:
    apart = Splits(records("a"), records("b"), records("c"))
    assert settle_overlap(apart, rule) is apart  # type: ignore[arg-type]
