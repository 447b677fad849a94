"""``saccade data``, as a person uses it."""

import gzip
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from saccade.cli.data import REMOVED, ROLES
from saccade.data.pairs.records import load_splits
from saccade.data.survey import surveys
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
    assert out.startswith("pairs.tsv: 8 pairs (two columns without a header)\n")
    assert "  source, words        7.5       7     8     8        8\n" in out
    assert "  1  one side is empty, first in line 9\n     pairs.tsv:9: target: expected text" in out
    assert '  4  pairs repeat an earlier one (line 5: "The dog is in the house." → ' in out
    assert "  0  targets are identical to their source\n" in out
    assert "\nIt would train.\n" in out and "note: pairs.tsv: 1 malformed line" in out
    assert "  data:\n    train: pairs.tsv\n    hold_out: 0.15\n    faults: drop\n" in out
    following = ["saccade data pairs.tsv --recipe my.yaml", "saccade train my.yaml"]
    assert out.endswith("Next:\n" + "".join(f"  {command}\n" for command in following))
    assert max(map(len, out.splitlines())) <= 130


def test_the_command_it_names_next_works(data):
    Path("pairs 1.csv").write_text("en,pt,x\n" + GOOD.replace(",", "").replace("\t", ",").replace("\n", ",1\n"))
    _, out, _ = data("pairs 1.csv")
    assert out.splitlines()[-1] == "  saccade data 'pairs 1.csv' --column source=en --column target=pt"
    status, out, _ = data("pairs 1.csv", "--column", "source=en", "--column", "target=pt")
    assert status == 0
    assert "  saccade data 'pairs 1.csv' --column source=en --column target=pt --recipe my.yaml\n" in out
    assert data("pairs 1.csv", "--column", "source=en", "--column", "target=pt", "--recipe", "my.yaml")[0] == 0
    assert read_recipe("my.yaml").data.train == "pairs 1.csv"


@pytest.mark.parametrize("name", ["photso", "pairs.csv", "pairs"])
def test_what_is_not_there_is_said_whatever_it_is_called(data, name):
    Path("photos").mkdir()
    status, out, err = data(name)
    assert (status, out) == (1, "")
    assert err.startswith("error: ") and "nothing of that name" in err and name in err
    assert ("did you mean photos?" in err) == (name == "photso")


def test_unknown_columns_are_shown_with_a_text_and_what_to_type(data):
    Path("pairs.txt.gz").write_bytes(gzip.compress("eng\tpor\tThe cat is here.\tO gato está aqui.\n".encode()))
    status, out, err = data("pairs.txt.gz", "--format", "tsv")
    assert (status, err) == (1, "")
    assert '  3  "The cat is here."\n' in out
    assert out.endswith("  saccade data pairs.txt.gz --column source=3 --column target=4 --format tsv\n")
    status, out, _ = data("pairs.txt.gz", "--format", "tsv", "--json")
    report = json.loads(out)
    assert status == 1
    assert report["available"]["4"] == "O gato está aqui."
    assert report["would_train"] is False and report["next"][0].endswith("--format tsv")


def test_columns_by_number(data):
    Path("pairs.tsv").write_text("".join(f"{n}\t{line}\n" for n, line in enumerate(GOOD.splitlines())))
    status, out, _ = data("pairs.tsv", "--column", "source=2", "--column", "target=3")
    assert status == 0
    assert "pairs.tsv: 4 pairs (columns 2 → 3)\n" in out
    assert "    columns:\n      source: 2\n      target: 3\n" in out


def test_an_option_per_role_is_read_as_a_column(data):
    Path("pairs.csv").write_text("a,b,c\n" + "".join(f"x {n},y {n},d{n}\n" for n in range(5)))
    new = data("pairs.csv", "--column", "source=a", "--column", "target=b", "--column", "group=c", "--json")
    old = data("pairs.csv", "--source", "a", "--target=b", "--group", "c", "--json")
    assert new[0] == 0 and new == old


def test_every_role_of_a_kind_is_known_to_the_command():
    assert {role for kind in surveys() for role in kind.roles} == set(ROLES)


