"""``saccade compare``, as a person uses it."""

import json
from functools import partial
from pathlib import Path

import pytest
import torch

from saccade import api
from tests.tiny import tiny

QUICK = ("--samples", "50", "--repeats", "0")


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    small = ("data.dates.train=60", "data.dates.test=5", "data.dates.valid=3", "train.updates=2")
    for seed in (1, 5):
        api.train(tiny(*small, f"train.seed={seed}"), folder=folder / f"seed-{seed}")
    (folder / "few.tsv").write_text("source\ttarget\n5.5.09\t2009-05-05\n2. Mai 99\t1999-05-02\n", encoding="utf-8")
    return [folder / "seed-1", folder / "seed-5", folder / "few.tsv"]


@pytest.fixture
def saccade(command, monkeypatch, tmp_path, shapes_unchecked):
    """Runs the command in this process: (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    return partial(command, "compare")


def test_a_comparison_reads_as_tables(saccade, runs) -> None:
    status, out, err = saccade(
        *runs[:2], "--data", runs[2], "--repeats", "1", "--samples", "50", "--metric", "cer", "--metric", "bleu"
    )
    assert (status, err) == (0, "")
    for text in (
        f"2 inputs of {runs[2]}, text as it is; in brackets 95 % of 50 resamples",
        f"inputs/s: median of 1 times 2 inputs on {'' if torch.cuda.is_available() else 'cpu, 1 thread'}",
        "against seed-1  metric",
        "p bootstrap  p randomisation  better in",
        "cer by source_words",
        "parameters  on disk  inputs/s  search",
        "greedy",
        "bleu: nrefs:1|case:mixed|eff:no|tok:13a",
    ):
        assert text in out
    assert sum(line.startswith("seed-5") for line in out.splitlines()) >= 4


def test_json_holds_everything(saccade, runs) -> None:
    status, out, _ = saccade(*runs[:2], *QUICK, "--json", "--show", "1", "--beam", "2", "--buckets", "quantiles")
    assert status == 0
    found = json.loads(out)
    assert (found["test"], found["count"], found["samples"], found["by"]) == ("test", 5, 50, "source_words")
    first, second = found["systems"]
    assert first["against_first"] == {}
    assert set(second["against_first"]["exact_match"]) == {
        "difference", "low", "high", "bootstrap_p", "randomisation_p", "better",
    }  # fmt: skip
    assert first["search"]["beam"] == 2
    assert set(first["figures"]["cer"]) == {"value", "low", "high", "signature"}
    assert len(found["examples"]) <= 1


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_plot_is_written(saccade, runs, ending: str) -> None:
    status, out, err = saccade(*runs[:2], "--data", runs[2], *QUICK, "--plot", f"lengths.{ending}")
    assert status == 0, err
    assert f"plot: lengths.{ending}" in out
    assert Path(f"lengths.{ending}").stat().st_size > 1000


FAULTS = {
    "no run": (["nowhere"], "nowhere: expected a run's folder, found no such folder"),
    "picture": (["RUN", "--plot", "x.gif"], "x.gif: expected a picture ending in .png, .svg or .pdf"),
    "buckets": (["RUN", "--buckets", "a,b"], "--buckets: expected lengths such as 10,20,30, or quantiles, found 'a,b'"),
    "falling buckets": (["RUN", "--buckets", "5,3"], "found [5, 3]"),
    "metric": (["RUN", "--metric", "blue"], "unknown metric 'blue'"),
    "metric of labels": (["RUN", "--metric", "ece"], "unknown metric 'ece'"),
    "data": (["RUN", "--data", "absent.tsv"], "absent.tsv: expected a file, found nothing of that name"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_and_exit_status_1(saccade, runs, fault: str) -> None:
    words, message = FAULTS[fault]
    status, out, err = saccade(*(runs[0] if word == "RUN" else word for word in words), *QUICK)
    assert (status, out) == (1, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1
