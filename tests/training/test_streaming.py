"""Training on a stream: the loop takes it in place of a corpus, and a run that died resumes bit for bit."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from saccade.data.batching import Corpus
from saccade.data.stream import Stream
from saccade.errors import Interrupted, SaccadeError
from tests.training.small_tasks import DieAt, Died, Regression, assert_same_run, log, train
from tests.training.test_loop import StopAt

ROWS = 83


@pytest.fixture
def file(tmp_path: Path) -> Path:
    draw = torch.Generator().manual_seed(1)
    values = torch.randn(ROWS, 2, generator=draw)
    rows = torch.cat((values, values.sum(dim=1, keepdim=True)), dim=1).tolist()
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


def stream_of(file: Path) -> Stream:
    def lines() -> Iterator[str]:
        with open(file, encoding="utf-8") as lines:
            yield from lines

    return Stream(lines, json.loads, len, buffer=30)


def corpus_of(file: Path) -> Corpus:
    lines = file.read_text().splitlines()
    return Corpus(lines, [json.loads(line) for line in lines], [3] * len(lines))


def streamed(file: Path, folder: Path, **options: Any) -> Any:
    options = {"epochs": 4, "updates": 44, "lr": 0.02, **options}
    return train(Regression(), folder, stream_of(file), valid=corpus_of(file), **options)


def test_a_network_learns_from_a_stream(file: Path, tmp_path: Path) -> None:
    _, outcome = streamed(file, tmp_path / "run", epochs=30, updates=300)
    assert outcome.progress.update == 300 and outcome.progress.tokens >= 25 * ROWS
    losses = [float(row["loss"]) for row in log(tmp_path / "run", "evaluations.csv")]
    assert losses[-1] < 0.2 * losses[0]


@pytest.mark.parametrize("died", [2, 7, 13, 29])
@pytest.mark.parametrize("options", [{}, {"accumulate": 3, "updates": 17}, {"batch_tokens": 20, "batch_records": None}])
def test_a_run_on_a_stream_that_dies_resumes_bit_for_bit(
    died: int, options: dict[str, Any], file: Path, tmp_path: Path
) -> None:
    died = min(died, 13) if "accumulate" in options else died
    streamed(file, tmp_path / "whole", **options, save_every=1)
    with pytest.raises(Died):
        streamed(file, tmp_path / "cut", **options, save_every=1, report=DieAt(died))
    torch.manual_seed(99)
    streamed(file, tmp_path / "cut", **options, save_every=1, resume=True)
    assert_same_run(tmp_path / "cut", tmp_path / "whole")


def test_a_run_on_a_stream_stopped_by_a_signal_resumes_bit_for_bit(file: Path, tmp_path: Path) -> None:
    streamed(file, tmp_path / "whole")
    with pytest.raises(Interrupted):
        streamed(file, tmp_path / "cut", report=StopAt(17, signal.SIGTERM))
    streamed(file, tmp_path / "cut", resume=True)
    assert_same_run(tmp_path / "cut", tmp_path / "whole")


def test_the_epochs_of_a_stream_bound_a_run(file: Path, tmp_path: Path) -> None:
    _, outcome = streamed(file, tmp_path / "run", epochs=2, updates=1000)
    assert outcome.progress.tokens == 2 * ROWS and outcome.reason == "every epoch was done"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"updates": None}, r"train\.updates.*streamed"),
        ({"schedule": "halving"}, r"train\.schedule.*streamed.*halving"),
    ],
)
def test_what_needs_the_length_of_an_epoch_is_refused(options: dict, message: str, file: Path, tmp_path: Path) -> None:
    with pytest.raises(SaccadeError, match=message):
        streamed(file, tmp_path / "run", **options)
