"""``saccade vectors``, and word vectors on the command line."""

import gzip
import json
from pathlib import Path

import pytest

from saccade import api
from saccade.recipes.recipe import read_recipe

SMALL = (
    "data.topics.train=60", "data.topics.valid=9", "data.topics.test=9", "model.embedding=5", "train.epochs=1",
    "train.device=cpu", "train.threads=1",
)  # fmt: skip

pytestmark = pytest.mark.usefixtures("module_unchecked")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    recipe = read_recipe("skipgram_topics", [*SMALL])
    return api.train(recipe, folder=tmp_path_factory.mktemp("runs") / "words").folder


def test_a_runs_words_are_written_a_line_each(run, tmp_path, command):
    status, out, err = command("vectors", run, "--out", tmp_path / "v.txt.gz")
    lines = gzip.decompress((tmp_path / "v.txt.gz").read_bytes()).decode().splitlines()
    assert (status, err) == (0, "") and out == f"{len(lines)} words of 5 numbers each: {tmp_path / 'v.txt.gz'}\n"
    assert all(len(line.split(" ")) == 6 for line in lines) and "dog" in {line.split(" ")[0] for line in lines}
    assert not any(line.startswith("<") for line in lines)


def test_a_program_reads_json(run, tmp_path, command):
    status, out, _ = command("vectors", run, "--out", tmp_path / "v.txt", "--json")
    said = json.loads(out)
    assert status == 0 and said["width"] == 5 and said["file"] == str(tmp_path / "v.txt")
    assert said["words"] == len((tmp_path / "v.txt").read_text().splitlines())


def test_a_file_that_exists_is_only_replaced_with_force(run, tmp_path, command):
    path = tmp_path / "mine.txt"
    path.write_text("what I had\n")
    status, out, err = command("vectors", run, "--out", path)
    assert (status, out) == (1, "") and path.read_text() == "what I had\n"
    assert f"{path}: --out: expected a new file" in err and "--force" in err
    assert command("vectors", run, "--out", path, "--force")[0] == 0 and "dog" in path.read_text()


def test_the_same_run_gives_the_same_file(run, tmp_path, command):
    for name in ("a", "b"):
        command("vectors", run, "--out", tmp_path / f"{name}.txt.gz")
    assert (tmp_path / "a.txt.gz").read_bytes() == (tmp_path / "b.txt.gz").read_bytes()


@pytest.mark.parametrize(("place", "told"), [("nothing", "no such folder"), (".", "no config.json in it")])
def test_what_is_not_a_run_is_one_line(tmp_path, command, place, told):
    status, _, err = command("vectors", tmp_path / place, "--out", tmp_path / "v.txt")
    assert status == 1 and err.count("\n") == 1 and f"expected a trained run's folder, found {told}" in err


def test_nearest_words_are_printed_with_their_cosines(run, command):
    status, out, _ = command("predict", run, "dog", "king - queen + dog")
    first, second = out.splitlines()
    assert status == 0 and len(first.split(", ")) == len(second.split(", ")) == 10
    assert -1 <= float(first.split(", ")[0].split()[1]) <= 1
    status, out, err = command("predict", run, "dog", "xqzt", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert status == 1 and len(lines[0]["choices"][0]) == 10 and "'xqzt'" in lines[1]["error"] and "'xqzt'" in err


def test_a_finished_training_shows_words_and_what_to_try(tmp_path, command):
    status, out, _ = command("train", "skipgram_topics", "--out", tmp_path / "run", *SMALL)
    assert status == 0 and "dog → " in out and f'saccade predict {tmp_path / "run"} "dog"' in out