@pytest.mark.parametrize("option", REMOVED)
def test_an_option_that_was_removed_says_so(data, option):
    Path("pairs.tsv").write_text(GOOD)
    status, out, err = data("pairs.tsv", option, "x.tsv")
    assert (status, out) == (1, "") and err.startswith(f"error: {option}: ") and err.count("\n") == 1
    assert "no longer" in err


def test_json_is_one_object_and_the_exit_status_tells(data):
    Path("pairs.tsv").write_text("a\tb\nc\td\n")
    status, out, _ = data("pairs.tsv", "--json")
    report = json.loads(out)
    assert status == 1
    assert (report["would_train"], report["recipe"], report["next"]) == (False, None, [])
    assert (report["kind"], report["records"], report["different"]) == ("pairs", 2, 2)
    Path("pairs.tsv").write_text(GOOD)
    status, out, _ = data("pairs.tsv", "--json")
    report = json.loads(out)
    assert status == 0 and report["recipe"].startswith("about: ")
    assert report["next"] == ["saccade data pairs.tsv --recipe my.yaml", "saccade train my.yaml"]


def test_two_text_files_and_a_text_file_of_test_sources(data):
    for place, name in enumerate(("train.en", "train.pt")):
        Path(name).write_text("".join(line.split("\t")[place] + "\n" for line in GOOD.splitlines()))
    Path("test.en").write_text("the dog is in the house\nIt is new.\n")
    status, out, _ = data("train.en", "train.pt", "--test", "test.en")
    assert status == 0
    assert out.startswith("train.en → train.pt: 4 pairs of lines\n")
    assert "2 pairs of test.en\n" in out
    assert "   1  are there too, apart from case" in out
    assert "same target" not in out


def test_a_test_set_with_other_columns_is_one_sentence(data):
    Path("pairs.tsv").write_text("source\ttarget\n" + GOOD)
    Path("test.csv").write_text("id,question,answer\n1,Who?,me\n")
    status, out, err = data("pairs.tsv", "--test", "test.csv")
    assert (status, out) == (1, "")
    assert "test.csv:1" in err and "'source' and 'target', found the columns 'id'" in err


def test_a_recipe_is_surveyed_with_its_splits(data):
    Path("sub").mkdir()
    Path("sub/pairs.tsv").write_text(GOOD)
    Path("sub/valid.tsv").write_text(GOOD.splitlines()[0] + "\n")
    recipe = "task: translate\ndata: {train: pairs.tsv, valid: valid.tsv, max_length: 24}\nmodel: {name: rnnsearch}\n"
    Path("sub/my.yaml").write_text(recipe)
    status, out, _ = data("sub/my.yaml")
    assert status == 1
    assert "1 pair of sub/valid.tsv\n" in out
    assert "It would not train:\n  - 2 sources exceed data.max_length=24 characters (longest: 28)" in out
    assert "A recipe for it" not in out
    Path("sub/my.yaml").write_text(recipe.replace("24", "50"))
    status, out, _ = data("sub/my.yaml")
    assert status == 0
    assert "1 of 1 pair of sub/valid.tsv" in out and "too optimistic" in out
    assert out.endswith("saccade train sub/my.yaml\n")


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ("task: point\ndata: {source: hull}\n", "my.yaml:1: task: expected a task whose data can be surveyed, found"),
        (
            "task: translate\ndata: {source: dates}\n",
            "data.train: expected a file of your own, found a built-in source",
        ),
        ("task: translate\n", "data: expected a recipe with task and data, found none"),
        ("task: translate\ndata: {trian: x.tsv}\n", "data.trian: expected one of"),
    ],
)
def test_a_recipe_without_files_is_one_sentence(data, recipe, said):
    Path("my.yaml").write_text(recipe)
    status, out, err = data("my.yaml")
    assert (status, out) == (1, "")
    assert said in err
    assert err.count("\n") == 1


