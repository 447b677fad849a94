"""``saccade data``, as a person uses it."""

import gzip
import itertools
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from saccade.data.pairs.records import load_splits, read_pairs
from saccade.recipes.recipe import read_recipe

GOOD = (
    "The dog is in the house.\tO cachorro está na casa.\n"
    "They are not here, are they?\tEles não estão aqui, estão?\n"
    "What did she say about it?\tO que ela disse sobre isso?\n"
    "I do not know who he is.\tEu não sei quem ele é.\n"
)


@pytest.fixture
def data(command, monkeypatch, tmp_path):
    """Runs the command in this process: (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    return partial(command, "data")


def test_the_page_says_what_is_there_and_what_to_do(data):
    Path("pairs.tsv").write_text(GOOD + GOOD + "half\t\n")
    status, out, err = data("pairs.tsv")
    assert (status, err) == (0, "")
    assert out.startswith("pairs.tsv: 8 pairs in two columns without a header\n")
    assert "language (a guess)         English                            Portuguese" in out
    assert "script, of the letters     Latin 100 %" in out
    assert "1  one side is empty, the first in line 9" in out
    assert '4  duplicate     the same pair came before\n             line 5: "The dog is in the house." → ' in out
    assert "4 of 9 would be left (44.4 %)" in out
    assert "Would train: yes: 4 good pairs, 4 different sources" in out
    assert "  data:\n    train: pairs.tsv\n    faults: drop  # 1 line is no pair\n" in out
    following = ["saccade data pairs.tsv --clean pairs.clean.tsv", "saccade data pairs.tsv --recipe my.yaml"]
    assert out.endswith("Next:\n" + "".join(f"  {command}\n" for command in (*following, "saccade train my.yaml")))
    assert max(map(len, out.splitlines())) <= 130


def test_the_command_it_names_next_works(data):
    Path("pairs 1.csv").write_text("en,pt,x\n" + GOOD.replace(",", "").replace("\t", ",").replace("\n", ",1\n"))
    _, out, _ = data("pairs 1.csv")
    assert out.splitlines()[-1] == "  saccade data 'pairs 1.csv' --source en --target pt"
    Path("pairs 1.csv").write_text(Path("pairs 1.csv").read_text() + "half,,1\n")
    status, out, _ = data("pairs 1.csv", "--source", "en", "--target", "pt")
    assert status == 0
    assert "saccade data 'pairs 1.csv' --source en --target pt --clean 'pairs 1.clean.csv'" in out
    status, out, _ = data("pairs 1.csv", "--source", "en", "--target", "pt", "--clean", "pairs 1.clean.csv")
    assert status == 0
    assert "Written: 4 pairs to pairs 1.clean.csv; 1 left out, each in pairs 1.clean.csv.log.jsonl" in out
    assert 'train: "pairs 1.clean.csv"' in out
    assert len(read_pairs("pairs 1.clean.csv")) == 4


def test_unknown_columns_are_shown_with_a_text_and_what_to_type(data):
    Path("pairs.txt.gz").write_bytes(gzip.compress("eng\tpor\tThe cat is here.\tO gato está aqui.\n".encode()))
    status, out, err = data("pairs.txt.gz", "--format", "tsv")
    assert (status, err) == (1, "")
    assert "which columns hold the pair is not known" in out
    assert '  3       "The cat is here."' in out
    assert out.endswith("  saccade data pairs.txt.gz --source 3 --target 4 --format tsv\n")
    status, out, _ = data("pairs.txt.gz", "--format", "tsv", "--json")
    told = json.loads(out)
    assert status == 1
    assert told["available"][3] == {"column": 4, "sample": "O gato está aqui."}
    assert told["verdict"]["would_train"] is False


def test_columns_by_number(data):
    Path("pairs.tsv").write_text("".join(f"{n}\t{line}\n" for n, line in enumerate(GOOD.splitlines())))
    status, out, _ = data("pairs.tsv", "--source", "2", "--target", "3")
    assert status == 0
    assert "pairs.tsv: 4 pairs, columns 2 → 3\n" in out
    assert "    columns: {source: 2, target: 3}" in out


def test_json_is_one_object_and_the_exit_status_tells(data):
    Path("pairs.tsv").write_text("a\tb\nc\td\n")
    status, out, _ = data("pairs.tsv", "--json")
    told = json.loads(out)
    assert status == 1
    assert told["verdict"]["would_train"] is False
    assert (told["pairs"], told["left"]) == (2, {"pairs": 2, "sources": 2})
    Path("pairs.tsv").write_text(GOOD)
    status, out, _ = data("pairs.tsv", "--json")
    assert status == 0
    assert json.loads(out)["next"] == ["saccade data pairs.tsv --recipe my.yaml", "saccade train my.yaml"]


def test_two_text_files_and_a_text_file_of_test_sources(data):
    for place, name in enumerate(("train.en", "train.pt")):
        Path(name).write_text("".join(line.split("\t")[place] + "\n" for line in GOOD.splitlines()))
    Path("test.en").write_text("the dog is in the house\nIt is new.\n")
    status, out, _ = data("train.en", "train.pt", "--test", "test.en")
    assert status == 0
    assert out.startswith("train.en → train.pt: 4 pairs of lines\n")
    assert "What test.en shares with it (2 sources)" in out
    assert "1  sources that are here too but for case" in out
    assert "whole pairs" not in out
    assert "--clean train.clean.tsv" in out


def test_leakage_is_found_cleaned_and_kept_when_asked(data):
    Path("pairs.tsv").write_text(GOOD)
    Path("test.jsonl").write_text('{"source": "THE DOG IS IN THE HOUSE!", "target": "x"}\n')
    status, out, _ = data("pairs.tsv", "--test", "test.jsonl", "--clean", "out.tsv")
    assert status == 0
    assert "1  leaked" in out
    assert [pair.source for pair in read_pairs("out.tsv")] == [line.split("\t")[0] for line in GOOD.splitlines()[1:]]
    _, out, _ = data("pairs.tsv", "--test", "test.jsonl", "--keep", "leaked", "--json")
    assert json.loads(out)["left"]["pairs"] == 4


def test_a_test_set_with_other_columns_is_one_sentence(data):
    Path("pairs.tsv").write_text("source\ttarget\n" + GOOD)
    Path("test.csv").write_text("id,question,answer\n1,Who?,me\n")
    status, out, err = data("pairs.tsv", "--test", "test.csv")
    assert (status, out) == (1, "")
    assert "error: --test: test.csv:1: expected columns 'source' and 'target', found the columns 'id'" in err


def test_a_recipe_is_surveyed_with_its_splits(data):
    Path("sub").mkdir()
    Path("sub/pairs.tsv").write_text(GOOD)
    Path("sub/valid.tsv").write_text(GOOD.splitlines()[0] + "\n")
    recipe = "task: translate\ndata: {train: pairs.tsv, valid: valid.tsv, max_length: 24}\nmodel: {name: rnnsearch}\n"
    Path("sub/my.yaml").write_text(recipe)
    status, out, _ = data("sub/my.yaml")
    assert status == 1
    assert "What valid shares with it (1 pairs)" in out
    assert "Would train: no: 2 sources have more than data.max_length, 24 characters, the longest 28" in out
    assert "A recipe for it" not in out
    Path("sub/my.yaml").write_text(recipe.replace("24", "50"))
    status, out, _ = data("sub/my.yaml")
    assert status == 0
    assert "its figure would flatter" in out
    assert out.endswith("saccade train sub/my.yaml\n")


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ("task: point\ndata: {source: hull}\n", "task: expected translate, with data of pairs, found point"),
        ("task: translate\ndata: {source: dates}\n", "data.train: expected a file of pairs, found a built-in source"),
        ("task: translate\n", "expected translate, with data of pairs, found no data"),
        ("task: translate\ndata: {trian: x.tsv}\n", "data.trian: expected one of"),
    ],
)
def test_a_recipe_without_files_of_pairs_is_one_sentence(data, recipe, said):
    Path("my.yaml").write_text(recipe)
    status, out, err = data("my.yaml")
    assert (status, out) == (1, "")
    assert said in err
    assert err.count("\n") == 1


def test_what_a_terminal_would_obey_is_spelt_out(data):
    Path("pairs.jsonl").write_text(
        '{"source": "\\u001b[2Jgone", "target": "\\u202eabc"}\n' + '{"source": "a", "target": "b"}\n' * 2
    )
    _, out, _ = data("pairs.jsonl")
    assert "\x1b" not in out and "\u202e" not in out
    assert '"\\x1b[2Jgone" → "\\u202eabc"' in out
    Path("three.tsv").write_text("\x1b[1ma\tb\tc\n1\t2\t\x1b[31m\n")
    _, out, _ = data("three.tsv")
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing.tsv"], "nothing.tsv: expected a file, found nothing of that name"),
        (["a", "b", "c"], "expected one file of pairs or two text files, found 3 files"),
        (["pairs.tsv", "b.txt", "--source", "x"], "expected two text files, plain lines"),
        (["pairs.tsv", "--source", "0"], "--source must be a column's name or its number from 1: got 0"),
        (["pairs.tsv", "--source", "a", "--target", "a"], "--target must be another column than source"),
        (["pairs.tsv", "--format", "xls"], "expected one of tsv, csv, jsonl"),
        (["pairs.tsv", "--drop", "ratios"], "did you mean ratio?"),
        (["pairs.tsv", "--log", "x.jsonl"], "--log: expected --clean OUT beside it, found none"),
        (["pairs.tsv", "--force"], "--force: expected --clean OUT or --recipe YAML beside it, found neither"),
        (["pairs.tsv", "--clean", "pairs.tsv", "--force"], "found the one that is read"),
        (["pairs.tsv", "--clean", "out.doc"], "expected a name that ends in .tsv"),
        (["pairs.tsv", "--test", "gone.tsv"], "gone.tsv: expected a file, found nothing of that name"),
        (["my.yaml", "--source", "en"], "--source: expected a file of pairs beside it, found a recipe"),
        (["."], ".: expected a file"),
    ],
)
def test_a_mistake_is_one_sentence(data, words, said):
    Path("pairs.tsv").write_text(GOOD)
    status, out, err = data(*words)
    assert (status, out) == (1, "")
    assert said in err
    assert err.startswith("error: ") and err.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["pairs.tsv"]


def test_cleaning_writes_over_nothing_unless_forced(data):
    Path("pairs.tsv").write_text(GOOD)
    Path("out.tsv").write_text("mine")
    status, _, err = data("pairs.tsv", "--clean", "out.tsv")
    assert status == 1 and "(--force writes over it)" in err
    assert Path("out.tsv").read_text() == "mine"
    status, _, _ = data("pairs.tsv", "--clean", "out.tsv", "--log", "left/out.jsonl", "--force")
    assert status == 0
    assert len(read_pairs("out.tsv")) == 4
    assert Path("left/out.jsonl").read_text() == ""


def test_texts_that_a_tsv_cannot_hold_are_left_out_and_logged_or_tidied(data):
    records = [{"source": f"a\t{n}\nb", "target": f"word {n}"} for n in range(4)]
    Path("pairs.jsonl").write_text(
        "".join(json.dumps(record) + "\n" for record in records) + '{"source": "c", "target": "d"}\n'
    )
    status, out, _ = data("pairs.jsonl", "--clean", "out.tsv")
    assert status == 1
    assert "4  unwritable" in out
    assert len(Path("out.tsv.log.jsonl").read_text().splitlines()) == 4
    status, _, _ = data("pairs.jsonl", "--clean", "tidy.tsv", "--tidy")
    assert status == 0
    assert read_pairs("tidy.tsv")[0].source == "a 0 b"
    status, _, _ = data("pairs.jsonl", "--clean", "out.jsonl")
    assert status == 0
    assert read_pairs("out.jsonl")[0].source == "a\t0\nb"


def test_it_loads_no_torch(tmp_path):
    (tmp_path / "pairs.tsv").write_text(GOOD)
    program = (
        "import sys; sys.argv = ['saccade', 'data', 'pairs.tsv']\n"
        "from saccade.cli import main\n"
        "try: main()\n"
        "finally: assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_recipe_it_writes_reads_the_file_from_wherever_it_lies(data):
    Path("pairs.tsv").write_text(GOOD)
    Path("recipes").mkdir()
    status, out, err = data("pairs.tsv", "--recipe", "recipes/my.yaml")
    assert (status, err) == (0, "")
    assert "A recipe for it, written to recipes/my.yaml:" in out
    assert out.endswith("Next:\n  saccade train recipes/my.yaml\n")
    recipe = read_recipe("recipes/my.yaml")
    assert recipe.data.train == "../pairs.tsv"
    assert len(load_splits(recipe.data, recipe.folder, 1).train) == 2


def test_a_recipe_is_not_written_over_nor_for_what_would_not_train(data):
    Path("my.yaml").write_text("mine")
    Path("pairs.tsv").write_text(GOOD)
    status, _, err = data("pairs.tsv", "--recipe", "my.yaml")
    assert (status, "expected a new file, found one that exists" in err) == (1, True)
    assert Path("my.yaml").read_text() == "mine"
    assert data("pairs.tsv", "--recipe", "my.yaml", "--force")[0] == 0
    assert read_recipe("my.yaml").metrics
    Path("one.tsv").write_text("a\tb\n")
    assert data("one.tsv", "--recipe", "one.yaml")[0] == 1
    assert not Path("one.yaml").exists()
    for wrong in ("my.tsv", "my"):
        assert "expected a name that ends in .yaml" in data("pairs.tsv", "--recipe", wrong)[2]
    assert "found a recipe" in data("my.yaml", "--recipe", "more.yaml")[2]


def test_a_file_in_another_encoding_is_told_so_and_would_not_train(data):
    Path("pairs.tsv").write_bytes("".join(f"der Hünd {n}\tthe dog {n}\n" for n in range(9)).encode("cp1252"))
    status, out, _ = data("pairs.tsv")
    assert status == 1
    assert "Windows-1252 or Latin-1? iconv -f WINDOWS-1252 -t UTF-8 pairs.tsv > NEW makes it UTF-8" in out


def test_after_cleaning_the_next_command_is_about_the_cleaned_file(data):
    Path("pairs.tsv").write_text(GOOD + GOOD)
    _, out, _ = data("pairs.tsv", "--clean", "clean.tsv")
    assert "  saccade data clean.tsv --recipe my.yaml\n" in out


def test_a_group_that_no_record_has_would_not_train(data):
    Path("pairs.jsonl").write_text(
        "".join(json.dumps(dict(zip(("source", "target"), row.split("\t")))) + "\n" for row in GOOD.splitlines())
    )
    status, out, _ = data("pairs.jsonl", "--group", "nope")
    assert (status, "no record has the group 'nope'" in out) == (1, True)


def test_what_comes_next_keeps_a_rule_that_may_simply_describe_the_data(command, tmp_path) -> None:
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    long = [f"{a} hundred and {b} and {c} more\t{i}" for i, (a, b, c) in enumerate(itertools.permutations(words, 3))]
    short = [f"{a} {b}\t{i}" for i, (a, b) in enumerate(itertools.permutations(words, 2))]
    rows = long[:60] + short
    (tmp_path / "numbers.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    _, out, _ = command("data", tmp_path / "numbers.tsv")
    assert "if that is how they should be, --keep ratio" in out
    assert "--keep ratio --clean" in out
