"""Where pairs come from: built-in, files, memory; what is not given is held out."""

import pytest

from saccade.data.pairs.records import Columns, Pair, PairData, PairFiles, load_splits, pairs_of, read_file
from saccade.data.paths import locate
from saccade.data.splits import hold_out
from saccade.errors import InputError, SaccadeError
from saccade.recipes.located import locate as locate_plain
from saccade.recipes.located import read_yaml
from saccade.recipes.schema import build, to_plain


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


def test_a_first_line_that_is_not_a_header_is_noted(tmp_path):
    rows = "".join(f"eins {i},one {i}\n" for i in range(30))
    (tmp_path / "a.csv").write_text(f"Hund,dog\n{rows}")
    splits = load_splits(PairData(train="a.csv"), tmp_path, seed=1)
    assert "the first line was read as a pair" in splits.notes[0]
    (tmp_path / "a.csv").write_text(f"de,en\n{rows}")
    splits = load_splits(PairData(train="a.csv"), tmp_path, seed=1)
    assert "dropped 1 of 31 pairs: 1 header row" in splits.notes[0]
    assert len(splits.train) + len(splits.valid) + len(splits.test) == 30
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
        ([("a", "b"), ("a", 3)], "data:2: target: expected a string, found a number"),
        ([{"source": "a"}], "data:1: target: expected the key 'target'"),
        ([("a", " ")], "data:1: target: expected text on both sides of a pair, found only spaces"),
        ([], "expected pairs of texts, found none"),
    ],
)
def test_bad_pairs_in_memory_are_named(data, message):
    with pytest.raises(InputError, match=message):
        pairs_of(data)


ROWS = "".join(f"eins {number},one {number}\n" for number in range(30))


def test_faulty_lines_are_an_error_or_dropped_and_counted(tmp_path):
    (tmp_path / "a.csv").write_bytes(f"source,target\nx,y,z\n{ROWS}".encode() + b"caf\xe9,x\n,one\ntwo,\n")
    with pytest.raises(InputError, match=r"a\.csv:2: expected 2 columns, found 3"):
        load_splits(PairData(train="a.csv"), tmp_path, seed=1)
    splits = load_splits(PairData(train="a.csv", faults="drop"), tmp_path, seed=1)
    assert len(splits.train) + len(splits.valid) + len(splits.test) == 30
    said = "2 one side is empty (first: 34), 1 wrong number of columns (first: 2), 1 not UTF-8 (first: 33)"
    assert splits.notes[0] == f"{tmp_path / 'a.csv'}: dropped 4 of 34 pairs: {said}"


def test_a_file_of_faults_alone_is_refused_though_faults_are_dropped(tmp_path):
    (tmp_path / "a.jsonl").write_text("[]\n{\n")
    with pytest.raises(InputError, match=r"at least one pair, found none: dropped were 2 not JSON \(first: 1\)"):
        load_splits(PairData(train="a.jsonl", faults="drop"), tmp_path, seed=1)


def test_the_format_says_how_to_read_a_file_whose_name_does_not(tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"eng\tdeu\tone {number}\teins {number}\n" for number in range(30)))
    (tmp_path / "b.jsonl").write_text('{"3": "one", "4": "eins"}\n')
    data = PairData(train="a.txt", format="tsv", columns=Columns(3, 4))
    assert load_splits(data, tmp_path, seed=1).train[0] == Pair("one 0", "eins 0")
    assert read_file(tmp_path / "a.txt", data)[7] == Pair("one 7", "eins 7")
    # Another file's own suffix says more of it than the recipe does.
    assert read_file(tmp_path / "b.jsonl", PairData(train="a.txt", format="tsv", columns=Columns("3", "4"))) == [
        Pair("one", "eins")
    ]


