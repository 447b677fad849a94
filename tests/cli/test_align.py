"""``saccade align``, as a person uses it."""

import json
from functools import partial
from pathlib import Path

import pytest

from saccade import api
from tests.tiny import tiny


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    api.train(tiny("data.dates.train=60", "data.dates.test=3", "data.dates.valid=3", "train.updates=2"), folder=folder)
    return folder


@pytest.fixture
def saccade(command, monkeypatch, tmp_path, shapes_unchecked):
    """Runs the command in this process beside a file of pairs and one of gold: (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    Path("pairs.src-tgt").write_text("5. Mai 2009 ||| 2009 05\n9. 9. ||| 09\n", encoding="utf-8")
    Path("pairs.gold").write_text("3-1 2p2\n2-1\n", encoding="utf-8")
    return partial(command, "align")


def test_a_line_of_links_is_printed_for_each_pair(saccade, run_folder) -> None:
    status, out, err = saccade(run_folder, "pairs.src-tgt")
    assert (status, err) == (0, "")
    first, second = out.splitlines()
    assert {link.split("-")[1] for link in first.split()} == {"0", "1"}
    assert second in ("0-0", "1-0")


def test_with_gold_the_error_rate_stands_apart_from_the_links(saccade, run_folder) -> None:
    status, out, err = saccade(run_folder, "pairs.src-tgt", "--gold", "pairs.gold", "--first-word", "1")
    assert status == 0
    assert len(out.splitlines()) == 2
    assert err.startswith("aer ")
    assert "(3 links, 2 sure and 3 possible in 2 pairs)" in err


def test_links_go_to_a_file_and_json_holds_both(saccade, run_folder) -> None:
    _, printed, _ = saccade(run_folder, "pairs.src-tgt")
    _, out, _ = saccade(run_folder, "pairs.src-tgt", "--out", "links.txt")
    assert out == ""
    assert Path("links.txt").read_text() == printed
    _, out, err = saccade(
        run_folder, "pairs.src-tgt", "--gold", "pairs.gold", "--first-word", "1", "--json", "--threshold", "0.01"
    )
    found = json.loads(out)
    assert err == ""
    assert found["pairs"][0]["source"] == ["5.", "Mai", "2009"]
    assert len(found["pairs"][0]["links"]) > 2
    assert set(found["score"]) == {"aer", "precision", "recall", "pairs", "links", "sure", "possible"}


def test_two_directions_are_symmetrised(saccade, run_folder) -> None:
    status, out, err = saccade(run_folder, "pairs.src-tgt", "--backward", run_folder, "--symmetrise", "intersection")
    assert status == 0, err
    both = [set(line.split()) for line in out.split("\n")[:2]]
    _, out, _ = saccade(run_folder, "pairs.src-tgt")
    assert all(one <= set(line.split()) for one, line in zip(both, out.splitlines()))


FAULTS = {
    "unsaid": (["pairs.src-tgt", "--gold", "pairs.gold"], "--first-word 0 or --first-word 1"),
    "miscounted": (
        ["pairs.src-tgt", "--gold", "pairs.gold", "--first-word", "0"],
        "pairs.gold:1: expected links within 3 source and 2 target words",
    ),
    "no pairs": (["absent.src-tgt"], "absent.src-tgt: expected a file"),
    "way": (["pairs.src-tgt", "--backward", "RUN", "--symmetrise", "grow"], "expected one of intersection, union"),
    "site": (["pairs.src-tgt", "--site", "encoder"], "expected the site 'encoder', found decoder.attention"),
    "threshold": (["pairs.src-tgt", "--threshold", "2"], "threshold must be above 0 and at most 1: got 2"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_and_exit_status_1(saccade, run_folder, fault: str) -> None:
    words, message = FAULTS[fault]
    status, out, err = saccade(run_folder, *(run_folder if word == "RUN" else word for word in words))
    assert (status, out) == (1, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_a_way_to_symmetrise_must_be_known_and_have_something_to_join(saccade):
    status, _, err = saccade("nowhere", "pairs.src-tgt", "--symmetrise", "foo")
    assert (status, "--symmetrise: expected one of intersection, union" in err) == (1, True)
    status, _, err = saccade("nowhere", "pairs.src-tgt", "--symmetrise", "union")
    assert (status, "expected --backward RUN" in err) == (1, True)
