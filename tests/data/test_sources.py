"""Where pairs come from: built-in, files, memory; what is not given is held out."""

import pytest

from saccade.data.pairs import Columns
from saccade.data.sources import PairData, PairFiles, load_splits, locate, pairs_of
from saccade.errors import InputError, SaccadeError
from saccade.splits import hold_out


def test_what_is_held_out_was_not_trained_on_and_nothing_is_lost():
    pairs = pairs_of([(f"s{number % 60}", f"t{number}") for number in range(100)])
    splits = hold_out({"train": pairs}, 0.1, seed=3)
    sides = [{pair.source for pair in part} for part in (splits.train, splits.valid, splits.test)]
    assert not sides[0] & sides[1] | sides[0] & sides[2] | sides[1] & sides[2]
    assert sorted(map(repr, [*splits.train, *splits.valid, *splits.test])) == sorted(map(repr, pairs))
    assert hold_out({"train": pairs}, 0.1, seed=3) == splits
    assert hold_out({"train": pairs}, 0.1, seed=4) != splits


def test_too_few_records_to_hold_out_are_refused():
    with pytest.raises(SaccadeError, match=r"too few to hold out a valid set: give data\.valid"):
        hold_out({"train": pairs_of([("a", "b")])}, 0.1, seed=1)


def test_relative_paths_start_at_the_recipe_and_variables_at_the_shell(tmp_path, monkeypatch):
    monkeypatch.setenv("DATA_HERE", "elsewhere")
    assert locate("a.tsv", tmp_path) == tmp_path / "a.tsv"
    assert str(locate("$DATA_HERE/a.tsv", tmp_path)) == "elsewhere/a.tsv"
    monkeypatch.delenv("DATA_HERE")
    with pytest.raises(InputError, match=r"expected the variable \$DATA_HERE to be set"):
        locate("$DATA_HERE/a.tsv", tmp_path)


def test_a_first_line_that_is_no_header_is_noted(tmp_path):
    (tmp_path / "a.csv").write_text("de,en\n" + "".join(f"eins {i},one {i}\n" for i in range(30)))
    splits = load_splits(PairData(train="a.csv"), tmp_path, seed=1)
    assert "the first line was read as a pair" in splits.notes[0]
    named = PairData(train="a.csv", columns=Columns("de", "en"))
    assert not any("first line" in note for note in load_splits(named, tmp_path, seed=1).notes)


def test_aligned_files_make_pairs(tmp_path):
    (tmp_path / "a.de").write_text("eins\nzwei\n")
    (tmp_path / "a.en").write_text("one\ntwo\n")
    files = PairFiles("a.de", "a.en")
    splits = load_splits(PairData(train=files, valid=files, test=files), tmp_path, seed=1)
    assert [(pair.source, pair.target) for pair in splits.train] == [("eins", "one"), ("zwei", "two")]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([("a", "b", "c")], "data:1: expected a pair of texts"),
        ([("a", "b"), ("a", 3)], "data:2: expected a pair of texts"),
        ([{"source": "a"}], "data:1: target: expected text"),
        ([("a", " ")], "data:1: expected text on both sides"),
        ([], "expected pairs of texts, found none"),
    ],
)
def test_bad_pairs_in_memory_are_named(data, message):
    with pytest.raises(InputError, match=message):
        pairs_of(data)


@pytest.mark.parametrize("bad", [{}, {"source": "dates", "train": "x"}, {"train": "x", "hold_out": 0.7}])
def test_data_that_contradicts_itself_is_refused(bad):
    with pytest.raises(ValueError, match="must be"):
        PairData(**bad)