def test_what_a_terminal_would_obey_is_spelt_out(data):
    Path("pairs.jsonl").write_text(
        '{"source": "\\u001b[2Jgone", "target": "\\u202eabc"}\n' * 2 + '{"source": "a", "target": "b"}\n' * 2
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
        (["a", "b", "c"], "expected one file, or two line-aligned text files, found 3 files"),
        (["pairs.tsv", "b.txt", "--column", "source=x"], "--column: two text files have plain lines"),
        (["a.txt", "b.txt", "--column", "tag=x"], "expected one file, or two line-aligned text files, found 2 files"),
        (["pairs.tsv", "--column", "source=0"], "--column source=NAME: expected source to be a column's name"),
        (["pairs.tsv", "--column", "source=a", "--column", "target=a"], "target to be another column than source"),
        (["pairs.tsv", "--column", "sorce=a"], "the roles source, target, group, text, label"),
        (["pairs.tsv", "--column", "source"], "--column: expected ROLE=NAME"),
        (
            ["pairs.tsv", "--column", "source=a", "--column", "label=b"],
            "pairs: source, target, group), found source, label",
        ),
        (["pairs.tsv", "--format", "xls"], "--format: expected one of tsv, csv, jsonl"),
        (["pairs.tsv", "--encoding", "utf-16"], "--encoding must be utf-8, latin-1"),
        (["pairs.tsv", "pairs.tsv", "--format", "lines"], "--format lines: expected one file, found 2"),
        (["pairs.tsv", "pairs.tsv", *(["--test", "x"] * 3)], "--test: expected pairs of text files"),
        (["x.po"], "po2csv"),
        (["pairs.tsv", "--force"], "--force: expected --recipe YAML"),
        (["pairs.tsv", "--test", "gone.tsv"], "gone.tsv: expected a file, found nothing of that name"),
        (["my.yaml", "--column", "source=en"], "--column: expected a data file, found a recipe"),
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


def test_a_recipe_is_not_overwritten_nor_written_for_what_would_not_train(data):
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
    status, _, err = data("pairs.tsv")
    assert status == 1
    assert "Windows-1252 or Latin-1? iconv -f WINDOWS-1252 -t UTF-8 pairs.tsv > NEW makes it UTF-8" in err


OPINIONS = [(f"le café n° {n} était bon", ("bad", "good")[n % 2]) for n in range(31)]


@pytest.mark.parametrize(
    ("name", "content", "words", "headline"),
    [
        ("x.csv", "avis,étoiles\n" + "".join(f"{text},{label}\n" for text, label in OPINIONS), [], "avis → étoiles"),
        ("x.tsv", "".join(f"{text}\t{text} {label}\n" for text, label in OPINIONS), [], "31 pairs"),
        (
            "x.txt",
            "".join(f"{label} {text}\n" for text, label in OPINIONS),
            ["--format", "lines"],
            "31 texts with a label",
        ),
        ("x.conll", "".join(f"café {label}\n\n" for _, label in OPINIONS), [], "31 sentences"),
        ("x.conll", "".join(f"{label} {text}\n" for text, label in OPINIONS), ["--format", "lines"], "31 texts"),
        ("x.jsonl", "".join(f'{{"à": "{text}", "é": "{label}"}}\n' for text, label in OPINIONS), [], "à → é"),
        ("x.md", "a label and its text\n", [], "such as lines"),
    ],
)
def test_every_kind_is_read_in_the_encoding_and_the_format_that_are_given(data, name, content, words, headline):
    Path(name).write_text(content, encoding="cp1252")
    _, out, err = data(name, *words, "--encoding", "cp1252")
    assert headline in (out + err).splitlines()[0]


def test_two_test_files_beside_two_text_files_are_a_pair(data):
    for name, texts in (("a.en", "one\ntwo\nthree\nfour\n"), ("a.de", "eins\nzwei\ndrei\nvier\n")):
        Path(name).write_text(texts)
        Path(f"t.{name[2:]}").write_text(texts[:8])
    status, out, _ = data("a.en", "a.de", "--test", "t.en", "--test", "t.de", "--json")
    report = json.loads(out)
    assert (status, report["tests"][0]["whole"]) == (0, 1)
    assert "test:\n    source: t.en\n    target: t.de\n" in report["recipe"]


def test_errors_name_the_options_that_set_a_field(data):
    Path("pairs.csv").write_text("a,b,c\n1,2,3\n")
    Path("x.csv").write_bytes(b"text,label\ncaf\xe9,good\n")
    said = [data("pairs.csv")[1], data("pairs.csv", "--column", "text=x", "--column", "label=c")[2], data("x.csv")[2]]
    assert all("--column ROLE=NAME" in text for text in said[:2]) and "--encoding latin-1" in said[2]
    assert not any("data.columns" in text or "command line" in text for text in said)