def test_groups_are_held_out_whole_and_given_splits_need_none(tmp_path):
    (tmp_path / "a.csv").write_text("doc,de,en\n" + "".join(f"d{n // 5},eins {n},one {n}\n" for n in range(100)))
    (tmp_path / "b.csv").write_text("de,en\nzwei,two\n")
    data = PairData(train="a.csv", test="b.csv", columns=Columns("de", "en", "doc"))
    splits = load_splits(data, tmp_path, seed=1)
    assert {pair.group for pair in splits.train}.isdisjoint({pair.group for pair in splits.valid})
    assert splits.notes == ("valid: 5 records in 1 groups held out of train (no data.valid was given)",)
    assert splits.test == [Pair("zwei", "two")]


def test_a_group_that_no_record_has_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"source": "a", "target": "b", "doc": null}\n' * 9)
    for name in ("doc", "dok"):
        with pytest.raises(InputError, match=f"columns.group: expected a record with '{name}', found none that has it"):
            load_splits(PairData(train="a.jsonl", columns=Columns(group=name)), tmp_path, seed=1)


@pytest.mark.parametrize(("overlap", "sizes"), [("keep", (30, 3)), ("drop_test", (30, 1)), ("drop_train", (28, 3))])
def test_overlap_is_settled_as_the_recipe_says(tmp_path, overlap, sizes):
    (tmp_path / "a.csv").write_text(ROWS)
    (tmp_path / "b.csv").write_text("eins 7,seven\neins 9,nine\nzehn,ten\n")
    data = PairData(train="a.csv", valid="b.csv", test="b.csv", overlap=overlap)
    splits = load_splits(data, tmp_path, seed=1)
    assert (len(splits.train), len(splits.test)) == sizes
    assert any("2 of 3" in note or "2 of 30" in note for note in splits.notes)


def test_a_recipe_says_columns_by_name_or_number_and_is_read_back_equal(tmp_path):
    text = (
        "data: {train: a.txt, format: tsv, columns: {source: 3, target: 4, group: doc}, faults: drop, overlap: error}"
    )
    data = build(PairData, read(tmp_path, text), "data")
    assert data.columns == Columns(3, 4, "doc")
    assert (data.format, data.faults, data.overlap) == ("tsv", "drop", "error")
    assert build(PairData, locate_plain(to_plain(data), "again"), "data") == data
    named = build(PairData, read(tmp_path, 'data: {train: a.tsv, columns: {source: "3", target: no}}'), "data")
    assert named.columns == Columns("3", "no")
    with pytest.raises(InputError, match=r"data\.columns\.source: expected source to be a column's name or its number"):
        build(PairData, read(tmp_path, "data: {train: a.tsv, columns: {source: 0}}"), "data")


def read(folder, text):
    (folder / "recipe.yaml").write_text(text)
    return read_yaml(folder / "recipe.yaml").value["data"]


@pytest.mark.parametrize(
    "bad",
    [{}, {"source": "dates", "train": "x"}, {"train": "x", "hold_out": 0.7}, {"source": "dates", "format": "tsv"}],
)
def test_data_that_contradicts_itself_is_refused(bad):
    with pytest.raises(ValueError, match="must be"):
        PairData(**bad)


def test_pairs_are_read_in_the_recipes_encoding(tmp_path):
    (tmp_path / "a.tsv").write_bytes("".join(f"Kühe {n}\tcows {n}\n" for n in range(30)).encode("latin-1"))
    with pytest.raises(InputError, match=r"a\.tsv:1: expected UTF-8 text.*data\.encoding: latin-1"):
        load_splits(PairData(train="a.tsv"), tmp_path, seed=1)
    splits = load_splits(PairData(train="a.tsv", encoding="latin-1"), tmp_path, seed=1)
    assert all(pair.source.startswith("Kühe ") for pair in splits.train)
    (tmp_path / "a.de").write_bytes("Kühe\n".encode("latin-1"))
    (tmp_path / "a.en").write_text("cows\n")
    files = PairFiles("a.de", "a.en")
    aligned = PairData(train=files, valid=files, test=files, encoding="latin-1")
    assert load_splits(aligned, tmp_path, seed=1).train == [Pair("Kühe", "cows")]
